"""The codecs of Avro blocks."""

from __future__ import annotations

import zlib

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, InvalidArgumentError, TooLargeError

__all__ = ["check_codec", "decompress"]

_MOST_BLOCK = 1 << 30
_CODECS = ("null", "deflate", "snappy", "zstandard")


def check_codec(codec: str) -> None:
    """Refuse a codec that the kernels do not have."""
    if codec not in _CODECS:
        raise InvalidArgumentError(f"unknown Avro codec {codec!r}")


def decompress(stored: bytes, codec: str) -> bytes:
    """Decompress a block."""
    if codec == "null":
        return stored
    try:
        if codec == "deflate":
            inflater = zlib.decompressobj(-15)
            raw = inflater.decompress(stored, _MOST_BLOCK + 1)
            if not inflater.eof and len(raw) <= _MOST_BLOCK:
                raise CorruptAvroError("a block cannot be decompressed: it is cut off")
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
        raise CorruptAvroError("a Snappy block has no checksum")
    compressed = stored[:-4]
    size = _snappy_length(compressed)
    _check_size(size)
    if size // 32 > len(compressed):
        raise CorruptAvroError("a Snappy block is too short for the length that it declares")
    raw: bytes = pa.decompress(compressed, decompressed_size=size, codec="snappy", asbytes=True) if size else b""
    if zlib.crc32(raw) != int.from_bytes(stored[-4:], "big"):
        raise CorruptAvroError("the checksum of a Snappy block is wrong")
    return raw


def _snappy_length(compressed: bytes) -> int:
    value = 0
    for index, byte in enumerate(compressed[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise CorruptAvroError("a Snappy block has no length")


def _check_size(size: int) -> None:
    if size > _MOST_BLOCK:
        raise TooLargeError("an Avro block decompresses to more than 1 GiB")
