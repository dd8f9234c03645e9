"""Literals brought to the type of the column that they are compared with.

A literal may lie between two values of the column's type (``x > 2.5`` of an integer) or past its last one
(``x < 1000`` of a byte). The comparison is then rewritten to an equal one that the type can express, so that it
prunes as well as any other.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal as PyDecimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from deltaberg.errors import ExpressionError
from deltaberg.kernels.decimals import exact_decimal, parse_decimal
from deltaberg.schema import DataType, Decimal, Primitive, arrow_type

__all__ = ["Placed", "place_literal"]

_MICROS_PER_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


class Placed(NamedTuple):
    """Where a literal lies among the values of a type.

    ``value`` is a scalar of the column's Arrow type (double for float): the literal itself where ``exact``, else
    the greatest value below it, which is None where the literal is below all values.
    """

    value: pa.Scalar | None
    exact: bool
    above_all: bool = False


def place_literal(literal: Any, column_type: DataType, zone: ZoneInfo) -> Placed:
    """Place a literal, which is not null, among the values of a column's type.

    Parameters
    ----------
    zone
        The zone of literals without one that are compared with a ``timestamp``.

    Raises
    ------
    ExpressionError
        Where the literal cannot be compared with the type.
    """
    if isinstance(literal, pa.Scalar):
        literal = literal.as_py()
    if isinstance(column_type, Decimal):
        most = 10**column_type.precision - 1
        return _on_grid(_rational(literal, column_type), 10**column_type.scale, -most, most, column_type)
    if not isinstance(column_type, Primitive):
        raise ExpressionError(f"a column of type {column_type} can only be tested for null")
    name = column_type.name
    if name in _INTEGER_BITS:
        half = 1 << _INTEGER_BITS[name] - 1
        return _on_grid(_rational(literal, column_type), 1, -half, half - 1, column_type)
    if name in ("float", "double"):
        return Placed(pa.scalar(_double(literal, column_type), pa.float64()), True)
    if name == "date":
        return _date(literal, zone)
    if name in ("timestamp", "timestamp_ntz"):
        micros = _micros(literal, column_type, zone)
        if not -(1 << 63) <= micros < 1 << 63:
            return Placed(None, False, above_all=micros > 0)
        return Placed(pa.scalar(micros, pa.int64()).cast(arrow_type(column_type)), True)
    return _plain(literal, column_type)


def _plain(literal: Any, column_type: Primitive) -> Placed:
    """Place a literal of a type that compares with its own alone."""
    name = column_type.name
    if name == "binary" and isinstance(literal, (bytes, bytearray, memoryview)):
        return Placed(pa.scalar(bytes(literal), pa.binary()), True)
    kind = {"string": str, "boolean": bool}.get(name)
    if kind is not None and isinstance(literal, kind):
        return Placed(pa.scalar(literal, arrow_type(column_type)), True)
    raise _mismatch(literal, column_type)


def _mismatch(literal: Any, column_type: DataType) -> ExpressionError:
    kind = type(literal).__name__
    return ExpressionError(f"{literal!r} ({kind}) cannot be compared with a column of type {column_type}")


def _rational(literal: Any, column_type: DataType) -> Fraction | float:
    """Give a number exactly; a float where it is NaN or infinite."""
    if isinstance(literal, bool) or not isinstance(literal, (int, float, PyDecimal, str)):
        raise _mismatch(literal, column_type)
    try:
        if isinstance(literal, str):
            literal = parse_decimal(literal.strip())
        return Fraction(literal) if math.isfinite(literal) else float(literal)
    except (ValueError, ArithmeticError):
        raise _mismatch(literal, column_type) from None


def _double(literal: Any, column_type: DataType) -> float:
    if isinstance(literal, bool) or not isinstance(literal, (int, float, PyDecimal, str)):
        raise _mismatch(literal, column_type)
    try:
        return float(literal)
    except OverflowError:
        return -math.inf if str(literal).startswith("-") else math.inf
    except ValueError:
        raise _mismatch(literal, column_type) from None


def _on_grid(number: Fraction | float, parts: int, first: int, last: int, column_type: DataType) -> Placed:
    """Place a number among the multiples of ``1 / parts`` from the ``first`` of them to the ``last``."""
    if isinstance(number, float):
        # NaN and infinity are greater than every integer and decimal.
        return Placed(None, False, above_all=not number < 0)
    steps = number * parts
    below = steps.numerator // steps.denominator
    exact = steps.denominator == 1
    if below < first:
        return Placed(None, False)
    if below > last:
        return Placed(None, False, above_all=True)
    value = exact_decimal(below, column_type.scale) if isinstance(column_type, Decimal) else below
    return Placed(pa.scalar(value, arrow_type(column_type)), exact)


def _date(literal: Any, zone: ZoneInfo) -> Placed:
    if isinstance(literal, str):
        literal = _parse(literal, Primitive("date"))
    if isinstance(literal, dt.datetime):
        if literal.tzinfo is not None:
            literal = literal.astimezone(zone).replace(tzinfo=None)
        days, rest = divmod((literal - _EPOCH) // dt.timedelta(microseconds=1), _MICROS_PER_DAY)
        return Placed(pa.scalar(days, pa.int32()).cast(pa.date32()), rest == 0)
    if isinstance(literal, dt.date):
        return Placed(pa.scalar(literal, pa.date32()), True)
    raise _mismatch(literal, Primitive("date"))


def _micros(literal: Any, column_type: Primitive, zone: ZoneInfo) -> int:
    """Give microseconds since 1970: in UTC for ``timestamp``, of the wall clock for ``timestamp_ntz``."""
    if isinstance(literal, str):
        literal = _parse(literal, column_type)
    if isinstance(literal, dt.date) and not isinstance(literal, dt.datetime):
        literal = dt.datetime(literal.year, literal.month, literal.day)
    if not isinstance(literal, dt.datetime):
        raise _mismatch(literal, column_type)
    if column_type.name == "timestamp":
        aware = literal if literal.tzinfo is not None else literal.replace(tzinfo=zone)
        literal = aware.astimezone(dt.timezone.utc).replace(tzinfo=None)
    elif literal.tzinfo is not None:
        raise ExpressionError(
            f"{literal!r} has a time zone and cannot be compared with a column of type timestamp_ntz",
            hint="pass a datetime without tzinfo",
        )
    micros: int = (literal - _EPOCH) // dt.timedelta(microseconds=1)
    return micros


def _parse(text: str, column_type: Primitive) -> dt.datetime | dt.date:
    """Read a date or timestamp from text, as SQL does when it compares a string with one."""
    cleaned = text.strip()
    try:
        if len(cleaned) <= len("2020-01-01"):
            return dt.date.fromisoformat(cleaned)
        return dt.datetime.fromisoformat(cleaned.removesuffix("Z") + ("+00:00" if cleaned.endswith("Z") else ""))
    except ValueError:
        raise _mismatch(text, column_type) from None
