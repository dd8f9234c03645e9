"""Long chains of AND or OR: their parts, joined so that nothing recurses once for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

from deltaberg.errors import ExpressionError
from deltaberg.expressions.predicates.tree import And, Column, Expression, Not, Or, Predicate

__all__ = ["chain", "combined", "grouped", "rebalanced"]

#: More parts than this are joined in halves.
_LONG = 64
#: The operators whose predicates are one predicate with a set of values, by what joins them.
_OF_SETS = {And: ({"!=", "not in"}, "not in"), Or: ({"=", "in"}, "in")}
_Part = TypeVar("_Part")


def chain(condition: And | Or) -> list[Expression]:
    """Return the parts of a chain of conditions that are all joined by AND, or all by OR."""
    parts: list[Expression] = []
    waiting: list[Expression] = [condition]
    while waiting:
        found = waiting.pop()
        if isinstance(found, type(condition)):
            waiting += (found.right, found.left)
        else:
            parts.append(found)
    return parts


def grouped(parts: Sequence[Expression], kind: type[And | Or]) -> list[Expression]:
    """Return parts of a chain, in which equalities of one column with literals are one look-up in a set.

    Examples
    --------
    >>> from deltaberg.expressions import col
    >>> print(*grouped([col("x") == 1, col("y") > 5, col("x") == 2], Or), sep=" OR ")
    x IN (1, 2) OR y > 5
    """
    operators, joined = _OF_SETS[kind]
    values: dict[tuple[str, ...], list[Any]] = {}
    others: dict[tuple[str, ...] | int, Expression] = {}
    for number, part in enumerate(parts):
        if isinstance(part, Predicate) and part.operator in operators and not _has_special(part):
            values.setdefault(part.column.path, []).extend(part.values)
            others.setdefault(part.column.path, part)
        else:
            others[number] = part
    for path, found in values.items():
        first = others[path]
        if isinstance(first, Predicate) and len(found) > len(first.values):
            others[path] = Predicate(joined, first.column, tuple(found))
    return list(others.values())


def _has_special(part: Predicate) -> bool:
    """Return whether a value is null, a column, or a list where there must be none."""
    is_single = part.operator in ("=", "!=")
    return any(value is None or isinstance(value, Column) for value in part.values) or (
        is_single and isinstance(part.values[0], (list, tuple))
    )


def combined(parts: Sequence[_Part], join: Callable[[_Part, _Part], _Part]) -> _Part:
    """Join parts from left to right; many of them in halves, so that the result is not as deep as they are many."""
    if len(parts) <= _LONG:
        return reduce(join, parts)
    half = len(parts) // 2
    return join(combined(parts[:half], join), combined(parts[half:], join))


def rebalanced(condition: Expression) -> Expression:
    """Return a condition in which long chains of AND or OR are joined in halves; see `combined`.

    Raises
    ------
    ExpressionError
        The condition is nested too deeply.
    """
    try:
        return _rebalanced(condition)
    except RecursionError:
        raise ExpressionError("the filter is nested too deeply") from None


def _rebalanced(condition: Expression) -> Expression:
    if isinstance(condition, Not):
        inner = _rebalanced(condition.inner)
        return condition if inner is condition.inner else Not(inner)
    if not isinstance(condition, (And, Or)):
        return condition
    parts = chain(condition)
    inside = [_rebalanced(part) for part in parts]
    is_same = len(parts) <= _LONG and all(new is old for new, old in zip(inside, parts, strict=True))
    return condition if is_same else combined(inside, type(condition))
