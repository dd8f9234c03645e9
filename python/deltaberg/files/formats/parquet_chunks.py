"""Rows of Parquet files by the kernel, from the bytes of their column chunks, as far as it takes them.

What the kernel refuses, a damaged page among it, pyarrow reads from the first missing row on, or says what is wrong
with it: so the rows do not depend on who decodes a file. Damage between rows that nobody wants may stay unnoticed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg import kernels
from deltaberg.errors import DeltabergError
from deltaberg.files.formats.data_file import RowGroup
from deltaberg.schema.projection import tops_of

__all__ = ["ParquetChunks"]

#: Row groups are read together up to so many bytes, so that small ones make no small batches.
_TOGETHER = 32 << 20
#: Chunks that lie at most so many bytes apart are read with what is between them, if that is less than they are.
_APART = 1 << 16
#: The length of the metadata and the magic number, which end a file.
_TAIL_BYTES = 8


class ParquetChunks:
    """The column chunks of a file, which the kernel decodes.

    Parameters
    ----------
    file, parquet
        The file, and what pyarrow knows of it.
    """

    def __init__(self, file: pa.NativeFile, parquet: pq.ParquetFile) -> None:
        self._file = file
        self._parquet = parquet
        #: What the kernel knows of the file, by the leaves that it decodes, while nobody uses it.
        self._rows: dict[tuple[int, ...], kernels.ParquetRows] = {}

    def batches(
        self,
        groups: Sequence[RowGroup],
        leaves: Sequence[int],
        batch_size: int,
        threads: bool,
        kept: pa.BooleanArray | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of adjacent row groups as the kernel decodes them, up to the first that it leaves to pyarrow.

        Parameters
        ----------
        leaves
            The numbers of the wanted leaf columns, in ascending order, of which there is at least one.
        threads
            Whether several threads may decode columns.
        kept
            Which rows of the groups are wanted, if not all.
        """
        start, counts = 0, {group.number: group.rows for group in groups}
        left = sum(counts.values()) if kept is None else kept.true_count
        try:
            rows = self._rows.pop(tuple(leaves), None) or self._open(leaves)
            for numbers, blocks in _portions(rows, groups, self._file.size()):
                own = sum(counts[number] for number in numbers)
                mask = None if kept is None else kept.slice(start, own)
                start += own
                chunks = [_read(self._file, *block) for block in blocks]
                rows.begin(numbers, chunks, batch_size, 0 if threads else 1, mask)
                while (batch := rows.decode()) is not None:
                    left -= batch.num_rows
                    if left < 0:
                        return
                    yield batch
            self._rows[tuple(leaves)] = rows
        except (DeltabergError, pa.ArrowException, OSError):
            return

    def _open(self, leaves: Sequence[int]) -> kernels.ParquetRows:
        length = self._parquet.metadata.serialized_size
        footer = self._file.read_at(length, self._file.size() - length - _TAIL_BYTES)
        return kernels.ParquetRows(footer, _wanted(self._parquet, leaves), leaves)


def _wanted(parquet: pq.ParquetFile, leaves: Sequence[int]) -> pa.Schema:
    """Return the columns that hold the leaves."""
    schema = parquet.schema_arrow
    is_flat = parquet.metadata.num_columns == len(schema)
    if is_flat and len(leaves) == len(schema):
        return schema.remove_metadata()
    return pa.schema([schema.field(top) for top in (leaves if is_flat else tops_of(leaves, schema))])


_Ranges = list[tuple[int, int]]


def _portions(rows: kernels.ParquetRows, groups: Sequence[RowGroup], size: int) -> Iterator[tuple[list[int], _Ranges]]:
    """Return row groups that are read together, with the blocks of their chunks, up to one that leaves the file."""
    numbers: list[int] = []
    ranges: _Ranges = []
    total = 0
    for group in groups:
        own = rows.ranges(group.number)
        if any(begin + length > size for begin, length in own):
            break
        # What lies between the chunks is read as well, which may be as much again.
        more = 2 * sum(length for _, length in own)
        if numbers and total + more > _TOGETHER:
            yield numbers, _blocks(ranges)
            numbers, ranges, total = [], [], 0
        numbers.append(group.number)
        ranges += own
        total += more
    if numbers:
        yield numbers, _blocks(ranges)


def _blocks(ranges: _Ranges) -> _Ranges:
    """Return ranges that cover some ranges, in ascending order, with what lies between close ones."""
    blocks: _Ranges = []
    for begin, length in sorted(ranges):
        first, last = blocks[-1] if blocks else (begin, 0)
        if blocks and begin <= first + last + min(_APART, last, length):
            blocks[-1] = first, max(begin + length - first, last)
        else:
            blocks.append((begin, length))
    return blocks


def _read(file: pa.NativeFile, begin: int, length: int) -> tuple[int, pa.UInt8Array]:
    file.seek(begin)
    return begin, pa.Array.from_buffers(pa.uint8(), length, [None, file.read_buffer(length)])
