"""Binding filters to a schema: columns are found, literals get the columns' types, negations move to the leaves."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from deltaberg.errors import ExpressionError
from deltaberg.expressions.double_quotes import ColumnNames
from deltaberg.expressions.like import ESCAPE, like_kernel
from deltaberg.expressions.predicates.bound import Bound, BoundPredicate, join_bound
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
)
from deltaberg.schema import DataType, Decimal, Field, Primitive, Struct, find_path, padded_literal

__all__ = ["bind"]

_ORDERED = frozenset({"<", "<=", ">", ">="})
_TEXT = frozenset({"starts with", "not starts with", "like", "not like"})
_UNORDERED_TYPES = frozenset({"variant"})
#: Types whose columns can be compared with each other, without loss.
_FAMILIES = (frozenset({"byte", "short", "integer", "long"}), frozenset({"float", "double"}))


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
        (padded,) = _padded([literal], path)
        return _compare(operator, path, self._place(padded, path, source))

    def _place(self, literal: object, path: tuple[Field, ...], source: Predicate) -> Placed:
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
        if len(known) == len(source.values):
            # Spark pads no list with a null in it.
            known = _padded(known, path)
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


def _padded(literals: list[Any], path: tuple[Field, ...]) -> list[Any]:
    """Return literals as they are compared with a column: texts are padded like those of a column of CHAR."""
    # Spark does not pad what is compared with fields of structs.
    length = path[-1].length if len(path) == 1 else None
    if length is None or not length.is_padded:
        return literals
    return [padded_literal(one, length) if isinstance(one, str) else one for one in literals]


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
