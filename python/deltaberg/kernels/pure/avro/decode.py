"""Decoding the blocks of an Avro file, one after another."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, TooLargeError
from deltaberg.kernels.pure.avro.codec import check_codec, decompress
from deltaberg.kernels.pure.avro.columns import Column
from deltaberg.kernels.pure.avro.cursor import Cursor
from deltaberg.kernels.pure.avro.plan import compile_node
from deltaberg.kernels.pure.avro.skip import least_bytes
from deltaberg.kernels.results import AvroNode, empty_batch

__all__ = ["decode_avro"]

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
    for number, (offset, size, rows) in enumerate(blocks):
        try:
            _block(column, data[offset : offset + size], size, rows, codec, least)
        except (CorruptAvroError, TooLargeError) as error:
            raise error.with_context(block=str(number)) from None
        except RecursionError:
            raise CorruptAvroError("the values are nested too deeply", block=str(number)) from None
    if not blocks:
        return schema.empty_table()
    rows = len(column)
    try:
        arrays = column.children_arrays(rows)
    except CorruptAvroError as error:
        raise error.with_context(block=str(len(blocks) - 1)) from None
    except (pa.ArrowInvalid, UnicodeDecodeError, OverflowError) as error:
        raise CorruptAvroError(f"the values do not fit their types: {error}", block=str(len(blocks) - 1)) from error
    if not arrays:
        return pa.Table.from_batches([empty_batch(rows)])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(arrays, schema=schema)] if rows else [], schema)


def _block(column: Column, stored: bytes, size: int, rows: int, codec: str, least: int) -> None:
    if len(stored) != size:
        raise CorruptAvroError("the file ends inside a block")
    raw = decompress(stored, codec)
    if rows * least > len(raw) or (not least and rows > _MOST_EMPTY_ROWS):
        raise CorruptAvroError("a block has fewer bytes than its rows need")
    cursor = Cursor(raw)
    for _ in range(rows):
        column.read(cursor)
    if cursor.at != len(raw):
        raise CorruptAvroError(f"{len(raw) - cursor.at} bytes follow the last row of a block")
