"""Rolling: rows of one partition go into row groups, and those into files of the target size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from deltaberg.files.write.write_parquet import DataFile
from deltaberg.files.write.written import WrittenFile
from deltaberg.schema.arrow import copied
from deltaberg.schema.types import Struct
from deltaberg.table.write.encoding import EncodingPool, Job

__all__ = ["PartitionWriter", "Sizes", "Trail", "copied_together"]

#: A file with this share of the target size is full.
_FULL = 0.9
#: Rows of a chunk that is worth copying with others into one, and bytes of such a copy at most.
_SMALL_CHUNK, _LARGEST_COPY = 16_384, 256 << 20
#: Before anything is encoded, rows are assumed to shrink to this share of their bytes in memory.
_FIRST_GUESS = 0.5


@dataclass
class Sizes:
    """How large row groups and files become, learnt from those that were written.

    Parameters
    ----------
    target
        Bytes of a file.
    row_group
        Bytes of a row group in a file.
    most
        Bytes of a row group in memory at most.
    """

    target: int
    row_group: int
    most: int
    ratio: float = _FIRST_GUESS
    is_known: bool = False
    #: Bytes of rows that wait in all writers to be put into row groups.
    held: int = 0

    def learn(self, in_memory: int, in_file: int) -> None:
        """Take note of a row group."""
        if in_memory:
            self.ratio = max(in_file / in_memory, 1e-6)
            self.is_known = True

    def wanted(self, written: float, *, whole: bool = False) -> int:
        """Return the bytes in memory of the next row group of a file that has so many bytes, or of a whole file."""
        goal = max(self.target - written, 1) if whole else min(self.row_group, max(self.target - written, 1))
        if not self.is_known and not whole:
            # A small first row group shows how well the rows compress.
            goal = min(goal, max(self.target // 8, 1))
        return max(min(int(goal / self.ratio), self.most), 1)


class Trail(Protocol):
    """Receives the new place of each written row. Rows may have helper columns for it, which files do not hold."""

    @property
    def columns(self) -> Struct:
        """The helper columns that the trail needs, after the columns of the table."""

    def note(self, path: str, rows: pa.Table) -> None:
        """Take note of the next rows of a file, by its path relative to the table."""


@dataclass
class _OpenFile:
    file: DataFile
    #: Bytes in the file as far as they are known, and as estimated for row groups that are still being encoded.
    size: float = 0
    last: Job[Any] | None = None
    groups: list[tuple[Job[int], int, float]] = field(default_factory=list)


@dataclass(eq=False)
class PartitionWriter:
    """Writes the rows of one partition.

    Parameters
    ----------
    pool
        Encodes row groups.
    sizes
        What is known of sizes; shared by the writers of one call.
    values
        The partition values by name.
    new_file
        Makes a new file of the partition.
    sort
        Sorts the rows of a file, which then wait in memory until the file is full, as far as memory allows; None if
        rows stay in their order.
    trail
        What is told which rows go to which file.
    most_rows
        How many rows a file has at most; None if its bytes alone count.
    """

    pool: EncodingPool
    sizes: Sizes
    values: Mapping[str, pa.Scalar]
    new_file: Callable[[], DataFile]
    sort: Callable[[pa.Table], pa.Table] | None = None
    trail: Trail | None = None
    most_rows: int | None = None
    #: Bytes of rows that wait to be put into a row group.
    held: int = field(default=0, init=False)
    #: The files that are finished, or will be.
    written: list[Job[WrittenFile]] = field(default_factory=list, init=False)
    #: Rows of the open file, those that wait among them.
    _rows: int = field(default=0, init=False)
    _open: _OpenFile | None = field(default=None, init=False)
    _waiting: list[pa.RecordBatch] = field(default_factory=list, init=False)
    #: The columns, by their names in files, in which -0.0 has come.
    _negative_zeros: frozenset[str] = field(default=frozenset(), init=False)

    @property
    def is_begun(self) -> bool:
        """Whether there is a file."""
        return self._open is not None or bool(self.written)

    def take_waiting(self) -> list[pa.RecordBatch]:
        """Return the waiting rows, which are then not written here."""
        waiting, self._waiting = self._waiting, []
        self.sizes.held -= self.held
        self.held = 0
        self._rows -= sum(batch.num_rows for batch in waiting)
        return waiting

    def copy_waiting(self) -> None:
        """Copy the waiting rows, so that batches of which they are slices need not stay in memory."""
        if self._waiting:
            self._waiting = copied_together(self._waiting)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        while batch.num_rows:
            size = batch.nbytes
            room = self._wanted() - self.held
            fits = size <= room or batch.num_rows == 1
            taken = batch.num_rows if fits else max(batch.num_rows * max(room, 0) // size, 1)
            if self.most_rows is not None:
                taken = min(taken, self.most_rows - self._rows)
            part = batch
            if taken < batch.num_rows:
                part = batch.slice(0, taken)
                size = part.nbytes
            self._waiting.append(part)
            self._rows += taken
            self.held += size
            self.sizes.held += size
            batch = batch.slice(taken)
            is_full = self._rows == self.most_rows
            if self.held >= self._wanted() or batch.num_rows or is_full:
                self.flush()
            if is_full and self._open is not None:
                self._finish(self._open)

    def flush(self) -> None:
        """Put the rows that wait into a row group, and finish the file if that makes it full."""
        if not self._waiting:
            return
        held, count = self.held, self._rows
        rows = _put_together(self.take_waiting())
        self._rows = count
        if self.sort is None:
            self._write(rows, held)
            return
        # The whole file is here, since rows that come later may belong before these.
        rows = self.sort(rows).combine_chunks()
        groups = max(-(-held // self.sizes.wanted(0)), 1)
        size = max(-(-rows.num_rows // groups), 1)
        for start in range(0, rows.num_rows, size):
            self._write(rows.slice(start, size), held // groups)
        if self._open is not None:
            self._finish(self._open)

    def _write(self, rows: pa.Table, held: int) -> None:
        """Put rows, which have so many bytes, into a row group, and finish the file if that makes it full."""
        if self._open is None:
            self._open = _OpenFile(self.new_file())
        current = self._settled_for(rows, self._open)
        if self.trail is not None:
            self.trail.note(current.file.path, rows)
        estimate = held * self.sizes.ratio
        job = self.pool.submit(current.last, held, partial(current.file.write, rows))
        current.last = job
        current.groups.append((job, held, estimate))
        current.size += estimate
        if not self.sizes.is_known:
            job.result()
        self._settle(current)
        if current.size >= _FULL * self.sizes.target and self.sort is None:
            self._finish(current)

    def _settled_for(self, rows: pa.Table, current: _OpenFile) -> _OpenFile:
        """Return the file that rows go to: a new one if they hold -0.0 in a column that has a dictionary for it."""
        zeros = current.file.negative_zeros(rows)
        self._negative_zeros |= zeros
        if current.last is not None and not zeros <= current.file.may_hold_negative_zero:
            self._finish(current)
            self._open = current = _OpenFile(self.new_file())
            self._rows = rows.num_rows
        if current.last is None:
            current.file.may_hold_negative_zero = self._negative_zeros
        return current

    def close(self) -> None:
        """Write what waits, and finish the file."""
        self.flush()
        if self._open is not None:
            self._finish(self._open)

    def _wanted(self) -> int:
        """Return the bytes in memory that are written at once: a row group, or a file whose rows are sorted."""
        return self.sizes.wanted(self._size(), whole=self.sort is not None)

    def _size(self) -> float:
        return 0 if self._open is None else self._settle(self._open)

    def _settle(self, current: _OpenFile) -> float:
        """Replace estimates by the sizes of row groups that were encoded."""
        while current.groups and current.groups[0][0].is_done:
            job, held, estimate = current.groups.pop(0)
            size = job.result()
            self.sizes.learn(held, size)
            current.size += size - estimate
        return current.size

    def _finish(self, current: _OpenFile) -> None:
        self.written.append(self.pool.submit(current.last, 0, current.file.finish))
        self._open = None
        self._rows = 0


def copied_together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return a copy of the rows of batches, in as few batches as their columns allow."""
    if len(batches) == 1:
        return [copied(batches[0])]
    copy: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return copy


def _put_together(batches: list[pa.RecordBatch]) -> pa.Table:
    """Return the rows of batches. What looks at rows pays for each chunk, so that small ones are copied together.

    They stay far from the 2 GiB that a chunk of texts can hold.
    """
    rows = pa.Table.from_batches(batches)
    if len(batches) > 1 and rows.num_rows < len(batches) * _SMALL_CHUNK and rows.nbytes < _LARGEST_COPY:
        return rows.combine_chunks()
    return rows
