"""What ``@by_every_road`` does to a test on Spark: its scans are planned and read by both roads, and compared."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, TypeVar
from uuid import UUID

import pyarrow as pa
import pytest

from deltaberg import Scan
from deltaberg.errors import DeltabergError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.files.read.task import tasks_of
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan import bound_scan
from deltaberg.table.read.sharing import file_tasks, planning_pieces, scan_part, share_planning
from tests.support.roads import Road, collect, collect_in_tasks, same_rows

__all__ = ["ComparedReads", "mark_first_proofs"]

#: How many scans of a test are read by all roads of Spark.
_BY_ALL_ROADS = 2
_Result = TypeVar("_Result")
#: A data file, what deletes rows of it, and whether the filter remains to be applied.
_Told: TypeAlias = tuple[str, str, bool]


class ComparedReads:
    """Reads and plans scans on this machine and by a road of Spark, and compares what both find.

    ``count`` says for how many scans it did so.
    """

    def __init__(self, road: Road) -> None:
        self.road = road
        self.count = 0
        self._to_arrow, self._count, self._files = Scan.to_arrow, Scan.count, Scan.files

    def take_over(self, patch: pytest.MonkeyPatch) -> None:
        """Have all scans read by this."""

        def to_arrow(scan: Scan) -> pa.Table:
            return self.to_arrow(scan)

        def count(scan: Scan) -> int:
            return self.count_rows(scan)

        def files(scan: Scan, *, statistics: bool = False) -> pa.Table:
            return self.files(scan, statistics)

        patch.setattr(Scan, "to_arrow", to_arrow)
        patch.setattr(Scan, "count", count)
        patch.setattr(Scan, "files", files)

    def to_arrow(self, scan: Scan) -> pa.Table:
        """Return the rows of a scan, as `Scan.to_arrow` does."""
        ours, expected = self._both(scan, self._to_arrow, self._by_spark)
        assert ours.schema.names == expected.schema.names
        if scan.limit is None:
            assert same_rows(_with_types(ours, expected.schema), expected)
        else:
            assert ours.num_rows == expected.num_rows
        return expected

    def count_rows(self, scan: Scan) -> int:
        """Count the rows of a scan, as `Scan.count` does."""
        found, expected = self._both(scan, self._count, self._count_by_spark)
        assert found == expected
        return expected

    def _by_spark(self, scan: Scan) -> pa.Table:
        if _lacks_types(scan):
            return collect_in_tasks(scan, self.road.spark)
        # Each road is a job of Spark. Those of the first scans show the rule; of further ones, Spark takes one.
        return self.road.table(scan) if self.count <= _BY_ALL_ROADS else collect(scan.to_spark(self.road.spark))

    def _count_by_spark(self, scan: Scan) -> int:
        return self._by_spark(scan).num_rows if _lacks_types(scan) else int(scan.to_spark(self.road.spark).count())

    def files(self, scan: Scan, statistics: bool) -> pa.Table:
        """Return the files of a scan, as `Scan.files` does.

        The executors must plan the same files, with the same deletes and residuals. Where the metadata is
        read as a whole, so that they are given the plan of the driver, they must find the same rows with it.
        """
        listed = self._files(scan, statistics=statistics)
        bound = bound_scan(scan)
        apart = replace(bound, options=replace(bound.options, planning="executors"), given=None)
        try:
            pieces = planning_pieces(apart)
        except InvalidArgumentError:
            self.to_arrow(scan)
            return listed
        self.count += 1
        found = self._planned(apart, [] if pieces is None else share_planning(pieces, 1))
        assert sorted(found) == sorted(_told(bound))
        return listed

    def _planned(self, scan: BoundScan, parts: list[pa.Table]) -> list[_Told]:
        """Return what tasks of Spark plan of pieces of the metadata."""
        if not parts:
            return []

        def plan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            told = [one for number in numbers for one in _told(scan_part(scan, parts[number]))]
            yield pa.record_batch({"told": pa.array([pickle.dumps(told)], pa.binary())})

        rows = self.road.spark.range(len(parts)).mapInArrow(plan, "told binary").collect()
        return [one for row in rows for one in pickle.loads(row.told)]

    def _both(
        self, scan: Scan, local: Callable[[Scan], _Result], remote: Callable[[Scan], _Result]
    ) -> tuple[_Result, _Result]:
        """Return what both roads return; where one of them fails, the other must fail with the same message."""
        self.count += 1
        failure = None
        try:
            expected = local(scan)
        except DeltabergError as error:
            failure = error
        if failure is not None:
            with pytest.raises(Exception, match=re.escape(failure.message)):
                remote(scan)
            raise failure
        return remote(scan), expected


def _lacks_types(scan: Scan) -> bool:
    """Return whether Spark refuses the scan because it has no type for a column, as `docs/spark.md` says."""
    from deltaberg.spark.types import spark_schema

    try:
        spark_schema(bound_scan(scan).output)
    except UnsupportedFeatureError:
        return True
    return False


def mark_first_proofs(items: list[pytest.Item]) -> None:
    """Leave to `make test-all` what proves on Spark only rows that an earlier test with ``@by_every_road`` proves."""
    seen: set[object] = set()
    for item in items:
        case = getattr(item, "callspec", None)
        if case is not None and case.params.get("every_road") == "spark":
            rows = {row for mark in item.iter_markers("req") for row in mark.args}
            if rows <= seen:
                item.add_marker("full")
            seen |= rows


def _told(scan: BoundScan) -> list[_Told]:
    tasks = tasks_of(file_tasks(scan))
    return [(task.location, repr((task.delete_files, task.deletion_vector)), task.filtered) for task in tasks]


def _with_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows that Spark read with the types that they have on this machine.

    Spark has instants in the zone of its session, uuids as text and bytes of any length. A cast loses nothing of these,
    and fails where a value would change.
    """
    columns = []
    for column, child in zip(table.columns, schema, strict=True):
        if child.type == pa.binary(16) and pa.types.is_string(column.type):
            values = [None if value is None else UUID(value).bytes for value in column.to_pylist()]
            columns.append(pa.chunked_array([pa.array(values, child.type)]))
        else:
            columns.append(column.cast(child.type))
    return pa.table(columns, names=schema.names)
