"""Filters: built with `col` or parsed from SQL text or tuples, bound to a schema, and evaluated on rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltaberg.errors import ExpressionError
from deltaberg.expressions.instants import format_instant, parse_timestamp
from deltaberg.expressions.predicates.bind import (
    Bound,
    BoundAnd,
    BoundOr,
    BoundPredicate,
    bind,
    bound_paths,
    join_bound,
    split_and,
)
from deltaberg.expressions.predicates.evaluate import ColumnReader, evaluate
from deltaberg.expressions.predicates.sql import parse_sql
from deltaberg.expressions.predicates.tree import (
    FALSE,
    TRUE,
    Column,
    Constant,
    Expression,
    Predicate,
    all_of,
    any_of,
    col,
)
from deltaberg.expressions.predicates.tuples import from_tuples

__all__ = [
    "FALSE",
    "TRUE",
    "Bound",
    "BoundAnd",
    "BoundOr",
    "BoundPredicate",
    "Column",
    "ColumnReader",
    "Constant",
    "Expression",
    "Filter",
    "Predicate",
    "all_of",
    "any_of",
    "as_expression",
    "bind",
    "bound_paths",
    "col",
    "evaluate",
    "format_instant",
    "join_bound",
    "parse_timestamp",
    "split_and",
]

#: How callers write a filter: as SQL text, as an expression, or as tuples like those of pyarrow.
Filter = str | Expression | Column | Sequence[Any]


def as_expression(condition: Filter | None) -> Expression:
    """Convert a filter to an expression. None keeps every row."""
    if condition is None:
        return TRUE
    if isinstance(condition, Expression):
        return condition
    if isinstance(condition, Column):
        return condition.is_true()
    if isinstance(condition, str):
        return parse_sql(condition)
    if isinstance(condition, Sequence):
        return from_tuples(condition)
    raise ExpressionError(f"{condition!r} is not a filter", hint="pass SQL text, an expression of col(), or tuples")
