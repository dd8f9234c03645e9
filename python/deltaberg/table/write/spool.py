"""Rows that wait on disk, sorted by partition.

Rows that arrive in no order of their partitions would need an open file for each partition. Instead they are gathered
in chunks, and the rows of each chunk are stored in the order of their partitions, in blocks of one temporary file. At
the end, the rows of each partition are picked from the blocks, in the order of their arrival. As partitions are read in
the order in which they are stored, no more than a small block of each chunk is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa

from deltaberg.schema.arrow import as_batch
from deltaberg.table.sort.disk_batches import DiskBatches

__all__ = ["Spool"]

#: Bytes of a block, which ends with a partition; a partition that is larger than the second number has several.
_BLOCK, _LARGEST_BLOCK = 128 << 10, 1 << 20


class _Place(NamedTuple):
    """Rows of one partition in a block."""

    block: int
    start: int
    rows: int


class Spool:
    """Rows by the number of their partition.

    Parameters
    ----------
    schema
        The schema of the rows.
    chunk
        Bytes of rows that are gathered in memory before they are stored.
    directory
        Where rows are stored; None for the system's directory of temporary files.
    """

    def __init__(self, schema: pa.Schema, chunk: int, directory: str | None) -> None:
        self._schema = schema
        self._chunk = chunk
        self._disk = DiskBatches(
            schema,
            directory,
            rows="rows that wait for their partition",
            instead="write rows in the order of their partitions",
        )
        self._waiting: list[tuple[int, pa.RecordBatch]] = []
        self._held = 0
        #: The places of each partition's rows, in the order of their arrival.
        self._places: dict[int, list[_Place]] = {}
        #: The last partition of each block.
        self._ends: list[int] = []

    def __enter__(self) -> Spool:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.clear()
        self._disk.close()

    def add(self, partition: int, rows: pa.RecordBatch) -> None:
        """Add rows of a partition.

        Raises
        ------
        StorageError
            If the rows cannot be stored.
        """
        self._waiting.append((partition, rows))
        self._held += rows.nbytes
        if self._held >= self._chunk:
            self._store()

    def partitions(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """Return the rows of each partition, in the order in which they were added. Nothing can be added after that.

        The rows of one partition must be taken before those of the next.
        """
        kept: dict[int, list[pa.RecordBatch]] = {}
        for partition, rows in self._waiting:
            kept.setdefault(partition, []).append(rows)
        self._waiting.clear()
        blocks = _Blocks(self._disk, self._ends)
        for partition in sorted({*kept, *self._places}):
            yield partition, self._rows(partition, blocks, kept.pop(partition, []))
            blocks.drop(partition)

    def _rows(self, partition: int, blocks: _Blocks, kept: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in self._places.get(partition, ()):
            yield blocks.read(place)
        yield from kept

    def _store(self) -> None:
        """Store the rows that wait as a chunk, in the order of their partitions."""
        self._waiting.sort(key=lambda entry: entry[0])
        block: list[pa.RecordBatch] = []
        rows, size = 0, 0
        for index, (partition, batch) in enumerate(self._waiting):
            begun = batch
            while begun.num_rows:
                # A batch that is too large for the block goes on in the next one.
                room = _LARGEST_BLOCK - size
                fits = begun.num_rows if begun.nbytes <= room else max(begun.num_rows * room // begun.nbytes, 1)
                block.append(begun.slice(0, fits))
                self._places.setdefault(partition, []).append(_Place(len(self._ends), rows, fits))
                rows, size = rows + fits, size + block[-1].nbytes
                begun = begun.slice(fits)
                is_last = index + 1 == len(self._waiting)
                ends = not begun.num_rows and (is_last or self._waiting[index + 1][0] != partition)
                if size >= (_BLOCK if ends else _LARGEST_BLOCK) or (ends and is_last) or begun.num_rows:
                    self._disk.write(as_batch(block, self._schema))
                    self._ends.append(partition)
                    block, rows, size = [], 0, 0
        self._waiting, self._held = [], 0


class _Blocks:
    """The blocks of a spool, each of which is read once and kept until its last partition is done."""

    def __init__(self, source: DiskBatches, ends: list[int]) -> None:
        self._source = source
        self._ends = ends
        self._kept: dict[int, pa.RecordBatch] = {}

    def read(self, place: _Place) -> pa.RecordBatch:
        """Return the rows of a place."""
        if place.block not in self._kept:
            self._kept[place.block] = self._source.read(place.block)
        return self._kept[place.block].slice(place.start, place.rows)

    def drop(self, partition: int) -> None:
        """Forget the blocks that hold no partition after this one."""
        self._kept = {block: rows for block, rows in self._kept.items() if self._ends[block] > partition}
