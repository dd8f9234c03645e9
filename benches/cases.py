"""The cases: what each side does, as functions that run in a process of their own.

A side prepares (imports, data), then does its work between two looks at the clock, and gives what it found, which all
sides of a case must agree on before their times are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benches import data
from benches.iceberg_cases import ICEBERG_CASES
from benches.measure import Case, Outcome, best, names, timed, warm
from benches.spark_cases import SPARK_CASES

__all__ = ["CASES"]


# Opening, and the list of live files


def _ours_files(table: Callable[[float], Any]) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        root, open_table = table(scale), warm()
        return timed(lambda: open_table(root).live_files["path"], lambda paths: names(paths.to_pylist()))

    return run


def _deltalake_files(table: Callable[[float], Any]) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        import deltalake

        root = table(scale)
        return timed(lambda: deltalake.DeltaTable(root).file_uris(), names)

    return run


# Planning


def _window(scale: float) -> tuple[int, int]:
    adds = max(int(5_000 * scale), 10)
    return 100 * adds * 1000, 101 * adds * 1000


def _ours_plan(scale: float) -> Outcome:
    root, open_table = data.log(scale), warm()
    low, high = _window(scale)
    condition = f"id >= {low} AND id < {high} AND p = '17'"
    open_table(data.rows(0, deleted=False)).scan("id = 1").files()  # loads the parser of SQL
    return timed(lambda: open_table(root).scan(condition).files(), lambda files: names(files["file_path"].to_pylist()))


def _deltalake_plan(scale: float) -> Outcome:
    import deltalake

    root = data.log(scale)
    low, high = _window(scale)

    def work() -> pa.Table:
        actions = pa.table(deltalake.DeltaTable(root).get_add_actions(flatten=True))
        inside = pc.and_(pc.less(actions["min.id"], high), pc.greater_equal(actions["max.id"], low))
        return actions.filter(pc.and_(inside, pc.equal(actions["partition.p"], "17")))

    return timed(work, lambda actions: names(actions["path"].to_pylist()))


# Deletion vectors

_VECTOR_ROWS = 10_000_000


def _vector(scale: float) -> bytes:
    import numpy as np

    from tests.support.vectors import bitmap_bytes

    count = max(int(_VECTOR_ROWS * scale), 1000)
    return bitmap_bytes(np.sort(np.random.default_rng(1).choice(count, count // 10, replace=False)).tolist())


def _ours_mask(scale: float) -> Outcome:
    from deltaberg import kernels

    body, count = _vector(scale), max(int(_VECTOR_ROWS * scale), 1000)

    def work() -> pa.BooleanArray:
        bitmap, _ = kernels.unframe_bitmap(body, "delta-inline")
        return kernels.keep_mask(bitmap, 0, count)

    return best(work, lambda mask: mask.true_count, 20)


def _pyroaring_mask(scale: float) -> Outcome:
    import numpy as np
    from pyroaring import BitMap64

    body, count = _vector(scale), max(int(_VECTOR_ROWS * scale), 1000)

    def work() -> Any:
        positions = np.array(BitMap64.deserialize(body[4:]).to_array(), dtype=np.uint64)
        mask = np.ones(count, dtype=bool)
        mask[positions] = False
        return mask

    return best(work, lambda mask: int(mask.sum()), 20)


# Buckets

_BUCKETED = 5_000_000


def _bucketed(kind: pa.DataType) -> Callable[[float], pa.Array]:
    def values(scale: float) -> pa.Array:
        numbers = pa.array(range(max(int(_BUCKETED * scale), 1000)), pa.int64())
        if kind == pa.int64():
            return numbers
        return pc.binary_join_element_wise("customer", numbers.cast(kind), "-")

    return values


def _bucket_sum(numbers: pa.Array) -> list[int]:
    return [len(numbers), pc.sum(numbers).as_py()]


def _ours_bucket(kind: pa.DataType) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        from deltaberg import kernels

        values = _bucketed(kind)(scale)
        return best(lambda: kernels.bucket(values, 1000), _bucket_sum, 5)

    return run


def _iceberg_core_bucket(kind: pa.DataType) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        from pyiceberg_core import transform

        values = _bucketed(kind)(scale)
        return best(lambda: transform.bucket(values, 1000), _bucket_sum, 5)

    return run


def _bucket_case(kind: pa.DataType) -> Case:
    sides = {"deltaberg": _ours_bucket(kind), "pyiceberg-core": _iceberg_core_bucket(kind)}
    return Case(f"the buckets of 5M values of type {kind}", _bucketed(kind), sides)


# Scans on this machine


def _ours_scan(columns: list[str] | None, deleted: bool) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        root, open_table = data.rows(scale, deleted), warm()
        work = lambda: open_table(root).scan(columns=columns).to_arrow()  # noqa: E731 - shown beside its peer
        return best(work, lambda table: [table.num_rows, table.num_columns], 3)

    return run


def _polars_scan(columns: list[str] | None) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        import polars as pl

        root = data.rows(scale, deleted=False)

        def work() -> pl.DataFrame:
            frame = pl.scan_delta(str(root))
            return (frame if columns is None else frame.select(columns)).collect()

        return best(work, lambda frame: [frame.height, frame.width], 3)

    return run


_TWO = ["id", "w"]


def _both_rows(scale: float) -> None:
    data.rows(scale, deleted=False)
    data.rows(scale, deleted=True)


CASES: dict[str, Case] = {
    "replay": Case(
        "open a log of 200 commits x 5,000 adds and list its live files",
        data.log,
        {"deltaberg": _ours_files(data.log), "deltalake": _deltalake_files(data.log)},
    ),
    "checkpoint": Case(
        "the same from one checkpoint",
        data.checkpoint,
        {"deltaberg": _ours_files(data.checkpoint), "deltalake": _deltalake_files(data.checkpoint)},
    ),
    "plan": Case(
        "open the log and find the files of a partition and a range of ids",
        data.log,
        {"deltaberg": _ours_plan, "deltalake": _deltalake_plan},
    ),
    "mask": Case(
        "decode a deletion vector of 1M rows of 10M, and make the mask of rows to keep",
        _vector,
        {"deltaberg": _ours_mask, "pyroaring": _pyroaring_mask},
    ),
    "bucket-int64": _bucket_case(pa.int64()),
    "bucket-string": _bucket_case(pa.string()),
    "scan-2": Case(
        "read 2 of 6 columns of 16M rows on this machine",
        _both_rows,
        {"deltaberg": _ours_scan(_TWO, deleted=False), "polars": _polars_scan(_TWO)},
    ),
    "scan-6": Case(
        "read 6 columns of 16M rows on this machine",
        _both_rows,
        {"deltaberg": _ours_scan(None, deleted=False), "polars": _polars_scan(None)},
    ),
    "scan-2-deleted": Case(
        "read 2 columns of 16M rows with 1 % deleted by deletion vectors; the peer of ours is the scan without",
        _both_rows,
        {"deltaberg": _ours_scan(_TWO, deleted=True)},
    ),
    **ICEBERG_CASES,
    **SPARK_CASES,
}
