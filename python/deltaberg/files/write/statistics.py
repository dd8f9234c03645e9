"""Statistics of data files, taken from the rows that are written.

They are not read back from footers, because those leave out the bounds of long texts and do not tell whether there is a
NaN. Bounds are those of the values that are neither null nor NaN. Zeros are signed so that the bounds hold for -0.0
as well: a lower bound of zero is -0.0, and an upper bound of zero is 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.files.write.written import is_bounded, leaf_paths, struct_paths
from deltaberg.schema.types import Field, Primitive, Struct

__all__ = ["CutBounds", "StatisticsPlan", "StatisticsTaker"]

#: Shortens the bounds (lower, upper) of texts or bytes, by the rule of a format. None stands for no bound.
CutBounds = Callable[[Any, Any], tuple[Any, Any]]


class StatisticsPlan:
    """Which statistics are taken of files.

    Parameters
    ----------
    schema
        The columns of the table.
    stored
        The names of the columns that files hold.
    leaves
        The numbers of the leaves to take statistics of; None for all.
    cut
        How long bounds of texts and bytes are shortened.
    """

    def __init__(
        self,
        schema: Struct,
        stored: Collection[str],
        leaves: Collection[int] | None = None,
        cut: CutBounds | None = None,
    ) -> None:
        paths = leaf_paths(schema)
        self.leaves: dict[int, tuple[Field, ...]] = {
            number: path
            for number, path in paths.items()
            if path[0].name in stored and (leaves is None or number in leaves)
        }
        self.structs = {number: path for number, path in struct_paths(schema).items() if path[0].name in stored}
        self.cut = cut


class StatisticsTaker:
    """Takes the statistics of one file from its batches."""

    def __init__(self, plan: StatisticsPlan) -> None:
        self._plan = plan
        self.record_count = 0
        self.null_count = dict.fromkeys(plan.leaves, 0)
        self.struct_null_count = dict.fromkeys(plan.structs, 0)
        self.nan_count: dict[int, int] = {}
        self._lower: dict[int, pa.Scalar] = {}
        self._upper: dict[int, pa.Scalar] = {}

    def take(self, rows: pa.Table) -> None:
        """Add rows with the columns of the table."""
        self.record_count += rows.num_rows
        for number, path in self._plan.leaves.items():
            column = _leaf(rows, path)
            self.null_count[number] += column.null_count
            if is_bounded(path[-1].type) and column.null_count < len(column):
                self._take_bounds(number, column)
        for number, path in self._plan.structs.items():
            self.struct_null_count[number] += _leaf(rows, path).null_count

    def _take_bounds(self, number: int, column: pa.ChunkedArray) -> None:
        kind = column.type
        found = pc.min_max(column)
        lower, upper = found["min"], found["max"]
        if pt.is_floating(kind):
            nans = pc.sum(pc.is_nan(column)).as_py() or 0
            self.nan_count[number] = self.nan_count.get(number, 0) + nans
            if nans == len(column) - column.null_count:
                return
            lower, upper = _signed_zero(lower, -0.0), _signed_zero(upper, 0.0)
        known = self._lower.get(number)
        if known is None:
            self._lower[number], self._upper[number] = lower, upper
            return
        self._lower[number] = _least(known, lower)
        self._upper[number] = _greatest(self._upper[number], upper)

    def bounds(self) -> tuple[dict[int, pa.Scalar], dict[int, pa.Scalar]]:
        """Return the lower and upper bounds by the number of the leaf, shortened by the rule of the format."""
        lower, upper = dict(self._lower), dict(self._upper)
        if self._plan.cut is None:
            return lower, upper
        for number, bound in self._lower.items():
            kind = bound.type
            if pt.is_string(kind) or pt.is_binary(kind):
                low, high = self._plan.cut(bound.as_py(), self._upper[number].as_py())
                lower[number], upper[number] = pa.scalar(low, kind), pa.scalar(high, kind)
        return lower, upper

    def nan_counts(self) -> dict[int, int]:
        """Return the number of NaN by the number of the leaf, for floating point columns."""
        floats = {
            number
            for number, path in self._plan.leaves.items()
            if path[-1].type in (Primitive("float"), Primitive("double"))
        }
        return {number: self.nan_count.get(number, 0) for number in floats}


def _leaf(rows: pa.Table, path: tuple[Field, ...]) -> pa.ChunkedArray:
    """Return the values of a leaf or a struct, null where a struct above it is null."""
    column = rows.column(path[0].name)
    for part in path[1:]:
        column = pc.struct_field(column, column.type.get_field_index(part.name))
    return column


def _signed_zero(bound: pa.Scalar, zero: float) -> pa.Scalar:
    return pa.scalar(zero, bound.type) if bound.as_py() == 0 else bound


def _least(one: pa.Scalar, other: pa.Scalar) -> pa.Scalar:
    return other if pc.less(other, one).as_py() else one


def _greatest(one: pa.Scalar, other: pa.Scalar) -> pa.Scalar:
    return other if pc.greater(other, one).as_py() else one
