"""Values as they are built from the nodes of a PySpark Column, whether of a classic session or of Spark Connect."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal as PyDecimal
from typing import Any

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.build.literals import literal_of
from deltaberg.expressions.tree.tree import Call, ColumnValue, Value
from deltaberg.hints import shown_value
from deltaberg.schema.columns import split_name

__all__ = ["OfFrame", "SqlText", "TypedCast", "call", "column", "constant", "extracted", "of_no_frame", "refused"]

#: Returns what the column of a certain DataFrame stands for; the column is given by itself.
OfFrame = Callable[[Any], Value]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Functions that SQL spells in another way.
_SPELLINGS = {"==": "=", "!": "not", "when": "case"}
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "||", "=", "<", "<=", ">", ">=", "<=>", "&", "|", "^", "~"})


@dataclass(frozen=True)
class SqlText(Value):
    """SQL text as the caller wrote it, as in ``expr("id + 1")``."""

    text: str

    def __str__(self) -> str:
        return f"({self.text})"


@dataclass(frozen=True)
class TypedCast(Value):
    """A cast to a type that Spark names; ``forgiving`` is ``try_cast``."""

    value: Value
    type: str
    forgiving: bool = False

    def __str__(self) -> str:
        return f"{'TRY_CAST' if self.forgiving else 'CAST'}({self.value} AS {self.type})"


def call(name: str, arguments: Sequence[Value], *, is_distinct: bool = False) -> Value:
    """Return the call of a function or an operator by the name that Spark has for it.

    Raises
    ------
    UnsupportedExpressionError
        The call cannot be written as SQL text.
    """
    spelled = _SPELLINGS.get(name, name).lower()
    if is_distinct or not (spelled in _OPERATORS or _NAME.fullmatch(spelled)):
        raise refused(f"a call of {name}")
    if spelled == "!=":
        return Call("not", (Call("=", tuple(arguments)),))
    if spelled == "isnotnull":
        return Call("not", (Call("isnull", tuple(arguments)),))
    return Call(spelled, tuple(arguments))


def column(name: str) -> Value:
    """Return a column by its name, in which dots lead into structs, or separate an alias."""
    return ColumnValue(split_name(name))


def extracted(value: Value, key: Value) -> Value:
    """Return the element, the value of a key or the field of a nested value."""
    return Call("[]", (value, key))


def constant(value: Any) -> Value:
    """Return a literal.

    Raises
    ------
    UnsupportedExpressionError
        It is of a type that cannot be written as SQL text.
    """
    if isinstance(value, bytearray):
        value = bytes(value)
    if value is not None and not isinstance(value, (bool, int, float, str, bytes, PyDecimal, dt.date)):
        raise refused(f"a literal of the type {type(value).__name__}")
    try:
        return literal_of(value)
    except ExpressionError:
        raise refused(f"the literal {shown_value(value)}") from None


def of_no_frame(column: Any) -> Value:
    """Refuse the column of a certain DataFrame: it may be another one than that of the table.

    Raises
    ------
    UnsupportedExpressionError
        Always.
    """
    raise UnsupportedExpressionError(
        f"{column} is the column of a certain DataFrame, which is not the table",
        hint='name the column of the table: col("id") in place of frame["id"]',
    )


def refused(what: str) -> UnsupportedExpressionError:
    """Return the error for a part of a Column that has no exact SQL text."""
    return UnsupportedExpressionError(
        f"{what} in a Column cannot be written as SQL text", hint='pass the condition or value as SQL text: "id > 5"'
    )
