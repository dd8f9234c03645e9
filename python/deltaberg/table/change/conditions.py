"""Which rows an operation changes: those for which a condition is true."""

from __future__ import annotations

from typing import Any

from deltaberg.errors import ExpressionError
from deltaberg.expressions.bind.bind import BoundValue, bind_condition
from deltaberg.expressions.build.filters import Filter, as_filter
from deltaberg.expressions.tree.tree import Literal, Value
from deltaberg.schema.types import Struct
from deltaberg.table.read.source import ScanSource

__all__ = ["file_condition", "refuse_constant", "row_condition"]


def row_condition(schema: Struct, where: Filter | None, timezone: str) -> Value | None:
    """Return a condition on the columns of a table, which is checked; None for all rows.

    Parameters
    ----------
    schema
        The columns.
    where
        The condition; None for all rows.
    timezone
        The zone of timestamps without one, and of dates.

    Raises
    ------
    ExpressionError, ColumnNotFoundError
        The condition is not valid, cannot be evaluated exactly, or names no column.
    """
    if where is None:
        return None
    found = as_filter(where)
    refuse_constant(found, bind_condition(found, schema, timezone=timezone))
    return found


def file_condition(source: ScanSource, where: Filter | None, timezone: str) -> Value | None:
    """Return the condition of files that are written anew, which may name hidden columns, too: see `row_condition`."""
    return row_condition(Struct((*source.schema, *source.hidden)), where, timezone)


def refuse_constant(condition: Any, bound: BoundValue) -> None:
    """Refuse a condition that names no column, unless it is ``true`` or ``false``.

    It is the same for every row, which nobody means who writes more than this word.

    Parameters
    ----------
    condition
        The condition as it was given.
    bound
        The condition, bound to columns.

    Raises
    ------
    ExpressionError
        It names none.
    """
    if not bound.paths:
        value = as_filter(condition)
        if not (isinstance(value, Literal) and isinstance(value.value, bool)):
            raise _names_nothing(bound.sql)


def _names_nothing(text: str) -> ExpressionError:
    return ExpressionError(
        f"the condition {text} names no column, so that it is the same for every row",
        hint="write true for all rows; names of columns stand in backticks or in no quotes, and texts in single quotes",
    )
