"""Partition values as text, the way paths of data files show them (``toHumanString`` in Iceberg's Java library)."""

from __future__ import annotations

import base64
import uuid
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa

from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.rows.ordinals import months_and_days, ordinals_of
from deltaberg.schema.types import DataType, Fixed, Primitive

__all__ = ["date_part_text", "value_text"]

_NANOS_PER_SECOND = 1_000_000_000
_NANOS_PER_DAY = 86_400 * _NANOS_PER_SECOND
_NANOS = {"time": 1000, "timestamp": 1000, "timestamp_ntz": 1000, "timestamp_ns": 1, "timestamp_ntz_ns": 1}
#: Java writes doubles without an exponent from the first of these powers of ten on, and below the second.
_LEAST_PLAIN, _MOST_PLAIN = -3, 7


def value_text(value: Any, kind: DataType) -> str:
    """Return the text of a value, given as an Arrow scalar or as a Python value; ``null`` for null."""
    scalar = _scalar(value, kind)
    if not scalar.is_valid:
        return "null"
    name = kind.name if isinstance(kind, Primitive) else ""
    if name == "binary" or isinstance(kind, Fixed):
        return base64.b64encode(scalar.as_py()).decode("ascii")
    if name == "uuid":
        return str(uuid.UUID(bytes=scalar.as_py()))
    if name == "boolean":
        return str(scalar.as_py()).lower()
    if name in ("float", "double"):
        return _floating(scalar)
    if name == "date":
        return _date(_number(scalar))
    if name in _NANOS:
        days, nanos = divmod(_number(scalar) * _NANOS[name], _NANOS_PER_DAY)
        if name == "time":
            return _clock(nanos)
        return f"{_date(days)}T{_clock(nanos)}{'' if 'ntz' in name else '+00:00'}"
    return str(scalar.as_py())


def date_part_text(value: Any, unit: str) -> str:
    """Return the date that a number of years, months, days or hours since 1970 means; ``null`` for null.

    Examples
    --------
    >>> date_part_text(650, "month")
    '2024-03'
    """
    scalar = _scalar(value, Primitive("date" if unit == "day" else "integer"))
    if not scalar.is_valid:
        return "null"
    number = _number(scalar)
    if unit == "year":
        return f"{1970 + number:04d}"
    if unit == "month":
        return f"{1970 + number // 12:04d}-{number % 12 + 1:02d}"
    if unit == "day":
        return _date(number)
    return f"{_date(number // 24)}-{number % 24:02d}"


def _scalar(value: Any, kind: DataType) -> pa.Scalar:
    return value if isinstance(value, pa.Scalar) else pa.scalar(value, arrow_type(kind))


def _number(scalar: pa.Scalar) -> int:
    return ordinals_of(pa.repeat(scalar, 1))[0]


def _date(days: int) -> str:
    months, day = (part[0].as_py() for part in months_and_days(pa.array([days], pa.int64())))
    return f"{1970 + months // 12:04d}-{months % 12 + 1:02d}-{day:02d}"


def _clock(nanos: int) -> str:
    seconds, fraction = divmod(nanos, _NANOS_PER_SECOND)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"


def _floating(scalar: pa.Scalar) -> str:
    """Return the shortest digits that identify the number, in the form that Java gives them."""
    text = scalar.cast(pa.string()).as_py()
    if not any(map(str.isdigit, text)):
        return {"nan": "NaN", "inf": "Infinity"}.get(text, "-Infinity")
    number = PyDecimal(text)
    if number.is_zero():
        return "-0.0" if number.is_signed() else "0.0"
    if _LEAST_PLAIN <= number.adjusted() < _MOST_PLAIN:
        plain = f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    return f"{'-' if number.is_signed() else ''}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"
