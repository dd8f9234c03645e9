"""Values and conditions: written as SQL text, with `col` or as tuples; bound to a schema; evaluated on rows.

There is one tree of values, and conditions are those that are booleans. What pruning takes is derived from what a
condition was bound to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.expressions.instants import format_instant, parse_timestamp
from deltaberg.expressions.values.bind import BoundValue, Relation, bind_condition, bind_value
from deltaberg.expressions.values.bound import (
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
from deltaberg.expressions.values.derive import bind, value_filter
from deltaberg.expressions.values.evaluate import ColumnReader, evaluate
from deltaberg.expressions.values.given import Column, Filter, all_of, any_of, as_filter, as_value, col, comparison
from deltaberg.expressions.values.tree import FALSE, TRUE, Literal, Value
from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.expressions.values.parse import parse_value

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
    "Filter",
    "Literal",
    "Relation",
    "Value",
    "all_of",
    "any_of",
    "as_filter",
    "as_value",
    "bind",
    "bind_condition",
    "bind_value",
    "bound_paths",
    "col",
    "comparison",
    "evaluate",
    "format_instant",
    "is_computed",
    "join_bound",
    "parse_timestamp",
    "parse_value",
    "split_and",
    "value_filter",
]

# The parser is loaded when it is first asked for.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"parse_value": "values.parse"})
