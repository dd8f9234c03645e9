"""Arrow values of Python's plain ones, made without pandas.

For the first value that it converts pyarrow imports pandas, where it is installed, which takes longer than opening a
table and reading its first rows. Whatever every scan comes by makes its values here, and compares with them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, Literal

import pyarrow as pa

__all__ = ["FALSE", "ONE", "TRUE", "ZERO", "array", "scalar"]

#: More values than these pyarrow converts, beside which the import of pandas takes little time.
_MOST_VALUES = 4096
#: How `memoryview` calls the numbers that Arrow stores.
_NUMBERS: dict[pa.DataType, Literal["i", "q", "d"]] = {pa.int32(): "i", pa.int64(): "q", pa.float64(): "d"}
_TYPES: dict[type, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an array of plain values, or of scalars of its type, as ``pa.array`` does.

    Examples
    --------
    >>> array(["a", None], pa.string()).to_pylist()
    ['a', None]
    """
    if len(values) > _MOST_VALUES or "pandas" in sys.modules:
        return pa.array(values, kind)
    if values and all(isinstance(value, pa.Scalar) and value.type == kind for value in values):
        return pa.concat_arrays([pa.repeat(value, 1) for value in values])
    stored = _buffers(values, kind)
    if stored is None:
        return pa.array(values, kind)
    valid = _bits([value is not None for value in values]) if None in values else None
    return pa.Array.from_buffers(kind, len(values), [valid, *stored])


def scalar(value: Any, kind: pa.DataType | None = None) -> pa.Scalar:
    """Return a scalar as ``pa.scalar`` does.

    Examples
    --------
    >>> scalar(5).type, scalar(5, pa.int32()).as_py()
    (DataType(int64), 5)
    """
    if value is None:
        return pa.nulls(1, kind)[0]
    own = kind or _TYPES.get(type(value))
    return pa.scalar(value, kind) if own is None or "pandas" in sys.modules else array([value], own)[0]


def _buffers(values: Sequence[Any], kind: pa.DataType) -> list[pa.Buffer] | None:
    """Return the buffers of an array but for its validity; None where pyarrow has to convert or refuse the values."""
    types = {type(value) for value in values if value is not None}
    if kind == pa.bool_():
        return [_bits(values)] if types <= {bool} else None
    if kind == pa.string():
        return _texts(values) if types <= {str} else None
    if pa.types.is_decimal(kind):
        return _decimals(values, kind) if types <= {Decimal} else None
    code = _NUMBERS.get(kind)
    if code is None or not types <= ({float} if code == "d" else {int}):
        return None
    numbers = memoryview(bytearray(len(values) * (kind.bit_width // 8))).cast(code)
    try:
        for place, value in enumerate(values):
            numbers[place] = 0 if value is None else value
    except ValueError:
        return None
    return [pa.py_buffer(numbers)]


def _decimals(values: Sequence[Decimal | None], kind: pa.DataType) -> list[pa.Buffer] | None:
    stored = bytearray()
    for value in values:
        sign, digits, exponent = (value or Decimal(0)).as_tuple()
        zeros = exponent + kind.scale if isinstance(exponent, int) else -1
        if not 0 <= zeros <= kind.precision - len(digits):
            return None
        unscaled = int("".join(map(str, digits))) * 10**zeros
        stored += (-unscaled if sign else unscaled).to_bytes(kind.byte_width, "little", signed=True)
    return [pa.py_buffer(bytes(stored))]


def _bits(values: Sequence[bool | None]) -> pa.Buffer:
    bits = int("".join("1" if value else "0" for value in reversed(values)) or "0", base=2)
    return pa.py_buffer(bits.to_bytes(len(values) // 8 + 1, "little"))


def _texts(values: Sequence[str | None]) -> list[pa.Buffer] | None:
    try:
        parts = [b"" if value is None else value.encode() for value in values]
    except UnicodeEncodeError:
        return None
    offsets = _buffers(list(accumulate(map(len, parts), initial=0)), pa.int32())
    return None if offsets is None else [*offsets, pa.py_buffer(b"".join(parts))]


TRUE, FALSE, ZERO, ONE = scalar(True), scalar(False), scalar(0), scalar(1)
