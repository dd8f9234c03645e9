"""Filters that Spark pushes into a Python Data Source, as expressions of this library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deltaberg.expressions.build.column import Column, comparison
from deltaberg.expressions.tree.tree import Value

__all__ = ["from_spark"]

_COMPARISONS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "StringStartsWith": "startswith",
}


def from_spark(pushed: Any) -> Value | None:
    """Return a filter as an expression; None if it has no equivalent, and Spark must apply it itself."""
    kind = type(pushed).__name__
    if kind == "Not":
        inner = from_spark(pushed.child)
        return None if inner is None else ~inner
    attribute = getattr(pushed, "attribute", None)
    if not isinstance(attribute, tuple):
        return None
    column = Column(tuple(attribute))
    if kind in _COMPARISONS:
        return comparison(_COMPARISONS[kind], column, pushed.value)
    if kind == "In":
        values: Iterable[Any] = pushed.value
        return comparison("in", column, *values)
    if kind in ("IsNull", "IsNotNull"):
        return column.is_null() if kind == "IsNull" else column.is_not_null()
    return None
