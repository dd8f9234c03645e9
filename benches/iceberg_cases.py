"""The cases of Iceberg tables, beside pyiceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benches import iceberg_data as data
from benches.measure import Case, Outcome, Side, repeated, session, warm

__all__ = [
    "MANIFEST_CASES",
    "ROW_CASES",
    "newest_metadata",
    "ours_plan",
    "ours_scan",
    "pyiceberg_plan",
    "pyiceberg_scan",
    "static_table",
]

#: Gives a table, made at a scale where it is not there yet.
_Made = Callable[[float], Path]

_FILTER = f"p = '{data.FILTER}'"
_TWO = ("id", "w")


def ours_plan(made: _Made, condition: Callable[[float], str | None], times: int = 1) -> Side:
    """Open a table, and find the files of a condition."""

    def run(scale: float) -> Outcome:
        root, open_table, wanted = made(scale), warm(), condition(scale)
        return repeated(lambda: open_table(root).scan(wanted).files().column("file_path"), len, times)

    return run


def pyiceberg_plan(made: _Made, condition: Callable[[float], str | None], times: int = 1) -> Side:
    """Do the same by pyiceberg."""

    def run(scale: float) -> Outcome:
        root, wanted = made(scale), condition(scale) or "true"
        return repeated(
            lambda: [task.file.file_path for task in static_table(root).scan(row_filter=wanted).plan_files()],
            len,
            times,
        )

    return run


def _java_plan(condition: str | None) -> Side:
    """Plan by Iceberg's own library, in the JVM of a Spark session."""

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

        return repeated(plan, int, 4)

    return run


def newest_metadata(root: Path) -> Path:
    """Give the metadata file of a table's newest version."""
    return max((root / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name.split(".")[0][1:]))


def static_table(root: Path) -> Any:
    """Open a table by pyiceberg."""
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(newest_metadata(root)))


def _sum(table: pa.Table) -> list[int]:
    return [len(table), pc.sum(table.column("id")).as_py()]


def ours_scan(made: _Made) -> Side:
    def run(scale: float) -> Outcome:
        root, open_table = made(scale), warm()
        return repeated(lambda: open_table(root).scan(columns=list(_TWO)).to_arrow(), _sum, 3)

    return run


def pyiceberg_scan(made: _Made) -> Side:
    def run(scale: float) -> Outcome:
        root = made(scale)
        return repeated(lambda: static_table(root).scan(selected_fields=_TWO).to_arrow(), _sum, 3)

    return run


def _keys(count: int) -> _Made:
    return lambda scale: data.keys(scale, count)


def _rows(deleted: bool) -> _Made:
    return lambda scale: data.deleted_rows(scale, deleted)


def _plan_case(title: str, condition: str | None) -> Case:
    sides = {
        "deltaberg": ours_plan(data.manifests, lambda _: condition),
        "pyiceberg": pyiceberg_plan(data.manifests, lambda _: condition),
        "iceberg-java": _java_plan(condition),
    }
    return Case(title, data.manifests, sides)


def _scan_case(title: str, made: _Made) -> Case:
    return Case(title, made, {"deltaberg": ours_scan(made), "pyiceberg": pyiceberg_scan(made)})


MANIFEST_CASES: dict[str, Case] = {
    "iceberg-plan": _plan_case("plan 1,000,000 entries in 100 manifests, bounds of 7 columns", None),
    "iceberg-plan-filtered": _plan_case(
        "the same with a filter on the partition column, which keeps a hundredth", _FILTER
    ),
}

ROW_CASES: dict[str, Case] = {
    "iceberg-scan": _scan_case("read 2 of 4 columns of 16M rows on this machine", _rows(deleted=False)),
    "iceberg-scan-deleted": _scan_case(
        "the same with 1 % of the rows deleted by position deletes", _rows(deleted=True)
    ),
    **{
        f"iceberg-keys-{count}": Case(
            f"read 2 of 4 columns of 4M rows with {count:,} equality deletes of two columns; "
            "no peer: pyiceberg refuses them",
            _keys(count),
            {"deltaberg": ours_scan(_keys(count))},
        )
        for count in (0, 10_000, 100_000, 1_000_000)
    },
}
