"""Where an ORC file has its streams, and small ORC files that are made of some of them (ORC specification, version 1).

The messages are those of Protocol Buffers. Of their fields, only those are looked at that say where streams are, and
how they are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import pyarrow as pa

from deltaberg.errors import CorruptDataFileError, TooLargeError, UnsupportedFeatureError

__all__ = ["DATA", "LONG", "TIMESTAMPS", "TIMESTAMP_INSTANT", "OrcLayout", "Stream", "Stripe"]

_MAGIC = b"ORC"
#: Kinds of types.
LONG, TIMESTAMP_INSTANT = 4, 18
TIMESTAMPS = frozenset({9, TIMESTAMP_INSTANT})
#: The kind of the stream that holds the values of a column. Kinds up to this one hold rows, and others are indexes.
DATA, _LAST_OF_ROWS = 1, 5
_COMPRESSIONS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
_MOST_POSTSCRIPT = 256
#: The most bytes of a message, and of a compressed block where a file does not say it.
_MOST_BYTES, _BLOCK = 128 << 20, 256 << 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Fields = Mapping[int, Sequence[int | bytes]]


class Stream(NamedTuple):
    """A stream of a column, and where its bytes are in the file. Columns have the numbers of types: 0 is the root."""

    kind: int
    column: int
    start: int
    size: int


class Stripe(NamedTuple):
    """The streams of rows of a stripe, the encodings of all columns as they are stored, and the zone of its writer."""

    rows: int
    streams: list[Stream]
    encodings: Sequence[bytes]
    zone: str

    def has_second_version(self, column: int) -> bool:
        """Return whether the integers of a column have the second of the two encodings of runs."""
        return column < len(self.encodings) and _number(_fields(self.encodings[column]), 1) >= 2


class OrcLayout:
    """The metadata of an open file that say where its streams are.

    Raises
    ------
    CorruptDataFileError
        If they are damaged.
    """

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._size: int = file.size()
        tail = self._at(max(self._size - _MOST_POSTSCRIPT, 0), min(self._size, _MOST_POSTSCRIPT))
        length = tail[-1] if tail else 0
        self._postscript = _fields(tail[-1 - length : -1])
        compression = _number(self._postscript, 2)
        self._compression = _COMPRESSIONS[compression] if compression < len(_COMPRESSIONS) else str(compression)
        self._block = min(_number(self._postscript, 3) or _BLOCK, (1 << 23) - 1)
        size = _number(self._postscript, 1)
        footer = _fields(self._message(self._size - 1 - length - size, size))
        self._stripes = _texts(footer, 3)
        self._types = _texts(footer, 4)
        #: The kind of each type.
        self.kinds = [_number(_fields(found), 1) for found in self._types]
        children = _packed(_fields(self._types[0]), 2) if self._types else []
        self._starts = [*children, len(self._types)]
        if any(first >= end for first, end in pairwise([0, *self._starts])):
            raise _damaged("its types are no tree")

    def columns_of(self, top: int) -> range:
        """Return the numbers of a top-level column and of all that are in it."""
        if top + 1 >= len(self._starts):
            raise _damaged("a column has no type")
        return range(self._starts[top], self._starts[top + 1])

    def stripe(self, number: int) -> Stripe:
        """Return where a stripe has its streams."""
        if number >= len(self._stripes):
            raise _damaged("a stripe is missing")
        found = _fields(self._stripes[number])
        start, index, data, footer, rows = (_number(found, member) for member in range(1, 6))
        parts = _fields(self._message(start + index + data, footer))
        told = [_fields(text) for text in _texts(parts, 1)]
        starts = accumulate((_number(one, 3) for one in told), initial=start)
        streams = [
            Stream(_number(one, 1), _number(one, 2), first, _number(one, 3))
            for one, first in zip(told, starts, strict=False)
        ]
        zones = _texts(parts, 3)
        return Stripe(
            rows,
            [stream for stream in streams if stream.kind <= _LAST_OF_ROWS],
            _texts(parts, 2),
            zones[-1].decode(errors="replace") if zones else "UTC",
        )

    def with_streams(
        self, stripe: Stripe, columns: range, kinds: Mapping[int, int], replaced: Mapping[Stream, bytes]
    ) -> pa.Buffer:
        """Return a file of one stripe, which has the rows of some columns.

        Parameters
        ----------
        kinds
            The kinds of columns that are other types in the new file.
        replaced
            The bytes of streams that are others in the new file.
        """
        parts, streams = [_MAGIC], []
        for stream in stripe.streams:
            if stream.column in columns:
                old = replaced.get(stream)
                part = self._at(stream.start, stream.size) if old is None else self._framed(old)
                parts.append(part)
                streams.append(_field(1, _field(1, stream.kind) + _field(2, stream.column) + _field(3, len(part))))
        size = sum(map(len, parts)) - len(_MAGIC)
        inner = self._framed(b"".join([*streams, *(_field(2, message) for message in stripe.encodings)]))
        place = [len(_MAGIC), 0, size, len(inner), stripe.rows]
        types = [_field(1, kinds[number]) if number in kinds else old for number, old in enumerate(self._types)]
        outer = [_field(1, len(_MAGIC)), _field(2, size + len(inner))]
        outer += [_field(3, b"".join(_field(member, value) for member, value in enumerate(place, 1)))]
        outer += [_field(4, message) for message in types]
        outer += [_field(6, stripe.rows), _field(8, 0)]
        footer = self._framed(b"".join(outer))
        kept = [_field(member, _number(self._postscript, member)) for member in (2, 3, 6) if member in self._postscript]
        postscript = b"".join([_field(1, len(footer)), *kept, _field(8000, _MAGIC)])
        return pa.py_buffer(b"".join([*parts, inner, footer, postscript, bytes([len(postscript)])]))

    def _at(self, start: int, size: int) -> bytes:
        if start < 0 or start + size > self._size:
            raise _damaged("its metadata name bytes beyond its end")
        return bytes(self._file.read_at(size, start))

    def _framed(self, data: bytes) -> bytes:
        """Return bytes as they stand in a file of this compression, not compressed."""
        if self._compression == "none":
            return data
        blocks = (data[first : first + self._block] for first in range(0, len(data), self._block))
        return b"".join((len(block) << 1 | 1).to_bytes(3, "little") + block for block in blocks)

    def _message(self, start: int, size: int) -> bytes:
        """Return the bytes of a message, which may be compressed."""
        data = self._at(start, size)
        if self._compression == "none":
            return data
        parts, at, total = [], 0, 0
        while at < size:
            header = int.from_bytes(data[at : at + 3], "little")
            block = data[at + 3 : at + 3 + (header >> 1)]
            at += 3 + (header >> 1)
            parts.append(block if header & 1 else self._inflated(block))
            total += len(parts[-1])
            if total > _MOST_BYTES:
                raise TooLargeError(f"the metadata of an ORC file have over {_MOST_BYTES} bytes")
        return b"".join(parts)

    def _inflated(self, block: bytes) -> bytes:
        """Return the bytes of a compressed block, which are not more than the file says."""
        try:
            if self._compression == "zlib":
                return zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, self._block)
            if self._compression == "zstd":
                return bytes(pa.CompressedInputStream(pa.BufferReader(block), "zstd").read(self._block))
            if self._compression == "snappy":
                length, _ = _varint(block, 0)
                if length > self._block:
                    raise _damaged("a compressed block is larger than its metadata say")
                return bytes(pa.Codec("snappy").decompress(block, length, asbytes=True))
            if self._compression == "lz4":
                return _lz4(block, self._block)
        except (zlib.error, pa.ArrowException, OSError) as error:
            raise _damaged(f"its metadata cannot be decompressed: {error}") from error
        raise UnsupportedFeatureError(
            f"an ORC file that is compressed by {self._compression} has a timestamp before 1677 or after 2262",
            hint="leave the column out, or rewrite the file as Parquet with Spark",
            feature=f"ORC files compressed by {self._compression}",
        )


def _lz4(block: bytes, most: int) -> bytes:
    """Return the bytes of a block of LZ4, which does not tell how many they are: the fewest that hold all of it."""
    codec, low, high = pa.Codec("lz4_raw"), 0, most
    decoded: bytes = codec.decompress(block, most, asbytes=True)
    while low < high:
        middle = (low + high) // 2
        try:
            decoded, high = codec.decompress(block, middle, asbytes=True), middle
        except OSError:
            low = middle + 1
    return decoded[:high]


def _damaged(what: str) -> CorruptDataFileError:
    return CorruptDataFileError(f"the ORC file is damaged: {what}")


def _fields(message: bytes) -> dict[int, list[int | bytes]]:
    """Return the values of each field of a message, in their order."""
    found: dict[int, list[int | bytes]] = {}
    for number, value in _pairs(message):
        found.setdefault(number, []).append(value)
    return found


def _pairs(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise _damaged("its metadata are no message")
        if at + size > len(message):
            raise _damaged("its metadata end too early")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _damaged("its metadata end too early")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise _damaged("a number of its metadata has no end")


def _number(fields: _Fields, member: int) -> int:
    """Return the last value of a field that holds a number, or 0."""
    found = fields.get(member, [0])[-1]
    if isinstance(found, bytes):
        raise _damaged("its metadata have text in place of a number")
    return found


def _texts(fields: _Fields, member: int) -> list[bytes]:
    """Return the values of a field that holds texts or messages."""
    found = [value for value in fields.get(member, []) if isinstance(value, bytes)]
    if len(found) < len(fields.get(member, [])):
        raise _damaged("its metadata have a number in place of text")
    return found


def _packed(fields: _Fields, member: int) -> list[int]:
    """Return the values of a field that repeats numbers, each for itself or all in one text."""
    numbers = []
    for value in fields.get(member, []):
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            numbers.append(number)
    return numbers


def _field(member: int, value: int | bytes) -> bytes:
    """Return a field of a message."""
    if isinstance(value, int):
        return _written(member << 3 | _VARINT) + _written(value)
    return _written(member << 3 | _BYTES) + _written(len(value)) + value


def _written(value: int) -> bytes:
    varint = bytearray()
    while value > 0x7F:
        varint.append(value & 0x7F | 0x80)
        value >>= 7
    varint.append(value)
    return bytes(varint)
