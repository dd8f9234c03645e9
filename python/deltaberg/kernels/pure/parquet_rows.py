"""Rows of Parquet files, decoded by pyarrow from the bytes of their column chunks.

This one reads whatever pyarrow does. The compiled one refuses what is unusual, and never reads what pyarrow refuses.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.errors import CorruptDataFileError, InvalidArgumentError

__all__ = ["ParquetRows"]

_MAGIC = b"PAR1"


class ParquetRows:
    """A Parquet file of which some columns are read.

    Parameters
    ----------
    footer
        The metadata at the end of the file, without its length and the magic number.
    schema
        The columns that hold the wanted leaves, with the types that they are read as: those that pyarrow finds.
    leaves
        The numbers of the wanted leaf columns, in ascending order.
    """

    def __init__(self, footer: bytes, schema: pa.Schema, leaves: Sequence[int]) -> None:
        self._end = footer + len(footer).to_bytes(4, "little") + _MAGIC
        self._leaves = list(leaves)
        self._batches: Iterator[pa.RecordBatch] = iter(())
        file = self._open([])
        self._metadata = file.metadata
        if not self._leaves or sorted(self._leaves) != self._leaves or self._leaves[-1] >= self._metadata.num_columns:
            raise InvalidArgumentError("the file has no such columns, or not in this order")
        own = list(file.schema_arrow)
        if any(column not in own for column in schema):
            raise CorruptDataFileError("a column is not of the type that it is to be read as")

    def ranges(self, group: int) -> list[tuple[int, int]]:
        """Return where the chunk of each wanted leaf begins in a row group, and how many bytes it has."""
        self._check([group])
        columns = map(self._metadata.row_group(group).column, self._leaves)
        return [(_begin(column), column.total_compressed_size) for column in columns]

    def begin(
        self,
        groups: Sequence[int],
        blocks: Sequence[tuple[int, pa.UInt8Array]],
        batch_size: int,
        threads: int = 1,
        kept: pa.BooleanArray | None = None,
    ) -> None:
        """Begin to read row groups from blocks of bytes that hold their chunks: the rows that a mask keeps, or all."""
        self._check(groups, batch_size)
        rows = sum(self._metadata.row_group(group).num_rows for group in groups)
        if kept is not None and (len(kept) != rows or kept.null_count):
            raise InvalidArgumentError("the mask is not of the rows of the row groups")
        file = self._open(sorted(((begin, bytes(values.buffers()[1] or b"")) for begin, values in blocks)))
        batches = file.iter_batches(batch_size, list(groups), use_threads=threads != 1, columns=self._paths(file))
        self._batches = batches if kept is None else _kept(batches, kept)

    def decode(self) -> pa.RecordBatch | None:
        """Decode the next rows; None after the last."""
        try:
            return next(self._batches, None)
        except (pa.ArrowException, OSError) as error:
            raise CorruptDataFileError(str(error)) from error

    def _paths(self, file: pq.ParquetFile) -> list[str]:
        return [file.schema.column(leaf).path for leaf in self._leaves]

    def _check(self, groups: Sequence[int], batch_size: int = 1) -> None:
        if batch_size < 1 or any(group >= self._metadata.num_row_groups for group in groups):
            raise InvalidArgumentError("the file has no such row group")

    def _open(self, chunks: list[tuple[int, bytes]]) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(pa.PythonFile(_Chunks(chunks, self._end), "r"), coerce_int96_timestamp_unit="us")
        except (pa.ArrowException, OSError) as error:
            raise CorruptDataFileError(str(error)) from error


def _kept(batches: Iterator[pa.RecordBatch], mask: pa.BooleanArray) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        chosen = batch.filter(mask.slice(start, batch.num_rows))
        start += batch.num_rows
        if chosen.num_rows:
            yield chosen


def _begin(column: pq.ColumnChunkMetaData) -> int:
    begin: int = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    return begin


class _Chunks(io.RawIOBase):
    """A file of which only some ranges and the end are known."""

    def __init__(self, chunks: list[tuple[int, bytes]], end: bytes) -> None:
        super().__init__()
        last = sum((chunks[-1][0], len(chunks[-1][1]))) if chunks else 0
        self._parts = [*chunks, (last, end)]
        self._begins = [begin for begin, _ in self._parts]
        self._size = last + len(end)
        self._at = 0

    def readable(self) -> bool:
        """Tell that the file can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that reading can begin anywhere."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._at

    def seek(self, to: int, whence: int = 0) -> int:
        """Move to a place."""
        self._at = to + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read from here on; unknown bytes are zeros."""
        stop = self._size if size < 0 else min(self._at + size, self._size)
        read = bytearray(max(stop - self._at, 0))
        for begin, part in self._parts[max(bisect_right(self._begins, self._at) - 1, 0) :]:
            if begin >= stop:
                break
            first = max(self._at - begin, 0)
            piece = part[first : max(stop - begin, first)]
            at = begin + first - self._at
            read[at : at + len(piece)] = piece
        self._at = max(stop, self._at)
        return bytes(read)
