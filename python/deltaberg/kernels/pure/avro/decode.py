"""Decoding the blocks of an Avro file, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, TooLargeError
from deltaberg.kernels.pure.avro.codec import check_codec, decompress
from deltaberg.kernels.pure.avro.columns import Column, weight
from deltaberg.kernels.pure.avro.cursor import Cursor
from deltaberg.kernels.pure.avro.plan import compile_node
from deltaberg.kernels.pure.avro.skip import least_bytes
from deltaberg.kernels.results import AvroNode, empty_batch

__all__ = ["Memory", "decode_avro", "expand", "in_block", "table_of"]

_MOST_EMPTY_ROWS = 1 << 24


def decode_avro(
    data: bytes,
    blocks: Sequence[tuple[int, int, int]],
    codec: str,
    node: AvroNode,
    schema: pa.Schema,
    limits: tuple[int, int | None] | None = None,
) -> pa.Table:
    """Decode blocks of an Avro file.

    Parameters
    ----------
    data
        The file.
    blocks
        Of each block, the offset of its data, their size in bytes as compressed, and the number of its rows.
    codec
        ``null``, ``deflate``, ``snappy`` or ``zstandard``.
    node
        The record of the writer's schema. The slots of its fields are columns of ``schema``; a field without one is
        skipped.
    schema
        The columns of the result. Those that no field fills are null.
    limits
        The number of threads, which this twin ignores; and the most memory in bytes, by and large, of the values and an
        eighth of what blocks decompress to. None for any.
    """
    check_codec(codec)
    root = pa.struct(list(schema))
    column = compile_node(node, root, 0)
    least, memory = least_bytes(node, 0), Memory(limits, root)
    for number, block in enumerate(blocks):
        with in_block(number):
            cursor = Cursor(expand(data, block, codec, least, memory), memory.room)
            cursor.spend(block[2] * memory.weight)
            for _ in range(block[2]):
                column.read(cursor)
            cursor.end()
            memory.room = cursor.room
    return table_of(column, schema, len(blocks) - 1)


class Memory:
    """The memory that the values of a file may still take, and what a row of them takes at least."""

    def __init__(self, limits: tuple[int, int | None] | None, rows: pa.StructType) -> None:
        most = None if limits is None else limits[1]
        self.room = inf if most is None else most
        self.weight = weight(rows)


@contextmanager
def in_block(number: int) -> Iterator[None]:
    """Name the block in errors."""
    try:
        yield
    except (CorruptAvroError, TooLargeError) as error:
        raise error.with_context(block=str(number)) from None
    except RecursionError:
        raise CorruptAvroError("the values are nested too deeply", block=str(number)) from None


def expand(data: bytes, block: tuple[int, int, int], codec: str, least: int, memory: Memory) -> bytes:
    """Return the rows of a block without compression, after a check that there can be so many."""
    offset, size, rows = block
    stored = data[offset : offset + size]
    if len(stored) != size:
        raise CorruptAvroError("the file ends inside a block")
    raw = decompress(stored, codec)
    if rows * least > len(raw) or (not least and rows > _MOST_EMPTY_ROWS):
        raise CorruptAvroError("a block has fewer bytes than its rows need")
    # Bytes that are not kept take time all the same.
    cursor = Cursor(b"", memory.room)
    cursor.spend(len(raw) // 8)
    memory.room = cursor.room
    return raw


def table_of(column: Column, schema: pa.Schema, last: int) -> pa.Table:
    """Return the rows that were read. Errors name the last block: only the whole of the values is checked."""
    rows = len(column)
    try:
        arrays = column.children_arrays(rows)
    except CorruptAvroError as error:
        raise error.with_context(block=str(last)) from None
    except (pa.ArrowInvalid, UnicodeDecodeError, OverflowError) as error:
        raise CorruptAvroError(f"the values do not fit their types: {error}", block=str(last)) from error
    if not arrays and rows:
        return pa.Table.from_batches([empty_batch(rows)])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(arrays, schema=schema)] if rows else [], schema)
