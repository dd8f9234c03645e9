"""Rows of Parquet files by the kernel, from the bytes of their column chunks, as far as it takes them.

What the kernel refuses, a damaged page among it, pyarrow reads from the first missing row on, or says what is wrong
with it: so the rows and the errors of a file do not depend on who decodes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.errors import DeltabergError
from deltaberg.files.formats.data_file import RowGroup
from deltaberg.schema.projection import tops_of

__all__ = ["kernel_batches"]

#: Row groups are read together up to so many bytes, so that small ones make no small batches.
_TOGETHER = 32 << 20
#: The length of the metadata and the magic number, which end a file.
_TAIL_BYTES = 8
#: The types that both decoders read alike.
_KNOWN = (
    *(pt.is_boolean, pt.is_signed_integer, pt.is_float32, pt.is_float64, pt.is_date32),
    *(pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_decimal128),
)


def kernel_batches(
    file: pa.NativeFile,
    parquet: pq.ParquetFile,
    groups: Sequence[RowGroup],
    leaves: Sequence[int],
    batch_size: int,
    threads: bool,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of adjacent row groups as the kernel decodes them, up to the first one that it leaves to pyarrow.

    Parameters
    ----------
    file, parquet
        The file, and what pyarrow knows of it.
    leaves
        The numbers of the wanted leaf columns, of which there is at least one.
    threads
        Whether several threads may decode columns.
    """
    left = sum(group.rows for group in groups)
    try:
        wanted = _wanted(parquet, leaves)
        if wanted is None:
            return
        size, length = file.size(), parquet.metadata.serialized_size
        footer = file.read_at(length, size - length - _TAIL_BYTES)
        rows = kernels.ParquetRows(footer, wanted, leaves)
        for numbers, ranges in _portions(rows, groups, size):
            rows.begin(numbers, [_chunk(file, *one) for one in ranges], batch_size, 0 if threads else 1)
            while (batch := rows.decode()) is not None:
                left -= batch.num_rows
                if left < 0:
                    return
                yield batch
    except (DeltabergError, pa.ArrowException, OSError, UnicodeDecodeError):
        return


def _wanted(parquet: pq.ParquetFile, leaves: Sequence[int]) -> pa.Schema | None:
    """Return the columns that hold the leaves; None if the kernel does not take one of them."""
    schema = parquet.schema_arrow
    # In wide files without nested columns, the leaves are the columns.
    is_flat = parquet.metadata.num_columns == len(schema)
    fields = [schema.field(top) for top in (leaves if is_flat else tops_of(leaves, schema))]
    return pa.schema(fields) if all(_is_known(child.type) for child in fields) else None


def _is_known(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return all(_is_known(child.type) for child in kind)
    if pt.is_timestamp(kind):
        # Damage may have left a time zone that is not UTF-8, which pyarrow says here.
        return kind.tz is None or kind.tz.isprintable()
    return any(is_one(kind) for is_one in _KNOWN) and not isinstance(kind, pa.BaseExtensionType)


_Ranges = list[tuple[int, int]]


def _portions(rows: kernels.ParquetRows, groups: Sequence[RowGroup], size: int) -> Iterator[tuple[list[int], _Ranges]]:
    """Return row groups that are read together, with the ranges of their chunks, up to one that leaves the file."""
    numbers: list[int] = []
    ranges: _Ranges = []
    for group in groups:
        own = rows.ranges(group.number)
        if any(begin + length > size for begin, length in own):
            break
        if numbers and sum(length for _, length in (*ranges, *own)) > _TOGETHER:
            yield numbers, ranges
            numbers, ranges = [], []
        numbers.append(group.number)
        ranges += own
    if numbers:
        yield numbers, ranges


def _chunk(file: pa.NativeFile, begin: int, length: int) -> tuple[int, pa.UInt8Array]:
    file.seek(begin)
    return begin, pa.Array.from_buffers(pa.uint8(), length, [None, file.read_buffer(length)])
