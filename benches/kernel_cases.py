"""The cases of kernels, compared with libraries that compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benches.measure import Case, Outcome, Side, repeated

__all__ = ["KERNEL_CASES"]


# Deletion vectors


def _vector_rows(scale: float) -> int:
    return max(int(10_000_000 * scale), 1000)


def _vector(scale: float) -> bytes:
    import numpy as np

    from tests.support.vectors import bitmap_bytes

    count = _vector_rows(scale)
    return bitmap_bytes(np.sort(np.random.default_rng(1).choice(count, count // 10, replace=False)).tolist())


def _ours_mask(scale: float) -> Outcome:
    from deltaberg import kernels

    body, count = _vector(scale), _vector_rows(scale)

    def work() -> pa.BooleanArray:
        bitmap, _ = kernels.unframe_bitmap(body, "delta-inline")
        return kernels.keep_mask(bitmap, 0, count)

    return repeated(work, lambda mask: mask.true_count, 20)


def _pyroaring_mask(scale: float) -> Outcome:
    import numpy as np
    from pyroaring import BitMap64

    body, count = _vector(scale), _vector_rows(scale)

    def work() -> Any:
        positions = np.array(BitMap64.deserialize(body[4:]).to_array(), dtype=np.uint64)
        mask = np.ones(count, dtype=bool)
        mask[positions] = False
        return mask

    return repeated(work, lambda mask: int(mask.sum()), 20)


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


def _ours_bucket(kind: pa.DataType) -> Side:
    def run(scale: float) -> Outcome:
        from deltaberg import kernels

        values = _bucketed(kind)(scale)
        return repeated(lambda: kernels.bucket(values, 1000), _bucket_sum, 5)

    return run


def _iceberg_core_bucket(kind: pa.DataType) -> Side:
    def run(scale: float) -> Outcome:
        from pyiceberg_core import transform

        values = _bucketed(kind)(scale)
        return repeated(lambda: transform.bucket(values, 1000), _bucket_sum, 5)

    return run


def _bucket_case(kind: pa.DataType) -> Case:
    sides = {"deltaberg": _ours_bucket(kind), "pyiceberg-core": _iceberg_core_bucket(kind)}
    return Case(f"the buckets of 5M values of type {kind}", _bucketed(kind), sides)


KERNEL_CASES: dict[str, Case] = {
    "mask": Case(
        "decode a deletion vector of 1M rows of 10M, and make the mask of rows to keep",
        _vector,
        {"deltaberg": _ours_mask, "pyroaring": _pyroaring_mask},
    ),
    "bucket-int64": _bucket_case(pa.int64()),
    "bucket-string": _bucket_case(pa.string()),
}
