"""Facts about files or row groups that are known before they are read, as Arrow columns with a row per file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.kernels import plain_values as pv
from deltaberg.schema.types import Field, Struct

__all__ = ["ColumnStats", "FileStats", "StatsKey", "known_values", "stats_key"]

#: The physical names on the path from the root to a column.
StatsKey = tuple[str, ...]
_Value = TypeVar("_Value", pa.Array, pa.Scalar)


def stats_key(path: tuple[Field, ...]) -> StatsKey:
    """Return the key of a column's statistics."""
    return tuple(part.physical_name for part in path)


def known_values(child: Field, value: _Value, above: StatsKey = ()) -> dict[StatsKey, _Value]:
    """Return the known values of a column and of the fields in it, for each file or for a single one."""
    key = (*above, child.physical_name)
    found: dict[StatsKey, _Value] = {key: value}
    if isinstance(child.type, Struct):
        for number, part in enumerate(child.type):
            found.update(known_values(part, pc.struct_field(value, number), key))
    return found


@dataclass(frozen=True)
class ColumnStats:
    """The statistics of a column. A null in any of the arrays means unknown.

    Every value of the file that is neither null nor NaN lies between ``lower`` and ``upper``. ``exact`` is true if both
    bounds occur in rows that are not deleted. ``null_count`` and ``nan_count`` count nulls and NaN, deleted rows
    included. They are only used if they are 0 or the file's record count, since they then hold for the remaining rows
    too.
    """

    lower: pa.Array | None = None
    upper: pa.Array | None = None
    null_count: pa.Array | None = None
    exact: pa.Array | None = None
    nan_count: pa.Array | None = None


@dataclass(frozen=True)
class FileStats:
    """Statistics of some files.

    ``values`` holds columns with a single known value in all rows of a file, such as partition columns.
    """

    files: int
    record_count: pa.Array
    columns: Mapping[StatsKey, ColumnStats] = field(default_factory=dict)
    values: Mapping[StatsKey, pa.Array] = field(default_factory=dict)

    @classmethod
    def unknown(cls, files: int) -> FileStats:
        """Return empty statistics."""
        return cls(files, pa.nulls(files, pa.int64()))

    def all(self, value: bool) -> pa.BooleanArray:
        """Return the same answer for every file."""
        return pa.repeat(pv.scalar(value), self.files)

    def all_null(self, key: StatsKey) -> pa.BooleanArray:
        """Return a mask of the files in which the column is known to be null in every row."""
        null_count = self._null_count(key)
        if null_count is None:
            return self.all(False)
        return pc.equal(null_count, self.record_count).fill_null(pv.FALSE)

    def no_null(self, key: StatsKey) -> pa.BooleanArray:
        """Return a mask of the files in which the column is known to be null in no row."""
        null_count = self._null_count(key)
        if null_count is None:
            return self.all(False)
        return pc.equal(null_count, pv.scalar(0, pa.int64())).fill_null(pv.FALSE)

    def no_nan(self, key: StatsKey) -> pa.BooleanArray:
        """Return a mask of the files in which the column is known to be NaN in no row."""
        column = self.columns.get(key)
        if column is None or column.nan_count is None:
            return self.all(False)
        return pc.equal(column.nan_count, pv.scalar(0, pa.int64())).fill_null(pv.FALSE)

    def no_number(self, key: StatsKey) -> pa.BooleanArray:
        """Return a mask of the files in which the column is known to be null or NaN in every row."""
        column = self.columns.get(key)
        if column is None or column.nan_count is None or column.null_count is None:
            return self.all(False)
        return pc.equal(pc.add(column.nan_count, column.null_count), self.record_count).fill_null(pv.FALSE)

    def _null_count(self, key: StatsKey) -> pa.Array | None:
        column = self.columns.get(key)
        return None if column is None else column.null_count
