"""Rules of a table for the rows that are written to it: columns that are filled in, and conditions on every row.

The rules know no format. They see whole batches of the table's columns, so that every operation that writes rows can
apply them: appends, updates and merges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ConstraintViolationError
from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.schema.rows.shown_scalar import shown_scalar
from deltaberg.schema.rows.text_lengths import fit_texts
from deltaberg.schema.types import Field, Struct

__all__ = ["ColumnFill", "RowCheck", "RowRules", "check_of_replaced", "empty_to_null"]

#: Characters of a value that a message shows at most.


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
    hint
        What helps who wrote a row that does not fulfil it.
    """

    name: str
    sql: str
    holds: Callable[[pa.RecordBatch], pa.Array]
    columns: tuple[str, ...]
    follows: str | None = None
    hint: str = "leave the row out, or change the rule of the table"

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
        raise self.violation([batch.column(name)[bad] for name in self.columns])

    def violation(self, values: Sequence[pa.Scalar]) -> ConstraintViolationError:
        """Return the error for a row that has these values of the columns."""
        row = ", ".join(f"{name}={shown_scalar(value)}" for name, value in zip(self.columns, values, strict=True))
        return ConstraintViolationError(
            f"a row violates {self.name}{f': {row}' if row else ''}", hint=self.hint, expression=self.sql
        )


@dataclass(frozen=True)
class _Matches:
    """Says which rows of a batch match a filter; it pickles."""

    bound: Bound

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        def column(path: tuple[Field, ...]) -> pa.Array:
            found = batch.column(path[0].name)
            for part in path[1:]:
                found = pc.struct_field(found, found.type.get_field_index(part.name))
            return found

        return evaluate(self.bound, column, batch.num_rows)


def check_of_replaced(where: Bound, condition: str) -> RowCheck:
    """Return the check that new rows match the condition of those that they replace.

    Parameters
    ----------
    where, condition
        The condition, and its text.
    """
    names = tuple(dict.fromkeys(path[0].name for path in bound_paths(where)))
    hint = "write only rows that match it⟦, or use ⟪check=False⟫⟧"
    return RowCheck("the filter of the rows to be replaced", condition, _Matches(where), names, hint=hint)


@dataclass(frozen=True)
class RowRules:
    """The rules of a table for the rows that are written.

    Parameters
    ----------
    schema
        The columns of the table.
    fills
        What fills columns that rows lack, in the order in which it is done.
    checks
        The conditions, which see filled columns.
    empty_as_null
        The names of top-level columns of texts or bytes that cannot tell an empty value from null. Their empty values
        become null before anything else sees them.

    Texts of columns with a length are made as long as the column wants them, before anything is computed from them.
    """

    schema: Struct
    fills: Sequence[ColumnFill] = ()
    checks: Sequence[RowCheck] = ()
    empty_as_null: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.fills or self.checks or self.empty_as_null or self._fitted)

    @cached_property
    def _fitted(self) -> dict[str, Callable[[pa.Array], pa.Array]]:
        """What fits the texts of columns, by the names of those columns that need it."""
        found = ((child.name, fit_texts(child)) for child in self.schema)
        return {name: convert for name, convert in found if convert is not None}

    @property
    def filled(self) -> frozenset[str]:
        """The columns that rows need not have."""
        return frozenset(fill.column for fill in self.fills)

    def apply(self, batch: pa.RecordBatch, given_columns: AbstractSet[str]) -> pa.RecordBatch:
        """Return a batch in which the columns that are not given are filled, and check all of its rows.

        Parameters
        ----------
        batch
            Rows with all columns of the table, in their order. What it holds for a column that is filled is ignored.
        given_columns
            The names of the columns that have values already. For an update, these are all columns but the generated
            ones that are not set: they are computed again.

        Raises
        ------
        ConstraintViolationError
            A row violates a condition, a text is too long for its column, or a column that must not be null is filled
            with nulls, or has empty values that become null.
        """
        for name in sorted(given_columns & (self.empty_as_null | self._fitted.keys())):
            batch = self._with(batch, name, batch.column(name), "has {} nulls or empty values, which become null")
        for fill in self.fills:
            if fill.column not in given_columns:
                batch = self._with(batch, fill.column, fill.values(batch), "is filled with {} nulls")
        for check in self.checks:
            if check.follows is None or check.follows in given_columns:
                check.apply(batch)
        return batch

    def _with(self, batch: pa.RecordBatch, name: str, values: pa.Array, nulls: str) -> pa.RecordBatch:
        """Return a batch with other values of a column; ``nulls`` says what is wrong if they must not be null."""
        if name in self.empty_as_null:
            values = empty_to_null(values)
        if name in self._fitted:
            values = self._fitted[name](values)
        child = self.schema.get(name)
        if child is not None and not child.nullable and values.null_count:
            raise ConstraintViolationError(
                f"a column that must not be null {nulls.format(values.null_count)}", column=name
            )
        number = batch.schema.get_field_index(name)
        return batch.set_column(number, batch.schema.field(number), values)


def empty_to_null(values: pa.Array) -> pa.Array:
    """Return an array of texts or bytes in which those that are empty are null.

    Examples
    --------
    >>> empty_to_null(pa.array(["a", "", None])).to_pylist()
    ['a', None, None]
    """
    is_empty = pc.equal(pc.binary_length(values), 0)
    if not pc.any(is_empty).as_py():
        return values
    return pc.if_else(is_empty, pa.scalar(None, values.type), values)
