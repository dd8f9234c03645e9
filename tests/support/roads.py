"""The roads to rows. A test that takes the fixture ``road`` runs on this machine and through Spark, and must find the
same rows by both.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import Scan

__all__ = ["Road", "collect", "road_names", "rows_of", "same_rows"]

#: Why files of the tests may go by Arrow; one that does so for another reason fails its test.
_EXPECTED = re.compile(
    r"it is no Parquet file|equality deletes apply to it|a file is read twice|the column _deleted is made by our reader"
    r"|some rows of it are chosen by their position or by keys|it is encoded by DELTA_.*|Spark does not open its name"
    r"|the session has no file system for its location|the column .* is of type (variant|uuid)"
    r"|the (column|field) .* is younger than the file.*"
    r"|the column .* is of type (long, int(8|16|32)|integer, int(8|16)|short, int8|byte, int32|double, (float|int\d+)"
    r"|timestamp_ntz, date32\[day\]|timestamp(_ntz)?, timestamp\[(ms|ns).*"
    r"|decimal\(.*\), (decimal128\(.*\)|int\d+)) in it"
    r"|the column .* is laid out in an old way|its days count by the calendar before 1582"
)


def road_names() -> list[Any]:
    """Give the roads as parameters; those through Spark are marked, and need Java."""
    skip = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")
    return ["local", pytest.param("spark", marks=[pytest.mark.spark, skip])]


class Road:
    """One road.

    ``by_arrow`` says why files of the last scan do not take the native road.
    """

    def __init__(self, name: str, spark: Any) -> None:
        self.name = name
        self.spark = spark
        self.is_spark_3 = spark is not None and spark.version.startswith("3.")
        self.has_native = spark is not None and not self.is_spark_3
        self.by_arrow: list[str] = []

    def table(self, scan: Scan) -> pa.Table:
        """Give the rows of a scan as an Arrow table."""
        if self.spark is None:
            return scan.to_arrow()
        found = collect(scan.to_spark(self.spark, road="arrow"))
        if self.has_native:
            self._check_native(scan, found)
        return found

    def assert_native(self, but: str | None = None) -> None:
        """Fail where files of the last scan did not take the native road, or not for the reasons that ``but`` matches.

        There is none on this machine, nor with Spark 3.
        """
        if self.has_native:
            assert bool(self.by_arrow) == (but is not None), self.by_arrow
            assert all(re.fullmatch(but or "", why) for why in self.by_arrow), self.by_arrow

    def _check_native(self, scan: Scan, found: pa.Table) -> None:
        """Read by the native road, too, what goes by it."""
        from deltaberg.spark.choice import choose

        choice = choose(scan, self.spark, forced=True)
        self.by_arrow = list(choice.reasons)
        unexpected = [why for why in self.by_arrow if not _EXPECTED.fullmatch(why)]
        if self.spark.version.startswith("4.0.") and any(pa.types.is_null(child.type) for child in scan.schema):
            # Its Parquet reader has no such type.
            unexpected = [why for why in unexpected if why != "Spark cannot open it"]
        assert not unexpected, f"unexpectedly by the arrow road: {unexpected}"
        if choice.frame is None:
            return
        native = collect(scan.to_spark(self.spark, road="auto" if choice.reasons else "native"))
        if scan.limit is None:
            assert rows_of(native) == rows_of(found), str(choice)
        assert (native.num_rows, native.schema.names) == (found.num_rows, found.schema.names), str(choice)

    def rows(self, scan: Scan) -> list[dict[str, Any]]:
        """Give the rows of a scan as dictionaries, in the order of their text: no road promises another."""
        return sorted(self.table(scan).to_pylist(), key=repr)

    def column(self, scan: Scan, name: str) -> list[Any]:
        """Give the values of one column, sorted, nulls last."""
        values = self.table(scan).column(name).to_pylist()
        return sorted((value for value in values if value is not None), key=lambda value: (str(type(value)), value)) + [
            value for value in values if value is None
        ]

    def count(self, scan: Scan) -> int:
        """Count the rows that the road gives."""
        if self.spark is None:
            return sum(batch.num_rows for batch in scan.to_batches())
        found = int(scan.to_spark(self.spark, road="arrow").count())
        assert not self.has_native or int(scan.to_spark(self.spark).count()) == found
        return found

    def fused(
        self, scan: Scan, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any
    ) -> pa.Table:
        """Run a function by the fused road; on this machine over the batches of the scan."""
        if self.spark is None:
            return pa.Table.from_batches(function(scan.to_batches()))
        return collect(scan.map_in_arrow(self.spark, function, schema))


def collect(frame: Any) -> pa.Table:
    """Give the rows of a frame as an Arrow table."""
    if not hasattr(frame, "toArrow") or '"variant"' in frame.schema.json():
        return _through_python(frame)
    return frame.toArrow()


def _through_python(frame: Any) -> pa.Table:
    """Collect a frame as the Arrow messages that Spark hands to Python.

    Its toArrow() fails on variants in lists, and Spark 3.5 has none.
    """
    rows = frame.mapInArrow(_as_messages, "message binary").collect()
    batches = [batch for row in rows for batch in pa.ipc.open_stream(row.message)]
    if batches:
        return pa.Table.from_batches(batches)
    from pyspark.sql.pandas.types import to_arrow_schema

    return frame.toArrow() if hasattr(frame, "toArrow") else to_arrow_schema(frame.schema).empty_table()


def _as_messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch({"message": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def same_rows(found: pa.Table, expected: pa.Table) -> bool:
    """Say whether two tables have the same rows, in any order."""
    return rows_of(found) == rows_of(expected)


def rows_of(table: pa.Table) -> list[str]:
    """Give the rows as texts, in their order; NaN is the same as NaN in them."""
    return sorted(map(repr, table.to_pylist()))
