"""Converting the arrays of a file to the types of the table: the reading half of type promotion."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import CorruptDataFileError, SchemaError
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal, Fixed, Primitive

__all__ = [
    "PER_SECOND",
    "convert_leaf",
    "floor_divide",
    "in_unit",
    "is_promotable",
    "list_with_values",
    "rows_valid",
    "struct_of",
]

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
#: How many digits an integer of so many bits may need, if it has a sign.
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
#: The digits of every integer of 64 bits.
_MOST_DIGITS = 20


def is_promotable(stored: pa.DataType, kind: DataType) -> bool:
    """Return whether values of a file's leaf type can be read as the table's type without loss.

    An integer type can be read as any integer type that has at least as many bits. Types of up to 32 bits can be read
    as any integer type, because files may store narrower integers in 32 bits without an annotation; a value that does
    not fit is found when it is converted.
    """
    if pt.is_null(stored):
        return True
    if pt.is_dictionary(stored):
        return is_promotable(stored.value_type, kind)
    if isinstance(kind, Decimal):
        return _is_promotable_decimal(stored, kind)
    if isinstance(kind, Fixed):
        return _is_bytes_of(stored, kind.length)
    if not isinstance(kind, Primitive):
        return False
    if kind.name in _INTEGER_BITS:
        return bool(pt.is_integer(stored) and stored.bit_width <= max(_INTEGER_BITS[kind.name], 32))
    fits = _FITS.get(kind.name)
    return fits is not None and fits(stored)


def _is_promotable_decimal(arrow: pa.DataType, decimal: Decimal) -> bool:
    if pt.is_decimal(arrow):
        whole = decimal.precision - decimal.scale >= arrow.precision - arrow.scale
        return bool(whole and decimal.scale >= arrow.scale)
    if not pt.is_integer(arrow):
        return False
    return bool(decimal.precision - decimal.scale >= _INTEGER_DIGITS[arrow.bit_width])


def _is_bytes(found: pa.DataType) -> bool:
    kinds = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)
    return any(kind(found) for kind in kinds) or found in (pa.string_view(), pa.binary_view())


def _is_bytes_of(found: pa.DataType, length: int) -> bool:
    """Return whether values may have a length. For types of variable length, each value is checked later."""
    if pt.is_fixed_size_binary(found):
        return bool(found.byte_width == length)
    return bool(pt.is_binary(found) or pt.is_large_binary(found))


def _is_instant(found: pa.DataType) -> bool:
    return bool(pt.is_timestamp(found) or pt.is_date(found))


def _is_small_number(found: pa.DataType) -> bool:
    return bool(pt.is_floating(found) or (pt.is_integer(found) and found.bit_width <= 32))


#: For each type of the table, which types of a file can be read as it.
_FITS: dict[str, Callable[[pa.DataType], bool]] = {
    "double": _is_small_number,
    "float": lambda found: found in (pa.float16(), pa.float32(), pa.int8(), pa.int16()),
    "string": _is_bytes,
    "binary": _is_bytes,
    "date": lambda found: bool(pt.is_date(found)),
    "timestamp_ntz": _is_instant,
    "timestamp_ntz_ns": _is_instant,
    "timestamp": lambda found: bool(pt.is_timestamp(found)),
    "timestamp_ns": lambda found: bool(pt.is_timestamp(found)),
    # ORC has no time type; writers annotate 64-bit integers instead.
    "time": lambda found: bool(pt.is_time(found) or pt.is_int64(found)),
    "uuid": lambda found: _is_bytes_of(found, 16),
    "boolean": lambda found: bool(pt.is_boolean(found)),
}


def convert_leaf(array: pa.Array, kind: DataType) -> pa.Array:
    """Convert a leaf array to the Arrow type of the table's type.

    Raises
    ------
    SchemaError
        If values of the one type cannot be read as the other.
    CorruptDataFileError
        If a single value cannot: text that is not UTF-8, or an integer that is too large.
    """
    target = arrow_type(kind)
    stored = array.type
    if stored == target:
        return array
    if pt.is_null(stored):
        return pa.nulls(len(array), target)
    if not is_promotable(stored, kind):
        raise SchemaError(f"the file stores {stored}, but the column has the type {kind}")
    try:
        if pt.is_dictionary(stored):
            return convert_leaf(array.dictionary_decode(), kind)
        if pt.is_timestamp(stored):
            return in_unit(array.view(pa.int64()), stored.unit, target.unit).view(target)
        if pt.is_date(stored) and pt.is_timestamp(target):
            return array.cast(pa.date32()).cast(pa.timestamp(target.unit)).view(target)
        if pt.is_int64(stored) and pt.is_time(target):
            return array.view(target)
        if isinstance(kind, Decimal) and pt.is_integer(stored):
            return array.cast(pa.decimal128(_MOST_DIGITS, 0)).cast(target)
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise CorruptDataFileError(f"a value stored as {stored} does not fit {kind}: {error}") from error


PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def in_unit(values: pa.Array, stored_unit: str, unit: str) -> pa.Array:
    """Convert 64-bit integers from one unit of time to another, rounding down if it is coarser."""
    if stored_unit == unit:
        return values
    if PER_SECOND[stored_unit] < PER_SECOND[unit]:
        factor = PER_SECOND[unit] // PER_SECOND[stored_unit]
        return pc.multiply_checked(values, pa.scalar(factor, pa.int64()))
    return floor_divide(values, PER_SECOND[stored_unit] // PER_SECOND[unit])


def floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    """Divide 64-bit integers by a positive number, rounding down."""
    quotient = pc.divide(values, pa.scalar(divisor, pa.int64()))
    below = pc.less(values, pc.multiply(quotient, pa.scalar(divisor, pa.int64())))
    return pc.subtract(quotient, below.cast(pa.int64()))


def rows_valid(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of an array, aligned to its first row; None if it has no nulls."""
    if not array.null_count:
        return None
    return array.is_valid().buffers()[1]


def struct_of(source: pa.StructArray, children: list[pa.Array], fields: list[pa.Field]) -> pa.StructArray:
    """Build a struct array from new children and the nulls of another array."""
    if not fields:
        buffers = [rows_valid(source)]
        return pa.Array.from_buffers(pa.struct([]), len(source), buffers, children=[])
    mask = source.is_null() if source.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def list_with_values(source: pa.Array, values: pa.Array, target: pa.DataType, first: int) -> pa.Array:
    """Build a list or map array from new values and the lengths and nulls of another array.

    ``values`` begins at value number ``first`` of the source.
    """
    offsets = pc.subtract(source.offsets, pa.scalar(first, source.offsets.type)).cast(pa.int32())
    buffers = [rows_valid(source), offsets.buffers()[1]]
    if pt.is_map(target):
        # Counts the nulls: before version 17, Arrow aborts on entries and keys whose nulls were not counted.
        _ = values.null_count, values.field(0).null_count
    return pa.Array.from_buffers(target, len(source), buffers, children=[values])
