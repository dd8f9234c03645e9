"""Looking for rows of a table in Spark's tasks: each replies with a bitmap of positions for every file that it read."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as st

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.spark.read.tasks import ReadTask
from deltaberg.table.rewrite import RowPositions, RowTest, matching_rows

__all__ = ["SEARCH_SCHEMA", "MatchTask", "SearchTask"]

_REPLY = pa.schema([("file", pa.int64()), ("rows", pa.binary()), ("error", pa.binary())])
#: What a `SearchTask` replies.
SEARCH_SCHEMA = st.StructType(
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


def _reply(number: int | None = None, rows: bytes | None = None, error: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"file": number, "rows": rows, "error": error}], schema=_REPLY)
