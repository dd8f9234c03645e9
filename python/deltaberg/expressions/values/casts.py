"""CAST in Spark's ANSI mode, which is also how a value is assigned to a column of another type."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.cast_numbers import number_cast
from deltaberg.expressions.values.cast_text import moments_as_text, of_text, to_text
from deltaberg.expressions.values.kinds import (
    BOOLEAN,
    DATE,
    NTZ,
    STRING,
    TIMESTAMP,
    VOID,
    is_floating,
    is_integral,
    is_numeric,
)
from deltaberg.expressions.values.moments import parse_moment
from deltaberg.expressions.values.nodes import CallNode, Kernel, LiteralNode, Node, Outcome, failed_where
from deltaberg.expressions.values.tree import IntervalType, type_text
from deltaberg.expressions.values.zones import to_instant, to_local
from deltaberg.schema import DataType, Primitive, arrow_type

__all__ = ["cast_node"]

_TIMES = (DATE, NTZ, TIMESTAMP)
#: Dates whose midnights are timestamps.
_FIRST_DAY, _LAST_DAY = -106_751_991, 106_751_991


def cast_node(node: Node, to: DataType, zone: dt.tzinfo) -> Node:
    """Return a node converted to a type.

    Raises
    ------
    ExpressionError
        If Spark has no such cast.
    UnsupportedExpressionError
        If it has one that cannot be evaluated exactly.
    """
    given = node.type
    if given == to:
        return node
    if given == VOID and not isinstance(to, IntervalType):
        return LiteralNode(to, pa.scalar(None, arrow_type(to)))
    kernel = _kernel(given, to, zone)
    return CallNode(to, "cast", (node,), kernel)


def _kernel(given: DataType, to: DataType, zone: dt.tzinfo) -> Kernel:
    found: Kernel | None = None
    if _is_number(given) and _is_number(to):
        found = number_cast(given, to)
    elif given in _TIMES and to in _TIMES:
        found = _between_times(given, to, zone)
    elif given == STRING:
        found = _of_text(to, zone)
    elif to == STRING:
        found = _to_text(given, zone)
    elif given == TIMESTAMP and (is_integral(to)):
        narrow = number_cast(Primitive("long"), to) if to != Primitive("long") else None
        found = _seconds if narrow is None else lambda values: narrow(_seconds(values))
    if found is None:
        raise ExpressionError(f"a value of type {type_text(given)} cannot be cast to {type_text(to)}")
    return found


def _is_number(kind: DataType) -> bool:
    return kind == BOOLEAN or is_numeric(kind)


def _seconds(values: pa.Array) -> pa.Array:
    """Return the whole seconds since 1970, rounded down."""
    return pc.floor_temporal(values, unit="second").cast(pa.timestamp("s", "UTC")).cast(pa.int64())


def _of_text(to: DataType, zone: dt.tzinfo) -> Kernel | None:
    if to not in (TIMESTAMP, NTZ):
        return of_text(to)
    own = zone if to == TIMESTAMP else None

    def parse(values: pa.Array) -> Outcome:
        found = each_distinct(
            lambda text: parse_moment(text, own), pa.int64(), f"a text is not a value of the type {to}", values
        )
        return Outcome(found.values.cast(arrow_type(to)), found.failures)

    return parse


def _to_text(given: DataType, zone: dt.tzinfo) -> Kernel | None:
    if is_floating(given):
        raise UnsupportedExpressionError(
            f"a {given} cannot be cast to a string: how many digits Spark writes depends on the version of Java",
            hint="cast it to a decimal first",
        )
    if given == NTZ:
        return moments_as_text
    if given == TIMESTAMP:
        return lambda values: moments_as_text(to_local(values, zone))
    return to_text(given)


def _between_times(given: DataType, to: DataType, zone: dt.tzinfo) -> Kernel:
    if given == DATE:
        return lambda values: _midnight(values, None if to == NTZ else zone)
    if to == DATE:
        return lambda values: _day(to_local(values, zone) if given == TIMESTAMP else values)
    if to == NTZ:
        return lambda values: to_local(values, zone)
    return lambda values: to_instant(values, zone)


def _midnight(values: pa.Array, zone: dt.tzinfo | None) -> Outcome:
    days = values.cast(pa.int32())
    beyond = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    if pc.any(beyond).as_py():
        values = pc.if_else(beyond, pa.scalar(None, pa.date32()), values)
    found = values.cast(pa.timestamp("us"))
    if zone is not None:
        found = to_instant(found, zone)
    return failed_where(found, beyond, "a date is beyond the timestamps")


def _day(values: pa.Array) -> pa.Array:
    return pc.floor_temporal(values, unit="day").cast(pa.date32())
