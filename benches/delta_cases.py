"""The cases of Delta tables, compared with deltalake and polars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benches import data
from benches.measure import Case, Made, Outcome, Side, contents, names, repeated, session, timed, warm

__all__ = ["LOG_CASES", "SCAN_CASES", "deltalake_plan", "ours_plan", "ours_scan", "polars_scan"]

#: Gives the first id that is wanted, and the one behind the last.
_Window = Callable[[float], tuple[int, int]]


# Opening, and the list of live files


def _ours_files(made: Made) -> Side:
    def run(scale: float) -> Outcome:
        root, open_table = made(scale), warm()

        def work() -> list[str]:
            paths: list[str] = open_table(root).live_files["path"].to_pylist()
            return paths

        return timed(work, names)

    return run


def _deltalake_files(made: Made) -> Side:
    def run(scale: float) -> Outcome:
        import deltalake

        root = made(scale)
        return timed(lambda: deltalake.DeltaTable(root).file_uris(), names)

    return run


def _delta_spark_files(prepare: Made) -> Side:
    """Do the same with delta-spark's own snapshot on a warm JVM, because `inputFiles` takes ten times as long."""

    def run(scale: float) -> Outcome:
        from pyspark.sql import DataFrame

        root, spark = prepare(scale), session(engines=True)
        log = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # noqa: SLF001 - it is reached through the driver
        java_session = spark._jsparkSession  # noqa: SLF001 - it is an argument of the next

        def work() -> list[str]:
            log.clearCache()
            snapshot = log.forTable(java_session, str(root)).unsafeVolatileSnapshot()
            paths: list[str] = DataFrame(snapshot.allFiles().toDF(), spark).select("path").toArrow()["path"].to_pylist()
            return paths

        return repeated(work, names, 2)

    return run


def _pyarrow_files(scale: float) -> Outcome:
    """Read the column of paths from the checkpoint, which is less than any library has to do."""
    import pyarrow.parquet as pq

    (file,) = (data.checkpoint(scale) / "_delta_log").glob("*.checkpoint.parquet")

    def work() -> list[str]:
        adds = pq.ParquetFile(file).read(columns=["add.path"]).column("add").combine_chunks()
        paths: list[str] = pc.struct_field(adds, "path").drop_null().to_pylist()
        return paths

    return timed(work, names)


# Planning


def _window(scale: float) -> tuple[int, int]:
    adds = data.adds_of(scale)
    return 100 * adds * 1000, 101 * adds * 1000


def ours_plan(prepare: Made, window: _Window, partition: str | None = None, times: int = 1) -> Side:
    """Open a table, and find the files of a range of ids, and of a partition."""

    def run(scale: float) -> Outcome:
        from deltaberg import col

        root, open_table = prepare(scale), warm()
        low, high = window(scale)
        # The peer takes no text either.
        condition = (col("id") >= low) & (col("id") < high)
        if partition:
            condition &= col("p") == partition
        return repeated(
            lambda: open_table(root).scan(condition).files(),
            lambda files: names(files["file_path"].to_pylist()),
            times,
        )

    return run


def deltalake_plan(prepare: Made, window: _Window, partition: str | None = None, times: int = 1) -> Side:
    """Do the same with the actions and statistics that deltalake returns."""

    def run(scale: float) -> Outcome:
        import deltalake

        root = prepare(scale)
        low, high = window(scale)

        def work() -> pa.Table:
            actions = pa.table(deltalake.DeltaTable(root).get_add_actions(flatten=True))
            inside = pc.and_(pc.less(actions["min.id"], high), pc.greater_equal(actions["max.id"], low))
            return actions.filter(pc.and_(inside, pc.equal(actions["partition.p"], partition)) if partition else inside)

        return repeated(work, lambda actions: names(actions["path"].to_pylist()), times)

    return run


# Scans on this machine


def ours_scan(made: Made, columns: Sequence[str] | None) -> Side:
    def run(scale: float) -> Outcome:
        root, open_table = made(scale), warm()
        work = lambda: open_table(root).scan(columns=columns and list(columns)).to_arrow()  # noqa: E731 - shown beside its peer
        return repeated(work, contents, 3)

    return run


def polars_scan(made: Made, columns: Sequence[str] | None) -> Side:
    def run(scale: float) -> Outcome:
        import polars as pl

        root = made(scale)

        def work() -> pl.DataFrame:
            frame = pl.scan_delta(str(root))
            return (frame if columns is None else frame.select(columns)).collect()

        return repeated(work, lambda frame: contents(frame.to_arrow()), 3)

    return run


def _whole(scale: float) -> Path:
    return data.rows(scale, deleted=False)


def _deleted(scale: float) -> Path:
    return data.rows(scale, deleted=True)


LOG_CASES: dict[str, Case] = {
    "replay": Case(
        "open a log of 200 commits x 5,000 adds and list its live files",
        data.log,
        {
            "deltaberg": _ours_files(data.log),
            "deltalake": _deltalake_files(data.log),
            "delta-spark": _delta_spark_files(data.log),
        },
    ),
    "checkpoint": Case(
        "the same from one checkpoint",
        data.checkpoint,
        {
            "deltaberg": _ours_files(data.checkpoint),
            "deltalake": _deltalake_files(data.checkpoint),
            "delta-spark": _delta_spark_files(data.checkpoint),
            "pyarrow": _pyarrow_files,
        },
    ),
    "plan": Case(
        "open the log and find the files of a partition and a range of ids",
        data.log,
        {"deltaberg": ours_plan(data.log, _window, "17"), "deltalake": deltalake_plan(data.log, _window, "17")},
    ),
}

SCAN_CASES: dict[str, Case] = {
    "scan-2": Case(
        "read 2 of 6 columns of 16M rows on this machine",
        _whole,
        {"deltaberg": ours_scan(_whole, data.TWO), "polars": polars_scan(_whole, data.TWO)},
    ),
    "scan-6": Case(
        "read 6 columns of 16M rows on this machine",
        _whole,
        {"deltaberg": ours_scan(_whole, None), "polars": polars_scan(_whole, None)},
    ),
    "scan-2-deleted": Case(
        "read 2 columns of 16M rows with 1 % deleted by deletion vectors",
        _deleted,
        {"deltaberg": ours_scan(_deleted, data.TWO), "polars": polars_scan(_deleted, data.TWO)},
    ),
}
