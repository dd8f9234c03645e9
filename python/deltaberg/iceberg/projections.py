"""Filters on rows as filters on partition values (Iceberg spec, "Scan Planning").

*Inclusive*: true of the partition of every row that matches; a file for which it is not true need not be read.
*Strict*: where it is true, every row of the partition matches.

Transforms that keep the order (truncate and parts of dates) need to know three things of a literal: its partition
value, and whether it is the least and the greatest of all values with that partition value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.expressions import FALSE, TRUE, Bound, BoundAnd, BoundPredicate, Constant, join_bound
from deltaberg.iceberg.ordinals import limits, of_ordinals, ordinals_of
from deltaberg.iceberg.partitioning import path_to_id
from deltaberg.iceberg.spec import PartitionField
from deltaberg.iceberg.transforms import Bucket, Identity, Transform, Truncate, Unknown, Void, parse_transform
from deltaberg.schema import DataType, Field, Primitive, Struct

__all__ = ["project"]

_EQUAL = frozenset({"=", "<=>", "in"})
_UNEQUAL = frozenset({"!=", "not in", "is distinct from"})
_BELOW = frozenset({"<", "<="})
_ORDERED = frozenset({*_BELOW, ">", ">="})
_WITH_EQUAL = {"<": "<=", ">": ">="}


def project(condition: Bound, fields: Sequence[PartitionField], schema: Struct, strict: bool) -> Bound:
    """Give the projection of a filter on rows: a filter on the partition values of a spec.

    What the spec cannot answer is true in the inclusive projection, and false in the strict one.

    Parameters
    ----------
    condition
        The filter, bound to ``schema``.
    fields
        The fields of the spec.
    schema
        The schema of the table, with field ids.
    strict
        Which of the two projections.

    Returns
    -------
    Bound
        Its columns are fields of the partition struct: name, type of the transform's result, and id.
    """
    parts: dict[int | None, list[_Part]] = {}
    for part in fields:
        projected = _part(part, schema)
        if projected is not None:
            parts.setdefault(part.source_id, []).append(projected)
    return _project(condition, parts, strict)


def _project(bound: Bound, parts: Mapping[int | None, Sequence[_Part]], strict: bool) -> Bound:
    if isinstance(bound, Constant):
        return bound
    if isinstance(bound, BoundPredicate):
        found = [part.project(bound, strict) for part in parts.get(bound.path[-1].id, ())]
        # Each of several partition fields excludes on its own, and proves on its own; with none, this is the default.
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
    """Partition values of literals; of each literal, whether it is the first or the last value with that one."""

    values: pa.Array
    first: pa.BooleanArray
    last: pa.BooleanArray

    def alone(self) -> pa.Array:
        """Give the partition values that no value but the literal has."""
        return self.values.filter(pc.and_(self.first, self.last))


@dataclass(frozen=True)
class _Part:
    """A field of the partition struct, with the transform and the type of its column."""

    field: Field
    transform: Transform
    source: DataType

    def project(self, bound: BoundPredicate, strict: bool) -> Bound:
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
            edges = self._edges(bound.literals())
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
        """Say that the partition value is, or is not, among some."""
        found = list(pc.unique(values))
        if not found:
            return FALSE if operator == "in" else TRUE
        if len(found) == 1:
            operator = {"in": "=", "not in": "!="}.get(operator, operator)
        return self._predicate(operator, *found)

    def _compare(self, operator: str, literal: pa.Scalar, edges: _Edges, strict: bool) -> Bound:
        """Compare with the partition value of a literal.

        Partitions on the far side of it match in full and others not at all; in the literal's own partition there may
        be rows of both kinds, unless the literal is its first or last value.
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
        """Give the partition value of the least integers, where it is not less than these, as it overflowed."""
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
            # A text that is shorter than the width is the only one with its partition value.
            length = pc.utf8_length if self.source == Primitive("string") else pc.binary_length
            return _Edges(values, pc.equal(values, literals), pc.less(length(literals), self.transform.width))
        return _Edges(values, self._differs(values, literals, -1), self._differs(values, literals, 1))

    def _differs(self, values: pa.Array, literals: pa.Array, step: int) -> pa.BooleanArray:
        """Say of each literal whether the next value in one direction has another partition value, or is none."""
        low, high = limits(literals.type)
        numbers = [number + step for number in ordinals_of(literals)]
        neighbours = of_ordinals([number if low <= number <= high else None for number in numbers], literals.type)
        return pc.not_equal(self.transform.apply(neighbours, self.source), values).fill_null(True)

    def _prefix(self, bound: BoundPredicate, strict: bool) -> Bound:
        """Project ``starts with`` and its negation, of which only truncated strings know."""
        unknown = FALSE if strict else TRUE
        if not isinstance(self.transform, Truncate):
            return unknown
        prefix = bound.values[0]
        if len(prefix.as_py()) <= self.transform.width:
            return self._predicate(bound.operator, prefix)
        # The partition value ends before the prefix does.
        if strict == (bound.operator == "starts with"):
            return unknown
        begin = pa.scalar(prefix.as_py()[: self.transform.width], prefix.type)
        return self._predicate("!=" if strict else "=", begin)
