"""Merging: which rows of a table a source changes, and how.

Rows of both sides are joined once. What is found is kept as positions of rows that change and, for those that are
updated, the row of the source. So a table is read a second time only where rows are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import ConstraintViolationError
from deltaberg.expressions.bind.bind import BoundValue, Relation
from deltaberg.expressions.derive.joins import JoinCondition, split_join
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.rows.equal_rows import changed_rows
from deltaberg.table.change.gather import gathered
from deltaberg.table.change.match import MatchedRows, RowSearch, RowTest, search_here
from deltaberg.table.change.matched_rows import scan_of_matched
from deltaberg.table.change.positions import RowPositions, file_runs
from deltaberg.table.merge.bound_clauses import BoundClause, choose_clauses
from deltaberg.table.merge.clauses import MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE
from deltaberg.table.merge.join import Joined, JoinKeys, JoinMemory, RowJoin
from deltaberg.table.merge.stored_rows import FileRows, StoredRows
from deltaberg.table.merge.updated_rows import MergeChange, MergeTest, record_schema
from deltaberg.table.read.bound import BoundScan

__all__ = ["MergeCounts", "MergePlan", "RowMerge", "SourceValue"]

_NO_ROWS = pa.array([], pa.int64())


class SourceValue:
    """Computes a value of the source from its rows alone, which in pairs follow those of the table.

    Parameters
    ----------
    value
        The value, bound to the columns of both.
    width
        The number of columns of the table.
    """

    def __init__(self, value: BoundValue, width: int) -> None:
        self._value = value
        self._width = width

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the value for each row of the source."""
        columns = [*([pa.nulls(batch.num_rows)] * self._width), *batch.columns]
        names = [str(number) for number in range(len(columns))]
        return self._value.evaluate(pa.RecordBatch.from_arrays(columns, names=names))


@dataclass
class MergeCounts:
    """How many rows of the table clauses apply to."""

    matched_updated: int = 0
    matched_deleted: int = 0
    unmatched_updated: int = 0
    unmatched_deleted: int = 0


@dataclass(frozen=True)
class MergePlan:
    """A merge whose condition and clauses are bound.

    Parameters
    ----------
    target, source
        The table and the source.
    condition
        Which rows match.
    clauses
        What becomes of them, in order.
    is_upsert
        Whether several rows of the source with the same key are refused, whatever they match, and rows of the table
        are left alone that would be updated to what they are.
    """

    target: Relation
    source: Relation
    condition: BoundValue
    clauses: tuple[BoundClause, ...]
    is_upsert: bool = False

    def of(self, when: str) -> list[BoundClause]:
        """Return the clauses of a kind."""
        return [clause for clause in self.clauses if clause.clause.when == when]

    @cached_property
    def join(self) -> JoinCondition:
        """The condition as equalities and the rest."""
        return split_join(self.condition)

    @cached_property
    def target_columns(self) -> list[str]:
        """The columns of the table that say what happens to its rows."""
        used = {path[0].name for number, path in self.condition.paths if number == 0}
        if self.telltale is not None:
            used.add(self.telltale)
        for clause in self.clauses:
            if clause.condition is not None and clause.clause.when != NOT_MATCHED:
                used |= {path[0].name for number, path in clause.condition.paths if number == 0}
        return [child.name for child in self.target.columns if child.name in used]

    @cached_property
    def telltale(self) -> str | None:
        """The column of an upsert by which most rows are known to change: numbers, or best times, cost least to read.

        The source and the table have it by one name and type, and nothing but the value of the source is stored.
        """
        if not self.is_upsert or not self.of(MATCHED):
            return None
        keys = {path[0].name for number, path in self.condition.paths if number == 0}
        known = {child.name: child.type for child in arrow_schema(self.source.columns)}
        numbers = [
            child
            for child in arrow_schema(self.target.columns)
            if pt.is_primitive(child.type) and known.get(child.name) == child.type and child.name not in keys
        ]
        times = [child for child in numbers if pt.is_timestamp(child.type)]
        # The time of a change comes behind the time of creation.
        return (times or numbers)[-1].name if numbers else None

    @cached_property
    def source_columns(self) -> set[str]:
        """The columns of the source that anything is computed from."""
        used = {path[0].name for number, path in self.condition.paths if number == 1}
        for clause in self.clauses:
            if clause.clause.when != NOT_MATCHED_BY_SOURCE:
                own = 1 if clause.clause.when == MATCHED else 0
                used |= {path[0].name for part in clause.parts for number, path in part.paths if number == own}
        return used

    @property
    def is_lone_delete(self) -> bool:
        """Whether every row that matches is deleted, so that it does not matter how often it does."""
        matched = self.of(MATCHED)
        return len(matched) == 1 and matched[0].clause.action == "delete" and matched[0].condition is None


class RowMerge:
    """The changes of a merge to the rows of a table.

    Parameters
    ----------
    plan
        The merge.
    source
        The rows of the source. Columns that nothing is computed from may be of the type null.
    bound
        The scan of the rows of the table that can match, or of all rows if any clause is about those that do not.
    memory
        How much memory may be taken.
    search
        What reads rows of the table; by default this machine.
    test
        Which rows of the table can match, if no clause is about others; None if that is not known.

    Raises
    ------
    ConstraintViolationError
        A row of the table matches several rows of the source.
    """

    def __init__(
        self,
        plan: MergePlan,
        source: StoredRows,
        bound: BoundScan,
        memory: JoinMemory,
        search: RowSearch | None = None,
        test: RowTest | None = None,
    ) -> None:
        self._plan = plan
        self._search = search
        self._test = test
        self._source = source
        self._bound = bound.with_columns([(name,) for name in plan.target_columns]).with_addresses()
        self._width = len(plan.target.columns)
        self._resources = ExitStack()
        limit = memory.limit // 4
        records = FileRows(record_schema(source.schema), limit, memory.directory)
        self._records = self._resources.enter_context(records)
        self._rows = RowPositions(max(limit, 1))
        #: Rows that match of which the telltale does not tell whether they change.
        self._undecided = RowPositions(max(limit, 1))
        self._join = self._resources.enter_context(self._new_join(memory))
        self.counts = MergeCounts()

    def __enter__(self) -> RowMerge:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def _new_join(self, memory: JoinMemory) -> RowJoin:
        plan, width = self._plan, self._width
        plan_of_join = plan.join
        read = {child.name: child for child in arrow_schema(plan.target.columns)}
        left = [
            read[child.name] if child.name in plan.target_columns else pa.field(child.name, pa.null())
            for child in plan.target.columns
        ]
        address = [pa.field(name, pa.int64()) for name in ("file", "position")]
        keys = None
        if plan_of_join.equalities:
            keys = JoinKeys(
                [equality.left.evaluate for equality in plan_of_join.equalities],
                [SourceValue(equality.right, width) for equality in plan_of_join.equalities],
                [equality.null_safe for equality in plan_of_join.equalities],
            )
        return RowJoin(
            self._source,
            width,
            pa.schema([*left, *address]),
            keys,
            None if plan_of_join.rest is None else plan_of_join.rest.evaluate,
            JoinMemory(max(memory.limit // 2, 1), memory.directory),
            wants_rest=bool(plan.of(NOT_MATCHED)),
            wants_alone=bool(plan.of(NOT_MATCHED_BY_SOURCE)),
            unique_right=plan.is_upsert,
        )

    # What changes

    def find(self) -> MatchedRows:
        """Join the rows, and return those of the table that are updated or deleted."""
        plan = self._plan
        matched, by_source = plan.of(MATCHED), plan.of(NOT_MATCHED_BY_SOURCE)
        is_checked = bool(matched) and not plan.is_lone_delete
        # As in delta-spark: where all clauses are about rows that match, a match counts only if a clause applies to it.
        counts_all = len(matched) < len(plan.clauses)
        seen, total = RowPositions(), 0
        for joined in self._join.pairs(self._left()):
            if matched and len(joined.numbers):
                rows = self._matched(joined, matched)
                if is_checked:
                    rows = joined.numbers if counts_all else rows
                    if len(pc.unique(rows)) < len(rows):
                        raise _several_matches()
                    if not plan.join.equalities:
                        # Other pairs of these rows come apart from these.
                        self._note(seen, joined, rows)
                        total += len(rows)
            if by_source and joined.alone is not None and len(joined.alone):
                self._unmatched(joined, joined.alone, by_source)
        if seen.total < total:
            raise _several_matches()
        counts = self.counts
        if plan.is_lone_delete:
            counts.matched_deleted = self._rows.total - counts.unmatched_updated - counts.unmatched_deleted
        if plan.is_upsert:
            self._decide()
            counts.matched_updated = self._rows.total
        return MatchedRows(self._bound, frozenset(), self._rows)

    def _decide(self) -> None:
        """Take note of the undecided rows that change. All of their columns are read, which the join has no need of."""
        undecided = MatchedRows(self._bound, frozenset(), self._undecided)
        if undecided.is_empty:
            return
        bound = scan_of_matched(undecided, [(child.name,) for child in self._plan.target.columns])
        find = search_here if self._search is None else self._search.find
        for numbers, places in find(bound, len(bound.output), MergeTest(self.change)):
            self._rows.add(numbers, places)

    def _left(self) -> Iterator[pa.RecordBatch]:
        """Return the rows of the table, with nulls for the columns that are not read, and their addresses."""
        names = self._plan.target_columns
        if self._search is None or self._test is None:
            batches = self._bound.batches()
        else:
            batches = self._search.read(self._bound, self._test)
        for batch in gathered(batches):
            rows = batch.num_rows
            read = {name: batch.column(number) for number, name in enumerate(names)}
            columns = [
                read[child.name] if child.name in read else pa.nulls(rows) for child in self._plan.target.columns
            ]
            yield pa.RecordBatch.from_arrays([*columns, *batch.columns[-2:]], schema=self._join.left_schema)

    def _matched(self, joined: Joined, clauses: Sequence[BoundClause]) -> pa.Array:
        """Take note of the clauses that apply to pairs, and return the rows of these pairs."""
        plan = self._plan
        applied: list[pa.Array] = [_NO_ROWS]
        for number, chosen in choose_clauses(clauses, joined.pairs):
            rows = joined.numbers.take(chosen)
            applied.append(rows)
            if plan.is_upsert:
                known = self._known_to_change(joined.pairs, chosen)
                self._note(self._rows, joined, rows.filter(known))
                self._note(self._undecided, joined, rows.filter(pc.invert(known)))
            else:
                self._note(self._rows, joined, rows)
            if clauses[number].clause.action == "delete":
                self.counts.matched_deleted += len(rows)
                continue
            self.counts.matched_updated += len(rows)
            others = joined.pairs.select(range(self._width, joined.pairs.num_columns)).take(chosen)
            self._record(joined, rows, number, others)
        return pa.concat_arrays(applied)

    def _known_to_change(self, pairs: pa.RecordBatch, chosen: pa.Array) -> pa.BooleanArray:
        """Return for which of some pairs it takes no more columns to know that an upsert changes the row."""
        name = self._plan.telltale
        if name is None:
            return pa.repeat(pa.scalar(value=False), len(chosen))
        place = self._plan.target.columns.names.index(name)
        other = self._width + self._plan.source.columns.names.index(name)
        taken = pairs.select([place, other]).take(chosen)
        return changed_rows(taken.select([0]), taken.select([1]))

    def _unmatched(self, joined: Joined, alone: pa.Array, clauses: Sequence[BoundClause]) -> None:
        """Take note of what happens to rows of the table that match nothing."""
        batch = joined.left.select(range(self._width)).take(alone)
        first = len(self._plan.of(MATCHED))
        for number, chosen in choose_clauses(clauses, batch):
            rows = alone.take(chosen)
            self._note(self._rows, joined, rows)
            if clauses[number].clause.action == "delete":
                self.counts.unmatched_deleted += len(rows)
                continue
            self.counts.unmatched_updated += len(rows)
            nothing = [pa.nulls(len(rows), kind) for kind in self._source.schema.types]
            others = pa.RecordBatch.from_arrays(nothing, schema=self._source.schema)
            self._record(joined, rows, first + number, others)

    def _note(self, positions: RowPositions, joined: Joined, rows: pa.Array) -> None:
        numbers, places = joined.left.columns[-2:]
        positions.add(numbers.take(rows), places.take(rows))

    def _record(self, joined: Joined, rows: pa.Array, clause: int, others: pa.RecordBatch) -> None:
        """Keep the rows of the source that rows of the table are updated with."""
        numbers, places = (column.take(rows) for column in joined.left.columns[-2:])
        clauses = pa.repeat(pa.scalar(clause, pa.int32()), len(rows))
        batch = pa.RecordBatch.from_arrays([places, clauses, *others.columns], schema=self._records.schema)
        for number, start, count in file_runs(numbers):
            self._records.add(number, batch.slice(start, count))

    # What the rows become

    @property
    def change(self) -> MergeChange:
        """Computes the new values of the rows that change."""
        clauses = (*self._plan.of(MATCHED), *self._plan.of(NOT_MATCHED_BY_SOURCE))
        return MergeChange(clauses, self._width, self._records)

    def inserted(self) -> Iterator[pa.RecordBatch]:
        """Return the rows that are inserted. It can be called again."""
        clauses = self._plan.of(NOT_MATCHED)
        schema = arrow_schema(self._plan.target.columns)
        for batch in self._join.rest():
            for number, chosen in choose_clauses(clauses, batch):
                nothing = [pa.nulls(len(chosen), kind) for kind in schema.types]
                yield clauses[number].rows(pa.RecordBatch.from_arrays(nothing, schema=schema), batch.take(chosen))


def _several_matches() -> ConstraintViolationError:
    return ConstraintViolationError(
        "a row of the table matches several rows of the source, so that it is not clear what becomes of it",
        hint="leave one row of the source for each, or narrow the condition",
    )
