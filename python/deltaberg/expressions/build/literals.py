"""Literals: Python objects with the types that Spark gives them."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa

from deltaberg.errors import ExpressionError
from deltaberg.expressions.tree.scalars import arrow_scalar
from deltaberg.expressions.tree.tree import Call, Cast, Literal, Value
from deltaberg.expressions.tree.types import DATE, NTZ, NTZ_NANOS, STRING, TIMESTAMP, TIMESTAMP_NANOS
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.schema.types import DataType, Decimal, Primitive

__all__ = ["decimal_literal", "integer_type", "literal_of", "no_value"]


def literal_of(given: Any) -> Value:
    """Return a Python object as a literal with the type that Spark gives it."""
    if isinstance(given, (list, tuple)):
        return Call("array", tuple(literal_of(part) for part in given))
    given = _plain(given)
    if isinstance(given, pa.TimestampScalar) and given.type.unit == "ns":
        # Python's own type has too few digits.
        return Literal(given, NTZ_NANOS if given.type.tz is None else TIMESTAMP_NANOS)
    if isinstance(given, pa.Scalar):
        return _far_moment(given)
    if isinstance(given, bool) or given is None:
        return Literal(given, Primitive("boolean" if given is not None else "void"))
    if isinstance(given, int):
        return Literal(given, integer_type(given))
    if isinstance(given, PyDecimal) and given.is_finite():
        return decimal_literal(given)
    if isinstance(given, dt.datetime):
        return Literal(given, Primitive("timestamp" if given.tzinfo is not None else "timestamp_ntz"))
    known = {
        float: "double",
        str: "string",
        bytes: "binary",
        dt.date: "date",
        uuid.UUID: "uuid",
        dt.time: "time",
    }
    for kind, name in known.items():
        if isinstance(given, kind) and getattr(given, "tzinfo", None) is None:
            return Literal(given, Primitive(name))
    raise no_value(given)


def _plain(given: Any) -> Any:
    """Return scalars of other libraries as values of Python, but for dates and timestamps that Python does not have."""
    if int(getattr(given, "nanosecond", 0)):
        given = pa.scalar(given, pa.timestamp("ns", None if given.tzinfo is None else "UTC"))
    given = arrow_scalar(given)
    if isinstance(given, pa.TimestampScalar) and given.type.unit == "ns":
        if given.is_valid and given.value % 1000:
            return given
        given = given.cast(pa.timestamp("us", given.type.tz))
    if isinstance(given, str) and has_lone_surrogate(given):
        raise ExpressionError(f"{given!r:.80} is not valid Unicode")
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    if not isinstance(given, pa.Scalar):
        return given
    try:
        return given.as_py()
    except (OverflowError, ValueError) as error:
        if isinstance(given, (pa.Date32Scalar, pa.Date64Scalar, pa.TimestampScalar)):
            return given
        raise ExpressionError(f"a scalar of the type {given.type} has a value that Python does not have") from error


def _far_moment(given: pa.Scalar) -> Value:
    """Return a date before the year 1 or after the year 9999, or a timestamp, as SQL writes it: a cast of its text."""
    from deltaberg.expressions.time.moments import format_date

    if not isinstance(given, pa.TimestampScalar):
        return Cast(Literal(format_date(given.cast(pa.date32()).value), STRING), DATE)
    has_zone = given.type.tz is not None
    try:
        micros: int = given.cast(pa.timestamp("us", given.type.tz)).value
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"{given.value} {given.type.unit} is beyond the timestamps") from error
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    text = f"{format_date(days)} {clock}{'Z' if has_zone else ''}"
    return Cast(Literal(text, STRING), TIMESTAMP if has_zone else NTZ)


def no_value(given: object) -> ExpressionError:
    """Return the error of a Python object that is no literal."""
    return ExpressionError(
        f"{given!r} ({type(given).__name__}) is not a value", hint="pass SQL text, a condition, or a Python literal"
    )


def integer_type(number: int) -> DataType:
    """Return the type that Spark gives to a whole number: the first of integer, long and a decimal that holds it."""
    for name, bits in (("integer", 31), ("long", 63)):
        if -(1 << bits) <= number < 1 << bits:
            return Primitive(name)
    return _decimal_type(PyDecimal(number))


def decimal_literal(number: PyDecimal) -> Literal:
    """Return a decimal as a literal with as many digits as it is written with."""
    kind = _decimal_type(number)
    sign, digits, exponent = number.as_tuple()
    if int(exponent) > 0:
        number = PyDecimal((sign, digits + (0,) * int(exponent), 0))
    return Literal(number, kind)


def _decimal_type(number: PyDecimal) -> Decimal:
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ExpressionError(f"{number} is not a decimal")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise ExpressionError(f"{number!s:.40} has more than 38 digits")
    return Decimal(precision, scale)
