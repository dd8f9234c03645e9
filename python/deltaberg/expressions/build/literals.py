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
from deltaberg.hints import shown_value
from deltaberg.kernels.decimals import parse_decimal
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.schema.types import DataType, Decimal, Primitive
from deltaberg.whole_numbers import whole_number

__all__ = ["decimal_literal", "integer_type", "literal_of", "no_value", "number_literal"]


def literal_of(value: Any) -> Value:
    """Return a Python object as a literal with the type that Spark gives it."""
    if isinstance(value, (list, tuple)):
        return Call("array", tuple(literal_of(part) for part in value))
    value = _plain(value)
    if isinstance(value, pa.TimestampScalar) and value.type.unit == "ns":
        # Python's own type has too few digits.
        return Literal(value, NTZ_NANOS if value.type.tz is None else TIMESTAMP_NANOS)
    if isinstance(value, pa.Scalar):
        return _far_moment(value)
    if isinstance(value, bool) or value is None:
        return Literal(value, Primitive("boolean" if value is not None else "void"))
    if isinstance(value, int):
        return Literal(value, integer_type(value))
    if isinstance(value, PyDecimal) and value.is_finite():
        return decimal_literal(value)
    if isinstance(value, dt.datetime):
        return Literal(value, Primitive("timestamp" if value.tzinfo is not None else "timestamp_ntz"))
    type_names = {
        float: "double",
        str: "string",
        bytes: "binary",
        dt.date: "date",
        uuid.UUID: "uuid",
        dt.time: "time",
    }
    for kind, name in type_names.items():
        if isinstance(value, kind) and getattr(value, "tzinfo", None) is None:
            return Literal(value, Primitive(name))
    raise no_value(value)


def _plain(value: Any) -> Any:
    """Return scalars of other libraries as values of Python, but for dates and timestamps that Python does not have."""
    nanosecond: object = getattr(value, "nanosecond", 0)
    # What has every attribute, as Columns of Spark do, has no number there.
    if isinstance(nanosecond, int) and nanosecond:
        value = pa.scalar(value, pa.timestamp("ns", None if value.tzinfo is None else "UTC"))
    value = arrow_scalar(value)
    if isinstance(value, pa.TimestampScalar) and value.type.unit == "ns":
        if value.is_valid and value.value % 1000:
            return value
        value = value.cast(pa.timestamp("us", value.type.tz))
    if isinstance(value, str) and has_lone_surrogate(value):
        raise ExpressionError(f"{shown_value(value)} is not valid Unicode")
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, pa.Scalar):
        return value
    try:
        return value.as_py()
    except (OverflowError, ValueError) as error:
        if isinstance(value, (pa.Date32Scalar, pa.Date64Scalar, pa.TimestampScalar)):
            return value
        raise ExpressionError(f"a scalar of the type {value.type} has a value that Python does not have") from error


def _far_moment(scalar: pa.Scalar) -> Value:
    """Return a date before the year 1 or after the year 9999, or a timestamp, as SQL writes it: a cast of its text."""
    from deltaberg.expressions.time.moments import format_date

    if not isinstance(scalar, pa.TimestampScalar):
        return Cast(Literal(format_date(scalar.cast(pa.date32()).value), STRING), DATE)
    has_zone = scalar.type.tz is not None
    try:
        micros: int = scalar.cast(pa.timestamp("us", scalar.type.tz)).value
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"{scalar.value} {scalar.type.unit} is beyond the timestamps") from error
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    text = f"{format_date(days)} {clock}{'Z' if has_zone else ''}"
    return Cast(Literal(text, STRING), TIMESTAMP if has_zone else NTZ)


def no_value(given: object) -> ExpressionError:
    """Return the error of a Python object that is no literal."""
    return ExpressionError(
        f"{shown_value(given)} is not a value",
        hint="pass SQL text, a condition, or a Python literal",
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


def number_literal(text: str) -> Literal:
    """Return a number as SQL writes it, which may begin with a minus, as a literal.

    The least number of a type has no positive counterpart, so that the minus is a part of the number.

    Raises
    ------
    ExpressionError
        It is beyond the greatest double, or has more digits than a decimal.
    """
    whole = whole_number(text)
    if whole is not None:
        return Literal(whole, integer_type(whole))
    if "e" in text.lower():
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ExpressionError(f"{text:.100} is beyond the greatest double")
        return Literal(number, Primitive("double"))
    return decimal_literal(parse_decimal(text))


def _decimal_type(number: PyDecimal) -> Decimal:
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ExpressionError(f"{number} is not a decimal")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise ExpressionError(f"{number!s:.40} has more than 38 digits")
    return Decimal(precision, scale)
