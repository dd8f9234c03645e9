"""The cases of Iceberg tables, beside pyiceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benches import iceberg_data as data
from benches.measure import Case, Outcome, best, session, timed, warm

__all__ = ["ICEBERG_CASES"]

_FILTER = f"p = '{data.FILTER}'"
_TWO = ("id", "w")


def _ours_plan(condition: str | None) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        root, open_table = data.manifests(scale), warm()
        return timed(
            lambda: open_table(root).scan(condition).files().column("file_path"),
            len,
        )

    return run


def _pyiceberg_plan(condition: str | None) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        root = data.manifests(scale)
        wanted = condition or "true"
        return timed(lambda: [task.file.file_path for task in _static(root).scan(row_filter=wanted).plan_files()], len)

    return run


def _java_plan(condition: str | None) -> Callable[[float], Outcome]:
    """Plan by Iceberg's own library, in the JVM of a Spark session: the best of four runs, the first ones cold."""

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

        return best(plan, int, 4)

    return run


def _static(root: Path) -> Any:
    from pyiceberg.table import StaticTable

    metadata = max((root / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name.split(".")[0][1:]))
    return StaticTable.from_metadata(str(metadata))


def _sum(table: pa.Table) -> list[int]:
    return [len(table), pc.sum(table.column("id")).as_py()]


def _ours_scan(make: Callable[[float], Path]) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        root, open_table = make(scale), warm()
        return best(lambda: open_table(root).scan(columns=list(_TWO)).to_arrow(), _sum, 3)

    return run


def _pyiceberg_scan(make: Callable[[float], Path]) -> Callable[[float], Outcome]:
    def run(scale: float) -> Outcome:
        root = make(scale)
        return best(lambda: _static(root).scan(selected_fields=_TWO).to_arrow(), _sum, 2)

    return run


def _keys(count: int) -> Callable[[float], Path]:
    return lambda scale: data.keys(scale, count)


def _rows(deleted: bool) -> Callable[[float], Path]:
    return lambda scale: data.deleted_rows(scale, deleted)


ICEBERG_CASES: dict[str, Case] = {
    "iceberg-plan": Case(
        "plan 1,000,000 entries in 100 manifests, bounds of 7 columns",
        data.manifests,
        {"deltaberg": _ours_plan(None), "pyiceberg": _pyiceberg_plan(None), "iceberg-java": _java_plan(None)},
    ),
    "iceberg-plan-filtered": Case(
        "the same with a filter on the partition column, which keeps a hundredth",
        data.manifests,
        {"deltaberg": _ours_plan(_FILTER), "pyiceberg": _pyiceberg_plan(_FILTER), "iceberg-java": _java_plan(_FILTER)},
    ),
    "iceberg-scan": Case(
        "read 2 of 4 columns of 16M rows on this machine",
        _rows(deleted=False),
        {"deltaberg": _ours_scan(_rows(deleted=False)), "pyiceberg": _pyiceberg_scan(_rows(deleted=False))},
    ),
    "iceberg-scan-deleted": Case(
        "the same with 1 % of the rows deleted by position deletes",
        _rows(deleted=True),
        {"deltaberg": _ours_scan(_rows(deleted=True)), "pyiceberg": _pyiceberg_scan(_rows(deleted=True))},
    ),
    **{
        f"iceberg-keys-{count}": Case(
            f"read 2 of 4 columns of 4M rows with {count:,} equality deletes of two columns; there is no peer",
            _keys(count),
            {"deltaberg": _ours_scan(_keys(count))},
        )
        for count in (0, 10_000, 100_000, 1_000_000)
    },
}
