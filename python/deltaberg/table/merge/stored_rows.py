"""Rows that are read more than once: in memory as long as they are few, and on disk beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import TooLargeError
from deltaberg.schema.arrow import as_batch
from deltaberg.table.sort.disk_batches import DiskBatches

__all__ = ["FileRows", "StoredRows"]


class StoredRows:
    """Rows in the order in which they were added.

    Parameters
    ----------
    schema
        The schema of the rows.
    memory
        Bytes of rows that are kept in memory at most; beyond that, all are on disk.
    directory
        Where rows are stored on disk; None for the system's directory of temporary files.
    compression
        The codec of rows on disk; see `DiskBatches`.

    Examples
    --------
    >>> with StoredRows(pa.schema([("x", pa.int64())]), memory=1) as rows:
    ...     rows.add(pa.record_batch({"x": [1, 2]}))
    ...     [batch["x"].to_pylist() for batch in rows.batches()], rows.count, rows.is_on_disk
    ([[1, 2]], 2, True)
    """

    def __init__(
        self, schema: pa.Schema, memory: int, directory: str | None = None, compression: str | None = None
    ) -> None:
        self.schema = schema
        self._memory = memory
        self._kept: list[pa.RecordBatch] = []
        self._disk = DiskBatches(schema, directory, compression=compression)
        #: The number of rows, and their bytes.
        self.count = 0
        self.nbytes = 0

    def __enter__(self) -> StoredRows:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget the rows."""
        self._kept.clear()
        self._disk.close()

    @property
    def is_on_disk(self) -> bool:
        """Whether the rows are on disk."""
        return self._disk.count > 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. Nothing can be added once rows were read from disk.

        Raises
        ------
        StorageError
            The rows cannot be stored.
        """
        if not batch.num_rows:
            return
        self.count += batch.num_rows
        self.nbytes += batch.nbytes
        if self.is_on_disk:
            self._disk.write(batch)
            return
        self._kept.append(batch)
        if self.nbytes > self._memory:
            for kept in self._kept:
                self._disk.write(kept)
            self._kept.clear()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows in the batches in which they were added."""
        yield from self._kept
        for number in range(self._disk.count):
            yield self._disk.read(number)

    def whole(self) -> pa.RecordBatch:
        """Return all rows as one batch in memory."""
        return as_batch(list(self.batches()), self.schema)


class FileRows:
    """Rows about the rows of files: by the number of the file, and ordered by the position in it.

    Parameters
    ----------
    schema
        The schema of the rows, whose first column is the position in the file.
    memory
        Bytes of rows that wait in memory at most before they are stored on disk.
    directory
        As for `StoredRows`.

    Examples
    --------
    >>> with FileRows(pa.schema([("position", pa.int64()), ("x", pa.string())]), memory=1 << 20) as rows:
    ...     rows.add(7, pa.record_batch({"position": [5], "x": ["b"]}))
    ...     rows.add(7, pa.record_batch({"position": [2], "x": ["a"]}))
    ...     rows.of_file(7).to_pylist()
    [{'position': 2, 'x': 'a'}, {'position': 5, 'x': 'b'}]
    """

    def __init__(self, schema: pa.Schema, memory: int, directory: str | None = None) -> None:
        self.schema = schema
        self._memory = memory
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._held = 0
        self._places: dict[int, list[int]] = {}
        self._disk = DiskBatches(schema, directory)
        self._last: tuple[int, pa.RecordBatch] | None = None

    def __enter__(self) -> FileRows:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.clear()
        self._last = None
        self._disk.close()

    def add(self, number: int, batch: pa.RecordBatch) -> None:
        """Add rows of a file.

        Raises
        ------
        StorageError
            The rows cannot be stored.
        """
        self._waiting.setdefault(number, []).append(batch)
        self._held += batch.nbytes
        if self._held > self._memory:
            for waiting, batches in self._waiting.items():
                place = self._disk.write(as_batch(batches, self.schema))
                self._places.setdefault(waiting, []).append(place)
            self._waiting, self._held = {}, 0

    def of_file(self, number: int) -> pa.RecordBatch:
        """Return the rows of a file, ordered by position. Nothing can be added after that.

        Raises
        ------
        TooLargeError
            A column of these rows has more than 2 GiB of text or bytes.
        """
        if self._last is None or self._last[0] != number:
            batches = [self._disk.read(place) for place in self._places.get(number, ())]
            try:
                rows = as_batch([*batches, *self._waiting.get(number, ())], self.schema)
            except TooLargeError as error:
                error.hint = "change the rows of the file in several steps, each with a part of them"
                raise
            positions = rows.column(0)
            before, after = positions.slice(0, max(len(positions) - 1, 0)), positions.slice(1)
            if not pc.all(pc.less_equal(before, after), min_count=0).as_py():
                rows = rows.take(pc.sort_indices(positions))
            self._last = number, rows
        return self._last[1]
