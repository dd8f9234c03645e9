"""The writer of the Python Data Sources: rows arrive as Arrow batches, and one commit adds their files.

Spark pickles the writer, calls `write` in its tasks, and `commit` or `abort` in yet another process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from deltaberg.spark.source.raised import briefly
from deltaberg.spark.write.write_tasks import WriteTask, written_of_replies
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.write.staged import StagedFiles, commit_staged, delete_written

__all__ = ["TableWriter", "abort_tasks"]


#: What opens the store of a table, and the directory that data files are written below.
Place = tuple[StoreSpec, Location]


@dataclass
class _Reply(WriterCommitMessage):
    """The reply of a task: descriptions of its files, or the error that it met."""

    files: bytes | None = None
    error: bytes | None = None


class TableWriter(DataSourceArrowWriter):
    """Writes the rows of tasks to data files, and commits them once.

    Parameters
    ----------
    staged
        The planned write.
    names
        The names of the columns, in the order in which they arrive.
    """

    def __init__(self, staged: StagedFiles, names: tuple[str, ...]) -> None:
        self._staged = staged
        self._names = names

    @briefly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        staged = self._staged
        if staged.spec is None:
            return _Reply()
        task = WriteTask(staged.spec, staged.store, staged.place, self._names)
        reply = next(iter(task(iterator)), None)
        return _Reply() if reply is None else _Reply(*(column[0].as_py() for column in reply.columns))

    @briefly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks once; raise what a task met, with nothing committed."""
        tables, errors = _replies(messages)
        if errors:
            self._delete(tables)
            raise errors[0]
        files = [self._staged.spec.no_files()] if self._staged.spec is not None else []
        done = commit_staged(self._staged, pa.concat_tables([*files, *tables]) if files else pa.table({}), "arrow")
        for sentence in done.warnings:
            warnings.warn(f"{self._staged.place}: {sentence}", stacklevel=2)

    def of_batch(self, txn: tuple[str, int] | None, compact_seconds: float) -> TableWriter:
        """Return the same writer for the batch of a stream; see `StagedFiles`."""
        return TableWriter(self._staged.of_batch(txn, compact_seconds), self._names)

    @property
    def place(self) -> Place:
        """Where the files of tasks are."""
        return self._staged.store, self._staged.place

    @briefly
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of the tasks that succeeded, if another one failed."""
        abort_tasks(messages, lambda: self.place)

    def _delete(self, tables: Iterable[pa.Table]) -> None:
        delete_written(tables, *self.place)


def abort_tasks(messages: Sequence[WriterCommitMessage | None], place: Callable[[], Place]) -> None:
    """Delete the files of the tasks that succeeded, if another one failed, which has no reply.

    If all of them succeeded, the commit was attempted, and its outcome may be unknown: nothing is deleted.
    """
    if any(message is None for message in messages):
        delete_written(_replies(messages)[0], *place())


def _replies(messages: Sequence[WriterCommitMessage | None]) -> tuple[list[pa.Table], list[Exception]]:
    return written_of_replies((message.files, message.error) for message in messages if isinstance(message, _Reply))
