"""CAST in Spark's ANSI mode, which is also how a value is assigned to a column of another type."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.cast_numbers import number_cast
from deltaberg.expressions.values.cast_text import of_text, to_text
from deltaberg.expressions.values.date_parts import day_of, floor_divide
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
from deltaberg.expressions.values.lists import list_offsets
from deltaberg.expressions.values.moment_text import moments_as_text
from deltaberg.expressions.values.moments import parse_moment
from deltaberg.expressions.values.nodes import CallNode, Failure, Kernel, LiteralNode, Node, Outcome, failed_where, then
from deltaberg.expressions.values.tree import IntervalType, type_text
from deltaberg.expressions.values.zones import to_instant, to_local
from deltaberg.schema import DataType, List, Primitive, Struct, arrow_type, count_up

__all__ = ["cast_node", "midnight"]

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
    return CallNode(to, "cast", (node,), _kernel(given, to, zone))


def _kernel(given: DataType, to: DataType, zone: dt.tzinfo) -> Kernel:
    found: Kernel | None = None
    if isinstance(given, List) and isinstance(to, List):
        found = _of_lists(given, to, zone)
    elif isinstance(given, Struct) and isinstance(to, Struct) and len(given) == len(to):
        found = _of_structs(given, to, zone)
    elif _is_number(given) and _is_number(to):
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


def _inner(given: DataType, to: DataType, zone: dt.tzinfo) -> Kernel:
    """Return the kernel that casts elements or fields."""
    if given == to:
        return lambda values: values
    if given == VOID:
        return lambda values: pa.nulls(len(values), arrow_type(to))
    return _kernel(given, to, zone)


def _of_lists(given: List, to: List, zone: dt.tzinfo) -> Kernel:
    inner = _inner(given.element.type, to.element.type, zone)

    def convert(lists: pa.Array) -> Outcome:
        found = inner(pc.list_flatten(lists))
        elements = found if isinstance(found, Outcome) else Outcome(found)
        parents = pc.list_parent_indices(lists).cast(pa.int64())
        rows = count_up(0, len(lists))
        failures = tuple(
            Failure(pc.is_in(rows, value_set=parents.filter(failure.rows)), failure.message)
            for failure in elements.failures
        )
        converted = pa.ListArray.from_arrays(list_offsets(lists), elements.values)
        return Outcome(converted.cast(arrow_type(to)), failures)

    return convert


def _of_structs(given: Struct, to: Struct, zone: dt.tzinfo) -> Kernel:
    inner = [_inner(one.type, other.type, zone) for one, other in zip(given, to, strict=True)]

    def convert(structs: pa.Array) -> Outcome:
        found = [kernel(pc.struct_field(structs, [place])) for place, kernel in enumerate(inner)]
        outcomes = [part if isinstance(part, Outcome) else Outcome(part) for part in found]
        converted = pa.StructArray.from_arrays(
            [outcome.values for outcome in outcomes], fields=list(arrow_type(to)), mask=pc.is_null(structs)
        )
        return Outcome(converted, tuple(failure for outcome in outcomes for failure in outcome.failures))

    return convert


def _is_number(kind: DataType) -> bool:
    return kind == BOOLEAN or is_numeric(kind)


def _seconds(values: pa.Array) -> pa.Array:
    """Return the whole seconds since 1970, rounded down."""
    return floor_divide(values.cast(pa.int64()), 1_000_000)


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
        return lambda values: then(to_local(values, zone), moments_as_text)
    return to_text(given)


def _between_times(given: DataType, to: DataType, zone: dt.tzinfo) -> Kernel:
    if given == DATE:
        return lambda values: midnight(values, None if to == NTZ else zone)
    if to == DATE:
        if given == NTZ:
            return day_of
        return lambda values: then(to_local(values, zone), day_of)
    if to == NTZ:
        return lambda values: to_local(values, zone)
    return lambda values: to_instant(values, zone)


def midnight(values: pa.Array, zone: dt.tzinfo | None) -> Outcome:
    """Return the timestamps at which dates begin, by the clock of a zone, or without a zone."""
    days = values.cast(pa.int32())
    beyond = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    if pc.any(beyond).as_py():
        values = pc.if_else(beyond, pa.scalar(None, pa.date32()), values)
    found = values.cast(pa.timestamp("us"))
    midnights = failed_where(found, beyond, "a date is beyond the timestamps")
    return midnights if zone is None else then(midnights, lambda readings: to_instant(readings, zone))
