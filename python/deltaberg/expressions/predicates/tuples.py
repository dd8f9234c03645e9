"""Filters in the form of pyarrow: (column, operator, value) tuples in disjunctive normal form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltaberg.errors import ExpressionError
from deltaberg.expressions.predicates.tree import Column, Expression, Predicate, all_of, any_of, col, is_list

__all__ = ["from_tuples"]

_OPERATORS = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "in": "in",
    "not in": "not in",
}


def from_tuples(filters: Sequence[Any]) -> Expression:
    """Convert a list of tuples, all of which must hold, or a list of such lists, one of which must hold.

    Examples
    --------
    >>> print(from_tuples([("x", ">", 5), ("y", "in", ["a", "b"])]))
    (x > 5 AND y IN ('a', 'b'))
    >>> print(from_tuples([[("x", "=", 1)], [("x", "=", None)]]))
    (x = 1 OR x IS NULL)
    """
    are_lists = all(isinstance(part, list) for part in filters)
    if not filters or (are_lists and not all(filters)):
        raise ExpressionError("an empty list is not a filter", hint="pass None to keep every row")
    if are_lists:
        return any_of(all_of(_predicate(item) for item in part) for part in filters)
    return all_of(_predicate(item) for item in filters)


def _predicate(item: Any) -> Expression:
    if not isinstance(item, tuple) or len(item) != 3:
        raise ExpressionError(f"{item!r} is not a filter", hint="pass (column, operator, value)")
    name, operator, value = item
    known = _OPERATORS.get(str(operator).lower())
    if known is None:
        raise ExpressionError(f"{operator!r} is not an operator", hint=f"use one of {', '.join(_OPERATORS)}")
    column: Column = col(name)
    if known in ("in", "not in"):
        if not is_list(value):
            raise ExpressionError(f"{known} takes a list of values, not {value!r}")
        return Predicate(known, column, tuple(value))
    if value is None and known in ("=", "!="):
        return Predicate("is null" if known == "=" else "is not null", column)
    return Predicate(known, column, (value,))
