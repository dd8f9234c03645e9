"""Which rows an operation changes: a filter, or any condition of SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError
from deltaberg.expressions import (
    TRUE,
    BoundValue,
    Constant,
    Expression,
    Filter,
    Value,
    as_expression,
    as_value,
    bind,
    bind_condition,
    leaves,
    value_filter,
)
from deltaberg.expressions.values.tree import Literal
from deltaberg.schema import ColumnName, Struct
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.rewrite.match import MatchedRows, RowSearch, RowTest, find_rows

__all__ = ["Condition", "RowCondition", "condition_text", "refuse_constant", "row_condition"]

#: How callers write a condition: as a filter, or as any other value that is a boolean.
Condition = Filter | Value


@dataclass(frozen=True)
class RowCondition:
    """A condition on the rows of a table, bound to its columns.

    Parameters
    ----------
    text
        The condition as SQL text; None for all rows.
    filter
        A filter that every matching row fulfils; None where nothing is known.
    test
        What says which rows match that fulfil the filter; None if all of them do.
    columns
        The columns that the test needs.
    """

    text: str | None
    filter: Expression | None
    test: RowTest | None = None
    columns: Sequence[ColumnName] = ()

    def find(self, bound: BoundScan, search: RowSearch | None = None) -> MatchedRows:
        """Return the rows of a scan by ``filter`` that match."""
        return find_rows(bound, self.test, self.columns, search)


def row_condition(
    schema: Struct, where: Condition | None, timezone: str, now: dt.datetime | None = None
) -> RowCondition:
    """Bind a condition to the columns of a table.

    Filters, whose comparisons have a column on one side and a literal on the other, are decided by metadata as far as
    possible. Any other condition is evaluated as Spark evaluates it.

    Parameters
    ----------
    schema
        The columns.
    where
        The condition; None for all rows.
    timezone
        The zone of timestamps without one, and of dates.
    now
        The time that ``current_timestamp()`` returns.

    Raises
    ------
    ExpressionError, ColumnNotFoundError
        The condition is not valid, cannot be evaluated exactly, or names no column.
    """
    if where is None:
        return RowCondition(None, None)
    if not isinstance(where, Value):
        try:
            found = as_expression(where)
            bind(found, schema, timezone)
        except ExpressionError:
            if not isinstance(where, str):
                raise
        else:
            if not isinstance(found, Constant) and all(isinstance(leaf, Constant) for leaf in leaves(found)):
                raise _names_nothing(str(found))
            return RowCondition(str(found), found)
    value = as_value(where)
    whole = bind_condition(value, schema, timezone=timezone, now=now)
    refuse_constant(value, whole)
    names = {path[0].name for _, path in whole.paths}
    needed = Struct(tuple(field for field in schema if field.name in names))
    bound = bind_condition(value, needed, timezone=timezone, now=now)

    def test(batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.fill_null(bound.evaluate(batch), fill_value=False)

    pruning = value_filter(whole)
    return RowCondition(whole.sql, None if pruning == TRUE else pruning, test, [(field.name,) for field in needed])


def refuse_constant(given: Any, bound: BoundValue) -> None:
    """Refuse a condition that names no column, unless it is ``true`` or ``false``.

    It is the same for every row, which nobody means who writes more than this word.

    Parameters
    ----------
    given
        The condition as it was given.
    bound
        The condition, bound to columns.

    Raises
    ------
    ExpressionError
        It names none.
    """
    if not bound.paths:
        value = as_value(given)
        if not (isinstance(value, Literal) and isinstance(value.value, bool)):
            raise _names_nothing(bound.sql)


def _names_nothing(text: str) -> ExpressionError:
    return ExpressionError(
        f"the condition {text} names no column, so that it is the same for every row",
        hint="write true for all rows; names of columns stand in backticks or in no quotes, and texts in single quotes",
    )


def condition_text(where: Condition) -> str:
    """Return a condition as the history records it, without binding it to columns."""
    if not isinstance(where, Value):
        try:
            return str(as_expression(where))
        except ExpressionError:
            if not isinstance(where, str):
                raise
    return str(as_value(where))
