"""Avro blocks to Arrow columns: the twin of ``rust/core/src/avro``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, InvalidArgumentError, TooLargeError
from deltaberg.kernels.pure.avro_columns import Column, Cursor, Node, compile_node, least_bytes
from deltaberg.kernels.results import empty_batch

__all__ = ["decode_avro"]

_MOST_BLOCK = 1 << 30
_MOST_EMPTY_ROWS = 1 << 24
_CODECS = ("null", "deflate", "snappy", "zstandard")


def decode_avro(
    data: bytes,
    blocks: Sequence[tuple[int, int, int]],
    codec: str,
    node: Node,
    schema: pa.Schema,
    threads: int = 0,
) -> pa.Table:
    """Decode blocks (offset, size, rows) of an Avro file; ``node`` is the writer's schema with its slots."""
    if codec not in _CODECS:
        raise InvalidArgumentError(f"there is no Avro codec {codec!r}")
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
        raise CorruptAvroError("the file ends inside of a block")
    raw = _decompress(stored, codec)
    if rows * least > len(raw) or (not least and rows > _MOST_EMPTY_ROWS):
        raise CorruptAvroError("a block has fewer bytes than its rows need")
    cursor = Cursor(raw)
    for _ in range(rows):
        column.read(cursor)
    if cursor.at != len(raw):
        raise CorruptAvroError(f"{len(raw) - cursor.at} bytes are left behind the last row of a block")


def _decompress(stored: bytes, codec: str) -> bytes:
    if codec == "null":
        return stored
    try:
        if codec == "deflate":
            raw = zlib.decompressobj(-15).decompress(stored, _MOST_BLOCK + 1)
        elif codec == "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
                raw = stream.read(_MOST_BLOCK + 1)
        else:
            return _snappy(stored)
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise CorruptAvroError(f"a block cannot be decompressed: {error}") from error
    _check_size(len(raw))
    return raw


def _snappy(stored: bytes) -> bytes:
    if len(stored) < 4:
        raise CorruptAvroError("a snappy block has no checksum")
    compressed = stored[:-4]
    size = _snappy_length(compressed)
    _check_size(size)
    if size // 32 > len(compressed):
        raise CorruptAvroError("a snappy block is shorter than its length says")
    raw: bytes = pa.decompress(compressed, decompressed_size=size, codec="snappy", asbytes=True) if size else b""
    if zlib.crc32(raw) != int.from_bytes(stored[-4:], "big"):
        raise CorruptAvroError("the checksum of a snappy block is wrong")
    return raw


def _snappy_length(compressed: bytes) -> int:
    value = 0
    for index, byte in enumerate(compressed[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise CorruptAvroError("a snappy block has no length")


def _check_size(size: int) -> None:
    if size > _MOST_BLOCK:
        raise TooLargeError("an Avro block has more than 1 GiB")
