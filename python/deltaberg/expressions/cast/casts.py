"""CAST in Spark's ANSI mode, which is also how a value is assigned to a column of another type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError, SchemaError, UnsupportedExpressionError
from deltaberg.expressions.cast.cast_moments import moment_cast, moment_of_text
from deltaberg.expressions.cast.cast_numbers import number_cast
from deltaberg.expressions.cast.cast_text import of_text, to_text
from deltaberg.expressions.compute.lists import entries_of, list_offsets
from deltaberg.expressions.time.moment_text import moments_as_text
from deltaberg.expressions.time.zones import to_clock
from deltaberg.expressions.tree.nodes import (
    CallNode,
    Failure,
    Kernel,
    LiteralNode,
    Node,
    Outcome,
    failed_where,
    null_where_failed,
)
from deltaberg.expressions.tree.tree import IntervalType, type_text
from deltaberg.expressions.tree.types import (
    BINARY,
    BOOLEAN,
    DATE,
    NTZ,
    STRING,
    TIMESTAMP,
    VOID,
    is_bytes,
    is_floating,
    is_integral,
    is_moment,
    is_numeric,
    is_same,
)
from deltaberg.schema.arrow import arrow_type, count_up
from deltaberg.schema.columns import join_name
from deltaberg.schema.convert import floor_divide, struct_of
from deltaberg.schema.rows.matched_fields import match_fields
from deltaberg.schema.types import DataType, List, Map, Primitive, Struct

__all__ = ["cast_node", "forgiving_cast"]


@dataclass(frozen=True)
class _Way:
    """How values are converted.

    Parameters
    ----------
    zone
        The zone of timestamps.
    by_name
        Whether fields of structs are matched by name, as those of rows that are appended. CAST takes them in order.
    completes
        Whether fields that a struct lacks become null.
    path
        The names that lead to the value, for messages.
    """

    zone: dt.tzinfo
    by_name: bool
    completes: bool = False
    path: tuple[str, ...] = ()

    def inside(self, name: str) -> _Way:
        """Return the way of a part of the value."""
        return replace(self, path=(*self.path, name))


def cast_node(
    node: Node,
    to: DataType,
    zone: dt.tzinfo,
    *,
    by_name: bool = False,
    completes: bool = False,
    path: tuple[str, ...] = (),
) -> Node:
    """Return a node converted to a type. Ids and nullability of fields make no difference between types.

    Parameters
    ----------
    by_name
        Whether fields of structs are matched by name, exactly or else without regard to case. CAST takes them in order.
    completes
        Whether fields that a struct lacks become null, if they are matched by name and may be null.
    path
        The column to which the value is assigned, for messages.

    Raises
    ------
    ExpressionError
        If Spark has no such cast.
    SchemaError
        If fields are matched by name, and the value has one that the type lacks, or lacks one that it has.
    UnsupportedExpressionError
        If it has one that cannot be evaluated exactly.
    """
    source = node.type
    if source == to:
        return node
    if is_same(source, to):
        return replace(node, type=to)
    if source == VOID and not isinstance(to, IntervalType):
        return LiteralNode(to, pa.scalar(None, arrow_type(to)))
    kernel = _kernel(source, to, _Way(zone, by_name, completes, path))
    is_steady = isinstance(zone, dt.timezone) and is_moment(source) and is_moment(to)
    return CallNode(to, "cast", (node,), kernel, is_steady=is_steady)


_MINUTE = "[0-5]?[0-9]"
_HOUR = "([01]?[0-9]|2[0-3])"
_SECONDS = rf"(:{_MINUTE}(\.[0-9]*)?([^0-9].*)?)?"
#: Texts of a time alone, to which Spark adds the date of today. They are not read here.
_TIME_ALONE = rf"(?s)^[\x00-\x20]*(T{_HOUR}(:{_MINUTE}{_SECONDS})?|{_HOUR}:{_MINUTE}{_SECONDS})[\x00-\x20]*$"
_TODAY = "a time without a day means today in Spark, which is not read here"


def forgiving_cast(cast: Node, of: Node, name: str) -> Node:
    """Return a cast of a node that is null for values that do not fit; a node that needs no cast stays as it is.

    Raises
    ------
    UnsupportedExpressionError
        If the values are arrays, maps or structs.
    """
    if not isinstance(cast, CallNode) or cast.name != "cast" or cast.arguments != (of,):
        return cast
    if isinstance(cast.type, (List, Map, Struct)):
        raise UnsupportedExpressionError(
            f"{name} to {type_text(cast.type)} cannot be evaluated", hint="use CAST, or try_cast the parts"
        )
    if of.type != STRING or cast.type != TIMESTAMP:
        return null_where_failed(cast, name)
    return null_where_failed(cast, name, (lambda texts: pc.match_substring_regex(texts, _TIME_ALONE), _TODAY))


def _kernel(source: DataType, to: DataType, way: _Way) -> Kernel:
    if isinstance(source, List) and isinstance(to, List):
        return _of_lists(source, to, way)
    if isinstance(source, Map) and isinstance(to, Map):
        return _of_maps(source, to, way)
    if isinstance(source, Struct) and isinstance(to, Struct) and (way.by_name or len(source) == len(to)):
        return _of_structs(source, to, way)
    kernel = _leaf_kernel(source, to, way.zone)
    if kernel is None:
        raise _no_cast(source, to)
    return kernel


def _leaf_kernel(source: DataType, to: DataType, zone: dt.tzinfo) -> Kernel | None:
    if _is_number(source) and _is_number(to):
        return number_cast(source, to)
    if is_moment(source) and is_moment(to):
        return moment_cast(source, to, zone)
    if source == STRING:
        return moment_of_text(to, zone) if is_moment(to) and to != DATE else of_text(to)
    if to == STRING:
        return _to_text(source, zone)
    if source == TIMESTAMP and is_integral(to):
        narrow = number_cast(Primitive("long"), to) if to != Primitive("long") else None
        return _seconds if narrow is None else lambda values: narrow(_seconds(values))
    return _between_bytes(source, to) if is_bytes(source) and is_bytes(to) else None


def _no_cast(given: DataType, to: DataType) -> ExpressionError:
    message = f"a value of type {type_text(given)} cannot be cast to {type_text(to)}"
    if TIMESTAMP in (given, to) and (_is_number(given) or _is_number(to)):
        return UnsupportedExpressionError(
            f"{message} here",
            hint="timestamp_seconds, timestamp_micros, unix_seconds and unix_micros take and return whole numbers",
        )
    return ExpressionError(message)


def _inner(source: DataType, to: DataType, way: _Way) -> Callable[[pa.Array], Outcome]:
    """Return the kernel that casts elements, fields, keys or values."""
    if is_same(source, to):
        return Outcome
    if source == VOID:
        return lambda values: Outcome(pa.nulls(len(values), arrow_type(to)))
    kernel = _kernel(source, to, way)

    def convert(values: pa.Array) -> Outcome:
        outcome = kernel(values)
        return outcome if isinstance(outcome, Outcome) else Outcome(outcome)

    return convert


def _of_lists(given: List, to: List, way: _Way) -> Kernel:
    inner = _inner(given.element.type, to.element.type, way.inside("element"))

    def convert(lists: pa.Array) -> Outcome:
        elements = inner(pc.list_flatten(lists))
        converted = pa.ListArray.from_arrays(list_offsets(lists), elements.values)
        return Outcome(converted.cast(arrow_type(to)), _of_rows(elements, lists))

    return convert


def _of_maps(given: Map, to: Map, way: _Way) -> Kernel:
    cast_keys = _inner(given.key.type, to.key.type, way.inside("key"))
    cast_values = _inner(given.value.type, to.value.type, way.inside("value"))
    keeps_keys = is_same(given.key.type, to.key.type)

    def convert(maps: pa.Array) -> Outcome:
        lists = entries_of(maps)
        flat, parents = pc.list_flatten(lists), pc.list_parent_indices(lists).cast(pa.int64())
        keys, values = cast_keys(pc.struct_field(flat, [0])), cast_values(pc.struct_field(flat, [1]))
        failures = [*_of_rows(keys, lists), *_of_rows(values, lists)]
        rows = count_up(0, len(lists))
        if not keeps_keys:
            twice = pc.is_in(rows, value_set=_with_equal_keys(keys.values, parents, to.key.type))
            failures += failed_where(maps, twice, "keys of a map become equal by the cast").failures
        key_array, value_array = keys.values, values.values
        if failures:
            # The keys of rows that failed are arbitrary, but a map with a null among them cannot be built.
            wrong = failures[0].rows
            for failure in failures[1:]:
                wrong = pc.or_(wrong, failure.rows)
            kept = pc.invert(wrong.take(parents))
            key_array, value_array = key_array.filter(kept), value_array.filter(kept)
            lists = lists.take(pc.if_else(wrong, pa.scalar(None, pa.int64()), rows))
        # Before version 17, Arrow aborts on keys whose nulls were not counted.
        _ = key_array.null_count
        converted = pa.MapArray.from_arrays(list_offsets(lists), key_array, value_array)
        return Outcome(converted.cast(arrow_type(to)), tuple(failures))

    return convert


def _with_equal_keys(keys: pa.Array, parents: pa.Array, kind: DataType) -> pa.Array:
    """Return the numbers of the maps that have a key twice. Nulls, which are keys that failed, do not count."""
    if isinstance(kind, (List, Map, Struct)):
        keys = pa.array([repr(key) for key in keys.to_pylist()], pa.string())
    elif is_floating(kind):
        # All NaN are equal, and so are both zeros.
        keys = pc.if_else(pc.is_nan(keys), pa.scalar(float("nan"), keys.type), pc.add(keys, pa.scalar(0.0, keys.type)))
    counts = pa.table({"map": parents, "key": keys}).group_by(["map", "key"]).aggregate([([], "count_all")])
    twice = pc.and_(pc.greater(counts["count_all"], 1), pc.is_valid(counts["key"]))
    return counts["map"].filter(twice).combine_chunks()


def _of_rows(parts: Outcome, lists: pa.Array) -> tuple[Failure, ...]:
    """Return the failures of elements as failures of their lists."""
    if not parts.failures:
        return ()
    parents = pc.list_parent_indices(lists).cast(pa.int64())
    rows = count_up(0, len(lists))
    return tuple(
        Failure(pc.is_in(rows, value_set=parents.filter(failure.rows)), failure.message) for failure in parts.failures
    )


def _of_structs(origin: Struct, to: Struct, way: _Way) -> Kernel:
    inner = [
        _field(source, _inner(origin.fields[source].type, child.type, way.inside(child.name)))
        if source is not None
        else _missing(child.type)
        for source, child in zip(_sources(origin, to, way), to, strict=True)
    ]

    def convert(structs: pa.Array) -> Outcome:
        outcomes = [kernel(structs) for kernel in inner]
        converted = struct_of(structs, [outcome.values for outcome in outcomes], list(arrow_type(to)))
        return Outcome(converted, tuple(failure for outcome in outcomes for failure in outcome.failures))

    return convert


def _sources(origin: Struct, to: Struct, way: _Way) -> list[int | None]:
    """Return the place of the given field that each field comes from; None for a field that becomes null."""
    if not way.by_name:
        return list(range(len(origin)))
    places: list[int | None] = []
    for child, place in zip(to, match_fields(to, origin.names, way.path), strict=True):
        if place is None and not way.completes:
            raise SchemaError(
                f"the value lacks the field {child.name}, which would lose what it holds",
                hint="give all fields of the struct, or set single fields of it",
                column=join_name((*way.path, child.name)),
            )
        places.append(place)
    return places


def _field(place: int, kernel: Callable[[pa.Array], Outcome]) -> Callable[[pa.Array], Outcome]:
    return lambda structs: kernel(pc.struct_field(structs, [place]))


def _missing(kind: DataType) -> Callable[[pa.Array], Outcome]:
    return lambda structs: Outcome(pa.nulls(len(structs), arrow_type(kind)))


def _is_number(kind: DataType) -> bool:
    return kind == BOOLEAN or is_numeric(kind)


def _seconds(values: pa.Array) -> pa.Array:
    """Return the whole seconds since 1970, rounded down."""
    return floor_divide(values.cast(pa.int64()), 1_000_000)


def _between_bytes(source: DataType, to: DataType) -> Kernel | None:
    stored, target = arrow_type(source), arrow_type(to)
    if to == BINARY:
        return lambda values: values.cast(target)
    if source != BINARY:
        return (lambda values: values) if stored == target else None
    length = target.byte_width

    def convert(values: pa.Array) -> Outcome:
        wrong = pc.not_equal(pc.binary_length(values), length)
        fitting = pc.if_else(wrong, pa.scalar(None, stored), values)
        return failed_where(fitting.cast(target), wrong, f"a value does not have the {length} bytes of the type {to}")

    return convert


def _to_text(source: DataType, zone: dt.tzinfo) -> Kernel | None:
    if is_floating(source):
        raise UnsupportedExpressionError(
            f"a {source} cannot be cast to a string: how many digits Spark writes depends on the version of Java",
            hint="cast it to a decimal first",
        )
    if source in (NTZ, TIMESTAMP):
        own = zone if source == TIMESTAMP else None
        return lambda values: moments_as_text(to_clock(values, own))
    return to_text(source)
