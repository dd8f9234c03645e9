"""The smallest or the greatest value of a column: from exact bounds of files, and from the rows of the rest."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError, TooLargeError
from deltaberg.files.read.task import constant_column
from deltaberg.pruning.stats import ColumnStats, stats_key
from deltaberg.schema.arrow import as_array
from deltaberg.schema.columns import join_name
from deltaberg.schema.rows.text_lengths import has_padded_texts
from deltaberg.schema.types import DataType, Decimal, Field, Primitive
from deltaberg.table.read.plan import Plan, file_numbers

__all__ = ["MinMax", "has_order"]

_UNORDERED = {"void", "variant"}


def has_order(found: DataType) -> bool:
    """Return whether values of a type have an order, and so a smallest one."""
    return isinstance(found, (Primitive, Decimal)) and str(found) not in _UNORDERED


class MinMax:
    """Collects values of a column, and keeps the smallest or the greatest.

    Raises
    ------
    InvalidArgumentError
        If the column's type has no order.
    """

    def __init__(self, path: tuple[Field, ...], largest: bool, with_deleted: bool = False) -> None:
        leaf = path[-1].type
        if not has_order(leaf):
            name = ".".join(part.name for part in path)
            raise InvalidArgumentError(f"the column {name} is of type {leaf}, whose values have no order")
        self._path = path
        self._largest = largest
        self._with_deleted = with_deleted
        self._found: list[pa.Scalar] = []

    @property
    def value(self) -> Any:
        """The value; None if there was none.

        Raises
        ------
        TooLargeError
            Python has no such value, as of dates beyond the year 9999.
        """
        if not self._found:
            return None
        kind = self._found[0].type
        extreme = self._of(pa.concat_arrays([pa.repeat(scalar, 1).cast(kind) for scalar in self._found]))
        try:
            return extreme.as_py()
        except (OverflowError, ValueError) as error:
            raise TooLargeError(
                f"Python has no value for {extreme.cast(pa.string())}",
                hint="read the column, and take the least or the greatest value there",
                column=join_name([part.name for part in self._path]),
            ) from error

    def take_known(self, plan: Plan) -> pa.BooleanArray:
        """Take what metadata says exactly, and return which files of the plan need no reading."""
        values, known = self._constants(plan) if self._is_constant(plan) else self._bounds(plan)
        known = pc.and_(known, pc.invert(plan.filtered))
        self._take(values.filter(known))
        return known

    def take_rows(self, batch: pa.RecordBatch) -> None:
        """Take the values of a batch that has only this column."""
        values = batch.column(0)
        for _ in self._path[1:]:
            values = pc.struct_field(values, 0)
        self._take(values)

    def _is_constant(self, plan: Plan) -> bool:
        source = plan.source
        name = self._path[0].name
        return name in source.constants.names and name not in source.layout.stored

    def _constants(self, plan: Plan) -> tuple[pa.Array, pa.BooleanArray]:
        """Return the value of each file, null if it has no row, and where that is known."""
        values = as_array(plan.files.column(constant_column(self._path[0].name)))
        counts = plan.row_counts(self._with_deleted)
        empty = pc.fill_null(pc.equal(counts, 0), fill_value=False)
        return pc.if_else(empty, pa.scalar(None, values.type), values), counts.is_valid()

    def _bounds(self, plan: Plan) -> tuple[pa.Array, pa.BooleanArray]:
        stats = plan.source.statistics(file_numbers(plan.files), [self._path])
        # Without files, nothing is recorded.
        column = stats.columns.get(stats_key(self._path), ColumnStats())
        bound = column.upper if self._largest else column.lower
        # The rows have texts as they are padded, and bounds as they are stored.
        if bound is None or column.exact is None or has_padded_texts(self._path[-1]):
            return pa.nulls(stats.files), stats.all(False)
        return bound, pc.and_(column.exact, bound.is_valid())

    def _take(self, values: pa.Array) -> None:
        found = self._of(values)
        if found.is_valid:
            self._found.append(found)

    def _of(self, values: pa.Array) -> pa.Scalar:
        if self._largest and pt.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return pa.scalar(float("nan"), values.type)
        if pt.is_null(values.type):
            return pa.scalar(None)
        numbers = values.filter(pc.invert(pc.is_nan(values))) if pt.is_floating(values.type) else values
        found = pc.max(numbers) if self._largest else pc.min(numbers)
        if not found.is_valid and len(values) > values.null_count:
            return pa.scalar(float("nan"), values.type)
        return found
