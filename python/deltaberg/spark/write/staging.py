"""Rows of a Spark DataFrame that the driver reads, once and in bounded memory, such as the source of a merge.

Spark's tasks store them as Arrow streams in a folder of the table, in the one place that both sides reach. The driver
reads these files one after another, and deletes them. What a crash leaves behind is deleted when rows are stored again,
if it is older than a day; vacuum finds it, too, since the name of the folder does not begin with ``_``.
"""

from __future__ import annotations

import itertools
import pickle
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.rows.conform import Conformer
from deltaberg.schema.types import Struct
from deltaberg.storage.base import Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.listed_files import earlier_clock
from deltaberg.table.removal import FileKind, delete_files, discard_files

__all__ = ["STAGED_SCHEMA", "StageTask", "delete_staged", "new_stage", "staged_rows"]

#: The folder of a table that rows are stored in.
_FOLDER = "deltaberg-staged"
_STAGED = FileKind("a file of staged rows", re.compile("[0-9a-f]{32}-[0-9a-f-]{36}-[0-9]{5,}[.]arrow"))
#: Milliseconds after which nobody needs such a file any more.
_DAY = 86_400_000

#: What a task replies, as DDL: the name of a file, or the error that it met.
STAGED_SCHEMA = "name string, error binary"
#: Bytes of rows in a file, which a task holds in memory until they are written.
_FILE = 32 << 20
_REPLY = pa.schema([("name", pa.string()), ("error", pa.binary())])


@dataclass(frozen=True)
class StageTask:
    """Stores the rows of a task inside `mapInArrow`.

    Parameters
    ----------
    store
        Opens the store of the table.
    folder
        The folder of staged rows.
    token
        What the names of all files begin with.
    columns
        The columns, in the order in which they arrive.
    """

    store: StoreSpec
    folder: Location
    token: str
    columns: Struct

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Store the rows, and reply with the name of each file.

        Errors that another attempt would meet again are part of the reply. If the store fails, Spark tries again.
        """
        try:
            for number, rows in enumerate(_streams(self._conformed(batches), arrow_schema(self.columns))):
                name = f"{self.token}-{uuid.uuid4()}-{number:05}.arrow"
                self.store.open(self.folder).put(self.folder.join(name).path, rows)
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


def new_stage(store: StoreSpec, root: Location, columns: Struct) -> StageTask:
    """Return a task that stores rows in a table, and delete what others have left there, as far as the store allows it.

    Parameters
    ----------
    root
        The directory of the table.
    columns
        The columns, in the order in which they arrive.
    """
    folder = root.join(_FOLDER)
    with suppress(StorageError):
        _delete_old(store.open(folder), folder.path)
    return StageTask(store, folder, uuid.uuid4().hex, columns)


def _delete_old(storage: Storage, folder: str) -> None:
    now = time.time_ns() // 1_000_000
    old = [meta for meta in storage.list_from(folder) if meta.modified < now - _DAY]
    if old:
        # The store is asked for its time only where it matters: this machine's clock may be ahead of it.
        before = earlier_clock(storage, folder) - _DAY
        paths = [meta.path for meta in old if meta.modified < before]
        delete_files(storage, folder, paths, _STAGED, "a merge that was killed a day ago or earlier left it").or_raise()


def _streams(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    """Return batches as Arrow streams, each of which is large enough for a file of its own."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for first in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=options) as writer:
            for batch in itertools.chain([first], batches):
                writer.write_batch(batch)
                if sink.tell() >= _FILE:
                    break
        yield sink.getvalue().to_pybytes()


def staged_rows(task: StageTask, replies: Sequence[tuple[str | None, bytes | None]]) -> pa.RecordBatchReader:
    """Return the rows of the files that tasks replied, one batch at a time; raise what a task met."""
    for _, error in replies:
        if error is not None:
            # Our own workers sent it.
            raise pickle.loads(error)  # noqa: S301
    names = [name for name, _ in replies if name is not None]
    store = task.store.open(task.folder)

    def batches() -> Iterator[pa.RecordBatch]:
        for name in names:
            with store.open(task.folder.join(name).path) as file, pa.ipc.open_stream(file) as stream:
                yield from stream

    return pa.RecordBatchReader.from_batches(arrow_schema(task.columns), batches())


def delete_staged(task: StageTask) -> None:
    """Delete the files of all attempts of all tasks, as far as the store allows it."""
    with suppress(StorageError):
        store = task.store.open(task.folder)
        place = task.folder.path
        listed = (meta.path for meta in store.list_from(place, task.token))
        # Names come in order, so that those with the token are the first ones.
        own = itertools.takewhile(lambda path: path.rpartition("/")[2].startswith(task.token), listed)
        discard_files(store, place, own, _STAGED)


def _reply(name: str | None = None, error: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([name], pa.string()), pa.array([error], pa.binary())], schema=_REPLY)
