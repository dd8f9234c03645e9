"""The cases of Iceberg tables, compared with pyiceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches import iceberg_data as data
from benches.data import TWO
from benches.measure import Case, Made, Outcome, Side, contents, names, repeated, session, warm

__all__ = [
    "MANIFEST_CASES",
    "ROW_CASES",
    "newest_metadata",
    "ours_plan",
    "ours_scan",
    "pyiceberg_plan",
    "pyiceberg_scan",
    "spark_scan",
]

_FILTER = f"p = '{data.FILTER}'"


def ours_plan(made: Made, condition: Callable[[float], str | None], times: int = 1) -> Side:
    """Open a table, and find the files of a condition."""

    def run(scale: float) -> Outcome:
        root, open_table, wanted = made(scale), warm(), condition(scale)
        return repeated(lambda: open_table(root).scan(wanted).files().column("file_path").to_pylist(), names, times)

    return run


def pyiceberg_plan(made: Made, condition: Callable[[float], str | None], times: int = 1) -> Side:
    """Do the same with pyiceberg."""

    def run(scale: float) -> Outcome:
        root, wanted, open_table = made(scale), condition(scale) or "true", _warm_pyiceberg()
        return repeated(
            lambda: [task.file.file_path for task in open_table(root).scan(row_filter=wanted).plan_files()],
            names,
            times,
        )

    return run


def _java_plan(condition: str | None) -> Side:
    """Plan with Iceberg's own library, in the JVM of a Spark session."""

    def run(scale: float) -> Outcome:
        root = data.manifests(scale)
        spark = session(engines=True)
        jvm = spark._jvm  # noqa: SLF001 - the library is reached through the driver
        tables = jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        count = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size

        def plan() -> int:
            scan = tables.load(str(root)).newScan()
            if condition is not None:
                scan = scan.filter(jvm.org.apache.iceberg.expressions.Expressions.equal("p", data.FILTER))
            found: int = count(scan.planFiles())
            return found

        # Its paths are in the JVM, and would come out of it one by one.
        return repeated(plan, lambda found: [found], 4)

    return run


def newest_metadata(root: Path) -> Path:
    """Return the metadata file of a table's newest version."""
    return max((root / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name.split(".")[0][1:]))


def _warm_pyiceberg() -> Callable[[Path], Any]:
    """Import what the first call would import, and return the function that opens a table."""
    import pyiceberg.expressions.parser
    import pyiceberg.io.pyarrow  # noqa: F401 - the first call would import it
    from pyiceberg.table import StaticTable

    return lambda root: StaticTable.from_metadata(str(newest_metadata(root)))


def ours_scan(made: Made) -> Side:
    def run(scale: float) -> Outcome:
        root, open_table = made(scale), warm()
        return repeated(lambda: open_table(root).scan(columns=list(TWO)).to_arrow(), contents, 3)

    return run


def pyiceberg_scan(made: Made) -> Side:
    def run(scale: float) -> Outcome:
        root, open_table = made(scale), _warm_pyiceberg()
        return repeated(lambda: open_table(root).scan(selected_fields=TWO).to_arrow(), contents, 3)

    return run


def spark_scan(made: Made) -> Side:
    """Do the same with iceberg-spark, whose rows are fetched to this process as Arrow."""

    def run(scale: float) -> Outcome:
        root, spark = made(scale), session(engines=True)
        read = spark.read.format("iceberg")
        return repeated(lambda: read.load(str(root)).select(*TWO).toArrow(), contents, 4)

    return run


def _keys(count: int) -> Made:
    return lambda scale: data.keys(scale, count)


def _rows(deleted: bool) -> Made:
    return lambda scale: data.deleted_rows(scale, deleted)


def _plan_case(title: str, condition: str | None) -> Case:
    sides = {
        "deltaberg": ours_plan(data.manifests, lambda _: condition),
        "pyiceberg": pyiceberg_plan(data.manifests, lambda _: condition),
        "iceberg-java": _java_plan(condition),
    }
    return Case(title, data.manifests, sides, counting=("iceberg-java",))


def _scan_case(title: str, made: Made) -> Case:
    return Case(title, made, {"deltaberg": ours_scan(made), "pyiceberg": pyiceberg_scan(made)})


MANIFEST_CASES: dict[str, Case] = {
    "iceberg-plan": _plan_case("plan 1,000,000 entries in 100 manifests, bounds of 7 columns", None),
    "iceberg-plan-filtered": _plan_case(
        "the same with a filter on the partition column, which keeps a hundredth", _FILTER
    ),
}

ROW_CASES: dict[str, Case] = {
    "iceberg-scan": _scan_case("read 2 of 6 columns of 16M rows on this machine", _rows(deleted=False)),
    "iceberg-scan-deleted": _scan_case(
        "the same with 1 % of the rows deleted by position deletes", _rows(deleted=True)
    ),
    **{
        f"iceberg-keys-{count}": Case(
            f"read 2 of 6 columns of 4M rows with {count:,} equality deletes of two columns, which pyiceberg refuses",
            _keys(count),
            {"deltaberg": ours_scan(_keys(count)), "iceberg-spark": spark_scan(_keys(count))},
        )
        for count in (0, 10_000, 100_000, 1_000_000)
    },
}
