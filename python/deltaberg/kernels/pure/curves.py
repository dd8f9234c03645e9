"""Ranges of values, and the places of rows on space-filling curves through them.

Numbers are worked on column by column with the arithmetic of Arrow.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError

__all__ = ["curve_keys", "range_ids"]

#: The compiled kernel makes a number of 128 bits of a byte of each column.
_MOST_COLUMNS = 16
_MOST_BITS = 32
_ID = pa.uint32()


def range_ids(values: pa.Array, boundaries: pa.Array, threads: int = 0) -> pa.UInt32Array:
    """Return the number of the range of every value: 0 for null, else one more than there are boundaries up to it."""
    if not isinstance(values, pa.Array) or not isinstance(boundaries, pa.Array):
        raise InvalidArgumentError("an object with the Arrow PyCapsule interface was expected")
    kind = values.type
    if kind != boundaries.type:
        raise InvalidArgumentError("boundaries must be of the type of the values")
    if boundaries.null_count:
        raise InvalidArgumentError("a boundary must not be null")
    if not (kind == pa.int64() or pt.is_decimal128(kind) or pt.is_binary(kind) or pt.is_large_binary(kind)):
        raise InvalidArgumentError("ranges are those of int64, decimal128, binary or large_binary")
    limits = boundaries.to_pylist()
    if any(high <= low for low, high in pairwise(limits)):
        raise InvalidArgumentError("boundaries must ascend")
    # Of equal values, one is looked for.
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    ids = pa.array([0 if value is None else bisect_right(limits, value) + 1 for value in distinct], _ID)
    return ids.take(encoded.indices).fill_null(0)


def curve_keys(ids: pa.RecordBatch, bits: int, curve: str, threads: int = 0) -> pa.FixedSizeBinaryArray:
    """Return for every row a key by which rows sort along a curve, as bytes of one length, highest first."""
    if not isinstance(ids, pa.RecordBatch):
        raise InvalidArgumentError("an object with the Arrow PyCapsule interface was expected")
    if curve not in ("z-order", "hilbert"):
        raise InvalidArgumentError("the curve must be 'z-order' or 'hilbert'", curve=curve)
    if not 1 <= bits <= _MOST_BITS:
        raise InvalidArgumentError("the bits of a range id must be from 1 to 32", bits=str(bits))
    if not 1 <= ids.num_columns <= _MOST_COLUMNS:
        raise InvalidArgumentError("a curve takes from 1 to 16 columns", columns=str(ids.num_columns))
    for column in ids.columns:
        if column.type != _ID:
            raise InvalidArgumentError("range ids must be unsigned integers of 32 bits")
        if column.null_count:
            raise InvalidArgumentError("a range id must not be null")
        if (pc.max(column).as_py() or 0) >> bits:
            raise InvalidArgumentError("a range id has more bits than the curve", bits=str(bits))
    columns = list(ids.columns)
    if curve == "hilbert":
        columns = _transposed(columns, bits)
    return _interleaved(columns, bits)


def _interleaved(columns: list[Any], bits: int) -> pa.FixedSizeBinaryArray:
    """Return the bits of all columns in turns, highest first."""
    size = -(-len(columns) * bits // 8)
    rows = len(columns[0])
    keys = bytearray(rows * size)
    for byte in range(size):
        mixed = pa.repeat(_number(0), rows)
        for bit in range(8):
            # The place of the bit in the key, from its end.
            bit_of_id, from_last = divmod(8 * (size - 1 - byte) + bit, len(columns))
            if bit_of_id < bits:
                column = columns[len(columns) - 1 - from_last]
                found = pc.bit_wise_and(pc.shift_right(column, _number(bit_of_id)), _number(1))
                mixed = pc.bit_wise_or(mixed, pc.shift_left(found, _number(bit)))
        part = mixed.cast(pa.uint8())
        keys[byte::size] = part.buffers()[1].to_pybytes()[part.offset : part.offset + rows]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), rows, [None, pa.py_buffer(keys)])


def _transposed(columns: list[Any], bits: int) -> list[Any]:
    """Make of coordinates those numbers whose bits, in turns, are the places on Hilbert's curve.

    See Skilling, "Programming the Hilbert curve", 2004.
    """
    first, *others = columns
    for bit in range(bits - 1, 0, -1):
        below = _number((1 << bit) - 1)
        first = pc.bit_wise_xor(first, _where_set(first, bit, below))
        for place, other in enumerate(others):
            # Where the bit is set, the lower bits of the first column are inverted; else they are exchanged.
            inverted = _where_set(other, bit, below)
            differing = pc.bit_wise_and(pc.bit_wise_xor(first, other), below)
            exchanged = pc.bit_wise_and(differing, pc.bit_wise_not(inverted))
            first = pc.bit_wise_xor(first, pc.bit_wise_or(exchanged, inverted))
            others[place] = pc.bit_wise_xor(other, exchanged)
    # Gray code.
    gray = [first]
    for other in others:
        gray.append(pc.bit_wise_xor(other, gray[-1]))
    flips = pa.repeat(_number(0), len(first))
    for bit in range(1, bits):
        flips = pc.bit_wise_xor(flips, _where_set(gray[-1], bit, _number((1 << bit) - 1)))
    return [pc.bit_wise_xor(column, flips) for column in gray]


def _where_set(numbers: pa.UInt32Array, bit: int, value: pa.UInt32Scalar) -> pa.UInt32Array:
    """Return a value where a bit of the numbers is set, else 0."""
    return pc.multiply(pc.bit_wise_and(pc.shift_right(numbers, _number(bit)), _number(1)), value)


def _number(value: int) -> pa.UInt32Scalar:
    return pa.scalar(value, _ID)
