"""Row position bitmaps: 64-bit Roaring in the framings of Delta and Puffin.

A bitmap is passed around in the portable 64-bit Roaring format, after `unframe_bitmap` has checked it.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa

from deltaberg.errors import CorruptDeletionVectorError, InvalidArgumentError, TooLargeError
from deltaberg.kernels.pure.bitmaps.roaring import (
    Container,
    check_bitmap,
    container_bits,
    container_values,
    iterate_buckets,
    serialize_bitmap,
)
from deltaberg.kernels.pure.quoted import quoted

__all__ = ["bitmap_positions", "encode_bitmap", "keep_mask", "unframe_bitmap"]

_MAGIC = 1681511377
_NATIVE_MAGIC = 1681511376
_FRAMINGS = ("delta-inline", "delta-file", "puffin")
_BLOCK = 1 << 16
_LAST_ROW = (1 << 63) - 1


def unframe_bitmap(data: bytes, framing: str) -> tuple[bytes, int]:
    """Take a bitmap out of its framing and check it; return its portable bytes and the number of its positions."""
    body = _checked_body(data) if _has_checksum(framing) else data
    if len(body) < 4:
        raise CorruptDeletionVectorError(f"a deletion vector of {len(body)} bytes has no magic number")
    little, big = int.from_bytes(body[:4], "little"), int.from_bytes(body[:4], "big")
    bitmap = body[4:]
    if little == _MAGIC:
        pass
    elif little == _NATIVE_MAGIC and framing != "puffin":
        bitmap = _from_native(bitmap, "<i")
    elif big == _NATIVE_MAGIC and framing != "puffin":
        bitmap = _from_native(bitmap, ">i")
    else:
        raise CorruptDeletionVectorError(f"unknown format: the magic number is {little}, expected {_MAGIC}")
    return bitmap, check_bitmap(bitmap)


def _has_checksum(framing: str) -> bool:
    if framing not in _FRAMINGS:
        known = '"delta-inline", "delta-file" or "puffin"'
        raise InvalidArgumentError(f"unknown bitmap framing {quoted(framing)}; use {known}")
    return framing != "delta-inline"


def _checked_body(data: bytes) -> bytes:
    if len(data) < 8:
        raise CorruptDeletionVectorError(f"{len(data)} bytes are too short for a length and a checksum")
    (length,) = struct.unpack(">i", data[:4])
    body = data[4:-4]
    if length != len(body):
        raise CorruptDeletionVectorError(f"the deletion vector declares {length} bytes, but {len(body)} were expected")
    (expected,) = struct.unpack(">I", data[-4:])
    found = zlib.crc32(body)
    if expected != found:
        raise CorruptDeletionVectorError(f"checksum mismatch: stored {expected:08x}, computed {found:08x}")
    return body


def _from_native(data: bytes, number: str) -> bytes:
    """Convert bare 32-bit bitmaps, whose keys follow from their order, to the portable format."""
    at = 0

    def take(size: int, what: str) -> bytes:
        nonlocal at
        part = data[at : at + size]
        if len(part) < size:
            raise CorruptDeletionVectorError(f"the bitmap ends before {what}")
        at += size
        return part

    (count,) = struct.unpack(number, take(4, "its number of buckets"))
    if count < 0:
        raise CorruptDeletionVectorError("the number of buckets is negative")
    parts = [struct.pack("<Q", count)]
    for key in range(count):
        (length,) = struct.unpack(number, take(4, "the length of a bucket"))
        if length < 0:
            raise CorruptDeletionVectorError("the length of a bucket is negative")
        parts += [struct.pack("<I", key), take(length, "the end of a bucket")]
    if at != len(data):
        raise CorruptDeletionVectorError(f"{len(data) - at} bytes follow the last bucket")
    return b"".join(parts)


def bitmap_positions(bitmap: bytes, most: int) -> pa.UInt64Array:
    """Return all positions of a portable bitmap, ascending; there must not be more than ``most``."""
    if most < 0:
        raise OverflowError("can't convert negative int to unsigned")
    # They are counted first: a few bytes of runs name billions of positions.
    count = check_bitmap(bitmap)
    if count > most:
        raise TooLargeError(f"a bitmap has {count} positions, and at most {most} are read at once")
    values = array("Q")
    for base, container in _containers(bitmap):
        values.extend(base | value for value in container_values(container))
    return pa.Array.from_buffers(pa.uint64(), len(values), [None, pa.py_buffer(values)])


def keep_mask(bitmap: bytes, start: int, length: int) -> pa.BooleanArray:
    """Return a mask of the ``length`` rows from row ``start`` on that the bitmap does not contain."""
    if start < 0 or length < 0:
        raise OverflowError("can't convert negative int to unsigned")
    end = start + length
    if end > _LAST_ROW:
        raise InvalidArgumentError(f"the {length} rows from row {start} go beyond the last row number")
    gone = 0
    for base, container in _containers(bitmap, start, end):
        bits = container_bits(container)
        gone |= bits << (base - start) if base >= start else bits >> (start - base)
    keep = ((1 << length) - 1) & ~gone
    buffer = pa.py_buffer(keep.to_bytes((length + 7) // 8, "little"))
    return pa.Array.from_buffers(pa.bool_(), length, [None, buffer])


def _containers(bitmap: bytes, start: int = 0, end: int = 1 << 64) -> Iterator[tuple[int, Container]]:
    """Iterate over the containers that overlap rows ``start`` to ``end``, each with the first row of its block."""
    for key, bucket in iterate_buckets(bitmap):
        bucket_start = key << 32
        if bucket_start >= end:
            return
        if bucket_start + (1 << 32) <= start:
            continue
        for index, container_key in enumerate(bucket.keys):
            base = bucket_start | container_key << 16
            if base >= end:
                return
            if base + _BLOCK > start:
                yield base, bucket.container(index)


def encode_bitmap(positions: pa.UInt64Array, framing: str) -> bytes:
    """Encode ascending positions in a framing; containers hold runs wherever that is smaller."""
    if not isinstance(positions, pa.UInt64Array):
        raise InvalidArgumentError("Cast error: an array of uint64 was expected")
    if positions.null_count:
        raise InvalidArgumentError("row positions cannot be null")
    with_checksum = _has_checksum(framing)
    values: list[int] = positions.to_pylist()
    if values and values[-1] > _LAST_ROW:
        raise InvalidArgumentError(f"row position {values[-1]} is greater than 2^63 - 1")
    if any(left >= right for left, right in pairwise(values)):
        raise InvalidArgumentError("row positions are not strictly ascending")
    body = struct.pack("<I", _MAGIC) + serialize_bitmap(values)
    if len(body) > (1 << 31) - 1:
        raise TooLargeError(f"a deletion vector of {len(body)} bytes exceeds the limit of the format")
    if not with_checksum:
        return body
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
