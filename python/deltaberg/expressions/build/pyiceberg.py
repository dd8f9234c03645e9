"""Filters as expressions of pyiceberg, which is not imported: its classes are known by their names.

They are evaluated like other filters: a comparison with null is unknown, also by ``NotIn``, and NaN is greater than all
numbers.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.build.column import Column, comparison
from deltaberg.expressions.build.literals import literal_of
from deltaberg.expressions.tree.tree import FALSE, TRUE, Call, DayLiteral, Literal, MomentLiteral, Value
from deltaberg.expressions.tree.types import STRING

__all__ = ["PyIcebergExpression", "from_pyiceberg", "is_of_pyiceberg"]

_MODULE = "pyiceberg.expressions"
#: The names of their classes, each with the function and whether it is negated.
_COMPARISONS = {
    "EqualTo": ("=", False),
    "NotEqualTo": ("=", True),
    "LessThan": ("<", False),
    "LessThanOrEqual": ("<=", False),
    "GreaterThan": (">", False),
    "GreaterThanOrEqual": (">=", False),
    "StartsWith": ("startswith", False),
    "NotStartsWith": ("startswith", True),
    "In": ("in", False),
    "NotIn": ("in", True),
    "IsNull": ("isnull", False),
    "NotNull": ("isnull", True),
    # Whether null is NaN is unknown to pyiceberg, while isnan is false.
    "IsNaN": ("=", False),
    "NotNaN": ("=", True),
}
_CONSTANTS = {"AlwaysTrue": TRUE, "AlwaysFalse": FALSE}
_EPOCH = dt.datetime(1970, 1, 1)


class PyIcebergExpression(Protocol):
    """An expression of ``pyiceberg.expressions``: a model of pydantic, which tells it from a number."""

    def __invert__(self) -> Any: ...

    def model_dump_json(self) -> str:
        """Return it as JSON."""


def is_of_pyiceberg(given: object) -> bool:
    """Return whether an object is an expression of pyiceberg, of any class."""
    return type(given).__module__.partition(_MODULE)[:2] == ("", _MODULE)


def from_pyiceberg(expression: Any) -> Value:
    """Convert an expression that is not bound to a schema.

    Raises
    ------
    UnsupportedExpressionError
        An expression, a term or a literal of a class that is not known.
    ExpressionError
        The expression is nested too deeply.

    Examples
    --------
    >>> from pyiceberg.expressions import And, GreaterThan, In
    >>> print(from_pyiceberg(And(GreaterThan("x", 5), In("s.name", ["b", "a"]))))
    (x > 5 AND s.name IN ('a', 'b'))
    """
    try:
        return _expression(expression)
    except RecursionError:
        raise ExpressionError("the filter is nested too deeply") from None


def _expression(expression: Any) -> Value:
    name = type(expression).__name__
    if not is_of_pyiceberg(expression):
        raise _unknown(expression)
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name == "Not":
        return ~_expression(expression.child)
    if name in ("And", "Or"):
        return Call(name.lower(), tuple(map(_expression, _chained(expression))))
    if name in _COMPARISONS:
        function, negated = _COMPARISONS[name]
        found = comparison(function, _column(expression.term), *_operands(expression))
        return ~found if negated else found
    raise _unknown(expression)


def _chained(chain: Any) -> Iterator[Any]:
    """Return the parts of a chain of ANDs or ORs, from left to right, without recursion."""
    left = [chain]
    while left:
        part = left.pop()
        if type(part) is type(chain):
            left += (part.right, part.left)
        else:
            yield part


def _column(term: Any) -> Column:
    if type(term).__name__ != "Reference":
        raise _unknown(term)
    return Column(tuple(term.name.split(".")))


def _operands(predicate: Any) -> list[Any]:
    if type(predicate).__name__.endswith("NaN"):
        return [math.nan]
    if hasattr(predicate, "literals"):
        return sorted(map(_value, predicate.literals), key=str)
    return [_value(predicate.literal)] if hasattr(predicate, "literal") else []


def _value(literal: Any) -> Any:
    read = _LITERALS.get(type(literal).__name__)
    if read is None:
        raise _unknown(literal)
    return read(literal.value)


def _same(value: Any) -> Any:
    return value


def _time(micros: int) -> dt.time:
    return (_EPOCH + dt.timedelta(microseconds=micros)).time()


def _date(days: int) -> Value:
    found = literal_of(pa.scalar(days, pa.date32()))
    return DayLiteral(found.value, found.type) if type(found) is Literal else found


def _moment(micros: int) -> Value:
    return MomentLiteral(f"{pa.scalar(micros, pa.int64()).cast(pa.timestamp('us')).cast(pa.string())}Z", STRING)


_LITERALS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("BooleanLiteral", "LongLiteral", "FloatLiteral", "DoubleLiteral", "DecimalLiteral"), _same),
    **dict.fromkeys(("StringLiteral", "UUIDLiteral", "FixedLiteral", "BinaryLiteral"), _same),
    "DateLiteral": _date,
    "TimeLiteral": _time,
    "TimestampLiteral": _moment,
}


def _unknown(given: Any) -> UnsupportedExpressionError:
    kind = type(given)
    return UnsupportedExpressionError(
        f"expressions of the class {kind.__module__}.{kind.__name__} are not taken as filters",
        hint="pass expressions that are not bound to a schema, or SQL text",
    )
