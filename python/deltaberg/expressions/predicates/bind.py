"""Binding filters to a schema: columns are found, literals get the columns' types, negations move to the leaves.

A bound tree consists of `BoundAnd`, `BoundOr`, `BoundPredicate`, `BoundComputed` and `Constant`. It has no NOT, and no
comparison that pruning or row evaluation would have to rewrite.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError
from deltaberg.expressions.double_quotes import ColumnNames
from deltaberg.expressions.like import ESCAPE, like_kernel
from deltaberg.expressions.predicates.chains import chain, grouped
from deltaberg.expressions.predicates.literals import Placed, literals_at_once, place_literal
from deltaberg.expressions.predicates.tree import (
    FALSE,
    NEGATIONS,
    TRUE,
    And,
    Column,
    Computed,
    Constant,
    Expression,
    Not,
    Or,
    Predicate,
    quoted,
)
from deltaberg.schema import DataType, Decimal, Field, Primitive, Struct, find_path, padded_literal

__all__ = [
    "Bound",
    "BoundAnd",
    "BoundComputed",
    "BoundOr",
    "BoundPredicate",
    "RowTest",
    "bind",
    "bound_paths",
    "is_computed",
    "join_bound",
    "next_numbers",
    "split_and",
]

_ORDERED = frozenset({"<", "<=", ">", ">="})
_TEXT = frozenset({"starts with", "not starts with", "like", "not like"})
_UNORDERED_TYPES = frozenset({"variant"})
#: What a comparison with values limits.
_SIDES = {"=": "=", "in": "=", ">": ">=", ">=": ">=", "<": "<=", "<=": "<="}
#: So many parts of OR are looked at together.
_MANY = 256
#: Types whose columns can be compared with each other, without loss.
_FAMILIES = (frozenset({"byte", "short", "integer", "long"}), frozenset({"float", "double"}))


@dataclass(frozen=True)
class BoundPredicate:
    """A column compared with scalars of its type (of double for float), or with another column."""

    operator: str
    path: tuple[Field, ...]
    values: tuple[pa.Scalar, ...] = ()
    other: tuple[Field, ...] | None = None

    @property
    def type(self) -> DataType:
        """The type of the column."""
        return self.path[-1].type

    @property
    def is_floating(self) -> bool:
        """Whether the column can hold NaN."""
        return isinstance(self.type, Primitive) and self.type.name in ("float", "double")

    # A filter is evaluated for every file, and may have many values.

    @cached_property
    def literals(self) -> pa.Array:
        """The scalars, of which there must be at least one, as an array."""
        return pa.array(self.values, self.values[0].type)

    @cached_property
    def sorted_literals(self) -> pa.Array:
        """The scalars, of which there must be at least one, in ascending order."""
        return self.literals.take(pc.array_sort_indices(self.literals))

    @cached_property
    def has_nan(self) -> bool:
        """Whether one of the scalars is NaN."""
        return self.is_floating and bool(self.values) and bool(pc.any(pc.is_nan(self.literals)).as_py())

    def __getstate__(self) -> dict[str, Any]:
        # Every task takes the filter along, and an array is a fraction of its scalars.
        state = {child.name: getattr(self, child.name) for child in fields(self)}
        return {**state, "values": self.literals} if len(self.values) > 1 else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "values": tuple(state["values"])})

    def __str__(self) -> str:
        name = ".".join(part.name for part in self.path)
        operator = self.operator.upper()
        if self.other is not None:
            return f"{name} {operator} {'.'.join(part.name for part in self.other)}"
        shown = [_shown(value) for value in self.values]
        if self.operator in ("in", "not in"):
            return f"{name} {operator} ({', '.join(shown)})"
        return " ".join([name, operator, *shown])


def _shown(value: pa.Scalar) -> str:
    if isinstance(value, pa.TimestampScalar) and value.type.unit == "ns":
        # Python's datetime has no nanoseconds.
        return f"'{value.cast(pa.timestamp('ns')).cast(pa.string())}{'+00:00' if value.type.tz else ''}'"
    python = value.as_py()
    if isinstance(python, str):
        return quoted(python)
    return f"'{python}'" if isinstance(python, (dt.date, dt.time)) else str(python)


@dataclass(frozen=True)
class BoundAnd:
    """All parts hold."""

    parts: tuple[Bound, ...]

    def __str__(self) -> str:
        return "(" + " AND ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True)
class BoundOr:
    """At least one part holds."""

    parts: tuple[Bound, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(map(str, self.parts)) + ")"

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": self.parts}

    @property
    def is_long(self) -> bool:
        """Whether there are so many parts that each of them costs too much by itself."""
        return len(self.parts) > _MANY

    @cached_property
    def outline(self) -> Bound:
        """What every row fulfils that fulfils a part: the values, or the ends, that columns have in all parts."""
        known = [_compared(part) for part in self.parts]
        common: list[Bound] = []
        for key, first in known[0].items():
            found = [columns[key] for columns in known if key in columns]
            if len(found) < len(known):
                continue
            values = _literals_of(found)
            if key[0] == "=":
                common.append(BoundPredicate("in", first.path, tuple(pc.unique(values))))
            elif not first.is_floating:
                order = pc.array_sort_indices(values)
                end = values[order[0 if key[0] == ">=" else -1].as_py()]
                common.append(BoundPredicate(key[0], first.path, (end,)))
        return join_bound(common, is_and=True)

    @cached_property
    def rows(self) -> tuple[tuple[tuple[Field, ...], ...], tuple[pa.Array, ...], pa.Array] | None:
        """Columns, the different values of each, and the numbers of the rows of values that fulfil a part.

        None if the parts are not all equalities of the same columns with one value each. The number of a row counts
        through all combinations of values.
        """
        known = [_compared(part) for part in self.parts]
        for part, columns in zip(self.parts, known, strict=True):
            size = len(part.parts) if isinstance(part, BoundAnd) else 1
            if columns.keys() != known[0].keys() or size != len(columns):
                return None
            if any(one.operator != "=" or one.is_floating for one in columns.values()):
                return None
        numbers: pa.Array = pa.repeat(pa.scalar(0, pa.int64()), len(known))
        sets: list[pa.Array] = []
        for key in known[0]:
            values = _literals_of([columns[key] for columns in known])
            sets.append(pc.unique(values))
            if math.prod(map(len, sets)) >= 1 << 62:
                return None
            numbers = next_numbers(numbers, values, sets[-1])
        return tuple(first.path for first in known[0].values()), tuple(sets), numbers


def next_numbers(numbers: pa.Array, values: pa.Array, known: pa.Array) -> pa.Array:
    """Return the numbers of rows of values with one more column; null where a value is not known."""
    places = pc.index_in(values, value_set=known.cast(values.type)).cast(pa.int64())
    return pc.add(pc.multiply(numbers, pa.scalar(len(known), pa.int64())), places)


def _compared(part: Bound) -> dict[tuple[str, tuple[int, ...]], BoundPredicate]:
    """Return the comparisons of columns with values in a part, by what they limit and by the fields of the column."""
    inside = part.parts if isinstance(part, BoundAnd) else (part,)
    return {
        (_SIDES[one.operator], tuple(map(id, one.path))): one
        for one in inside
        if isinstance(one, BoundPredicate) and one.other is None and one.operator in _SIDES
    }


def _literals_of(found: Sequence[BoundPredicate]) -> pa.Array:
    return pa.array([value for one in found for value in one.values], found[0].values[0].type)


class RowTest(Protocol):
    """The evaluation of a condition. It pickles."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return a boolean for each row of a batch, or null if the condition is unknown.

        Raises
        ------
        EvaluationError
            If the condition cannot be computed for a row.
        """
        ...


@dataclass(frozen=True)
class BoundComputed:
    """A condition that is computed from columns.

    Parameters
    ----------
    test
        What computes it, from batches of these columns in this order. Its text is the condition.
    columns
        The columns.
    implied
        A filter that every row fulfils for which the condition is true; files are pruned by it.
    """

    test: RowTest
    columns: tuple[Field, ...]
    implied: Bound = TRUE

    def __str__(self) -> str:
        return str(self.test)


Bound = BoundPredicate | BoundAnd | BoundOr | BoundComputed | Constant


def bind(expression: Expression, schema: Struct, timezone: str = "UTC") -> Bound:
    """Bind a filter to a schema.

    Parameters
    ----------
    timezone
        The zone of literals that have none and are compared with a ``timestamp``.

    Raises
    ------
    ColumnNotFoundError
        If a column does not exist.
    ExpressionError
        If a literal cannot be compared with its column.
    """
    binder = _Binder(schema, ZoneInfo(timezone))
    try:
        return binder.bind(expression, negated=False)
    except RecursionError:
        raise ExpressionError("the filter is nested too deeply") from None


def split_and(bound: Bound) -> tuple[Bound, ...]:
    """Return the parts that must all hold."""
    if isinstance(bound, BoundAnd):
        return bound.parts
    return () if bound == TRUE else (bound,)


def bound_paths(bound: Bound) -> Iterator[tuple[Field, ...]]:
    """Iterate over the columns of a bound filter, possibly with repetitions."""
    if isinstance(bound, BoundPredicate):
        yield bound.path
        if bound.other is not None:
            yield bound.other
    elif isinstance(bound, BoundComputed):
        yield from ((column,) for column in bound.columns)
        yield from bound_paths(bound.implied)
    elif isinstance(bound, (BoundAnd, BoundOr)):
        for part in bound.parts:
            yield from bound_paths(part)


def is_computed(bound: Bound) -> bool:
    """Return whether any part of a bound filter is computed, so that it may fail for a row."""
    if isinstance(bound, (BoundAnd, BoundOr)):
        return any(map(is_computed, bound.parts))
    return isinstance(bound, BoundComputed)


class _Binder:
    def __init__(self, schema: Struct, zone: ZoneInfo) -> None:
        self._schema = schema
        self._zone = zone
        self._names = ColumnNames([(None, schema)])

    def bind(self, expression: Expression | Column, negated: bool) -> Bound:
        if isinstance(expression, Column):
            expression = expression.is_true()
        if isinstance(expression, Constant):
            return Constant(expression.value != negated)
        if isinstance(expression, Not):
            return self.bind(expression.inner, not negated)
        if isinstance(expression, (And, Or)):
            parts = (self.bind(part, negated) for part in grouped(chain(expression), type(expression)))
            return join_bound(parts, is_and=isinstance(expression, And) != negated)
        if isinstance(expression, Computed):
            return expression.bound(self._schema, str(self._zone), negated)
        if isinstance(expression, Predicate):
            operator = NEGATIONS[expression.operator] if negated else expression.operator
            return self._predicate(operator, expression)
        raise ExpressionError(f"{expression!r} is not a condition")

    def _predicate(self, operator: str, source: Predicate) -> Bound:
        path = find_path(self._schema, source.column.path)
        column_type = path[-1].type
        for literal in source.values:
            self._names.check(literal)
        if operator in ("is null", "is not null"):
            return BoundPredicate(operator, path)
        if isinstance(column_type, Primitive) and column_type.name in _UNORDERED_TYPES:
            raise ExpressionError(
                f"a column of type {column_type} can only be tested for null", column=str(source.column)
            )
        if operator in ("is nan", "is not nan"):
            return self._nan(operator, path, source)
        if operator in ("in", "not in"):
            return self._membership(operator, path, source)
        literal = source.values[0]
        if isinstance(literal, Column):
            return self._columns(operator, path, literal)
        if literal is None:
            return _null_literal(operator, path)
        if operator in _TEXT:
            return _text(operator, path, literal, source)
        placed = self._place(literal, path, source)
        return _compare(operator, path, placed)

    def _place(self, literal: object, path: tuple[Field, ...], source: Predicate) -> Placed:
        # Spark pads the texts that are compared with columns, and not those that are compared with fields of structs.
        length = path[-1].length if len(path) == 1 else None
        if isinstance(literal, str) and length is not None and length.is_padded:
            literal = padded_literal(literal, length)
        try:
            return place_literal(literal, path[-1].type, self._zone)
        except ExpressionError as error:
            raise error.with_context(column=str(source.column)) from None

    def _columns(self, operator: str, path: tuple[Field, ...], other: Column) -> Bound:
        other_path = find_path(self._schema, other.path)
        left, right = path[-1].type, other_path[-1].type
        if not _are_comparable(left, right) or operator in _TEXT:
            raise ExpressionError(
                f"columns of types {left} and {right} cannot be compared",
                hint="columns can be compared if they have the same type, are both integers, or are float and double",
            )
        return BoundPredicate(operator, path, other=other_path)

    def _nan(self, operator: str, path: tuple[Field, ...], source: Predicate) -> Bound:
        bound = BoundPredicate(operator, path)
        if not bound.is_floating:
            raise ExpressionError(f"a column of type {bound.type} cannot be NaN", column=str(source.column))
        return bound

    def _membership(self, operator: str, path: tuple[Field, ...], source: Predicate) -> Bound:
        if operator == "not in" and any(value is None for value in source.values):
            return FALSE
        known = [value for value in source.values if value is not None]
        at_once = literals_at_once(known, path[-1].type)
        if at_once is not None:
            return _one_of(operator, path, tuple(at_once))
        places = [self._place(value, path, source) for value in known]
        ranges = [place for place in places if place.last is not None]
        single = (place.value for place in places if place.exact and place.last is None)
        values = tuple(dict.fromkeys(value for value in single if value is not None))
        one = "=" if operator == "in" else "!="
        if ranges:
            parts = [_compare(one, path, place) for place in ranges]
            if values:
                parts.append(BoundPredicate(operator, path, values))
            return join_bound(parts, is_and=operator == "not in")
        return _one_of(operator, path, values)


def _one_of(operator: str, path: tuple[Field, ...], values: tuple[pa.Scalar, ...]) -> Bound:
    """Return that a column is, or is not, one of different values."""
    if not values:
        return BoundPredicate("is not null", path) if operator == "not in" else FALSE
    if len(values) == 1:
        operator = "=" if operator == "in" else "!="
    return BoundPredicate(operator, path, values)


def _null_literal(operator: str, path: tuple[Field, ...]) -> Bound:
    if operator == "<=>":
        return BoundPredicate("is null", path)
    if operator == "is distinct from":
        return BoundPredicate("is not null", path)
    return FALSE


def _are_comparable(left: DataType, right: DataType) -> bool:
    if left == right:
        return isinstance(left, (Primitive, Decimal))
    return any({str(left), str(right)} <= family for family in _FAMILIES)


def join_bound(parts: Iterable[Bound], is_and: bool) -> Bound:
    """Join parts into a flat tree without constants. No parts at all are true for AND, and false for OR."""
    kind = BoundAnd if is_and else BoundOr
    neutral, absorbing = (TRUE, FALSE) if is_and else (FALSE, TRUE)
    flat: list[Bound] = []
    for part in parts:
        if part == absorbing:
            return absorbing
        if isinstance(part, kind):
            flat.extend(part.parts)
        elif part != neutral:
            flat.append(part)
    if not flat:
        return neutral
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _compare(operator: str, path: tuple[Field, ...], placed: Placed) -> Bound:
    not_null = BoundPredicate("is not null", path)
    if placed.value is not None and placed.last is not None:
        return _compare_range(operator, path, (placed.value, placed.last))
    if placed.exact and placed.value is not None:
        return BoundPredicate(operator, path, (placed.value,))
    if operator in ("=", "<=>"):
        return FALSE
    if operator == "!=":
        return not_null
    if operator == "is distinct from":
        return TRUE
    if placed.value is None:
        holds = operator in ("<", "<=") if placed.above_all else operator in (">", ">=")
        return not_null if holds else FALSE
    # The literal lies between the value and the next one of the column's type.
    return BoundPredicate("<=" if operator in ("<", "<=") else ">", path, (placed.value,))


def _compare_range(operator: str, path: tuple[Field, ...], ends: tuple[pa.Scalar, pa.Scalar]) -> Bound:
    """Compare a column with a literal that equals all values from the first to the last of some."""
    below, first, last, above = (
        BoundPredicate(sign, path, (end,))
        for sign, end in zip(("<", ">=", "<=", ">"), (ends[0], *ends, ends[1]), strict=True)
    )
    # The operators that treat null as a value are never unknown.
    not_null, null = (BoundPredicate(test, path) for test in ("is not null", "is null"))
    inside = {"=": (first, last), "<=>": (not_null, first, last)}
    outside = {"!=": (below, above), "is distinct from": (below, above, null)}
    if operator in inside:
        return join_bound(inside[operator], is_and=True)
    if operator in outside:
        return join_bound(outside[operator], is_and=False)
    return {"<": below, ">=": first, "<=": last, ">": above}[operator]


def _text(operator: str, path: tuple[Field, ...], literal: object, source: Predicate) -> Bound:
    if path[-1].type != Primitive("string") or not isinstance(literal, str):
        raise ExpressionError(
            f"{operator.upper()} compares a string column with a string, not a {path[-1].type} with {literal!r}",
            column=str(source.column),
        )
    if operator in ("like", "not like"):
        plain = _plain_prefix(literal)
        if plain is not None:
            operator = operator.replace("like", "starts with")
            literal = plain
        else:
            # It refuses escapes of other characters.
            like_kernel(literal, ESCAPE)
    return BoundPredicate(operator, path, (pa.scalar(literal, pa.string()),))


def _plain_prefix(pattern: str) -> str | None:
    """Return the prefix that a pattern requires, if it requires nothing else."""
    prefix = pattern[:-1]
    is_prefix = pattern.endswith("%") and not any(mark in prefix for mark in "%_\\")
    return prefix if is_prefix else None
