"""Hashes and buckets of values: 32-bit murmur3 for x86 with seed 0.

See the Iceberg specification, "Appendix B: 32-bit Hash Requirements" and "Bucket Transform Details".
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError

__all__ = ["bucket", "hash32"]

_UNSIGNED = pa.uint32()
_MASK = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MAX_BUCKETS = (1 << 31) - 1
_NANOS_PER_MICRO = 1000
#: The bits as which every NaN is hashed.
_NAN = 0x7FF8000000000000
#: The types that are hashed as eight bytes.
_LONGS = (pa.int32(), pa.int64(), pa.date32(), pa.time64("us"))


def hash32(values: pa.Array, threads: int = 0) -> pa.Int32Array:
    """Return the hash of every value. The hash of null is null."""
    return _unsigned(_as_bucketed(values)).view(pa.int32())


def bucket(values: pa.Array, buckets: int, threads: int = 0) -> pa.Int32Array:
    """Return the bucket of every value, from 0 to ``buckets`` - 1. The bucket of null is null."""
    if not 1 <= buckets <= _MAX_BUCKETS:
        raise InvalidArgumentError(f"the number of buckets must be from 1 to {_MAX_BUCKETS}", buckets=str(buckets))
    hashes = pc.bit_wise_and(_unsigned(values), _scalar(_MAX_BUCKETS)).view(pa.int32())
    whole = pc.multiply(pc.divide(hashes, pa.scalar(buckets, pa.int32())), pa.scalar(buckets, pa.int32()))
    return pc.subtract(hashes, whole)


def _as_bucketed(values: pa.Array) -> pa.Array:
    """Replace values of a type that has hashes but no buckets by longs with the same hashes."""
    if not isinstance(values, pa.Array):
        return values
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int64())
    if values.type in (pa.float32(), pa.float64()):
        # The sum of -0 and 0 is 0.
        doubles = pc.add(values.cast(pa.float64()), pa.scalar(0.0))
        return pc.if_else(pc.is_nan(doubles), pa.scalar(_NAN, pa.int64()), doubles.view(pa.int64()))
    return values


def _unsigned(values: pa.Array) -> pa.UInt32Array:
    if not isinstance(values, pa.Array):
        raise InvalidArgumentError("an object with the Arrow PyCapsule interface was expected")
    kind = values.type
    if pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        longs = values.view(pa.int64())
        return _hash_longs(longs if kind.unit == "us" else _floored(longs))
    if kind in _LONGS:
        integers = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        return _hash_longs(integers.cast(pa.int64()))
    if pa.types.is_decimal128(kind):
        return _hash_distinct(values, _unscaled_bytes)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _hash_distinct(values, lambda texts: [text.encode() for text in texts.to_pylist()])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hash_distinct(values, pa.Array.to_pylist)
    raise InvalidArgumentError(f"values of type {kind} cannot be hashed")


def _floored(nanos: pa.Int64Array) -> pa.Int64Array:
    """Return microseconds, rounded down; the division of Arrow rounds toward zero."""
    unit = pa.scalar(_NANOS_PER_MICRO, pa.int64())
    micros = pc.divide(nanos, unit)
    return pc.subtract(micros, pc.less(nanos, pc.multiply(micros, unit)).cast(pa.int64()))


# Numbers are hashed column by column with the arithmetic of Arrow, which wraps around as the hash requires.


def _hash_longs(values: pa.Int64Array) -> pa.UInt32Array:
    bits = values.view(pa.uint64())
    low = pc.bit_wise_and(bits, pa.scalar(_MASK, pa.uint64())).cast(_UNSIGNED)
    high = pc.shift_right(bits, pa.scalar(32, pa.uint64())).cast(_UNSIGNED)
    hashes = pc.bit_wise_xor(_mixed(_mixed(_scalar(0), low), high), _scalar(8))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashes = pc.multiply(pc.bit_wise_xor(hashes, pc.shift_right(hashes, _scalar(shift))), _scalar(factor))
    return hashes


def _mixed(hashes: pa.UInt32Array | pa.UInt32Scalar, blocks: pa.UInt32Array) -> pa.UInt32Array:
    scrambled = pc.multiply(_rotated(pc.multiply(blocks, _scalar(_C1)), 15), _scalar(_C2))
    mixed = _rotated(pc.bit_wise_xor(hashes, scrambled), 13)
    return pc.add(pc.multiply(mixed, _scalar(5)), _scalar(0xE6546B64))


def _rotated(values: pa.UInt32Array, bits: int) -> pa.UInt32Array:
    return pc.bit_wise_or(pc.shift_left(values, _scalar(bits)), pc.shift_right(values, _scalar(32 - bits)))


def _scalar(value: int) -> pa.UInt32Scalar:
    return pa.scalar(value, _UNSIGNED)


# Of bytes, each distinct value is hashed once.


def _hash_distinct(values: pa.Array, as_bytes: Callable[[pa.Array], list[Any]]) -> pa.UInt32Array:
    encoded = values.dictionary_encode()
    hashes = pa.array([_hash_bytes(value) for value in as_bytes(encoded.dictionary)], _UNSIGNED)
    return hashes.take(encoded.indices)


def _unscaled_bytes(decimals: pa.Decimal128Array) -> list[bytes]:
    """Return the fewest bytes that hold each unscaled value and its sign, highest first."""
    numbers = (int.from_bytes(value, sys.byteorder, signed=True) for value in decimals.view(pa.binary(16)).to_pylist())
    return [
        number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        for number in numbers
    ]


def _hash_bytes(value: bytes) -> int:
    whole = len(value) // 4
    hashed = 0
    for block in struct.unpack_from(f"<{whole}I", value):
        hashed = _rotate(hashed ^ _scramble(block), 13) * 5 + 0xE6546B64 & _MASK
    # A missing byte counts as zero, and a tail of zeros leaves the hash as it is.
    hashed ^= _scramble(int.from_bytes(value[4 * whole :], "little")) ^ len(value) & _MASK
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def _scramble(block: int) -> int:
    return _rotate(block * _C1 & _MASK, 15) * _C2 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
