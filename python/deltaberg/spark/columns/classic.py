"""Columns of classic sessions, which exist only in the JVM: their nodes are read one by one.

This is the one module that reaches into the JVM. Columns of Spark Connect never come here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal as PyDecimal
from typing import Any

from deltaberg.expressions.values.tree import ColumnValue, Value
from deltaberg.spark.columns.build import SqlText, TypedCast, call, constant, extracted, refused

__all__ = ["classic_value"]

_PYTHON = (bool, int, float, str, bytes, bytearray, PyDecimal)
_DATES = frozenset({"java.sql.Date", "java.time.LocalDate"})
#: What nodes without SQL text are to callers.
_PARTS = {"ExpressionColumnNode": "a function of Python", "Window": "a window", "LambdaFunction": "a lambda function"}
_INSTANTS = frozenset({"java.sql.Timestamp", "java.time.Instant"})


def classic_value(column: Any) -> Value:
    """Return the value that a Column of a classic session describes.

    Raises
    ------
    UnsupportedExpressionError
        A part of it has no exact SQL text, or this version of Spark does not show the parts of Columns (before 4.0).
    """
    try:
        node = column._jc.node()  # noqa: SLF001 - PySpark has no other way to look into a Column
    except Exception:  # noqa: BLE001 - what a call into the JVM raises depends on the version
        raise refused("what this version of Spark does not show") from None
    return _value(node)


def _value(node: Any) -> Value:
    kind = node.getClass().getSimpleName()
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise refused(_PARTS.get(kind, f"the part {kind}"))
    return handler(node)


def _members(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.length()))


def _literal(node: Any) -> Value:
    found = constant(_python(node.value()))
    kind = node.dataType()
    return TypedCast(found, kind.get().sql()) if kind.isDefined() else found


def _python(value: Any) -> Any:
    """Return a value of the JVM as one of Python, as far as literals of SQL have its type."""
    if value is None or isinstance(value, _PYTHON):
        return value
    name = value.getClass().getName()
    try:
        if name in _DATES:
            return dt.date.fromisoformat(value.toString())
        if name in _INSTANTS:
            instant = value.toInstant() if name == "java.sql.Timestamp" else value
            micros = instant.getEpochSecond() * 1_000_000 + instant.getNano() // 1000
            return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)
        if name == "java.time.LocalDateTime":
            return dt.datetime.fromisoformat(value.toString())
    except (ValueError, OverflowError):
        pass
    raise refused(f"a literal of the type {name}")


def _attribute(node: Any) -> Value:
    if node.planId().isDefined():
        raise refused("the column of a DataFrame")
    return ColumnValue(tuple(_members(node.nameParts())))


def _function(node: Any) -> Value:
    arguments = [_value(argument) for argument in _members(node.arguments())]
    return call(node.functionName(), arguments, is_distinct=node.isDistinct())


def _cast(node: Any) -> Value:
    mode = node.evalMode()
    forgiving = mode.isDefined() and "Try" in mode.get().getClass().getSimpleName()
    return TypedCast(_value(node.child()), node.dataType().sql(), forgiving)


def _case(node: Any) -> Value:
    arguments = []
    for branch in _members(node.branches()):
        arguments += [_value(branch._1()), _value(branch._2())]  # noqa: SLF001 - the names of Scala's pairs
    otherwise = node.otherwise()
    return call("when", [*arguments, _value(otherwise.get())] if otherwise.isDefined() else arguments)


_HANDLERS: dict[str, Callable[[Any], Value]] = {
    "Literal": _literal,
    "UnresolvedAttribute": _attribute,
    "UnresolvedFunction": _function,
    "SqlExpression": lambda node: SqlText(node.expression()),
    # The name of a value has no meaning where it is assigned or tested.
    "Alias": lambda node: _value(node.child()),
    "Cast": _cast,
    "CaseWhenOtherwise": _case,
    "UnresolvedExtractValue": lambda node: extracted(_value(node.child()), _value(node.extraction())),
}
