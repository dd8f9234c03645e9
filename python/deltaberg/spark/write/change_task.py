"""The code that changes rows in Spark's Python workers: files are read, and those that take their place are written."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from deltaberg.spark.read.read_tasks import ReadTask, read_packed
from deltaberg.spark.write.write_tasks import WriteTask
from deltaberg.table.change.changed_rows import RowCounts

__all__ = ["CHANGE_SCHEMA", "ChangeTask"]

#: What a `ChangeTask` replies: what a `WriteTask` does, and how many of the rows replace others.
_REPLY = pa.schema([("files", pa.binary()), ("error", pa.binary()), ("updated", pa.int64())])
CHANGE_SCHEMA = from_arrow_schema(_REPLY)


@dataclass(frozen=True)
class ChangeTask:
    """Reads files inside `mapInArrow`, and writes the rows that take the place of others.

    Parameters
    ----------
    read
        Reads groups that `pack_with` packed, each with what becomes of the rows of its files.
    write
        Writes the rows.
    """

    read: ReadTask
    write: WriteTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows, and reply which files hold them. Without rows there is no reply."""
        counts = RowCounts()
        for reply in self.write(self._rows(batches, counts)):
            yield pa.RecordBatch.from_arrays([*reply.columns, pa.array([counts.updated], pa.int64())], schema=_REPLY)

    def _rows(self, batches: Iterable[pa.RecordBatch], counts: RowCounts) -> Iterator[pa.RecordBatch]:
        for group in self.read.groups(batches):
            # Our own driver packed it.
            packed, changed = pickle.loads(group)  # noqa: S301
            yield from changed.made(read_packed(self.read.spec, packed, None), counts)
