"""Literals: objects of Python, and the numbers of SQL text, with the types that Spark gives them."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal as PyDecimal
from typing import Any

from deltaberg.errors import ExpressionError
from deltaberg.expressions.scalars import arrow_scalar
from deltaberg.expressions.values.tree import Call, Literal, Value
from deltaberg.schema import DataType, Decimal, Primitive

__all__ = ["decimal_literal", "integer_type", "literal_of", "no_value"]


def literal_of(given: Any) -> Value:
    """Return a Python object as a literal with the type that Spark gives it."""
    if isinstance(given, (list, tuple)):
        return Call("array", tuple(literal_of(part) for part in given))
    given = arrow_scalar(given)
    if hasattr(given, "as_py"):
        given = given.as_py()
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
