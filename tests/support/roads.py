"""The roads to rows. A test that takes the fixture ``road`` runs on this machine and through Spark, and must find the
same rows by both. With ``@by_every_road`` a test that knows nothing of roads does so, too.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaberg import Scan
from deltaberg.errors import InvalidArgumentError
from deltaberg.table.read.scan import bound_scan

if TYPE_CHECKING:
    from deltaberg.spark.native.plan import NativePlan

__all__ = [
    "Road",
    "by_every_road",
    "collect",
    "collect_in_tasks",
    "native_plan",
    "road_names",
    "rows_of",
    "same_rows",
]

#: Runs a test on this machine, and once more so that Spark, too, plans and reads its scans: files, rows and errors must
#: be the same (``compared_reads.py``). On Spark `make test` runs those of these tests that are the first to prove a
#: row, and `make test-all` the others.
by_every_road = pytest.mark.usefixtures("every_road")

#: Reasons for which files of the tests may go by Arrow; any other reason fails the test.
_EXPECTED = re.compile(
    r"it is not a Parquet file|equality deletes apply to it|a file is read twice"
    r"|the filter calls functions"
    r"|only our reader makes the column _deleted"
    r"|only some rows of it are wanted, by their position or by keys|it is encoded by DELTA_.*"
    r"|Spark does not open a file of its name"
    r"|the session has no file system for its location|the column .* is of type (variant|uuid|void)"
    r"|the (column|field) .* was added after the file was written.*"
    r"|the column .* is of type (long, but int(8|16|32)|integer, but int(8|16)|short, but int8|byte, but int32"
    r"|double, but (float|int\d+)|float, but int\d+"
    r"|timestamp_ntz, but date32\[day\]|timestamp(_ntz)?, but timestamp\[(ms|ns).*"
    r"|decimal\(.*\), but (decimal128\(.*\)|int\d+)) in the file"
    r"|the column .* has an old layout|its dates may be of the hybrid Julian calendar"
)


def road_names() -> list[Any]:
    """Return the roads as parameters; those through Spark are marked, and need Java."""
    skip = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")
    return ["local", pytest.param("spark", marks=[pytest.mark.spark, skip])]


class Road:
    """One road.

    ``by_arrow`` holds the reasons why files of the last scan do not take the native road.
    """

    def __init__(self, name: str, spark: Any) -> None:
        self.name = name
        self.spark = spark
        self.is_spark_3 = spark is not None and spark.version.startswith("3.")
        self.has_native = spark is not None and not self.is_spark_3
        self.by_arrow: list[str] = []

    def table(self, scan: Scan) -> pa.Table:
        """Return the rows of a scan as an Arrow table."""
        if self.spark is None:
            return scan.to_arrow()
        found = collect(scan.to_spark(self.spark, road="arrow"))
        if self.has_native:
            self._check_native(scan, found)
        return found

    def assert_native(self, but: str | None = None) -> None:
        """Fail where files of the last scan went by Arrow, except for the reasons that ``but`` matches.

        The road on this machine and Spark 3 have no native road, and nothing is checked there.
        """
        if self.has_native:
            assert bool(self.by_arrow) == (but is not None), self.by_arrow
            assert all(re.fullmatch(but or "", why) for why in self.by_arrow), self.by_arrow

    def _check_native(self, scan: Scan, by_arrow: pa.Table) -> None:
        """Read the files for which that is possible by the native road, too, and compare the rows."""
        self.by_arrow = []
        try:
            frame = scan.to_spark(self.spark, road="native")
        except InvalidArgumentError:
            plan = native_plan(scan, self.spark, forced=True)
            self.by_arrow = list(plan.reasons)
            assert self.by_arrow
            unexpected = [why for why in self.by_arrow if not _EXPECTED.fullmatch(why)]
            if self.spark.version.startswith("4.0.") and any(pa.types.is_null(child.type) for child in scan.schema):
                # Its Parquet reader has no such type.
                unexpected = [why for why in unexpected if why != "Spark cannot open it"]
            assert not unexpected, f"unexpectedly by the arrow road: {unexpected}"
            if plan.frame is None:
                return
            frame = scan.to_spark(self.spark)
        native = collect(frame)
        if scan.limit is None:
            assert same_rows(native, by_arrow), str(self.by_arrow)
        assert (native.num_rows, native.schema.names) == (by_arrow.num_rows, by_arrow.schema.names), str(self.by_arrow)

    def rows(self, scan: Scan) -> list[dict[str, Any]]:
        """Return the rows of a scan as dictionaries, in the order of their text; no road promises an order."""
        return sorted(self.table(scan).to_pylist(), key=repr)

    def column(self, scan: Scan, name: str) -> list[Any]:
        """Return the values of one column, sorted, nulls last."""
        values = self.table(scan).column(name).to_pylist()
        return sorted((value for value in values if value is not None), key=lambda value: (str(type(value)), value)) + [
            value for value in values if value is None
        ]

    def count(self, scan: Scan) -> int:
        """Count the rows of a scan."""
        if self.spark is None:
            return sum(batch.num_rows for batch in scan.to_batches())
        found = int(scan.to_spark(self.spark, road="arrow").count())
        assert not self.has_native or int(scan.to_spark(self.spark).count()) == found
        return found

    def fused(
        self, scan: Scan, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any
    ) -> pa.Table:
        """Run a function by the fused road, or on one machine over the batches of the scan."""
        if self.spark is None:
            return pa.Table.from_batches(function(scan.to_batches()))
        return collect(scan.map_in_arrow(self.spark, function, schema))


def native_plan(scan: Scan, spark: Any, *, forced: bool = False) -> NativePlan:
    """Return which files of a scan Spark reads itself."""
    from deltaberg.spark.native.plan import plan_native
    from deltaberg.spark.session import SessionFacts

    return plan_native(bound_scan(scan), SessionFacts.of(spark), forced=forced)


def collect(frame: Any) -> pa.Table:
    """Return the rows of a frame as an Arrow table."""
    if not hasattr(frame, "toArrow") or '"variant"' in frame.schema.json():
        return _through_python(frame)
    return frame.toArrow()


def _through_python(frame: Any) -> pa.Table:
    """Collect a frame by way of Arrow messages from Python workers.

    The method ``toArrow`` fails on variants in lists, and Spark 3.5 does not have it.
    """
    batches = _batches(frame.mapInArrow(_as_messages, "message binary"))
    if batches:
        return pa.Table.from_batches(batches)
    from pyspark.sql.pandas.types import to_arrow_schema

    return frame.toArrow() if hasattr(frame, "toArrow") else to_arrow_schema(frame.schema).empty_table()


def collect_in_tasks(scan: Scan, spark: Any) -> pa.Table:
    """Return the rows of a scan whose columns the JVM has no types for: they leave its tasks as Arrow messages."""
    return pa.Table.from_batches(_batches(scan.map_in_arrow(spark, _as_messages, "message binary")), scan.schema)


def _batches(messages: Any) -> list[pa.RecordBatch]:
    return [batch for row in messages.collect() for batch in pa.ipc.open_stream(row.message)]


def _as_messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch({"message": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def same_rows(found: pa.Table, expected: pa.Table) -> bool:
    """Return whether two tables have the same rows, in any order."""
    if found.schema.names == expected.schema.names and found.equals(expected):
        return True
    return rows_of(found) == rows_of(expected)


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows as text, in their order, so that NaN equals NaN."""
    return sorted(map(repr, table.to_pylist()))
