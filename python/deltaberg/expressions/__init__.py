"""Filters and values, bound to a schema and evaluated on rows.

Filters are conditions that prune: comparisons of columns with literals, built with `col` or parsed from SQL text or
tuples. Values are any other expressions of SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.instants import format_instant, parse_timestamp
from deltaberg.expressions.predicates.bind import bind
from deltaberg.expressions.predicates.bound import (
    Bound,
    BoundAnd,
    BoundComputed,
    BoundOr,
    BoundPredicate,
    bound_paths,
    is_computed,
    join_bound,
    split_and,
)
from deltaberg.expressions.predicates.chains import rebalanced
from deltaberg.expressions.predicates.evaluate import ColumnReader, evaluate
from deltaberg.expressions.predicates.pyiceberg import PyIcebergExpression, from_pyiceberg, is_of_pyiceberg
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
    leaves,
)
from deltaberg.expressions.predicates.tuples import from_tuples
from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.expressions.values.bind import BoundValue, Relation, bind_condition, bind_value
    from deltaberg.expressions.values.filters import value_filter
    from deltaberg.expressions.values.parse import as_value, parse_value
    from deltaberg.expressions.values.tree import Value

__all__ = [
    "FALSE",
    "TRUE",
    "Bound",
    "BoundAnd",
    "BoundComputed",
    "BoundOr",
    "BoundPredicate",
    "BoundValue",
    "Column",
    "ColumnReader",
    "Constant",
    "Expression",
    "Filter",
    "Predicate",
    "Relation",
    "Value",
    "all_of",
    "any_of",
    "as_expression",
    "as_filter",
    "as_value",
    "bind",
    "bind_condition",
    "bind_value",
    "bound_paths",
    "col",
    "evaluate",
    "format_instant",
    "is_computed",
    "join_bound",
    "leaves",
    "parse_timestamp",
    "parse_value",
    "split_and",
    "value_filter",
]

# Values are loaded when they are first asked for: most reads use none, and they have more modules than filters.
_HOMES = {
    "BoundValue": "values.bind",
    "Relation": "values.bind",
    "Value": "values.tree",
    "as_value": "values.parse",
    "bind_condition": "values.bind",
    "bind_value": "values.bind",
    "parse_value": "values.parse",
    "value_filter": "values.filters",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)

#: How callers write a filter: as SQL text, as an expression, as tuples like those of pyarrow, or as an expression of
#: pyiceberg.
Filter = str | Expression | Column | Sequence[Any] | PyIcebergExpression


def as_expression(condition: Filter | None) -> Expression:
    """Convert a filter to an expression. None keeps every row."""
    if condition is None:
        return TRUE
    if isinstance(condition, Expression):
        return rebalanced(condition)
    if isinstance(condition, Column):
        return condition.is_true()
    if isinstance(condition, str):
        return parse_sql(condition)
    if isinstance(condition, Sequence):
        return rebalanced(from_tuples(condition))
    if is_of_pyiceberg(condition):
        return from_pyiceberg(condition)
    raise ExpressionError(f"{condition!r} is not a filter", hint="pass SQL text, an expression of col(), or tuples")


def as_filter(condition: Filter | None) -> Expression:
    """Convert a filter of a scan to an expression. SQL text may be any condition, also one that only rows can decide.

    Raises
    ------
    ExpressionError
        If it is not a condition.

    Examples
    --------
    >>> print(as_filter("upper(name) = 'A'"))
    (upper(name) = 'A')
    """
    try:
        return as_expression(condition)
    except UnsupportedExpressionError:
        if not isinstance(condition, str):
            raise
        from deltaberg.expressions.values.computed import ComputedFilter
        from deltaberg.expressions.values.parse import parse_value

        return ComputedFilter(parse_value(condition))
