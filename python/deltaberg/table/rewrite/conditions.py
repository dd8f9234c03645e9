"""Which rows an operation changes: a filter, or any condition of SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ExpressionError
from deltaberg.expressions import (
    TRUE,
    Expression,
    Filter,
    Value,
    as_expression,
    as_value,
    bind,
    bind_condition,
    value_filter,
)
from deltaberg.schema import ColumnName, Struct
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.rewrite.match import MatchedRows, RowSearch, RowTest, find_rows

__all__ = ["Condition", "RowCondition", "condition_text", "row_condition"]

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
        The condition is not valid, or cannot be evaluated exactly.
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
            return RowCondition(str(found), found)
    value = as_value(where)
    whole = bind_condition(value, schema, timezone=timezone, now=now)
    names = {path[0].name for _, path in whole.paths}
    needed = Struct(tuple(field for field in schema if field.name in names))
    bound = bind_condition(value, needed, timezone=timezone, now=now)

    def test(batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.fill_null(bound.evaluate(batch), fill_value=False)

    pruning = value_filter(whole)
    return RowCondition(whole.sql, None if pruning == TRUE else pruning, test, [(field.name,) for field in needed])


def condition_text(where: Condition) -> str:
    """Return a condition as the history records it, without binding it to columns."""
    if not isinstance(where, Value):
        try:
            return str(as_expression(where))
        except ExpressionError:
            if not isinstance(where, str):
                raise
    return str(as_value(where))
