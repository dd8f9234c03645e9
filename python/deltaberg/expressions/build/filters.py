"""Filters and values of any kind that callers pass, as trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from deltaberg.choices import Operator
from deltaberg.errors import ExpressionError
from deltaberg.expressions.build.column import Column, all_of, any_of, col, comparison
from deltaberg.expressions.build.literals import literal_of
from deltaberg.expressions.tree.tree import TRUE, ColumnValue, Value
from deltaberg.hints import shown_value
from deltaberg.lists import is_list

if TYPE_CHECKING:
    from deltaberg.expressions.build.pyiceberg import PyIcebergExpression
    from deltaberg.schema.columns import ColumnName

__all__ = ["Condition", "Filter", "FilterTuple", "as_filter", "as_value", "from_tuples"]


def from_tuples(filters: Sequence[Any]) -> Value:
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
        raise ExpressionError("an empty list is not a filter", hint="pass None for all rows")
    if are_lists:
        return any_of(all_of(map(_of_tuple, part)) for part in filters)
    return all_of(map(_of_tuple, filters))


def _of_tuple(item: Any) -> Value:
    if not isinstance(item, tuple) or len(item) != 3:
        raise ExpressionError(
            f"{shown_value(item)} is not a filter",
            hint="pass one text, or tuples in a list: [(column, operator, value)]",
        )
    name, given, value = item
    operators: tuple[str, ...] = get_args(Operator)
    if not isinstance(given, str) or given not in operators:
        raise ExpressionError(f"{shown_value(given)} is not an operator", hint=f"use one of {', '.join(operators)}")
    operator = given.lower()
    column, plain = col(name), {"==": "=", "!=": "=", "not in": "in"}.get(operator, operator)
    if plain == "in":
        if not is_list(value):
            raise ExpressionError(f"{operator} takes a list of values, not {shown_value(value)}")
        found = column.is_in(value)
    else:
        found = column.is_null() if value is None and plain == "=" else comparison(plain, column, value)
    return ~found if operator in ("!=", "not in") else found


#: How callers write a condition of a merge, in which columns have the names of their sides.
Condition: TypeAlias = "str | Value | Column"
#: How callers write a comparison: a column, an operator and a value, or several values.
FilterTuple: TypeAlias = "tuple[ColumnName, Operator, Any]"
#: How callers write a condition: as SQL text, as an expression of `col`, as tuples like those of pyarrow, or as an
#: expression of pyiceberg.
Filter: TypeAlias = "str | Value | Column | Sequence[FilterTuple | list[FilterTuple]] | PyIcebergExpression"


def as_filter(condition: Filter | None) -> Value:
    """Return the tree of a condition. None keeps every row.

    Raises
    ------
    ExpressionError
        If it is none.

    Examples
    --------
    >>> print(as_filter("upper(name) = 'A'"))
    upper(name) = 'A'
    """
    if condition is None:
        return TRUE
    if isinstance(condition, str):
        return _parsed(condition, "filter")
    if isinstance(condition, (Value, Column)):
        return as_value(condition)
    if isinstance(condition, Sequence) and is_list(condition):
        return from_tuples(condition)
    from deltaberg.expressions.build.pyiceberg import from_pyiceberg, is_of_pyiceberg

    if is_of_pyiceberg(condition):
        return from_pyiceberg(condition)
    raise ExpressionError(
        f"{shown_value(condition)} is not a filter", hint="pass SQL text, an expression of col(), or tuples"
    )


def as_value(expression: Any) -> Value:
    """Return what callers give as a value: SQL text, a value or column of `col`, or a Python literal.

    Text is always SQL; the value of a string is quoted: ``"'abc'"``.

    Raises
    ------
    ExpressionError
        If it is none of these.
    """
    if isinstance(expression, Value):
        return expression
    if isinstance(expression, Column):
        return ColumnValue(expression.path)
    return _parsed(expression, "expression") if isinstance(expression, str) else literal_of(expression)


def _parsed(text: str, kind: str) -> Value:
    # The parser is loaded where there is text alone.
    from deltaberg.expressions.build.parse import parse_value

    return parse_value(text, kind)
