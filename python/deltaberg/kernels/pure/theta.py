"""Theta sketches of the Alpha family, which estimate how many distinct values a column has.

See the Puffin specification, "apache-datasketches-theta-v1". A sketch is passed as its compact bytes, which hold all
that it knows: a bound, theta, and the hashes below it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError

__all__ = ["unite_sketches", "update_sketch"]

#: How many hashes a sketch keeps before it estimates.
_NOMINAL = 4096
#: What a new value multiplies theta by, once a sketch estimates.
_ALPHA = _NOMINAL / (_NOMINAL + 1.0)
#: Theta of a sketch that holds the hashes of all values.
_EXACT = (1 << 63) - 1
_SEED, _SEED_HASH = 9001, 0x93CC
#: The version of the layout, and the family of compact sketches.
_VERSION, _FAMILY = 3, 3
#: Read-only, compact and ordered.
_FLAGS, _IS_EMPTY, _IS_SINGLE = 0b01_1010, 0b00_0100, 0b10_0000
_HEAD, _COUNT, _THETA = struct.Struct("<BBBxxBH"), struct.Struct("<If"), struct.Struct("<Q")
_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def update_sketch(sketch: bytes, values: pa.Array) -> bytes:
    """Add values to a sketch, in their order, and return its bytes. Nulls and values without bytes are passed over.

    Raises
    ------
    InvalidArgumentError
        If values are neither bytes nor text, or if the bytes of the sketch are none of a compact sketch. No bytes stand
        for a sketch without values.
    """
    if not isinstance(values, pa.Array):
        raise InvalidArgumentError("an object with the Arrow PyCapsule interface was expected")
    theta, hashes, is_empty = _read(sketch)
    kind = values.type
    is_text = pt.is_string(kind) or pt.is_large_string(kind)
    if not (is_text or pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind)):
        raise InvalidArgumentError(f"values of type {kind} are neither bytes nor text")
    # A value that comes again changes nothing, whatever has become of its hash.
    found = values.unique()
    for value in (found.cast(pa.large_binary()) if is_text else found).to_pylist():
        if not value:
            continue
        is_empty = False
        hashed = _hash(value) >> 1
        if not 0 < hashed < theta or hashed in hashes:
            continue
        hashes.add(hashed)
        if theta < _EXACT or len(hashes) > _NOMINAL:
            theta = int(theta * _ALPHA)
        if len(hashes) > 2 * _NOMINAL:
            hashes = {one for one in hashes if one < theta}
    return _written(theta, sorted(one for one in hashes if one < theta), is_empty=is_empty)


def unite_sketches(sketches: Sequence[bytes]) -> bytes:
    """Return the sketch of the values of all sketches: of their hashes, the least ones below the least bound.

    Raises
    ------
    InvalidArgumentError
        If the bytes of one are none of a compact sketch.
    """
    theta, hashes, is_empty = _read(b"")
    for sketch in sketches:
        bound, found, has_none = _read(sketch)
        theta, hashes, is_empty = min(theta, bound), hashes | found, is_empty and has_none
    least = sorted(one for one in hashes if one < theta)
    if len(least) > _NOMINAL:
        theta = least[_NOMINAL]
    return _written(theta, least[:_NOMINAL], is_empty=is_empty)


def _read(sketch: bytes) -> tuple[int, set[int], bool]:
    """Return theta, hashes, and whether the sketch has seen no value."""
    if not sketch:
        return _EXACT, set(), True
    refused = InvalidArgumentError("these are not the bytes of a compact theta sketch")
    if len(sketch) % 8:
        raise refused
    longs, version, family, flags, seed = _HEAD.unpack_from(sketch)
    is_empty = bool(flags & _IS_EMPTY)
    if (version, family) != (_VERSION, _FAMILY) or (seed != _SEED_HASH and not is_empty):
        raise refused
    if not 1 <= longs <= 3 or len(sketch) < 8 * longs:
        raise refused
    count = int(not is_empty) if longs == 1 else _COUNT.unpack_from(sketch, 8)[0]
    theta = _EXACT if longs < 3 else _THETA.unpack_from(sketch, 16)[0]
    words = struct.unpack_from(f"<{len(sketch) // 8 - longs}Q", sketch, 8 * longs)
    hashes = {one for one in words if 0 < one < theta}
    if not len(hashes) == len(words) == count or theta > _EXACT or (theta == _EXACT and count > _NOMINAL):
        raise refused
    return theta, hashes, is_empty


def _written(theta: int, hashes: list[int], *, is_empty: bool) -> bytes:
    longs, flags = (3, _FLAGS) if theta < _EXACT else (2, _FLAGS)
    if is_empty:
        longs, flags = 1, _FLAGS | _IS_EMPTY
    elif theta == _EXACT and len(hashes) == 1:
        longs, flags = 1, _FLAGS | _IS_SINGLE
    parts = [_HEAD.pack(longs, _VERSION, _FAMILY, flags, 0 if is_empty else _SEED_HASH)]
    if longs > 1:
        parts.append(_COUNT.pack(len(hashes), 1.0))
    if longs > 2:
        parts.append(_THETA.pack(theta))
    return b"".join([*parts, struct.pack(f"<{len(hashes)}Q", *hashes)])


def _hash(value: bytes) -> int:
    """Return the first half of the 128-bit murmur3 hash for x64."""
    one = two = _SEED
    whole = len(value) // 16
    words = struct.unpack_from(f"<{2 * whole}Q", value)
    for low, high in zip(words[::2], words[1::2], strict=True):
        one = ((_rotate(one ^ _scramble_low(low), 27) + two) * 5 + 0x52DCE729) & _MASK
        two = ((_rotate(two ^ _scramble_high(high), 31) + one) * 5 + 0x38495AB5) & _MASK
    # A missing byte counts as zero, and a tail of zeros leaves the hash as it is.
    tail = value[16 * whole :]
    one ^= _scramble_low(int.from_bytes(tail[:8], "little")) ^ len(value)
    two ^= _scramble_high(int.from_bytes(tail[8:], "little")) ^ len(value)
    one = (one + two) & _MASK
    two = (two + one) & _MASK
    return (_spread(one) + _spread(two)) & _MASK


def _scramble_low(word: int) -> int:
    return _rotate(word * _C1 & _MASK, 31) * _C2 & _MASK


def _scramble_high(word: int) -> int:
    return _rotate(word * _C2 & _MASK, 33) * _C1 & _MASK


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK


def _spread(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
