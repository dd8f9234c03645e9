"""Decoding the blocks of an Avro file, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, TooLargeError
from deltaberg.kernels.pure.avro.codec import check_codec, decompress
from deltaberg.kernels.pure.avro.columns import Column
from deltaberg.kernels.pure.avro.cursor import Cursor
from deltaberg.kernels.pure.avro.plan import compile_node
from deltaberg.kernels.pure.avro.skip import least_bytes
from deltaberg.kernels.results import AvroNode, empty_batch

__all__ = ["decode_avro", "expand", "in_block", "table_of"]

_MOST_EMPTY_ROWS = 1 << 24


def decode_avro(
    data: bytes,
    blocks: Sequence[tuple[int, int, int]],
    codec: str,
    node: AvroNode,
    schema: pa.Schema,
    threads: int = 0,
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
    threads
        Ignored by this twin.
    """
    check_codec(codec)
    root = pa.struct(list(schema))
    column = compile_node(node, root, 0)
    least = least_bytes(node, 0)
    for number, block in enumerate(blocks):
        with in_block(number):
            cursor = Cursor(expand(data, block, codec, least))
            for _ in range(block[2]):
                column.read(cursor)
            cursor.end()
    return table_of(column, schema, len(blocks) - 1)


@contextmanager
def in_block(number: int) -> Iterator[None]:
    """Name the block in errors."""
    try:
        yield
    except (CorruptAvroError, TooLargeError) as error:
        raise error.with_context(block=str(number)) from None
    except RecursionError:
        raise CorruptAvroError("the values are nested too deeply", block=str(number)) from None


def expand(data: bytes, block: tuple[int, int, int], codec: str, least: int) -> bytes:
    """Return the rows of a block without compression, after a check that there can be so many."""
    offset, size, rows = block
    stored = data[offset : offset + size]
    if len(stored) != size:
        raise CorruptAvroError("the file ends inside a block")
    raw = decompress(stored, codec)
    if rows * least > len(raw) or (not least and rows > _MOST_EMPTY_ROWS):
        raise CorruptAvroError("a block has fewer bytes than its rows need")
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
