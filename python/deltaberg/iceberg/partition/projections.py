"""Filters on rows, projected to filters on partition values (Iceberg spec, "Scan Planning").

The *inclusive* projection is true for the partition of every row that matches, so that a file for which it is not true
need not be read. If the *strict* projection is true, every row of the partition matches.

For transforms that preserve order (truncate and date parts), three facts about a literal are needed: its partition
value, and whether it is the smallest and whether it is the largest of all values with that partition value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.expressions.compute.bound import Bound, BoundAnd, BoundComputed, BoundPredicate, join_bound
from deltaberg.expressions.tree.tree import FALSE, TRUE, Literal
from deltaberg.iceberg.metadata.specs import PartitionField
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.partition.transforms import Bucket, Identity, Transform, Truncate, Unknown, Void, parse_transform
from deltaberg.schema.rows.ordinals import limits, of_ordinals, ordinals_of
from deltaberg.schema.types import DataType, Field, Primitive, Struct

__all__ = ["project"]

_EQUAL = frozenset({"=", "<=>", "in"})
_UNEQUAL = frozenset({"!=", "not in", "is distinct from"})
_BELOW = frozenset({"<", "<="})
_ORDERED = frozenset({*_BELOW, ">", ">="})
_WITH_EQUAL = {"<": "<=", ">": ">="}
#: What can be true for a null. Every transform keeps nulls, so everything else excludes a null partition value.
_TRUE_FOR_NULL = frozenset({"is null", "is distinct from", "is not nan"})


def project(condition: Bound, fields: Sequence[PartitionField], schema: Struct, strict: bool) -> Bound:
    """Return the projection of a filter on rows: a filter on the partition values of a spec.

    A condition that the spec cannot answer is true in the inclusive projection, and false in the strict one.

    Parameters
    ----------
    condition
        The filter, bound to ``schema``.
    fields
        The fields of the spec.
    schema
        The schema of the table, with field ids.
    strict
        Whether to return the strict projection, not the inclusive one.

    Returns
    -------
    Bound
        A filter whose columns are fields of the partition struct, with its names, types and ids.
    """
    parts: dict[int | None, list[_Part]] = {}
    for part in fields:
        projected = _part(part, schema)
        if projected is not None:
            parts.setdefault(part.source_id, []).append(projected)
    return _project(condition, parts, strict)


def _project(bound: Bound, parts: Mapping[int | None, Sequence[_Part]], strict: bool) -> Bound:
    if isinstance(bound, Literal):
        return bound
    if isinstance(bound, BoundComputed):
        return FALSE if strict else _project(bound.implied, parts, strict)
    if isinstance(bound, BoundPredicate):
        found = [part.project(bound, strict) for part in parts.get(bound.path[-1].id, ())]
        if bound.other is not None and not strict:
            found += [part.project(bound, strict) for part in parts.get(bound.other[-1].id, ())]
        # Each partition field excludes on its own, and proves on its own. Without any, this is the default.
        return join_bound(found, is_and=not strict)
    return join_bound([_project(part, parts, strict) for part in bound.parts], isinstance(bound, BoundAnd))


def _part(part: PartitionField, schema: Struct) -> _Part | None:
    transform = parse_transform(part.transform)
    if len(part.source_ids) != 1 or isinstance(transform, (Void, Unknown)):
        return None
    path = path_to_id(schema, part.source_id)
    try:
        result = transform.result_type(path[-1].type) if path else None
    except SchemaError:
        return None
    if result is None:
        return None
    return _Part(Field(part.name, result, id=part.field_id), transform, path[-1].type)


@dataclass(frozen=True)
class _Edges:
    """The partition values of literals, and whether each literal is the first or last value of its partition."""

    values: pa.Array
    first: pa.BooleanArray
    last: pa.BooleanArray

    def alone(self) -> pa.Array:
        """Return the partition values that belong to a literal and to no other value."""
        return self.values.filter(pc.and_(self.first, self.last))


@dataclass(frozen=True)
class _Part:
    """A field of the partition struct, with its transform and the type of its source column."""

    field: Field
    transform: Transform
    source: DataType

    def project(self, bound: BoundPredicate, strict: bool) -> Bound:
        found = self._project(bound, strict)
        is_for_null = bound.operator in _TRUE_FOR_NULL or (bound.operator == "<=>" and bound.other is not None)
        return self._predicate("is not null") if found == TRUE and not strict and not is_for_null else found

    def _project(self, bound: BoundPredicate, strict: bool) -> Bound:
        operator = bound.operator
        unknown = FALSE if strict else TRUE
        if bound.other is not None:
            return unknown
        if isinstance(self.transform, Identity):
            return replace(bound, path=(self.field,))
        if operator in ("is null", "is not null"):
            return self._predicate(operator)
        if operator in ("starts with", "not starts with"):
            return self._prefix(bound, strict)
        if operator not in _EQUAL | _UNEQUAL | _ORDERED:
            return unknown
        try:
            edges = self._edges(bound.literals)
        except InvalidArgumentError:
            return unknown
        if operator in _EQUAL:
            return self._member(edges.alone() if strict else edges.values, "in")
        if operator in _UNEQUAL:
            values = edges.values if strict else edges.alone()
            return self._member(values, operator if operator == "is distinct from" else "not in")
        if isinstance(self.transform, Bucket):
            return unknown
        return self._compare(operator, bound.values[0], edges, strict)

    def _predicate(self, operator: str, *values: pa.Scalar) -> BoundPredicate:
        return BoundPredicate(operator, (self.field,), values)

    def _member(self, values: pa.Array, operator: str) -> Bound:
        """Return that the partition value is, or is not, one of some values."""
        distinct = list(pc.unique(values))
        if not distinct:
            return FALSE if operator == "in" else TRUE
        if len(distinct) == 1:
            operator = {"in": "=", "not in": "!="}.get(operator, operator)
        return self._predicate(operator, *distinct)

    def _compare(self, operator: str, literal: pa.Scalar, edges: _Edges, strict: bool) -> Bound:
        """Return a comparison with the partition value of a literal.

        On one side of it, all rows of a partition match, and on the other side none. The literal's own partition can
        hold rows of both kinds, unless the literal is its first or last value.
        """
        value = edges.values[0]
        first, last = edges.first[0].as_py(), edges.last[0].as_py()
        plain = operator.rstrip("=")
        if operator in ("<", ">="):
            own_matches = (operator == ">=") if first else not strict
        else:
            own_matches = (operator == "<=") if last else not strict
        compared = self._predicate(_WITH_EQUAL[plain] if own_matches else plain, value)
        wrapped = self._wrapped()
        if wrapped is None:
            return compared
        if pc.greater(value, literal).as_py():
            return FALSE if strict else TRUE
        if operator in _BELOW and not strict:
            return join_bound([compared, self._predicate("=", wrapped)], is_and=False)
        if operator not in _BELOW and strict:
            return join_bound([compared, self._predicate("!=", wrapped)], is_and=True)
        return compared

    def _wrapped(self) -> pa.Scalar | None:
        """Return the partition value of the smallest integers if it overflowed, which makes it larger than they are."""
        if not isinstance(self.transform, Truncate) or self.source not in (Primitive("integer"), Primitive("long")):
            return None
        least = pa.array([-(1 << 31)], pa.int32()) if self.source == Primitive("integer") else pa.array([-(1 << 63)])
        truncated = self.transform.apply(least, self.source)
        return truncated[0] if pc.greater(truncated[0], least[0]).as_py() else None

    def _edges(self, literals: pa.Array) -> _Edges:
        values = self.transform.apply(literals, self.source)
        if isinstance(self.transform, Bucket):
            nowhere = pa.repeat(False, len(literals))
            return _Edges(values, nowhere, nowhere)
        if isinstance(self.transform, Truncate) and self.source in (Primitive("string"), Primitive("binary")):
            # A value that is shorter than the width is the only one with its partition value.
            length = pc.utf8_length if self.source == Primitive("string") else pc.binary_length
            return _Edges(values, pc.equal(values, literals), pc.less(length(literals), self.transform.width))
        return _Edges(values, self._differs(values, literals, -1), self._differs(values, literals, 1))

    def _differs(self, values: pa.Array, literals: pa.Array, step: int) -> pa.BooleanArray:
        """Return for each literal whether the next value on one side is in another partition, or does not exist."""
        low, high = limits(literals.type)
        numbers = [number + step for number in ordinals_of(literals)]
        neighbours = of_ordinals([number if low <= number <= high else None for number in numbers], literals.type)
        return pc.not_equal(self.transform.apply(neighbours, self.source), values).fill_null(True)

    def _prefix(self, bound: BoundPredicate, strict: bool) -> Bound:
        """Project ``starts with`` and its negation, which only truncated strings can answer."""
        unknown = FALSE if strict else TRUE
        if not isinstance(self.transform, Truncate):
            return unknown
        prefix = bound.values[0]
        if len(prefix.as_py()) <= self.transform.width:
            return self._predicate(bound.operator, prefix)
        # The partition value is shorter than the prefix.
        if strict == (bound.operator == "starts with"):
            return unknown
        begin = pa.scalar(prefix.as_py()[: self.transform.width], prefix.type)
        return self._predicate("!=" if strict else "=", begin)
