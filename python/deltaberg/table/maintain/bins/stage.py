"""A folder of a table for rows that processes leave for each other: the one place that all of them reach.

What a crash leaves behind is deleted when rows are stored there again, if it is older than a day. Vacuum finds it, too,
since the name of the folder does not begin with ``_``.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from deltaberg.errors import StorageError
from deltaberg.storage.base import OutputFile, Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.listed_files import earlier_clock
from deltaberg.table.removal import FileKind, delete_files, discard_files

__all__ = ["Stage", "StagedRows", "row_streams"]

_FOLDER = "deltaberg-staged"
_STAGED = FileKind("a file of staged rows", re.compile("[0-9a-f]{32}-[0-9a-f-]{36}-[0-9]{5,}[.]arrow"))
#: Milliseconds after which nobody needs such a file any more.
_DAY = 86_400_000
#: Bytes of a stream of rows, which a process holds in memory until they are stored.
_STREAM = 32 << 20


class StagedRows(NamedTuple):
    """Rows on a stage: an Arrow stream in a part of a file.

    Parameters
    ----------
    part
        The number of what they are a part of.
    name
        The name of the file.
    start, size
        The place of the stream in it, in bytes.
    """

    part: int
    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Stage:
    """The files of one operation. It pickles.

    Parameters
    ----------
    store
        Opens the store of the table.
    folder
        The folder of all operations.
    token
        What the names of the files begin with.
    """

    store: StoreSpec
    folder: Location
    token: str

    @classmethod
    def of(cls, store: StoreSpec, root: Location) -> Stage:
        """Return the stage of a new operation, and delete what others have left, as far as the store allows it.

        Parameters
        ----------
        root
            The directory of the table.
        """
        folder = root.join(_FOLDER)
        with suppress(StorageError):
            _delete_old(store.open(folder), folder.path)
        return cls(store, folder, uuid.uuid4().hex)

    @property
    def storage(self) -> Storage:
        """The open store."""
        return self.store.open(self.folder)

    def new_name(self, number: int = 0) -> str:
        """Return a name that no file has, not even one of another attempt to store the same rows."""
        return f"{self.token}-{uuid.uuid4()}-{number:05}.arrow"

    def path(self, name: str) -> str:
        """Return the path of a file by its name."""
        return self.folder.join(name).path

    def store_rows(self, parts: Iterable[Iterable[pa.RecordBatch]], schema: pa.Schema) -> list[StagedRows]:
        """Store rows in a new file, part by part, and return where they are. Parts may be empty."""
        name, staged, size = self.new_name(), list[StagedRows](), 0
        with ExitStack() as stack:
            output: OutputFile | None = None
            for part, batches in enumerate(parts):
                for stream in row_streams(batches, schema):
                    if output is None:
                        output = stack.enter_context(self.storage.open_output(self.path(name)))
                    output.write(stream)
                    staged.append(StagedRows(part, name, size, len(stream)))
                    size += len(stream)
        return staged

    def read_rows(self, stored: Sequence[StagedRows]) -> Iterator[pa.RecordBatch]:
        """Return stored rows, in order."""
        storage = self.storage
        for one in stored:
            (stream,) = storage.get_ranges(self.path(one.name), [(one.start, one.size)])
            yield from pa.ipc.open_stream(stream)

    def clear(self) -> None:
        """Delete the files of all attempts of all processes, as far as the store allows it."""
        with suppress(StorageError):
            listed = (meta.path for meta in self.storage.list_from(self.folder.path, self.token))
            # Names come in order, so that those with the token are the first ones.
            own = itertools.takewhile(lambda path: path.rpartition("/")[2].startswith(self.token), listed)
            discard_files(self.storage, self.folder.path, own, _STAGED)


def row_streams(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    """Return rows as Arrow streams, each of which is large enough for a file of its own."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    rest = iter(batches)
    for first in rest:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=options) as writer:
            for batch in itertools.chain([first], rest):
                writer.write_batch(batch)
                if sink.tell() >= _STREAM:
                    break
        yield sink.getvalue().to_pybytes()


def _delete_old(storage: Storage, folder: str) -> None:
    now = time.time_ns() // 1_000_000
    old = [meta for meta in storage.list_from(folder) if meta.modified < now - _DAY]
    if old:
        # The store is asked for its time only where it matters: this machine's clock may be ahead of it.
        before = earlier_clock(storage, folder) - _DAY
        paths = [meta.path for meta in old if meta.modified < before]
        reason = "an operation that was killed a day ago or earlier left it"
        delete_files(storage, folder, paths, _STAGED, reason).or_raise()
