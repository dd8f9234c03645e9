"""Two of Spark's hash functions, for keys that are made here and met there."""

from __future__ import annotations

__all__ = ["murmur3_int", "xxhash64"]

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_SEED = 42


def murmur3_int(value: int) -> int:
    """Hash a 32-bit integer as ``hash`` does, by which Spark partitions: Murmur3 with seed 42, as a signed number."""
    mask = 0xFFFFFFFF
    mixed = value * 0xCC9E2D51 & mask
    mixed = (mixed << 15 | mixed >> 17) & mask
    mixed = mixed * 0x1B873593 & mask
    state = _SEED ^ mixed
    state = (state << 13 | state >> 19) & mask
    state = (state * 5 + 0xE6546B64) & mask
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & mask
    state = (state ^ state >> 13) * 0xC2B2AE35 & mask
    state ^= state >> 16
    return state - (1 << 32) if state >= 1 << 31 else state


def xxhash64(text: str) -> int:
    """Hash a string as ``xxhash64`` does: XXH64 of its UTF-8 with seed 42, as a signed number."""
    data = text.encode()
    size, place = len(data), 0
    if size >= 32:
        lanes = [_SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1]
        while place + 32 <= size:
            for number in range(4):
                lanes[number] = _round(lanes[number], _word(data, place + 8 * number))
            place += 32
        state = sum(_rotated(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            state = ((state ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        state = (_SEED + _P5) & _MASK
    state = (state + size) & _MASK
    while place + 8 <= size:
        state = (_rotated(state ^ _round(0, _word(data, place)), 27) * _P1 + _P4) & _MASK
        place += 8
    if place + 4 <= size:
        word = int.from_bytes(data[place : place + 4], "little")
        state = (_rotated(state ^ word * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        place += 4
    for byte in data[place:]:
        state = _rotated(state ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    state = (state ^ state >> 33) * _P2 & _MASK
    state = (state ^ state >> 29) * _P3 & _MASK
    state ^= state >> 32
    return state - (1 << 64) if state >= 1 << 63 else state


def _word(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 8], "little")


def _rotated(value: int, turn: int) -> int:
    value &= _MASK
    return (value << turn | value >> 64 - turn) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1 & _MASK
