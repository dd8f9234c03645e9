"""Changing rows of a table by Spark's tasks, which look for them, and write the files that take the place of others."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from deltaberg.files.read.task import constant_column
from deltaberg.spark.jobs import run_job
from deltaberg.spark.read.planning import PlannedTasks, plan_tasks, planned_tasks
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.write.change_task import CHANGE_SCHEMA, ChangeTask
from deltaberg.spark.write.item_tasks import run_items
from deltaberg.spark.write.search import SEARCH_SCHEMA, DividedSearchTask, MatchTask, SearchTask, pack_with
from deltaberg.spark.write.staging import STAGED_SCHEMA, StageTask, staged_rows
from deltaberg.spark.write.write_tasks import FusedWriteTask, WriteTask, collected_files
from deltaberg.storage.location import parse_location
from deltaberg.table.change.changed_rows import ChangedRows, NewFiles, WrittenChange
from deltaberg.table.change.match import DividedTest, RowTest, search_here
from deltaberg.table.change.positions import positions_of
from deltaberg.table.maintain.bins.stage import Stage
from deltaberg.table.maintain.file_tasks import results_of
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.sharing import estimated_bytes, grouped_tasks
from deltaberg.table.write.sources import TASK_ROAD
from deltaberg.table.write.staged import delete_written

__all__ = ["SparkRowTasks", "row_tasks"]

#: Less than so many bytes are read by the driver, which needs no job of Spark for them.
_LEAST_BYTES = 2 << 30
#: Bytes that the tasks of one job are packed into, approximately: the driver holds them.
_JOB_BYTES = 64 << 20
#: More positions than a bitmap can have.
_ALL = (1 << 63) - 1

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class SparkRowTasks:
    """Has Spark's tasks look for rows, and write what takes their place, where there is much to read: `RowTasks`."""

    facts: SessionFacts

    def find(self, bound: BoundScan, width: int, test: RowTest | None) -> Iterator[tuple[pa.Int64Array, pa.Int64Array]]:
        """Return the numbers of files and the positions of the rows that match."""
        if isinstance(test, DividedTest):
            groups = self._groups(bound)
            if groups:
                for packed in _jobs(bound, groups, test.of_files):
                    planned = planned_tasks(self.facts, packed, 0, SEARCH_SCHEMA)
                    yield from self._found(planned, DividedSearchTask(planned.reading(bound), width))
                return
        else:
            whole = self._planned(bound)
            if whole is not None:
                yield from self._found(whole, SearchTask(whole.reading(bound), width, test))
                return
        yield from search_here(bound, width, test)

    def _found(self, planned: PlannedTasks, task: Any) -> Iterator[tuple[pa.Int64Array, pa.Int64Array]]:
        for reply in run_job(self.facts, planned.tasks.mapInArrow(task, SEARCH_SCHEMA).collect):
            if reply["error"] is not None:
                # Our own workers sent it.
                raise pickle.loads(reply["error"])  # noqa: S301
            # PySpark before 4.1 returns bytearrays. Our own workers found these rows, however many they are.
            positions = positions_of(bytes(reply["rows"]), _ALL).cast(pa.int64())
            yield pa.repeat(pa.scalar(reply["file"], pa.int64()), len(positions)), positions

    def read(self, bound: BoundScan, test: RowTest) -> Iterator[pa.RecordBatch]:
        """Return the rows that match, which tasks store beside the files of the table; or all, if they are few."""
        planned = self._planned(bound)
        if planned is None:
            yield from bound.batches()
            return
        stage = Stage.of(bound.source.store, parse_location(bound.source.table))
        staging = StageTask(stage, bound.output)
        task = FusedWriteTask(MatchTask(planned.reading(bound), test), staging)
        try:
            replies = run_job(self.facts, planned.tasks.mapInArrow(task, STAGED_SCHEMA).collect)
            yield from staged_rows(staging, [(row["name"], row["error"]) for row in replies])
        finally:
            stage.clear()

    def write(self, bound: BoundScan, changed: ChangedRows, files: NewFiles) -> WrittenChange | None:
        """Write the rows that take the place of others, of which only rows about files come to the driver.

        The files of a task that is retried, or runs twice, are not named by any reply but the one that counts.
        """
        groups = self._groups(bound)
        if not groups or changed.of_files(()) is None:
            return None
        tables, updated = [files.spec.no_files()], 0
        try:
            for packed in _jobs(bound, groups, changed.of_files):
                found, rows = self._write(bound, packed, files)
                tables += found
                updated += rows
        except BaseException:
            delete_written(tables, files.store, files.place)
            raise
        return WrittenChange(pa.concat_tables(tables), updated, TASK_ROAD)

    def _write(self, bound: BoundScan, packed: tuple[bytes, ...], files: NewFiles) -> tuple[list[pa.Table], int]:
        """Run one job, and return a table of files for each task, and how many rows replace others."""
        planned = planned_tasks(self.facts, packed, 0, CHANGE_SCHEMA)
        write = WriteTask(files.spec, files.store, files.place, tuple(files.spec.schema.names))
        task = ChangeTask(planned.reading(bound), write)
        replies = run_job(self.facts, planned.tasks.mapInArrow(task, CHANGE_SCHEMA).collect)
        found = collected_files(((row["files"], row["error"]) for row in replies), files.store, files.place)
        return found, sum(row["updated"] for row in replies)

    def takes(self, table: str, size: int) -> bool:
        """Return whether there is much to read, where tasks can read it."""
        return size >= _LEAST_BYTES and parse_location(table).scheme != "memory"

    def run(
        self,
        work: Callable[[Any], _Result],
        items: Sequence[Any],
        discard: Callable[[_Result], object] = lambda _: None,
    ) -> list[_Result]:
        """Return what a function returns for each item."""
        return results_of(run_items(self.facts, work, items, is_repeated=True), discard)

    def _groups(self, bound: BoundScan) -> list[pa.RecordBatch]:
        """Return the groups of tasks that read a scan; none if the driver reads it."""
        groups = grouped_tasks(bound, self.facts.parallelism)
        return groups if self.takes(bound.source.table, estimated_bytes(bound, groups)) else []

    def _planned(self, bound: BoundScan) -> PlannedTasks | None:
        """Return the tasks that read a scan; None if the driver reads it."""
        return plan_tasks(bound, self.facts, None, SEARCH_SCHEMA) if self._groups(bound) else None


def row_tasks(spark: SparkSession) -> SparkRowTasks:
    """Return what has the tasks of a session change rows."""
    return SparkRowTasks(SessionFacts.of(spark))


def _jobs(
    bound: BoundScan, groups: Sequence[pa.RecordBatch], part_of: Callable[[Collection[int]], object]
) -> Iterator[tuple[bytes, ...]]:
    """Return the packed tasks of each job, each with what it has to know of its files."""
    if bound.address is None:
        raise AssertionError("rows are changed by a scan with addresses")
    numbers, packed, size = constant_column(bound.address.file_number.name), list[bytes](), 0
    for group in groups:
        packed.append(pack_with(group, part_of(group.column(numbers).unique().to_pylist())))
        size += len(packed[-1])
        if size >= _JOB_BYTES:
            yield tuple(packed)
            packed, size = [], 0
    if packed:
        yield tuple(packed)
