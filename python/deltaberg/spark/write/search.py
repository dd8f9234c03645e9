"""Looking for rows of a table in Spark's tasks: each replies with a bitmap of positions for every file that it read."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.files.read.task import pack_tasks
from deltaberg.spark.read.read_tasks import ReadTask, read_packed
from deltaberg.table.change.gather import gathered
from deltaberg.table.change.match import RowTest, matching_rows
from deltaberg.table.change.positions import RowPositions

__all__ = ["SEARCH_SCHEMA", "DividedSearchTask", "MatchTask", "SearchTask", "pack_with"]

_REPLY = pa.schema([("file", pa.int64()), ("rows", pa.binary()), ("error", pa.binary())])
#: What a `SearchTask` replies.
SEARCH_SCHEMA = from_arrow_schema(_REPLY)


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
        yield from _replies(matching_rows(batch, self.width, self.test) for batch in self.read.rows(batches))


@dataclass(frozen=True)
class DividedSearchTask:
    """Does what a `SearchTask` does with groups that `pack_with` packed, each with the test of its files.

    Parameters
    ----------
    read
        Reads the groups.
    width
        How many columns the tests take.
    """

    read: ReadTask
    width: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reply as a `SearchTask` does."""
        yield from _replies(self._found(batches))

    def _found(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Int64Array, pa.Int64Array]]:
        for group in self.read.groups(batches):
            # Our own driver packed it.
            packed, test = pickle.loads(group)  # noqa: S301
            for batch in gathered(read_packed(self.read.spec, packed, None)):
                yield matching_rows(batch, self.width, test)


@dataclass(frozen=True)
class MatchTask:
    """Reads files inside `mapInArrow`, and returns the rows that match with their addresses."""

    read: ReadTask
    test: RowTest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows, batch by batch."""
        for batch in self.read.rows(batches):
            yield batch.filter(self.test(batch))


def pack_with(tasks: pa.RecordBatch, part: Any) -> bytes:
    """Return a group of tasks with what the process that reads it has to know of its files."""
    # Bound values hold functions that are made where they are bound.
    pickler: Any = cloudpickle
    packed: bytes = pickler.dumps((pack_tasks(tasks), part))
    return packed


def _replies(found: Iterable[tuple[pa.Int64Array, pa.Int64Array]]) -> Iterator[pa.RecordBatch]:
    rows = RowPositions()
    try:
        for numbers, positions in found:
            rows.add(numbers, positions)
    except StorageError:
        raise
    except DeltabergError as error:
        yield _reply(error=pickle.dumps(error))
        return
    for number in rows.numbers:
        yield _reply(number, rows.bitmap(number))


def _reply(number: int | None = None, rows: bytes | None = None, error: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"file": number, "rows": rows, "error": error}], schema=_REPLY)
