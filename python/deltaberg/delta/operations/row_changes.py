"""Rows that are deleted or replaced: by deletion vectors or by writing files anew, with what tracks them.

Delta protocol, "Deletion Vectors", "Add CDC File" and "Row Tracking". Delete, update and merge find the rows; what
becomes of their files is the same for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.data.change_files import CHANGE_DATA, CHANGE_TYPE_COLUMN
from deltaberg.delta.data.statistics_text import loosened_statistics
from deltaberg.delta.data.written_vectors import VectorWriter
from deltaberg.delta.operations.row_ids import PendingSource, RowIds
from deltaberg.delta.operations.rows import RowOptions, row_spec
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import ConstraintViolationError, InvalidArgumentError
from deltaberg.expressions import Filter, as_expression, bind
from deltaberg.files import BitmapRef, load_bitmap
from deltaberg.schema import Struct, arrow_schema, as_array
from deltaberg.table import checked_choice, scan_options
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import file_numbers
from deltaberg.table.rewrite import (
    Change,
    MatchedRows,
    Replacement,
    RowPositions,
    count_rows,
    matched_rows,
    positions_of,
    rewritten_rows,
)
from deltaberg.table.write import WriteSpec, write_files

__all__ = ["COPY_ON_WRITE", "MERGE_ON_READ", "RowChanges", "check_changeable", "rewrite_strategy", "scan_to_change"]

MERGE_ON_READ, COPY_ON_WRITE = "merge-on-read", "copy-on-write"
_VECTORS = "delta.enableDeletionVectors"

#: Gives batches of rows, with the columns of the table; called again, it gives the same rows.
Rows = Callable[[], Iterator[pa.RecordBatch]]


def rewrite_strategy(table: Snapshot, wanted: str | None) -> str:
    """Return how deleted and replaced rows leave the files of a table: by deletion vectors, or with the old files.

    Parameters
    ----------
    wanted
        What the caller asks for; None for what the table property ``delta.enableDeletionVectors`` says.

    Raises
    ------
    InvalidArgumentError
        There is no such strategy, or deletion vectors are asked for that the table does not allow.
    """
    checked_choice("strategy", wanted or COPY_ON_WRITE, (MERGE_ON_READ, COPY_ON_WRITE), "leave it out for the table's")
    allowed = "deletionVectors" in table.active_features
    if wanted == MERGE_ON_READ and not allowed:
        raise InvalidArgumentError(
            f"strategy is {MERGE_ON_READ!r}, but the table has no deletion vectors",
            hint=f'enable them by alter().set({{"{_VECTORS}": "true"}}).commit()',
            table=str(table.log.root),
        )
    return wanted or (MERGE_ON_READ if allowed else COPY_ON_WRITE)


def check_changeable(table: Snapshot) -> None:
    """Refuse to change rows of a table whose rows stay.

    Raises
    ------
    ConstraintViolationError
        The table is append-only.
    """
    if "appendOnly" in table.active_features:
        raise ConstraintViolationError("the table only grows: delta.appendOnly is true", table=str(table.log.root))


def scan_to_change(transaction: Transaction, condition: Filter | None, timezone: str) -> BoundScan:
    """Return the scan of the rows that an operation may change: those that match a filter, or all."""
    source = PendingSource(transaction.snapshot, timezone, transaction.paths_without_row_ids)
    bound = bind(as_expression(condition), Struct((*source.schema, *source.hidden)), timezone)
    return BoundScan(source, bound, source.schema, None, scan_options(None, {}, timezone)).with_addresses()


@dataclass
class _Counts:
    """The effect of an operation, by the names of the reference implementation."""

    deleted: int | None = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0
    vectors_added: int = 0
    vectors_removed: int = 0
    vectors_updated: int = 0


class RowChanges:
    """Applies changes of rows to a transaction: its files, deletion vectors, change data files and row ids.

    Parameters
    ----------
    transaction
        The transaction, in one of its operations. It must not be changed between the search for rows and this.
    options
        How new rows are written.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says (`rewrite_strategy`).
    """

    def __init__(self, transaction: Transaction, options: RowOptions, strategy: str | None = None) -> None:
        self._transaction = transaction
        self.table = transaction.snapshot
        self._options = options
        self._strategy = rewrite_strategy(self.table, strategy)
        self._counts = _Counts()
        self._begun = time.monotonic()
        #: When the rows had been found.
        self._found: float | None = None
        self._new_bytes = self._new_files = self._gone_bytes = self._gone_files = self._change_files = 0
        self._row_ids = RowIds(self.table)
        #: The numbers of rows in files where the log is not to be believed.
        self._file_rows: dict[int, int] = {}

    def apply(
        self,
        matched: MatchedRows,
        change: Change | None = None,
        inserted: Rows | None = None,
        *,
        added: Rows | None = None,
    ) -> None:
        """Delete or replace the rows that were found, and insert others.

        Parameters
        ----------
        matched
            The rows, found by a scan of `scan_to_change`.
        change
            What replaces rows. It is given the columns of the table, and those of row addresses, and returns the
            columns of the table. None deletes all rows that were found.
        inserted
            Rows that are new.
        added
            Rows that are new, and that the transaction has added: change data files must have them as well.

        Raises
        ------
        StorageError
            The store fails.
        """
        self._found = time.monotonic()
        self._apply(self._with_whole_files(matched), change, inserted, added or inserted)

    @property
    def metrics(self) -> dict[str, int]:
        """The effect of the operation, by the names that delta-spark gives to it."""
        counts, ended = self._counts, time.monotonic()
        found = ended if self._found is None else self._found
        return {
            "numAddedFiles": self._new_files,
            "numAddedBytes": self._new_bytes,
            "numRemovedFiles": self._gone_files,
            "numRemovedBytes": self._gone_bytes,
            "numCopiedRows": counts.copied,
            "numDeletionVectorsAdded": counts.vectors_added,
            "numDeletionVectorsRemoved": counts.vectors_removed,
            "numDeletionVectorsUpdated": counts.vectors_updated,
            "numAddedChangeFiles": self._change_files,
            "scanTimeMs": _millis(self._begun, found),
            "rewriteTimeMs": _millis(found, ended),
            "executionTimeMs": _millis(self._begun, ended),
        }

    @property
    def deleted_rows(self) -> int | None:
        """The number of rows that were deleted; None if a file that was not read does not tell."""
        return self._counts.deleted

    @property
    def updated_rows(self) -> int:
        """The number of rows that were replaced."""
        return self._counts.updated

    @property
    def inserted_rows(self) -> int:
        """The number of rows that were inserted."""
        return self._counts.inserted

    def _with_whole_files(self, matched: MatchedRows) -> MatchedRows:
        """Return the rows with files as whole in which every row was found that no deletion vector hides."""
        plan = matched.of(frozenset(matched.rows.numbers)).plan
        facts = zip(
            file_numbers(plan.files).to_pylist(),
            plan.record_counts.to_pylist(),
            plan.deleted_counts.to_pylist(),
            strict=True,
        )
        # The log may be wrong about rows, so it is not believed where it would have a file removed.
        likely = {
            number
            for number, rows, deleted in facts
            if rows is None or matched.rows.count(number) + (deleted or 0) >= rows
        }
        if not likely:
            return matched
        counts = count_rows(matched.of(likely).plan, likely)
        union = _Vectors(self.table, matched.of(likely), matched.rows)
        self._file_rows = counts
        return matched.with_whole({number for number in likely if len(union.positions(number)) >= counts[number]})

    def _apply(self, matched: MatchedRows, change: Change | None, inserted: Rows | None, new: Rows | None) -> None:
        partial = matched.rows.numbers
        by_vectors = self._strategy == MERGE_ON_READ
        gone = set(matched.whole) if by_vectors else {*matched.whole, *partial}
        self._count_deleted(matched)
        self._remove(gone)
        if by_vectors and partial:
            self._hide(matched)
        self._write_rows(matched, change, inserted, by_vectors)
        # What happened to whole files, readers see from the files that are added and removed.
        is_needed = bool(partial) or (change is not None and not matched.is_empty)
        if is_needed and "changeDataFeed" in self.table.active_features:
            self._write_changes(matched, change, new)

    # Files that go, and rows that are hidden

    def _remove(self, numbers: set[int]) -> None:
        files = self.table.live.table.take(pa.array(sorted(numbers), pa.int64()))
        self._transaction.remove_files(files)
        self._gone_files = len(files)
        self._gone_bytes = pc.sum(files.column("size")).as_py() or 0
        vectors = as_array(files.column("deletionVector"))
        self._counts.vectors_removed += len(vectors) - vectors.null_count

    def _hide(self, matched: MatchedRows) -> None:
        """Hide rows by deletion vectors, which contain the old ones."""
        numbers = pa.array(matched.rows.numbers, pa.int64())
        live = self.table.live
        union = _Vectors(self.table, matched.of(frozenset(matched.rows.numbers)), matched.rows)
        actions = []
        fresh = self._transaction.paths_without_row_ids
        log = self.table.log
        with VectorWriter(log.storage, log.root) as writer:
            for number, action in zip(numbers.to_pylist(), recorded_adds(live, numbers), strict=True):
                stats = loosened_statistics(action.members.get("stats"), self._file_rows.get(number))
                vector = writer.add(union.positions(number))
                members: dict[str, Any] = {"deletionVector": vector, "stats": stats, "dataChange": True}
                if action.members["path"] in fresh:
                    members |= dict.fromkeys(("baseRowId", "defaultRowCommitVersion"))
                actions.append(action.with_members(members))
                replaced = action.members.get("deletionVector") is not None
                self._counts.vectors_added += 1
                self._counts.vectors_removed += replaced
                self._counts.vectors_updated += replaced
        self._transaction.note_written(writer.paths)
        self._transaction.remove_files(live.table.take(numbers))
        self._transaction.add_actions(actions)

    def _count_deleted(self, matched: MatchedRows) -> None:
        whole = pc.sum(matched.of(matched.whole).plan.row_counts(), skip_nulls=False, min_count=0).as_py()
        self._counts.deleted = None if whole is None else whole + matched.rows.total

    # Rows that are written

    def _write_rows(self, matched: MatchedRows, change: Change | None, inserted: Rows | None, by_vectors: bool) -> None:
        """Write the rows that stay where files are written anew, those that replace others, and new ones."""
        if by_vectors and change is None:
            streams: list[Iterable[pa.RecordBatch]] = []
        elif by_vectors and change is not None:
            streams = [self._replaced(matched, change)]
        else:
            streams = [self._rewritten(matched, change)]
        if inserted is not None:
            streams.append(self._inserted(inserted))
        if not streams:
            return
        ids = self._row_ids
        if not matched.is_empty and not ids.are_kept and (change is not None or not by_vectors):
            self._transaction.lose_row_ids()
        stored = ids.stored
        spec = replace(row_spec(self.table, self._options), schema=stored)
        files = self._write(chain.from_iterable(streams), spec)
        self._transaction.add_files(files)
        self._new_files = len(files)
        self._new_bytes = pc.sum(files.column("size")).as_py() or 0
        written = pc.sum(files.column("record_count")).as_py() or 0
        self._counts.copied = written - self._counts.updated - self._counts.inserted

    def _replaced(self, matched: MatchedRows, change: Change) -> Iterator[pa.RecordBatch]:
        for batch in matched_rows(matched, self._row_ids.columns):
            rows = self._row_ids.change(change)(batch).rows
            self._count_updated(rows.num_rows)
            if rows.num_rows:
                yield self._row_ids.flat(rows)

    def _rewritten(self, matched: MatchedRows, change: Change | None) -> Iterator[pa.RecordBatch]:
        ids = self._row_ids
        changed: Change | None = None
        if change is not None:
            tracked = ids.change(change)

            def counted(batch: pa.RecordBatch) -> Replacement:
                found = tracked(batch)
                self._count_updated(found.rows.num_rows)
                return found

            changed = counted
        for batch in rewritten_rows(matched, ids.columns, changed):
            yield ids.flat(batch)

    def _count_updated(self, rows: int) -> None:
        self._counts.updated += rows
        if self._counts.deleted is not None:
            self._counts.deleted -= rows

    def _inserted(self, inserted: Rows) -> Iterator[pa.RecordBatch]:
        for batch in inserted():
            self._counts.inserted += batch.num_rows
            yield self._row_ids.new(batch)

    def _write(self, batches: Iterable[pa.RecordBatch], spec: WriteSpec) -> pa.Table:
        log = self.table.log
        reader = pa.RecordBatchReader.from_batches(arrow_schema(spec.schema), batches)
        files = write_files(reader, spec, log.storage, log.root.path)
        self._transaction.note_written(files.column("path").to_pylist())
        return files

    # The change data feed

    def _write_changes(self, matched: MatchedRows, change: Change | None, inserted: Rows | None) -> None:
        """Write all rows that change, since readers ignore files that are added and removed beside change files."""
        schema = Struct((*self.table.schema, CHANGE_TYPE_COLUMN))
        spec = replace(
            row_spec(self.table, self._options),
            schema=schema,
            directory=CHANGE_DATA,
            prefix="cdc",
            statistics=frozenset(),
        )
        files = self._write(_changed(self.table, matched, change, inserted, arrow_schema(schema)), spec)
        self._transaction.add_change_files(files)
        self._change_files = len(files)


def _changed(
    table: Snapshot, matched: MatchedRows, change: Change | None, inserted: Rows | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Return the rows that change, each with what happens to it."""
    columns = [(field.name,) for field in table.schema]

    def marked(batch: pa.RecordBatch, kind: str) -> Iterator[pa.RecordBatch]:
        if batch.num_rows:
            arrays = [*batch.columns[: len(columns)], pa.repeat(pa.scalar(kind), batch.num_rows)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    for batch in matched_rows(matched, columns):
        if change is None:
            yield from marked(batch, "delete")
            continue
        found = change(batch)
        numbers = pa.array(range(batch.num_rows), pa.int64())
        yield from marked(batch.filter(pc.invert(pc.is_in(numbers, value_set=found.sources))), "delete")
        yield from marked(batch.take(found.sources), "update_preimage")
        yield from marked(found.rows, "update_postimage")
    for batch in inserted() if inserted is not None else ():
        yield from marked(batch, "insert")


class _Vectors:
    """The deletion vectors of files after more rows of them were deleted."""

    def __init__(self, table: Snapshot, files: BoundScan, rows: RowPositions) -> None:
        plan = files.plan
        self._rows = rows
        self._store = table.log.store
        vectors = as_array(plan.located.column("deletion_vector")).to_pylist()
        self._old = dict(zip(file_numbers(plan.files).to_pylist(), vectors, strict=True))

    def positions(self, number: int) -> pa.UInt64Array:
        """Return the rows of a file that are deleted, those of its old vector included."""
        found = RowPositions()
        old = self._old[number]
        parts = [self._rows.positions(number)]
        if old is not None:
            parts.append(positions_of(load_bitmap(BitmapRef(**old), self._store)))
        for part in parts:
            found.add(pa.repeat(pa.scalar(number, pa.int64()), len(part)), part.cast(pa.int64()))
        return found.positions(number)


def _millis(begun: float, ended: float) -> int:
    return int((ended - begun) * 1000)
