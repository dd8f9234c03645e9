"""Converting literals to the type of the column that they are compared with.

A literal may lie between two values of the column's type (``x > 2.5`` for an integer) or beyond the last one
(``x < 1000`` for a byte). Such a comparison is rewritten as an equivalent one that the type can express, so that it
prunes as well as any other.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as PyDecimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError
from deltaberg.expressions.double_quotes import DoubleQuoted
from deltaberg.expressions.instants import parse_time, parse_timestamp
from deltaberg.expressions.scalars import python_value
from deltaberg.kernels.decimals import exact_decimal, parse_decimal
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.schema import DataType, Decimal, Fixed, Primitive, arrow_type
from deltaberg.schema.uuids import uuid_of

__all__ = ["Moment", "Placed", "literals_at_once", "place_literal"]

_MICROS_PER_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
#: The resolution of a column of the type, in nanoseconds.
_GRAINS = {"timestamp": 1000, "timestamp_ntz": 1000, "timestamp_ns": 1, "timestamp_ntz_ns": 1}
#: More digits before or behind the point than any column has.
_MOST_DIGITS = 400
_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


@dataclass(frozen=True)
class Moment:
    """Microseconds since 1970: an instant, or the time on a clock on the wall, as the column demands."""

    micros: int

    def __str__(self) -> str:
        return f"'{pa.scalar(self.micros, pa.int64()).cast(pa.timestamp('us')).cast(pa.string())}'"


class Placed(NamedTuple):
    """Where a literal lies among the values of a type.

    ``value`` is a scalar of the column's Arrow type (of double for float). It is the literal itself if ``exact``,
    and otherwise the greatest value below it. It is None if the literal lies below or (``above_all``) above all values.
    If ``last`` is not None, all values from ``value`` to ``last`` equal the literal, which is a double.
    """

    value: pa.Scalar | None
    exact: bool
    above_all: bool = False
    last: pa.Scalar | None = None


def place_literal(literal: Any, column_type: DataType, zone: ZoneInfo) -> Placed:
    """Find the place of a literal, which is not null, among the values of a column's type.

    Parameters
    ----------
    zone
        The zone of literals that have none and are compared with a ``timestamp``.

    Raises
    ------
    ExpressionError
        If the literal cannot be compared with the type.
    """
    literal = python_value(literal)
    if isinstance(column_type, Decimal):
        most = 10**column_type.precision - 1
        return _number(literal, 10**column_type.scale, -most, most, column_type)
    if isinstance(column_type, Fixed):
        return _bytes(literal, column_type, column_type.length)
    if not isinstance(column_type, Primitive):
        raise ExpressionError(f"a column of type {column_type} can only be tested for null")
    name = column_type.name
    if name in _INTEGER_BITS:
        half = 1 << _INTEGER_BITS[name] - 1
        return _number(literal, 1, -half, half - 1, column_type)
    if name in ("float", "double"):
        return Placed(pa.scalar(_double(literal, column_type), pa.float64()), True)
    if name == "date":
        return _date(literal, zone)
    if name in _GRAINS:
        return _timestamp(literal, column_type, zone)
    return _plain(literal, column_type)


def literals_at_once(literals: Sequence[Any], column_type: DataType) -> pa.Array | None:
    """Return different literals as the values of a column's type; None if each must be placed by itself.

    Places are found one by one, which takes longer for a thousand values than a scan for all of them.
    """
    name = column_type.name if isinstance(column_type, Primitive) else ""
    kinds = {int} if name in _INTEGER_BITS else {str, DoubleQuoted} if name == "string" else set[type]()
    if not kinds.issuperset(map(type, literals)):
        return None
    try:
        return pc.unique(pa.array(literals, arrow_type(column_type)))
    except (pa.ArrowException, OverflowError, UnicodeError):
        # One of them is beyond the type.
        return None


def _plain(literal: Any, column_type: Primitive) -> Placed:
    """Place a literal of a type that can only be compared with itself."""
    name = column_type.name
    if name == "binary":
        return _bytes(literal, column_type, None)
    if name == "uuid":
        try:
            return Placed(pa.scalar(uuid_of(literal).bytes, arrow_type(column_type)), True)
        except ValueError:
            raise _mismatch(literal, column_type) from None
    if name == "time":
        return Placed(pa.scalar(_time(literal, column_type), arrow_type(column_type)), True)
    if isinstance(literal, str) and has_lone_surrogate(literal):
        raise ExpressionError(f"{literal!r:.80} is not valid Unicode")
    kind = {"string": str, "boolean": bool}.get(name)
    if kind is not None and isinstance(literal, kind):
        return Placed(pa.scalar(literal, arrow_type(column_type)), True)
    raise _mismatch(literal, column_type)


def _bytes(literal: Any, column_type: DataType, length: int | None) -> Placed:
    if not isinstance(literal, (bytes, bytearray, memoryview)) or length not in (None, len(bytes(literal))):
        raise _mismatch(literal, column_type)
    return Placed(pa.scalar(bytes(literal), arrow_type(column_type)), True)


def _time(literal: Any, column_type: DataType) -> dt.time:
    """Read a time without a zone from a time or its text."""
    if isinstance(literal, dt.time) and literal.tzinfo is None:
        return literal
    try:
        if isinstance(literal, str):
            return parse_time(literal)
    except ValueError:
        pass
    raise _mismatch(literal, column_type)


def _mismatch(literal: Any, column_type: DataType) -> ExpressionError:
    kind = type(literal).__name__
    return ExpressionError(f"{literal!r} ({kind}) cannot be compared with a column of type {column_type}")


def _rational(literal: Any, column_type: DataType) -> Fraction | float:
    """Return a number exactly, or as a float if it is NaN or infinite."""
    if isinstance(literal, bool) or not isinstance(literal, (int, float, PyDecimal, str)):
        raise _mismatch(literal, column_type)
    try:
        if isinstance(literal, str):
            literal = parse_decimal(literal.strip())
        if isinstance(literal, PyDecimal) and literal and abs(literal.adjusted()) > _MOST_DIGITS:
            # As a fraction it could have more digits than there is memory. To every column it is the same as another.
            literal = PyDecimal((literal.is_signed(), (1,), _MOST_DIGITS if literal.adjusted() > 0 else -_MOST_DIGITS))
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


def _number(literal: Any, parts: int, first: int, last: int, column_type: DataType) -> Placed:
    """Place a number among the multiples of ``1 / parts``, from number ``first`` to number ``last`` of them."""
    exact = _rational(literal, column_type)
    if isinstance(literal, float) and isinstance(exact, Fraction):
        # Spark compares numbers with a double as doubles: several of them may become this one.
        low, high = _rounded_to(literal, parts)
        low, high = max(low, first), min(high, last)
        if low <= high:
            ends = [pa.scalar(_value(step, column_type), arrow_type(column_type)) for step in (low, high)]
            return Placed(ends[0], True, last=ends[1] if low < high else None)
    return _on_grid(exact, parts, first, last, column_type)


def _rounded_to(double: float, parts: int) -> tuple[int, int]:
    """Return the first and the last multiple of ``1 / parts`` that become a double if they are rounded to one."""
    below, above = (math.nextafter(double, end) for end in (-math.inf, math.inf))
    if math.isinf(below) or math.isinf(above):
        return 0, -1
    low = math.ceil((Fraction(below) + Fraction(double)) / 2 * parts)
    high = math.floor((Fraction(above) + Fraction(double)) / 2 * parts)
    # What lies in the middle between two doubles becomes the even one.
    low += float(Fraction(low, parts)) != double
    high -= float(Fraction(high, parts)) != double
    return low, high


def _value(step: int, column_type: DataType) -> PyDecimal | int:
    return exact_decimal(step, column_type.scale) if isinstance(column_type, Decimal) else step


def _on_grid(number: Fraction | float, parts: int, first: int, last: int, column_type: DataType) -> Placed:
    """Place a number among the multiples of ``1 / parts``, from number ``first`` to number ``last`` of them."""
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
    return Placed(pa.scalar(_value(below, column_type), arrow_type(column_type)), exact)


def _date(literal: Any, zone: ZoneInfo) -> Placed:
    if isinstance(literal, str):
        # As in Spark, text beside a date is read as a date, so that a time in it does not count.
        literal = _parse(literal, Primitive("date"))[0].date()
    if isinstance(literal, (dt.datetime, Moment)):
        days, rest = divmod(_wall_micros(literal, zone), _MICROS_PER_DAY)
        return Placed(pa.scalar(days, pa.int32()).cast(pa.date32()), rest == 0)
    if isinstance(literal, dt.date):
        return Placed(pa.scalar(literal, pa.date32()), True)
    raise _mismatch(literal, Primitive("date"))


def _wall_micros(literal: dt.datetime | Moment, zone: ZoneInfo) -> int:
    """Return microseconds since 1970 as the clocks of a zone show them."""
    if isinstance(literal, Moment):
        return literal.micros
    local = literal if literal.tzinfo is None else _in_zone(literal, zone)
    return (local - _EPOCH) // dt.timedelta(microseconds=1)


def _in_zone(moment: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """Return the wall clock of a zone at an instant."""
    try:
        return moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise ExpressionError(f"{moment} is outside the years 1 to 9999 in the zone {zone}") from None


def _timestamp(literal: Any, column_type: Primitive, zone: ZoneInfo) -> Placed:
    """Place an instant, which may be finer than the column."""
    steps, rest = divmod(_nanos(literal, column_type, zone), _GRAINS[column_type.name])
    if not -(1 << 63) <= steps < 1 << 63:
        return Placed(None, False, above_all=steps > 0)
    return Placed(pa.scalar(steps, pa.int64()).cast(arrow_type(column_type)), rest == 0)


def _nanos(literal: Any, column_type: Primitive, zone: ZoneInfo) -> int:
    """Return nanoseconds since 1970: in UTC for instants, of the wall clock for the others."""
    if isinstance(literal, Moment):
        return literal.micros * 1000
    # pandas has datetimes with nanoseconds.
    beyond = getattr(literal, "nanosecond", 0)
    if isinstance(literal, str):
        literal, beyond = _parse(literal, column_type)
    if isinstance(literal, dt.date) and not isinstance(literal, dt.datetime):
        literal = dt.datetime(literal.year, literal.month, literal.day)
    if not isinstance(literal, dt.datetime):
        raise _mismatch(literal, column_type)
    offset = dt.timedelta(0)
    if column_type.name in ("timestamp", "timestamp_ns"):
        aware = literal if literal.tzinfo is not None else literal.replace(tzinfo=zone)
        offset = aware.utcoffset() or offset
    elif literal.tzinfo is not None:
        raise ExpressionError(
            f"{literal!r} has a time zone and cannot be compared with a column of type {column_type}",
            hint="pass a datetime without tzinfo",
        )
    # A datetime in UTC could be outside the years that Python supports.
    micros: int = (literal.replace(tzinfo=None) - _EPOCH - offset) // dt.timedelta(microseconds=1)
    return micros * 1000 + int(beyond)


def _parse(text: str, column_type: Primitive) -> tuple[dt.datetime, int]:
    """Read a date or timestamp from text, as SQL does when it compares one with a string; see `parse_timestamp`."""
    try:
        return parse_timestamp(text)
    except ValueError:
        raise _mismatch(text, column_type) from None
