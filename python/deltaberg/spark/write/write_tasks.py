"""The code that writes rows in Spark's Python workers: batches arrive, and descriptions of written files leave.

A task that is retried, or runs twice, writes files of its own names. Only those that the driver hears of are committed.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.staged import delete_written
from deltaberg.table.write.write import write_files

__all__ = ["REPLY_SCHEMA", "FusedWriteTask", "WriteTask", "collected_files", "written_of_replies"]

#: What a task replies, as DDL: the rows that describe its files as an Arrow stream, or the error that it met.
REPLY_SCHEMA = "files binary, error binary"
#: Bytes of rows that wait in each worker, of which several run on a machine.
_MEMORY = 128 << 20
_REPLY = pa.schema([("files", pa.binary()), ("error", pa.binary())])


@dataclass(frozen=True)
class WriteTask:
    """Writes the rows of a task to data files inside `mapInArrow`.

    Parameters
    ----------
    spec
        What the table asks for.
    store
        Opens the store of the table.
    root
        The directory of the table.
    names
        The names of the columns, in the order in which they arrive.
    """

    spec: WriteSpec
    store: StoreSpec
    root: Location
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows, and reply which files hold them. Without rows there is no reply.

        Errors that another attempt would meet again are part of the reply, so that Spark does not try again, and the
        driver can raise them as they are. If the store fails, the task fails, and Spark tries again.
        """
        rows = (batch.rename_columns(list(self.names)) for batch in batches)
        try:
            first = next((batch for batch in rows if batch.num_rows), None)
            if first is None:
                return
            reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], rows))
            spec = replace(self.spec, memory=min(self.spec.memory, _MEMORY))
            files = write_files(reader, spec, self.store.open(self.root), self.root.path, threads=1)
        except StorageError:
            raise
        except DeltabergError as error:
            yield _reply(error=pickle.dumps(error))
            return
        yield _reply(files=_stream(files))


@dataclass(frozen=True)
class FusedWriteTask:
    """Reads tasks of a scan, runs a user's function over their rows, and writes what it yields, in one `mapInArrow`."""

    read: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    write: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write what the function yields, and reply which files hold it."""
        yield from self.write(self.read(batches))


def written_of_replies(replies: Iterable[tuple[bytes | None, bytes | None]]) -> tuple[list[pa.Table], list[Exception]]:
    """Return the files of all replies, a table for each task that wrote some, and the errors that tasks met."""
    tables, errors = [], []
    for files, error in replies:
        if error is not None:
            # Our own workers sent it.
            errors.append(pickle.loads(error))  # noqa: S301
        elif files is not None:
            tables.append(pa.ipc.open_stream(files).read_all())
    return tables, errors


def collected_files(
    replies: Iterable[tuple[bytes | None, bytes | None]], store: StoreSpec, root: Location
) -> list[pa.Table]:
    """Return the files of all replies. If a task met an error, delete the files of the others, and raise it."""
    tables, errors = written_of_replies(replies)
    if errors:
        delete_written(tables, store, root)
        raise errors[0]
    return tables


def _reply(files: bytes | None = None, error: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([files], pa.binary()), pa.array([error], pa.binary())], schema=_REPLY)


def _stream(files: pa.Table) -> bytes:
    """Return a table as bytes. Statistics of files are alike, so that those of 100,000 files become few bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, files.schema, options=options) as writer:
        writer.write_table(files)
    found: bytes = sink.getvalue().to_pybytes()
    return found
