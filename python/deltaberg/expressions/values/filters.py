"""Filters that follow from conditions, for pruning: every row that matches the condition fulfils the filter."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltaberg.expressions.predicates.tree import (
    FALSE,
    TRUE,
    Column,
    Constant,
    Expression,
    Predicate,
    all_of,
    any_of,
)
from deltaberg.expressions.values.bind import BoundValue
from deltaberg.expressions.values.kinds import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    NTZ,
    STRING,
    TIMESTAMP,
    decimal_of,
    is_integral,
)
from deltaberg.expressions.values.nodes import CallNode, ColumnNode, LazyNode, LiteralNode, Node
from deltaberg.schema import DataType, Decimal

__all__ = ["exact_column", "value_filter"]

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_OPPOSITE = {"=": "!=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "<=>": "is distinct from"}


def value_filter(value: BoundValue, relation: int = 0) -> Expression:
    """Return a filter on a relation that every row fulfils for which the condition is true.

    Of what says nothing about columns of the relation, compared with literals, nothing remains. In the extreme, the
    filter is TRUE, which keeps all rows. Rows that fulfil the filter need not match, so callers prune with it, and then
    evaluate the condition.

    Examples
    --------
    >>> from deltaberg.expressions import bind_condition
    >>> from deltaberg.schema import Field, Primitive, Struct
    >>> schema = Struct((Field("x", Primitive("long")), Field("name", Primitive("string"))))
    >>> print(value_filter(bind_condition("x > 5 AND x % 2 = 0 AND name IN ('a', 'b')", schema)))
    (x > 5 AND name IN ('a', 'b'))
    """
    return _filter(value.node, relation, negated=False)


def _filter(node: Node, relation: int, negated: bool) -> Expression:
    if isinstance(node, LiteralNode):
        return TRUE if node.scalar.as_py() is (not negated) else FALSE
    if isinstance(node, ColumnNode) and node.type == BOOLEAN and node.relation == relation:
        return Predicate("=", _column(node), (not negated,))
    if isinstance(node, LazyNode) and node.name in ("and", "or"):
        parts = [_filter(part, relation, negated) for part in node.arguments]
        joined = all_of if (node.name == "and") is not negated else any_of
        return _simplified(parts, joined is all_of)
    if isinstance(node, LazyNode) and node.name == "in":
        return _membership(node, relation, negated)
    if isinstance(node, CallNode):
        return _call(node, relation, negated)
    return TRUE


def _simplified(parts: Sequence[Expression], is_and: bool) -> Expression:
    neutral, absorbing = (TRUE, FALSE) if is_and else (FALSE, TRUE)
    if any(part == absorbing for part in parts if isinstance(part, Constant)):
        return absorbing
    kept = [part for part in parts if not (isinstance(part, Constant) and part == neutral)]
    return (all_of if is_and else any_of)(kept)


def _call(node: CallNode, relation: int, negated: bool) -> Expression:
    name = node.name
    if name == "not":
        return _filter(node.arguments[0], relation, not negated)
    if name in ("isnull", "isnotnull"):
        tested = _plain_column(node.arguments[0], relation)
        is_null = (name == "isnull") is not negated
        return TRUE if tested is None else Predicate("is null" if is_null else "is not null", _column(tested))
    if name not in _FLIPPED:
        return TRUE
    left, right = node.arguments
    if isinstance(left, LiteralNode):
        left, right, name = right, left, _FLIPPED[name]
    found = exact_column(left, relation)
    if found is None or not isinstance(right, LiteralNode):
        return TRUE
    column, literal = _column(found), right.scalar
    if not literal.is_valid:
        if name != "<=>":
            return FALSE
        return Predicate("is not null" if negated else "is null", column)
    if not _is_python(literal):
        return TRUE
    return Predicate(_OPPOSITE[name] if negated else name, column, (literal.as_py(),))


def _membership(node: LazyNode, relation: int, negated: bool) -> Expression:
    subject, *items = node.arguments
    column = exact_column(subject, relation)
    if column is None or not all(isinstance(item, LiteralNode) for item in items):
        return TRUE
    values = tuple(item.scalar for item in items if isinstance(item, LiteralNode))
    if negated and not all(value.is_valid for value in values):
        return FALSE
    if not all(map(_is_python, values)):
        return TRUE
    known = tuple(value.as_py() for value in values if value.is_valid)
    return Predicate("not in" if negated else "in", _column(column), known) if known else FALSE


def _is_python(literal: pa.Scalar) -> bool:
    """Return whether Python has the value. Its dates end with the year 9999."""
    try:
        literal.as_py()
    except (OverflowError, ValueError):
        return False
    return True


def _column(node: ColumnNode) -> Column:
    return Column(tuple(part.name for part in node.path))


def _plain_column(node: Node, relation: int) -> ColumnNode | None:
    return node if isinstance(node, ColumnNode) and node.relation == relation else None


def exact_column(node: Node, relation: int) -> ColumnNode | None:
    """Return the column behind casts that keep every value and the order, so that it can be compared with literals."""
    while isinstance(node, CallNode) and node.name == "cast" and _is_exact(node.arguments[0].type, node.type):
        node = node.arguments[0]
    column = _plain_column(node, relation)
    return column if column is not None and _has_filters(column.type) else None


def _has_filters(kind: DataType) -> bool:
    known = (BOOLEAN, FLOAT, DOUBLE, STRING, DATE, NTZ, TIMESTAMP)
    return kind in known or is_integral(kind) or isinstance(kind, Decimal)


def _is_exact(given: DataType, to: DataType) -> bool:
    if is_integral(given) and is_integral(to):
        return INTEGER_BITS[given] <= INTEGER_BITS[to]
    if (given, to) == (FLOAT, DOUBLE):
        return True
    if is_integral(given) and to == DOUBLE:
        return INTEGER_BITS[given] <= 32
    narrow = decimal_of(given)
    if narrow is None or not isinstance(to, Decimal):
        return False
    return narrow.scale <= to.scale and narrow.precision - narrow.scale <= to.precision - to.scale
