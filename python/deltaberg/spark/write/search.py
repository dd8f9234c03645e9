"""Looking for rows of a table in Spark's tasks: each replies with a bitmap of positions for every file that it read."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.spark.read.planning import PlannedTasks, plan_tasks
from deltaberg.spark.read.tasks import ReadTask
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.write.staging import STAGED_SCHEMA, StageTask, delete_staged, staged_rows
from deltaberg.spark.write.tasks import FusedWriteTask
from deltaberg.storage import parse_location
from deltaberg.table.read.sharing import BoundScan, estimated_bytes, grouped_tasks
from deltaberg.table.rewrite import RowPositions, RowTest, matching_rows, positions_of, search_here

__all__ = ["MatchTask", "SearchTask", "SparkSearch", "row_search"]

#: Less than so many bytes are read by the driver, which needs no job of Spark for them.
_LEAST_BYTES = 2 << 30
_REPLY = pa.schema([("file", pa.int64()), ("rows", pa.binary()), ("error", pa.binary())])
_REPLY_TYPE = st.StructType(
    [
        st.StructField("file", st.LongType()),
        st.StructField("rows", st.BinaryType()),
        st.StructField("error", st.BinaryType()),
    ]
)


@dataclass(frozen=True)
class SearchTask:
    """Reads files inside `mapInArrow`, and replies which of their rows match.

    Parameters
    ----------
    read
        Reads the tasks of the scan.
    width
        How many columns the test takes.
    test
        Which rows match that the filter of the scan lets through; None for all of them.
    """

    read: ReadTask
    width: int
    test: RowTest | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reply with a bitmap for each file that holds matching rows.

        Errors that another attempt would meet again are part of the reply. If the store fails, Spark tries again.
        """
        found = RowPositions()
        try:
            for batch in self.read.rows(batches):
                found.add(*matching_rows(batch, self.width, self.test))
        except StorageError:
            raise
        except DeltabergError as error:
            yield _reply(error=pickle.dumps(error))
            return
        for number in found.numbers:
            yield _reply(number, found.bitmap(number))


@dataclass(frozen=True)
class MatchTask:
    """Reads files inside `mapInArrow`, and returns the rows that match with their addresses."""

    read: ReadTask
    test: RowTest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows, batch by batch."""
        for batch in self.read.rows(batches):
            yield batch.filter(self.test(batch))


@dataclass(frozen=True)
class SparkSearch:
    """Has Spark's tasks look for rows where there is much to read: a `RowSearch`."""

    facts: SessionFacts

    def find(self, bound: BoundScan, width: int, test: RowTest | None) -> Iterator[tuple[pa.Int64Array, pa.Int64Array]]:
        """Return the numbers of files and the positions of the rows that match."""
        planned = self._planned(bound)
        if planned is None:
            yield from search_here(bound, width, test)
            return
        task = SearchTask(planned.reading(bound), width, test)
        for file, rows, error in planned.tasks.mapInArrow(task, _REPLY_TYPE).collect():
            if error is not None:
                # Our own workers sent it.
                raise pickle.loads(error)  # noqa: S301
            # PySpark before 4.1 returns bytearrays.
            positions = positions_of(bytes(rows)).cast(pa.int64())
            yield pa.repeat(pa.scalar(file, pa.int64()), len(positions)), positions

    def read(self, bound: BoundScan, test: RowTest) -> Iterator[pa.RecordBatch]:
        """Return the rows that match, which tasks store beside the files of the table; or all, if they are few."""
        planned = self._planned(bound)
        if planned is None:
            yield from bound.batches()
            return
        root = parse_location(bound.source.table)
        stage = StageTask(bound.source.store, root, uuid.uuid4().hex, bound.output)
        task = FusedWriteTask(MatchTask(planned.reading(bound), test), stage)
        try:
            replies = planned.tasks.mapInArrow(task, STAGED_SCHEMA).collect()
            yield from staged_rows(stage, [(row["name"], row["error"]) for row in replies])
        finally:
            delete_staged(stage)

    def _planned(self, bound: BoundScan) -> PlannedTasks | None:
        """Return the tasks that read a scan; None if the driver reads it."""
        if parse_location(bound.source.table).scheme == "memory":
            return None
        if estimated_bytes(bound, grouped_tasks(bound, self.facts.parallelism)) < _LEAST_BYTES:
            return None
        return plan_tasks(bound, self.facts, None, _REPLY_TYPE)


def row_search(spark: SparkSession) -> SparkSearch:
    """Return what has the tasks of a session look for rows."""
    return SparkSearch(SessionFacts.of(spark))


def _reply(number: int | None = None, rows: bytes | None = None, error: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"file": number, "rows": rows, "error": error}], schema=_REPLY)
