"""The metrics in Iceberg manifests, maps from a field id to a bound or a count, as one column per wanted field.

See the Iceberg specification, "Manifests" and "Appendix D: Single-value serialization".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, TooLargeError
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.kernels.pure.log.values import PrimitiveType
from deltaberg.kernels.pure.quoted import quoted
from deltaberg.kernels.results import empty_batch

__all__ = ["parse_bounds", "parse_counts"]

_MICROS_PER_DAY = 86_400_000_000
_MAX_INT32 = (1 << 31) - 1
_MAX_INT64 = (1 << 63) - 1
_FIXED = re.compile(r"fixed\[([0-9]{1,10})\]")
_DECIMAL_BYTES = 16


class _BoundType(NamedTuple):
    """A type that has bounds: its Arrow type, and how bytes are read (None if they are not a value of it)."""

    arrow: pa.DataType
    decode: Callable[[bytes], Any]


def parse_bounds(bounds: pa.MapArray, fields: Sequence[tuple[int, str]], threads: int = 0) -> pa.RecordBatch:
    """Return the bounds of fields (id, type) as a typed column per field, named by its id.

    A missing key, a null, bytes that are not a value of the type, and NaN become null, because an unknown bound is
    always safe. The length of a value tells whether it was written before the column's type was promoted.
    """
    _check_map(bounds, pa.binary(), "bytes")
    kinds = [(number, _bound_type(name)) for number, name in fields]
    for _, kind in kinds:
        _check_size(kind.arrow, len(bounds))
    rows = _rows(bounds)

    def column(number: int, kind: _BoundType) -> pa.Array:
        cells = (row.get(number) for row in rows)
        return pa.array([None if cell is None else kind.decode(cell) for cell in cells], kind.arrow)

    return _batch([(number, column(number, kind)) for number, kind in kinds], len(rows))


def parse_counts(counts: pa.MapArray, ids: Sequence[int], threads: int = 0) -> pa.RecordBatch:
    """Return the counts of fields as a column per field, named by its id. A missing key becomes null."""
    _check_map(counts, pa.int64(), "int64")
    rows = _rows(counts)
    return _batch([(number, pa.array([row.get(number) for row in rows], pa.int64())) for number in ids], len(rows))


def _check_map(maps: pa.Array, item: pa.DataType, name: str) -> None:
    if not isinstance(maps, pa.MapArray):
        raise InvalidArgumentError("Cast error: an array of maps was expected")
    if maps.type.item_type != item:
        raise InvalidArgumentError(f"the map must have {name} as values")
    if maps.type.key_type != pa.int32():
        raise InvalidArgumentError("the map must have int32 as keys")


def _check_size(kind: pa.DataType, rows: int) -> None:
    """Refuse a column of fixed length that would not fit into memory."""
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width * rows > _MAX_INT32:
        raise TooLargeError(f"a column of {rows} values of {kind.byte_width} bytes is too large")


def _rows(maps: pa.MapArray) -> list[dict[int, Any]]:
    """Return each row as a dictionary. If it has a key twice, the last entry counts."""
    return [dict(row or ()) for row in maps.to_pylist()]


def _batch(columns: list[tuple[int, pa.Array]], rows: int) -> pa.RecordBatch:
    if not columns:
        return empty_batch(rows)
    return pa.RecordBatch.from_arrays([array for _, array in columns], names=[str(number) for number, _ in columns])


def _bound_type(name: str) -> _BoundType:
    known = _TYPES.get(name)
    if known is not None:
        return known
    fixed = _FIXED.fullmatch(name)
    if fixed is not None and 1 <= int(fixed[1]) <= _MAX_INT32:
        return _fixed(int(fixed[1]))
    if name.startswith("decimal"):
        try:
            arrow = PrimitiveType.from_name(name).arrow
        except InvalidArgumentError:
            pass
        else:
            return _BoundType(arrow, lambda data: _decimal(data, arrow.precision, arrow.scale))
    raise InvalidArgumentError(f"{quoted(name)} is not a type with bounds")


def _unpack(data: bytes, pattern: str) -> Any:
    """Return the number that the bytes encode; None if their count is wrong, and for NaN."""
    if len(data) != struct.calcsize(pattern):
        return None
    (value,) = struct.unpack(pattern, data)
    return None if isinstance(value, float) and math.isnan(value) else value


def _either(wide: str, narrow: str) -> Callable[[bytes], Any]:
    """Read a value that may have been written before its type was promoted to a wider one."""
    return lambda data: _unpack(data, narrow if len(data) == struct.calcsize(narrow) else wide)


def _timestamp(units_per_day: int) -> Callable[[bytes], int | None]:
    """Read a timestamp, or the days of a date whose column was promoted to a timestamp."""

    def decode(data: bytes) -> int | None:
        days: int | None = _unpack(data, "<i")
        if days is None:
            value: int | None = _unpack(data, "<q")
            return value
        value = days * units_per_day
        return value if -_MAX_INT64 <= value <= _MAX_INT64 else None

    return decode


def _time(data: bytes) -> int | None:
    micros: int | None = _unpack(data, "<q")
    return micros if micros is not None and 0 <= micros < _MICROS_PER_DAY else None


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _decimal(data: bytes, precision: int, scale: int) -> Decimal | None:
    unscaled = int.from_bytes(data, "big", signed=True)
    if not 1 <= len(data) <= _DECIMAL_BYTES or abs(unscaled) >= 10**precision:
        return None
    return exact_decimal(unscaled, scale)


def _fixed(length: int) -> _BoundType:
    return _BoundType(pa.binary(length), lambda data: data if len(data) == length else None)


_TYPES = {
    "boolean": _BoundType(pa.bool_(), lambda data: data != b"\0" if len(data) == 1 else None),
    "int": _BoundType(pa.int32(), lambda data: _unpack(data, "<i")),
    "long": _BoundType(pa.int64(), _either("<q", "<i")),
    "float": _BoundType(pa.float32(), lambda data: _unpack(data, "<f")),
    "double": _BoundType(pa.float64(), _either("<d", "<f")),
    "date": _BoundType(pa.date32(), lambda data: _unpack(data, "<i")),
    "time": _BoundType(pa.time64("us"), _time),
    "timestamp": _BoundType(pa.timestamp("us"), _timestamp(_MICROS_PER_DAY)),
    "timestamptz": _BoundType(pa.timestamp("us", "UTC"), lambda data: _unpack(data, "<q")),
    "timestamp_ns": _BoundType(pa.timestamp("ns"), _timestamp(_MICROS_PER_DAY * 1000)),
    "timestamptz_ns": _BoundType(pa.timestamp("ns", "UTC"), lambda data: _unpack(data, "<q")),
    "string": _BoundType(pa.string(), _text),
    "binary": _BoundType(pa.binary(), lambda data: data),
    "uuid": _fixed(16),
}
