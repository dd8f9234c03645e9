"""New values of the rows that a merge updates, in this process or in a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.schema.arrow import as_batch, copied, count_up
from deltaberg.schema.rows.equal_rows import changed_rows
from deltaberg.table.change.match import RowTest
from deltaberg.table.change.matched_rows import Replacement
from deltaberg.table.change.positions import file_runs
from deltaberg.table.merge.bound_clauses import BoundClause
from deltaberg.table.merge.clauses import MergeClause

__all__ = ["MergeChange", "MergeRecords", "MergeTest", "record_schema"]

#: The first columns of a record, taken by their places: columns of the source may have any name.
_POSITION, _CLAUSE = 0, 1
_NO_ROWS = pa.array([], pa.int64())


def record_schema(source: pa.Schema) -> pa.Schema:
    """Return the schema of `MergeRecords`, given that of the rows of the source."""
    return pa.schema([("position", pa.int64()), ("clause", pa.int32()), *source])


class MergeRecords(Protocol):
    """The rows of the source that rows of the table are updated with, by files of the table."""

    @property
    def schema(self) -> pa.Schema:
        """A row's position in its file, the number of the clause that applies to it, and the columns of the source."""

    def of_file(self, number: int) -> pa.RecordBatch:
        """Return the records of a file, ordered by position."""


@dataclass(frozen=True)
class _SentRecords:
    """The records of a few files, which pickle."""

    schema: pa.Schema
    files: Mapping[int, pa.RecordBatch]

    def of_file(self, number: int) -> pa.RecordBatch:
        return self.files[number]


@dataclass(frozen=True)
class MergeChange:
    """Computes the rows that replace updated rows: a `DividedChange`.

    Parameters
    ----------
    clauses
        The clauses that records count by.
    width
        The number of columns of the table.
    records
        What each row is updated with.
    """

    clauses: tuple[BoundClause, ...]
    width: int
    records: MergeRecords

    def __call__(self, batch: pa.RecordBatch) -> Replacement:
        """Return the new values of rows, given the columns of the table and of row addresses."""
        rows = batch.select(range(self.width))
        records, places = self._records_of(*batch.columns[-2:])
        replaced: list[pa.RecordBatch] = []
        order: list[pa.Array] = []
        for code in pc.unique(records.column(_CLAUSE)).to_pylist():
            mask = pc.equal(records.column(_CLAUSE), code)
            chosen = places.filter(mask)
            old = rows.take(chosen)
            sources = records.filter(mask).columns[2:]
            pairs = pa.RecordBatch.from_arrays(
                [*old.columns, *sources], names=[str(number) for number in range(self.width + len(sources))]
            )
            replaced.append(self.clauses[code].rows(old, pairs))
            order.append(chosen)
        if not replaced:
            return Replacement(rows.slice(0, 0), _NO_ROWS)
        numbers = pa.concat_arrays(order)
        if len(replaced) == 1:
            return Replacement(replaced[0], numbers)
        ascending = pc.sort_indices(numbers)
        return Replacement(as_batch(replaced, replaced[0].schema).take(ascending), numbers.take(ascending))

    def of_files(self, numbers: Collection[int]) -> MergeChange:
        """Return the change of the rows of some files, by their numbers, as pickle takes it."""
        # Conditions have been evaluated, and hold what the caller gave.
        clauses = tuple(
            replace(clause, clause=MergeClause(clause.clause.when, clause.clause.action), condition=None)
            for clause in self.clauses
        )
        # Pickle takes the whole buffers of a slice.
        found = {number: copied(self.records.of_file(number)) for number in sorted(numbers)}
        return MergeChange(clauses, self.width, _SentRecords(self.records.schema, found))

    def _records_of(self, numbers: pa.Int64Array, places: pa.Int64Array) -> tuple[pa.RecordBatch, pa.Int64Array]:
        """Return the records of some rows, and the number of the row that each is about."""
        parts: list[pa.RecordBatch] = []
        about: list[pa.Array] = [_NO_ROWS]
        for number, start, count in file_runs(numbers):
            records, own = self.records.of_file(number), places.slice(start, count)
            positions = records.column(_POSITION)
            near = pc.and_(pc.greater_equal(positions, own[0]), pc.less_equal(positions, own[-1]))
            records = records.filter(near)
            found = pc.index_in(records.column(_POSITION), value_set=own).cast(pa.int64())
            parts.append(records.filter(found.is_valid()))
            about.append(pc.add(found.drop_null(), start))
        return as_batch(parts, self.records.schema), pa.concat_arrays(about)


@dataclass(frozen=True)
class MergeTest:
    """Tests which of the rows that a merge updates do not stay as they are: a `DividedTest`."""

    change: MergeChange

    def __call__(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows change, given the columns of the table and of row addresses."""
        made = self.change(batch)
        old = batch.select(range(self.change.width)).take(made.sources)
        kept = made.sources.filter(pc.invert(changed_rows(old, made.rows)))
        return pc.invert(pc.is_in(count_up(0, batch.num_rows), value_set=kept))

    def of_files(self, numbers: Collection[int]) -> RowTest:
        """Return the test of the rows of some files, by their numbers, as pickle takes it."""
        return MergeTest(self.change.of_files(numbers))
