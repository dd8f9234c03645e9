"""Which part of a multi-part checkpoint holds a file action: the hash of its key (Delta protocol, "Multi-part").

The hash is Spark's Murmur3 with seed 42. It differs from the usual one in the last bytes of a text whose length is not
a multiple of four: each of them is mixed in by itself, as a signed number.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["part_numbers", "spark_hash"]

_SEED = 42
_WORD = 4


def part_numbers(keys: Sequence[pa.Array], parts: int) -> pa.Int32Array:
    """Return the number of the part, from 0, for each key; a key is a text, or several.

    Examples
    --------
    >>> part_numbers([pa.array(["f1", "f2", "f3", "f4"])], 3).to_pylist()
    [0, 1, 1, 2]
    """
    hashed = spark_hash(keys).cast(pa.int64())
    whole = pc.multiply(pc.floor(pc.divide(hashed.cast(pa.float64()), parts)).cast(pa.int64()), parts)
    return pc.subtract(hashed, whole).cast(pa.int32())


def spark_hash(columns: Sequence[pa.Array]) -> pa.Int32Array:
    """Return the hash of rows of texts; a null leaves the hash of the columns before it.

    Examples
    --------
    >>> spark_hash([pa.array(["f1"]), pa.array(["uvBn[lx{q8@P<9BNH/isA@1"])]).to_pylist()
    [-2054964204]
    """
    state = pa.repeat(pa.scalar(_SEED, pa.uint32()), len(columns[0]))
    for column in columns:
        present = column.is_valid()
        hashed = _hash_bytes(column.filter(present).cast(pa.binary()), state.filter(present))
        state = pc.replace_with_mask(state, present, hashed)
    return state.view(pa.int32())


def _hash_bytes(texts: pa.BinaryArray, state: pa.UInt32Array) -> pa.UInt32Array:
    """Mix texts into the hashes that came before, all texts of at least a length at a time."""
    lengths = pc.binary_length(texts).cast(pa.uint32())
    longest = pc.max(lengths).as_py() or 0
    aligned = pc.multiply(pc.divide(lengths, _WORD), _WORD)
    for start in range(0, longest - longest % _WORD, _WORD):
        state = _mix_at(texts, state, pc.greater(aligned, start), start, pa.uint32())
    for offset in range(_WORD - 1):
        # The last bytes begin at another place in each text, so texts are handled by their aligned length.
        for start in pc.unique(aligned).to_pylist():
            chosen = pc.and_(pc.equal(aligned, start), pc.greater(lengths, start + offset))
            state = _mix_at(texts, state, chosen, start + offset, pa.int8())
    return _finish(pc.bit_wise_xor(state, lengths))


def _mix_at(
    texts: pa.BinaryArray, state: pa.UInt32Array, chosen: pa.BooleanArray, start: int, kind: pa.DataType
) -> pa.UInt32Array:
    """Mix the number of a type at a place in some of the texts."""
    rows = texts.filter(chosen)
    if not len(rows):
        return state
    pieces = pc.binary_slice(rows, start, start + kind.bit_width // 8).cast(pa.binary(kind.bit_width // 8))
    words = pa.Array.from_buffers(kind, len(pieces), [None, pieces.buffers()[1]], offset=pieces.offset)
    return pc.replace_with_mask(state, chosen, _mix(state.filter(chosen), words))


def _mix(state: pa.UInt32Array, words: pa.Array) -> pa.UInt32Array:
    unsigned = words if words.type == pa.uint32() else words.cast(pa.int32()).view(pa.uint32())
    scrambled = _times(_rotated(_times(unsigned, 0xCC9E2D51), 15), 0x1B873593)
    return pc.add(_times(_rotated(pc.bit_wise_xor(state, scrambled), 13), 5), pa.scalar(0xE6546B64, pa.uint32()))


def _finish(state: pa.UInt32Array) -> pa.UInt32Array:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = _times(pc.bit_wise_xor(state, _shifted(state, shift)), factor)
    return pc.bit_wise_xor(state, _shifted(state, 16))


def _times(numbers: pa.UInt32Array, factor: int) -> pa.UInt32Array:
    return pc.multiply(numbers, pa.scalar(factor, pa.uint32()))


def _shifted(numbers: pa.UInt32Array, bits: int) -> pa.UInt32Array:
    return pc.shift_right(numbers, pa.scalar(bits, pa.uint32()))


def _rotated(numbers: pa.UInt32Array, bits: int) -> pa.UInt32Array:
    left = pc.shift_left(numbers, pa.scalar(bits, pa.uint32()))
    return pc.bit_wise_or(left, _shifted(numbers, 32 - bits))
