"""The codecs of Avro blocks."""

from __future__ import annotations

import zlib

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, InvalidArgumentError, TooLargeError
from deltaberg.kernels.pure.quoted import quoted

__all__ = ["check_codec", "decompress", "most_expanded"]

#: The most bytes that a block may decompress to.
_MOST = 1 << 30
#: What every block may decompress to, and how many times its size a larger one may.
_EXPANDED, _MOST_TIMES = 96 << 20, 32
_CODECS = ("null", "deflate", "snappy", "zstandard")


def check_codec(codec: str) -> None:
    """Refuse a codec that the kernels do not have."""
    if codec not in _CODECS:
        raise InvalidArgumentError(f"unknown Avro codec {quoted(codec)}")


def most_expanded(size: int) -> int:
    """Return the most bytes that a block of this size may decompress to: a few kilobytes can stand for gigabytes."""
    return min(max(size * _MOST_TIMES, _EXPANDED), _MOST)


def decompress(stored: bytes, codec: str) -> bytes:
    """Decompress a block."""
    if codec == "null":
        return stored
    most = most_expanded(len(stored))
    try:
        if codec == "deflate":
            inflater = zlib.decompressobj(-15)
            raw = inflater.decompress(stored, most + 1)
            if not inflater.eof and len(raw) <= most:
                raise CorruptAvroError("a block cannot be decompressed: it is cut off")
        elif codec == "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
                raw = stream.read(most + 1)
        else:
            return _snappy(stored, most)
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise CorruptAvroError(f"a block cannot be decompressed: {error}") from error
    _check_size(len(raw), most)
    return raw


def _snappy(stored: bytes, most: int) -> bytes:
    if len(stored) < 4:
        raise CorruptAvroError("a Snappy block has no checksum")
    compressed = stored[:-4]
    size = _snappy_length(compressed)
    _check_size(size, most)
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


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise TooLargeError(f"an Avro block decompresses to more than {most} bytes, which is too large")
