"""Encoding batches as the blocks of an Avro file, column by column."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError, TooLargeError
from deltaberg.kernels.pure.avro.codec import check_codec, most_expanded

__all__ = ["encode_avro"]

_BLOCK_BYTES = 1 << 16
_MOST_BLOCK = 1 << 30
_SHARE_ROWS = 1 << 13
_DEEPEST = 100
_DEFLATE_LEVEL = 4
#: The encoded values of a column. One that is null although it must not be is None.
_Cells = Sequence["bytes | None"]


def encode_avro(
    batches: Sequence[pa.RecordBatch],
    header: bytes,
    sync: bytes,
    codec: str,
    level: int | None = None,
    threads: int = 0,
) -> bytes:
    """Encode the rows of batches as an Avro file.

    The type of a column determines its encoding: integers, dates, times and timestamps are ``int`` or ``long``; text
    and bytes are prefixed by their length; binary of fixed size is ``fixed``; a decimal is a ``fixed`` of as few bytes
    as its precision allows; a struct is a record; a list is an array; a map is an array of keys and values, which is
    also the encoding of an Avro map. A nullable column is a union of null and its type, in this order.

    The bytes do not depend on the number of threads. Both backends return the same bytes for the codec ``null``; for
    the others, the blocks hold the same rows, but may be compressed differently.

    Parameters
    ----------
    batches
        The rows, all of one schema.
    header
        The bytes with which the file begins: the magic number, the metadata and the marker.
    sync
        The marker of 16 bytes that ends each block.
    codec
        ``null``, ``deflate``, ``snappy`` or ``zstandard``.
    level
        The level of deflate, 1 to 9; other codecs have none.
    threads
        The number of threads to encode with; 0 for all processors.

    Raises
    ------
    InvalidArgumentError
        If a type has no encoding, a required column is null, or a decimal has more digits than its type allows.
    TooLargeError
        If a row exceeds 1 GiB, or what readers take for the bytes to which it is compressed.
    """
    compress = _compressor(codec, level)
    parts = [header]
    for batch in batches:
        names = batch.schema.names
        columns = [_column(field, column, 0) for field, column in zip(batch.schema, batch.columns, strict=True)]
        rows = _rows(names, columns) if columns else [b""] * len(batch)
        for first in range(0, len(rows), _SHARE_ROWS):
            for block in _blocks(rows[first : first + _SHARE_ROWS]):
                raw = b"".join(block)
                stored = compress(raw)
                if len(raw) > most_expanded(len(stored)):
                    raise TooLargeError(
                        "a row of an Avro file takes so many bytes, and so few of them when it is compressed, that no "
                        "reader would trust the file"
                    )
                parts += [_long(len(block)), _long(len(stored)), stored, sync]
    return b"".join(parts)


def _blocks(rows: Sequence[bytes]) -> list[Sequence[bytes]]:
    blocks = []
    first = size = 0
    for number, row in enumerate(rows, 1):
        size += len(row)
        if size >= _BLOCK_BYTES:
            if size > _MOST_BLOCK:
                raise TooLargeError("a row of an Avro file takes more than 1 GiB")
            blocks.append(rows[first:number])
            first, size = number, 0
    if first < len(rows):
        blocks.append(rows[first:])
    return blocks


def _compressor(codec: str, level: int | None) -> Callable[[bytes], bytes]:
    check_codec(codec)
    if level is not None and (codec != "deflate" or not 1 <= level <= 9):
        raise InvalidArgumentError("the level of an Avro codec must be 1 to 9, and only deflate has one")
    if codec == "deflate":
        return lambda raw: _deflate(raw, level or _DEFLATE_LEVEL)
    return {"snappy": _snappy, "zstandard": _zstandard}.get(codec, bytes)


def _deflate(raw: bytes, level: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -15)
    return compressor.compress(raw) + compressor.flush()


def _snappy(raw: bytes) -> bytes:
    compressed: bytes = pa.compress(raw, codec="snappy", asbytes=True) if raw else b"\x00"
    return compressed + zlib.crc32(raw).to_bytes(4, "big")


def _zstandard(raw: bytes) -> bytes:
    compressed: bytes = pa.compress(raw, codec="zstd", asbytes=True)
    return compressed


def _rows(names: Sequence[str], columns: Sequence[_Cells]) -> list[bytes]:
    """Return the columns of a record row by row."""
    rows = []
    for row in zip(*columns, strict=True):
        if None in row:
            raise InvalidArgumentError(f"the required field {names[row.index(None)]} is null")
        rows.append(b"".join(row))
    return rows


def _column(field: pa.Field, array: pa.Array, depth: int) -> _Cells:
    if depth > _DEEPEST:
        raise InvalidArgumentError("a type is nested too deeply")
    if pt.is_null(field.type):
        return [b""] * len(array)
    cells = _values(field.name, array, depth + 1)
    if not array.null_count:
        return [b"\x02" + cell for cell in cells] if field.nullable else cells  # type: ignore[operator]
    valid = array.is_valid().to_pylist()
    if field.nullable:
        return [b"\x02" + cell if is_valid else b"\x00" for cell, is_valid in zip(cells, valid, strict=True)]  # type: ignore[operator]
    return [cell if is_valid else None for cell, is_valid in zip(cells, valid, strict=True)]


def _values(name: str, array: pa.Array, depth: int) -> _Cells:
    """Return the encoded values of an array, whatever they are where it is null."""
    kind = array.type
    for is_kind, width, encode in _LEAVES:
        if is_kind(kind):
            values = (array if width is None else array.view(width)).to_pylist()
            return [b"" if value is None else encode(value) for value in values]
    if pt.is_decimal128(kind):
        return _decimals(name, array)
    if pt.is_struct(kind):
        children = [_column(field, array.field(index), depth) for index, field in enumerate(kind)]
        return _records(list(kind), children, array)
    if pt.is_list(kind):
        if _takes_no_bytes(kind.value_field):
            raise InvalidArgumentError("the items of an array take no bytes")
        return _lists(array, _column(kind.value_field, array.values, depth), kind.value_field.name)
    if pt.is_map(kind):
        columns = [_column(kind.key_field, array.keys, depth + 1), _column(kind.item_field, array.items, depth + 1)]
        names = [kind.key_field.name, kind.item_field.name]
        return _lists(array, _rows(names, columns), "entries")
    raise InvalidArgumentError(f"values of type {kind} have no Avro encoding")


def _records(fields: Sequence[pa.Field], children: Sequence[_Cells], array: pa.Array) -> _Cells:
    names = [field.name for field in fields]
    if not children:
        return [b""] * len(array)
    if not array.null_count:
        return _rows(names, children)
    valid = array.is_valid().to_pylist()
    # What a null record holds is not written, so it may lack what is required of others.
    shown = [[cell if is_valid else b"" for cell, is_valid in zip(child, valid, strict=True)] for child in children]
    return _rows(names, shown)


def _lists(array: pa.Array, cells: _Cells, name: str) -> _Cells:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    lists = []
    for start, end, is_valid in zip(offsets[:-1], offsets[1:], valid, strict=True):
        items = cells[start:end] if is_valid else ()
        if None in items:
            raise InvalidArgumentError(f"the required field {name} is null")
        lists.append(b"".join((_long(len(items)), *items, b"\x00")) if items else b"\x00")  # type: ignore[arg-type]
    return lists


def _takes_no_bytes(field: pa.Field) -> bool:
    kind = field.type
    if pt.is_null(kind):
        return True
    if field.nullable:
        return False
    if pt.is_struct(kind):
        return all(_takes_no_bytes(child) for child in kind)
    return pt.is_fixed_size_binary(kind) and int(kind.byte_width) == 0


def _decimals(name: str, array: pa.Array) -> _Cells:
    limit = 10**array.type.precision
    size = ((limit - 1).bit_length() + 8) // 8
    raw = array.buffers()[1].to_pybytes() if len(array) else b""
    cells = []
    for row, is_valid in enumerate(array.is_valid().to_pylist(), array.offset):
        value = int.from_bytes(raw[row * 16 : row * 16 + 16], "little", signed=True) if is_valid else 0
        if abs(value) >= limit:
            raise InvalidArgumentError(f"a decimal of {name} has more digits than its type allows")
        cells.append(value.to_bytes(size, "big", signed=True))
    return cells


@lru_cache(maxsize=1 << 14)
def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _prefixed(value: bytes) -> bytes:
    return _long(len(value)) + value


#: Which types, as what they are read (unchanged for None), and how a value is encoded.
_LEAVES: list[tuple[Callable[[pa.DataType], bool], pa.DataType | None, Callable[[Any], bytes]]] = [
    (lambda kind: kind in (pa.int32(), pa.date32()) or pt.is_time32(kind), pa.int32(), _long),
    (lambda kind: kind == pa.int64() or pt.is_time64(kind) or pt.is_timestamp(kind), pa.int64(), _long),
    (pt.is_string, pa.binary(), _prefixed),
    (pt.is_binary, None, _prefixed),
    (pt.is_boolean, None, lambda value: b"\x01" if value else b"\x00"),
    # Bits, because Python has only one NaN.
    (pt.is_float32, pa.uint32(), struct.Struct("<I").pack),
    (pt.is_float64, pa.uint64(), struct.Struct("<Q").pack),
    (pt.is_fixed_size_binary, None, bytes),
]
