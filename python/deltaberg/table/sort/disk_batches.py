"""Batches that wait on disk, in a temporary file."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

import pyarrow as pa

from deltaberg.errors import StorageError

__all__ = ["DiskBatches"]


class DiskBatches:
    """Batches in a temporary file, which is made with the first of them, and read once all are written.

    Parameters
    ----------
    schema
        The schema of the batches.
    directory
        Where the file is made, in a folder of its own; None for the system's directory of temporary files.
    rows
        What the rows are, for the error where the disk takes no more of them.
    instead
        What would need no such file, for the hint of that error.
    compression
        The codec of the file, ``lz4`` or ``zstd``; None stores batches as they are.

    Examples
    --------
    >>> batches = DiskBatches(pa.schema([("x", pa.int64())]), None)
    >>> batches.write(pa.record_batch({"x": [1]})), batches.write(pa.record_batch({"x": [2]}))
    (0, 1)
    >>> batches.read(1)["x"].to_pylist()
    [2]
    >>> batches.close()
    """

    def __init__(
        self,
        schema: pa.Schema,
        directory: str | None,
        *,
        rows: str = "rows that are needed again",
        instead: str | None = None,
        compression: str | None = None,
    ) -> None:
        self._schema = schema
        self._parent = directory
        self._rows = rows
        self._instead = instead
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._path: str | None = None
        self._resources = ExitStack()
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._reader: pa.ipc.RecordBatchFileReader | None = None
        #: The number of batches.
        self.count = 0

    def write(self, batch: pa.RecordBatch) -> int:
        """Add a batch, and return its number.

        Raises
        ------
        StorageError
            The batch cannot be stored.
        """
        try:
            if self._writer is None:
                folder = tempfile.TemporaryDirectory(prefix="deltaberg-", dir=self._parent, ignore_cleanup_errors=True)
                self._path = os.path.join(self._resources.enter_context(folder), "rows.arrow")
                sink = self._resources.enter_context(pa.OSFile(self._path, "wb"))
                self._writer = pa.ipc.new_file(sink, self._schema, options=self._options)
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._failed(error) from error
        self.count += 1
        return self.count - 1

    def read(self, number: int) -> pa.RecordBatch:
        """Return a batch; nothing can be written after that.

        Raises
        ------
        StorageError
            The batch cannot be read.
        """
        try:
            if self._reader is None:
                if self._writer is not None:
                    self._writer.close()
                self._reader = pa.ipc.open_file(self._resources.enter_context(pa.OSFile(self._path, "rb")))
            return self._reader.get_batch(number)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Remove the file."""
        self._resources.close()

    def _failed(self, error: OSError) -> StorageError:
        room = "make room for temporary files"
        return StorageError(
            f"{self._rows} cannot be stored: {error.strerror or error}",
            hint=f"{room}, or set TMPDIR" if self._instead is None else f"{room}, set TMPDIR, or {self._instead}",
            path=self._path or self._parent,
        )
