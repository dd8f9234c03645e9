"""The table that an operation changes, as a transaction of its format offers it to the operation."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.arrow import count_up
from deltaberg.schema.columns import ColumnValues
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.assignments import Assignments, bind_assignments, checked_values
from deltaberg.table.change.changed_rows import RowTasks
from deltaberg.table.change.match import MatchedRows, find_rows
from deltaberg.table.change.matched_rows import Change, Replacement
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.rows.row_rules import RowRules
from deltaberg.table.rows.table_rules import TableRules

__all__ = ["RowTarget", "Rows", "change_matching", "update_change"]

#: Gives batches of rows, with the columns of the table; called again, it gives the same rows.
Rows = Callable[[], Iterator[pa.RecordBatch]]


class RowTarget(Protocol):
    """A table whose rows an operation of a transaction changes."""

    @property
    def schema(self) -> Struct:
        """The columns."""

    @property
    def timezone(self) -> str:
        """The zone of timestamps without one in conditions and values."""

    @property
    def store(self) -> StoreSpec:
        """The opener of the stores of the table."""

    @property
    def root(self) -> Location:
        """Where the table is."""

    @property
    def tasks(self) -> RowTasks | None:
        """The tasks that read and write files; None to do so on this machine."""

    @property
    def fixed(self) -> frozenset[str]:
        """The names of integer columns, such as identity columns, that an update may have to leave alone."""

    @property
    def empty_as_null(self) -> frozenset[str]:
        """The names of columns whose empty values become null."""

    def rules(self, timezone: str, now: dt.datetime) -> TableRules:
        """Return the rules of the table for new rows."""

    def add_columns(self, columns: Struct) -> None:
        """Add those columns, and fields of structs, that the table lacks."""

    def scan(self, condition: Value | None, timezone: str) -> BoundScan:
        """Return the scan of the rows that match a filter, or of all, with their addresses.

        The transaction relies on it: it is refused if another commit adds such rows meanwhile.
        """

    def apply(self, matched: MatchedRows, change: Change | None = None, inserted: Rows | None = None) -> None:
        """Delete or replace rows that `scan` has found, and insert others."""


def change_matching(target: RowTarget, condition: Value | None, change: Change | None = None) -> None:
    """Delete the rows of a table that match a condition, or replace them.

    Parameters
    ----------
    change
        What replaces them; None deletes them.
    """
    # Even if no row matches, rows that others append meanwhile may.
    matched = find_rows(target.scan(condition, target.timezone), search=target.tasks)
    if not matched.is_empty:
        target.apply(matched, change)


def update_change(target: RowTarget, values: ColumnValues, now: dt.datetime) -> Change:
    """Return what sets columns to new values.

    Parameters
    ----------
    values
        The values, as `bind_assignments` takes them.
    now
        The time that ``current_timestamp()`` returns.

    Raises
    ------
    InvalidArgumentError
        The values are not a mapping of columns, or a column is set twice.
    ExpressionError, ColumnNotFoundError
        A value is not valid, or does not fit the type of its column.
    ConstraintViolationError
        A column must not be set.
    """
    schema, timezone = target.schema, target.timezone
    values = checked_values(values)
    rules = target.rules(timezone, now)
    assignments = bind_assignments(schema, rules.with_defaults(values), schema, timezone=timezone, now=now)
    rules.check_given(assignments.columns)
    # Generated columns follow the columns that they are computed from.
    given = rules.given_to_update(assignments.columns - rules.defaulted(values))
    return _Update(assignments, rules.rows, given, len(schema))


@dataclass(frozen=True)
class _Update:
    """Sets columns of rows: a `DividedChange`."""

    assignments: Assignments
    rules: RowRules
    given: frozenset[str]
    width: int

    def __call__(self, batch: pa.RecordBatch) -> Replacement:
        rows = batch.select(range(self.width))
        made = self.rules.apply(self.assignments.apply(rows, rows), self.given)
        return Replacement(made, count_up(0, batch.num_rows))

    def of_files(self, numbers: Collection[int]) -> Change:
        return self
