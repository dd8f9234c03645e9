"""Rows that are deleted or replaced: by deletion vectors or by writing files anew, with what tracks them.

Delta protocol, "Deletion Vectors", "Add CDC File" and "Row Tracking". Delete, update and merge find the rows; what
becomes of their files is the same for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.data.change_files import CHANGE_DATA, CHANGE_TYPE_COLUMN
from deltaberg.delta.data.statistics_text import loosened_statistics
from deltaberg.delta.data.written_vectors import VectorWriter
from deltaberg.delta.rows.row_ids import PendingSource, RowIds
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.build.filters import Filter
from deltaberg.hints import at_fault
from deltaberg.schema.arrow import arrow_schema, as_array
from deltaberg.schema.types import Struct
from deltaberg.table.change.changed_rows import NewFiles, RowCounts
from deltaberg.table.change.match import MatchedRows, scan_of_rows
from deltaberg.table.change.matched_rows import Change, matched_rows
from deltaberg.table.change.new_rows import NewRows
from deltaberg.table.change.strategies import COPY_ON_WRITE, MERGE_ON_READ, checked_strategy
from deltaberg.table.change.target import Rows
from deltaberg.table.change.whole_files import VectorUnion, with_whole_files
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.write.sources import WriteRoad
from deltaberg.table.write.spec import WriteSpec

__all__ = ["RowChanges", "rewrite_strategy", "scan_to_change"]

_VECTORS = "delta.enableDeletionVectors"


def rewrite_strategy(table: Snapshot, requested: str | None) -> str:
    """Return how deleted and replaced rows leave the files of a table: by deletion vectors, or with the old files.

    Parameters
    ----------
    requested
        What the caller asks for; None for what the table property ``delta.enableDeletionVectors`` says.

    Raises
    ------
    InvalidArgumentError
        There is no such strategy, or deletion vectors are asked for that the table does not allow.
    """
    checked_strategy(requested)
    allowed = "deletionVectors" in table.active_features
    if requested == MERGE_ON_READ and not allowed:
        raise InvalidArgumentError(
            at_fault("strategy", f"is {MERGE_ON_READ!r}, but the table has no deletion vectors"),
            hint=f'enable them by ⟪alter().set({{"{_VECTORS}": "true"}}).commit()⟫',
        )
    return requested or (MERGE_ON_READ if allowed else COPY_ON_WRITE)


def scan_to_change(transaction: Transaction, condition: Filter | None, timezone: str, memory: int = 0) -> BoundScan:
    """Return the scan of the rows that an operation may change: those that match a filter, or all.

    Parameters
    ----------
    timezone
        The zone of literals in the filter. That of partition values is the transaction's.
    memory
        As for `scan_of_rows`.
    """
    source = PendingSource(transaction.snapshot, transaction.timezone, transaction.paths_without_row_ids)
    return scan_of_rows(source, condition, timezone, memory)


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
        self._begun = time.monotonic()
        #: When the rows had been found.
        self._found: float | None = None
        self._new_bytes = self._new_files = self._gone_bytes = self._gone_files = self._change_files = 0
        self._row_ids = RowIds(self.table)
        self._rows = NewRows(self._row_ids, transaction.row_tasks)
        self._vectors_added = self._vectors_removed = self._vectors_updated = 0
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
        matched, self._file_rows = with_whole_files(matched)
        self._apply(matched, change, inserted, added or inserted)

    @property
    def metrics(self) -> dict[str, int]:
        """The effect of the operation, by the names that delta-spark gives to it."""
        ended = time.monotonic()
        searched = ended if self._found is None else self._found
        return {
            "numAddedFiles": self._new_files,
            "numAddedBytes": self._new_bytes,
            "numRemovedFiles": self._gone_files,
            "numRemovedBytes": self._gone_bytes,
            "numCopiedRows": self._rows.counts.copied,
            "numDeletionVectorsAdded": self._vectors_added,
            "numDeletionVectorsRemoved": self._vectors_removed,
            "numDeletionVectorsUpdated": self._vectors_updated,
            "numAddedChangeFiles": self._change_files,
            "scanTimeMs": _millis(self._begun, searched),
            "rewriteTimeMs": _millis(searched, ended),
            "executionTimeMs": _millis(self._begun, ended),
        }

    @property
    def counts(self) -> RowCounts:
        """How many rows were deleted, replaced, inserted, and written anew as they were."""
        return self._rows.counts

    def _apply(self, matched: MatchedRows, change: Change | None, inserted: Rows | None, new: Rows | None) -> None:
        partial = matched.rows.numbers
        by_vectors = self._strategy == MERGE_ON_READ
        gone = set(matched.whole) if by_vectors else {*matched.whole, *partial}
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
        self._vectors_removed += len(vectors) - vectors.null_count

    def _hide(self, matched: MatchedRows) -> None:
        """Hide rows by deletion vectors, which contain the old ones."""
        numbers = pa.array(matched.rows.numbers, pa.int64())
        live = self.table.live
        union = VectorUnion(matched.of(frozenset(matched.rows.numbers)), matched.rows)
        actions = []
        fresh = self._transaction.paths_without_row_ids
        log = self.table.log
        with VectorWriter(log.storage, log.root) as writer:
            for number, action in zip(numbers.to_pylist(), recorded_adds(live, numbers), strict=True):
                stats = loosened_statistics(action.members.get("stats"), self._file_rows.get(number))
                self._transaction.tell(1)
                vector = writer.add(union.positions(number))
                members: dict[str, Any] = {"deletionVector": vector, "stats": stats, "dataChange": True}
                if action.members["path"] in fresh:
                    members |= dict.fromkeys(("baseRowId", "defaultRowCommitVersion"))
                actions.append(action.with_members(members))
                replaced = action.members.get("deletionVector") is not None
                self._vectors_added += 1
                self._vectors_removed += replaced
                self._vectors_updated += replaced
        self._transaction.note_written(writer.paths)
        self._transaction.remove_files(live.table.take(numbers))
        self._transaction.add_actions(actions)

    # Rows that are written

    def _write_rows(self, matched: MatchedRows, change: Change | None, inserted: Rows | None, by_vectors: bool) -> None:
        """Write the rows that stay where files are written anew, those that replace others, and new ones."""
        ids = self._row_ids
        if not matched.is_empty and not ids.are_kept and (change is not None or not by_vectors):
            self._transaction.lose_row_ids()
        new = self._new(row_spec(self.table, self._options).for_kept_rows(ids.stored))
        files = self._rows.write(matched, change, inserted, new, hides=by_vectors)
        if files is None:
            return
        self._transaction.add_files(files)
        self._new_files = len(files)
        self._new_bytes = pc.sum(files.column("size")).as_py() or 0

    def _new(self, spec: WriteSpec) -> NewFiles:
        transaction, log = self._transaction, self.table.log

        def note(files: pa.Table, road: WriteRoad) -> None:
            transaction.note_written(files.column("path").to_pylist(), road)

        return NewFiles(spec, log.store, log.root, note, transaction.progress)

    # The change data feed

    def _write_changes(self, matched: MatchedRows, change: Change | None, inserted: Rows | None) -> None:
        """Write all rows that change, since readers ignore files that are added and removed beside change files."""
        schema = Struct((*self.table.schema, CHANGE_TYPE_COLUMN))
        kept = row_spec(self.table, self._options).for_kept_rows(schema)
        spec = replace(kept, directory=CHANGE_DATA, prefix="cdc", statistics=frozenset())
        files = self._new(spec).write(_changed(self.table, matched, change, inserted, arrow_schema(schema)))
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


def _millis(begun: float, ended: float) -> int:
    return int((ended - begun) * 1000)
