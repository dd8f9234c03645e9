"""What is known of each file, or of each row group, before it is read: Arrow columns, a row a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.schema import Field, Struct

__all__ = ["ColumnStats", "FileStats", "StatsKey", "known_values", "stats_key"]

#: The physical names from the root to a column.
StatsKey = tuple[str, ...]
_Value = TypeVar("_Value", pa.Array, pa.Scalar)


def stats_key(path: tuple[Field, ...]) -> StatsKey:
    """Give the key of a column's statistics."""
    return tuple(part.physical_name for part in path)


def known_values(child: Field, value: _Value, above: StatsKey = ()) -> dict[StatsKey, _Value]:
    """Give the known value of a column, one for each file or one alone, and the values of the fields in it."""
    key = (*above, child.physical_name)
    found: dict[StatsKey, _Value] = {key: value}
    if isinstance(child.type, Struct):
        for number, part in enumerate(child.type):
            found.update(known_values(part, pc.struct_field(value, number), key))
    return found


@dataclass(frozen=True)
class ColumnStats:
    """The statistics of one column; a null in any of the arrays means unknown.

    ``lower`` is at most, and ``upper`` at least, every value of the file that is not null and not NaN.
    ``null_count`` counts nulls; where it is 0, or the file's record count, it holds for the rows that are not
    deleted too, and only then is it used. ``nan_count`` counts NaN, and is used in the same way. ``exact`` says where
    both bounds occur in a row that is not deleted.
    """

    lower: pa.Array | None = None
    upper: pa.Array | None = None
    null_count: pa.Array | None = None
    exact: pa.Array | None = None
    nan_count: pa.Array | None = None


@dataclass(frozen=True)
class FileStats:
    """Statistics of some files.

    ``values`` holds the columns that have one known value in all rows of a file, such as partition columns.
    """

    files: int
    record_count: pa.Array
    columns: Mapping[StatsKey, ColumnStats] = field(default_factory=dict)
    values: Mapping[StatsKey, pa.Array] = field(default_factory=dict)

    def all(self, value: bool) -> pa.BooleanArray:
        """Give the same answer for every file."""
        return pa.repeat(value, self.files)

    def all_null(self, key: StatsKey) -> pa.BooleanArray:
        """Say of each file whether the column is known to be null in every row."""
        null_count = self._null_count(key)
        if null_count is None:
            return self.all(False)
        return pc.equal(null_count, self.record_count).fill_null(False)

    def no_null(self, key: StatsKey) -> pa.BooleanArray:
        """Say of each file whether the column is known to be null in no row."""
        null_count = self._null_count(key)
        if null_count is None:
            return self.all(False)
        return pc.equal(null_count, pa.scalar(0, pa.int64())).fill_null(False)

    def no_nan(self, key: StatsKey) -> pa.BooleanArray:
        """Say of each file whether the column is known to be NaN in no row."""
        column = self.columns.get(key)
        if column is None or column.nan_count is None:
            return self.all(False)
        return pc.equal(column.nan_count, pa.scalar(0, pa.int64())).fill_null(False)

    def no_number(self, key: StatsKey) -> pa.BooleanArray:
        """Say of each file whether the column is known to be null or NaN in every row."""
        column = self.columns.get(key)
        if column is None or column.nan_count is None or column.null_count is None:
            return self.all(False)
        return pc.equal(pc.add(column.nan_count, column.null_count), self.record_count).fill_null(False)

    def _null_count(self, key: StatsKey) -> pa.Array | None:
        column = self.columns.get(key)
        return None if column is None else column.null_count
