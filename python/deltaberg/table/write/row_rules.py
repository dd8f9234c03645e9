"""Rules of a table for the rows that are written to it: columns that are filled in, and conditions on every row.

The rules know no format. They see whole batches of the table's columns, so that every operation that writes rows can
apply them: appends, updates and merges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ConstraintViolationError
from deltaberg.schema import Struct

__all__ = ["ColumnFill", "RowCheck", "RowRules"]

#: Characters of a value that a message shows at most.
_SHOWN = 80


@dataclass(frozen=True)
class ColumnFill:
    """What gives a column its values where the rows do not have it.

    Parameters
    ----------
    column
        The name of a top-level column.
    values
        Makes an array of the column's type from a batch of the table's columns, in which earlier fills are done.
    """

    column: str
    values: Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True)
class RowCheck:
    """A condition that every row must fulfil. A row for which it is null does not.

    Parameters
    ----------
    name
        The rule as a message names it, such as ``the CHECK constraint positive``.
    sql
        The condition as the table records it.
    holds
        Says for each row of a batch of the table's columns whether it fulfils the condition.
    columns
        The top-level columns that the condition is about, whose values a message shows.
    follows
        The column that fulfils the condition wherever it is filled; None if the condition is about given values.
    """

    name: str
    sql: str
    holds: Callable[[pa.RecordBatch], pa.Array]
    columns: tuple[str, ...]
    follows: str | None = None

    def apply(self, batch: pa.RecordBatch) -> None:
        """Refuse a batch with a row that does not fulfil the condition.

        Raises
        ------
        ConstraintViolationError
            The message names the rule and the values of the first such row, and its context the condition.
        """
        held = pc.fill_null(self.holds(batch), fill_value=False)
        bad = pc.index(held, pa.scalar(value=False)).as_py()
        if bad < 0:
            return
        row = ", ".join(f"{name}={_shown(batch.column(name)[bad])}" for name in self.columns)
        raise ConstraintViolationError(
            f"a row violates {self.name}{f': {row}' if row else ''}",
            hint="leave the row out, or change the rule of the table",
            expression=self.sql,
        )


def _shown(value: pa.Scalar) -> str:
    try:
        text = "null" if not value.is_valid else repr(value.as_py())
    except (ValueError, OverflowError):
        # Python has no dates before the year 1.
        text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@dataclass(frozen=True)
class RowRules:
    """What a table asks of the rows that are written.

    Parameters
    ----------
    schema
        The columns of the table.
    fills
        What fills columns that rows lack, in the order in which it is done.
    checks
        The conditions, which see filled columns.
    """

    schema: Struct
    fills: Sequence[ColumnFill] = ()
    checks: Sequence[RowCheck] = ()

    def __bool__(self) -> bool:
        return bool(self.fills or self.checks)

    @property
    def filled(self) -> frozenset[str]:
        """The columns that rows need not have."""
        return frozenset(fill.column for fill in self.fills)

    def apply(self, batch: pa.RecordBatch, given: AbstractSet[str]) -> pa.RecordBatch:
        """Return a batch in which the columns that are not given are filled, and check all of its rows.

        Parameters
        ----------
        batch
            Rows with all columns of the table, in their order. What it holds for a column that is filled is ignored.
        given
            The names of the columns that have values already. For an update, these are all columns but the generated
            ones that are not set: they are computed again.

        Raises
        ------
        ConstraintViolationError
            A row violates a condition, or a filled column that must not be null has nulls.
        """
        for fill in self.fills:
            if fill.column in given:
                continue
            number = batch.schema.get_field_index(fill.column)
            kind = batch.schema.field(number)
            values = fill.values(batch)
            child = self.schema.get(fill.column)
            if child is not None and not child.nullable and values.null_count:
                raise ConstraintViolationError(
                    f"a column that must not be null is filled with {values.null_count} nulls", column=fill.column
                )
            batch = batch.set_column(number, kind, values)
        for check in self.checks:
            if check.follows is None or check.follows in given:
                check.apply(batch)
        return batch
