"""Columns of classic sessions, which exist only in the JVM: their nodes are read one by one.

This is the one module that reaches into the JVM. Columns of Spark Connect never come here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal as PyDecimal
from typing import Any

from pyspark import SparkContext

from deltaberg.expressions.tree.tree import ColumnValue, Value
from deltaberg.spark.columns.build import OfFrame, SqlText, TypedCast, call, constant, extracted, refused

__all__ = ["classic_value"]

_PYTHON = (bool, int, float, str, bytes, bytearray, PyDecimal)
_DATES = frozenset({"java.sql.Date", "java.time.LocalDate"})
#: What nodes without SQL text are to callers.
_PARTS = {"Window": "a window", "LambdaFunction": "a lambda function"}
_INSTANTS = frozenset({"java.sql.Timestamp", "java.time.Instant"})


def classic_value(column: Any, of_frame: OfFrame) -> Value:
    """Return the value that a Column of a classic session describes.

    Raises
    ------
    UnsupportedExpressionError
        A part of it has no exact SQL text, or this version of Spark does not show the parts of Columns (before 4.0).
    """

    def frame_column(node: Any) -> Value:
        from pyspark.sql.classic.column import Column

        # Only the JVM makes columns of classic sessions, and a session has started it.
        return of_frame(Column(SparkContext._jvm.org.apache.spark.sql.Column(node)))  # type: ignore[union-attr] # noqa: SLF001

    try:
        node = column._jc.node()  # noqa: SLF001 - PySpark has no other way to look into a Column
    except Exception:  # noqa: BLE001 - what a call into the JVM raises depends on the version
        raise refused("what this version of Spark does not show") from None
    return _value(node, frame_column)


def _value(node: Any, of_frame: OfFrame) -> Value:
    kind = node.getClass().getSimpleName()
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise refused(_PARTS.get(kind, f"the part {kind}"))
    return handler(node, of_frame)


def _members(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.length()))


def _literal(node: Any, _of_frame: OfFrame) -> Value:
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


def _attribute(node: Any, of_frame: OfFrame) -> Value:
    if node.planId().isDefined():
        return of_frame(node)
    return ColumnValue(tuple(_members(node.nameParts())))


def _expression(node: Any, of_frame: OfFrame) -> Value:
    if node.expression().getClass().getSimpleName() != "AttributeReference":
        raise refused("a function of Python")
    return of_frame(node)


def _function(node: Any, of_frame: OfFrame) -> Value:
    arguments = [_value(argument, of_frame) for argument in _members(node.arguments())]
    return call(node.functionName(), arguments, is_distinct=node.isDistinct())


def _cast(node: Any, of_frame: OfFrame) -> Value:
    mode = node.evalMode()
    forgiving = mode.isDefined() and "Try" in mode.get().getClass().getSimpleName()
    return TypedCast(_value(node.child(), of_frame), node.dataType().sql(), forgiving)


def _case(node: Any, of_frame: OfFrame) -> Value:
    arguments = []
    for branch in _members(node.branches()):
        arguments += [_value(part, of_frame) for part in (branch._1(), branch._2())]  # noqa: SLF001 - the names of Scala's pairs
    otherwise = node.otherwise()
    if otherwise.isDefined():
        arguments.append(_value(otherwise.get(), of_frame))
    return call("when", arguments)


_HANDLERS: dict[str, Callable[[Any, OfFrame], Value]] = {
    "Literal": _literal,
    "UnresolvedAttribute": _attribute,
    "UnresolvedFunction": _function,
    "SqlExpression": lambda node, _: SqlText(node.expression()),
    # The name of a value has no meaning where it is assigned or tested.
    "Alias": lambda node, of_frame: _value(node.child(), of_frame),
    "Cast": _cast,
    "CaseWhenOtherwise": _case,
    "ExpressionColumnNode": _expression,
    "UnresolvedExtractValue": lambda node, of_frame: extracted(
        _value(node.child(), of_frame), _value(node.extraction(), of_frame)
    ),
}
