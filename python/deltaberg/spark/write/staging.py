"""Rows of a Spark DataFrame that the driver reads, once and in bounded memory, such as the source of a merge.

Spark's tasks store them as Arrow streams on a stage of the table. The driver reads these files one after another, and
deletes them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.rows.conform import Conformer
from deltaberg.schema.types import Struct
from deltaberg.table.maintain.bins.stage import Stage, row_streams

__all__ = ["STAGED_SCHEMA", "StageTask", "staged_rows"]

#: What a task replies, as DDL: the name of a file, or the error that it met.
STAGED_SCHEMA = "name string, error binary"
_REPLY = pa.schema([("name", pa.string()), ("error", pa.binary())])


@dataclass(frozen=True)
class StageTask:
    """Stores the rows of a task inside `mapInArrow`.

    Parameters
    ----------
    stage
        Where they are stored.
    columns
        The columns, in the order in which they arrive.
    """

    stage: Stage
    columns: Struct

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Store the rows, and reply with the name of each file.

        Errors that another attempt would meet again are part of the reply. If the store fails, Spark tries again.
        """
        try:
            for number, rows in enumerate(row_streams(self._conformed(batches), arrow_schema(self.columns))):
                name = self.stage.new_name(number)
                self.stage.storage.put(self.stage.path(name), rows)
                yield _reply(name=name)
        except StorageError:
            raise
        except DeltabergError as error:
            yield _reply(error=pickle.dumps(error))

    def _conformed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Bring batches to one schema: timestamps arrive in the zone of the session, and text with any offsets."""
        conformer, found = None, None
        for batch in batches:
            rows = batch.rename_columns(self.columns.names)
            if conformer is None or rows.schema != found:
                conformer, found = Conformer(rows.schema, self.columns), rows.schema
            if rows.num_rows:
                yield conformer.apply(rows)


def staged_rows(task: StageTask, replies: Sequence[tuple[str | None, bytes | None]]) -> pa.RecordBatchReader:
    """Return the rows of the files that tasks replied, one batch at a time; raise what a task met."""
    for _, error in replies:
        if error is not None:
            # Our own workers sent it.
            raise pickle.loads(error)  # noqa: S301
    names = [name for name, _ in replies if name is not None]
    store = task.stage.storage

    def batches() -> Iterator[pa.RecordBatch]:
        for name in names:
            with store.open(task.stage.path(name)) as file, pa.ipc.open_stream(file) as stream:
                yield from stream

    return pa.RecordBatchReader.from_batches(arrow_schema(task.columns), batches())


def _reply(name: str | None = None, error: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([name], pa.string()), pa.array([error], pa.binary())], schema=_REPLY)
