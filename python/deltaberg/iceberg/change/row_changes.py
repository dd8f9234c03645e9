"""Rows that are deleted, replaced or inserted, and what becomes of their files (Iceberg spec, "Row-level Deletes").

Delete, update and merge find the rows; what becomes of their files is the same for all of them.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from deltaberg.expressions.tree.tree import Value
from deltaberg.iceberg.alter.columns import merge_columns
from deltaberg.iceberg.change.hidden_rows import HiddenRows, hide_rows
from deltaberg.iceberg.change.moved_rows import MovedRows
from deltaberg.iceberg.manifests.metrics import manifests_of
from deltaberg.iceberg.rows.columns_meanwhile import require_columns
from deltaberg.iceberg.rows.file_options import delete_form, file_options, form_of
from deltaberg.iceberg.rows.row_spec import rules_of
from deltaberg.iceberg.rows.strategies import rewrite_strategy
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.conflict import SERIALIZABLE, isolation_level
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.changed_rows import RowCounts, RowTasks
from deltaberg.table.change.match import MatchedRows, scan_of_rows
from deltaberg.table.change.matched_rows import Change
from deltaberg.table.change.new_rows import NewRows
from deltaberg.table.change.strategies import MERGE_ON_READ
from deltaberg.table.change.target import Rows
from deltaberg.table.change.whole_files import with_whole_files
from deltaberg.table.merge.merge import MergePlan
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import file_numbers
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.rows.table_rules import TableRules
from deltaberg.table.transaction.operation import Operation

__all__ = ["RowChanges"]


class RowChanges:
    """A table as an operation changes it: a `RowTarget`.

    Parameters
    ----------
    transaction
        The transaction, in one of its operations.
    options
        How rows are written.
    operation
        ``delete``, ``update`` or ``merge``: what the properties call it that say how and how isolated it is.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says (`rewrite_strategy`).

    Raises
    ------
    InvalidArgumentError
        The table does not allow the strategy, or one of its properties or an option of files has no valid value.
    """

    def __init__(
        self, transaction: Transaction, options: RowOptions, operation: str, strategy: str | None = None
    ) -> None:
        self._transaction = transaction
        self._options = options
        metadata = transaction.metadata
        if options.writer_properties is not None or options.compression is not None:
            # They are refused even if no file has to be written.
            file_options(metadata, form_of(metadata), options)
        self._strategy = rewrite_strategy(metadata, operation, strategy)
        #: Whether no rows may be added meanwhile that would have been changed, too.
        self.is_serializable = isolation_level(metadata.properties, operation, transaction.isolation) == SERIALIZABLE
        self._begun = time.monotonic()
        self._added_files = self._removed_files = 0
        self._hidden = HiddenRows()

    @property
    def schema(self) -> Struct:
        """The columns."""
        return self._transaction.metadata.current_schema.struct

    @property
    def timezone(self) -> str:
        """The zone of timestamps without one in conditions and values."""
        return self._options.timezone or self._transaction.timezone

    @property
    def store(self) -> StoreSpec:
        """The opener of the stores of the table."""
        return self._transaction.store

    @property
    def root(self) -> Location:
        """Where the table is."""
        return self._transaction.root

    @property
    def tasks(self) -> RowTasks | None:
        """The tasks that read and write files; None to do so on this machine."""
        return self._transaction.row_tasks

    @property
    def fixed(self) -> frozenset[str]:
        """No columns: every column can be set."""
        return frozenset()

    @property
    def empty_as_null(self) -> frozenset[str]:
        """No columns: empty values are not null."""
        return frozenset()

    def rules(self, timezone: str, now: dt.datetime) -> TableRules:
        """Return what the table asks of new rows."""
        return rules_of(self.schema)

    def add_columns(self, columns: Struct) -> None:
        """Add those columns, and fields of structs, that the table lacks."""
        merge_columns(self._transaction, columns)

    @cached_property
    def _source(self) -> IcebergSource:
        return self._transaction.changed_source

    @cached_property
    def _files(self) -> MovedRows:
        return MovedRows(self._transaction, self._options, self._source)

    @cached_property
    def _delete_options(self) -> RowOptions:
        """How delete files are written: as the caller says of data files, but for their size, and in another format."""
        metadata = self._transaction.metadata
        is_alike = delete_form(metadata) == form_of(metadata)
        return replace(self._options, target_file_size=None) if is_alike else RowOptions()

    @cached_property
    def _rows(self) -> NewRows:
        return NewRows(self._files.ids, self.tasks)

    def scan(self, condition: Value | None, timezone: str) -> BoundScan:
        """Return the scan of the rows that match a filter, or of all.

        If the table asks for serializable changes, no such rows may be added meanwhile.
        """
        found = scan_of_rows(self._source, condition, timezone, self._options.reading)
        if self.is_serializable:
            self._transaction.claims.conditions.append(found.condition)
        return found

    def apply(self, matched: MatchedRows, change: Change | None = None, inserted: Rows | None = None) -> None:
        """Delete or replace rows that `scan` has found, and insert others.

        Raises
        ------
        UnsupportedFeatureError
            The table asks for files that are not written, or rows have ids that cannot be kept.
        """
        matched, _ = with_whole_files(matched)
        numbers = {*matched.whole, *matched.rows.numbers}
        files = matched.of(numbers).plan.files
        paths = dict(zip(file_numbers(files).to_pylist(), files.column("path").to_pylist(), strict=True))
        own = self._transaction.pending.paths
        # Files that the transaction has added are only written anew: they are no part of the table yet.
        hides = self._strategy == MERGE_ON_READ and not any(paths[number] in own for number in matched.rows.numbers)
        gone = set(matched.whole) if hides else numbers
        self._remove(gone, paths)
        if hides:
            self._hidden = hide_rows(self._transaction, matched.rows, self._delete_options, replaces=change is not None)
        # Rows that are deleted with their whole file may be deleted by others, too. Those that move must not. If others
        # may add rows that match, nobody may change these rows either: a changed row is deleted, and added again.
        moved = gone - matched.whole if change is None and self.is_serializable else gone
        self._transaction.claims.moved.update(paths[number] for number in moved if paths[number] not in own)
        written = self._rows.write(matched, change, inserted, self._files.new_files(self._transaction), hides=hides)
        if written is None:
            return
        self._transaction.add_entries(self._files.entries(written))
        require_columns(self._transaction, self._files.stored)
        self._added_files += len(written)

    def _remove(self, numbers: set[int], paths: Mapping[int, str]) -> None:
        """Remove files, some of which the transaction may have added itself."""
        pending = self._transaction.pending
        own = {number for number in numbers if paths[number] in pending.paths}
        pending.drop_added([paths[number] for number in own])
        stored = sorted(numbers - own)
        if stored:
            held = manifests_of(self._source.manifests, pa.array(stored, pa.int64()))
            self._transaction.remove_files([paths[number] for number in stored], held)
        self._removed_files += len(numbers)

    @property
    def counts(self) -> RowCounts:
        """How many rows were changed."""
        return self._rows.counts

    def emptied(self) -> None:
        """Take note that all rows were deleted: what is left of delete files is about nothing.

        That is only so if nobody can have added rows that they delete.
        """
        if self.is_serializable:
            self._transaction.pending.removes_deletes = True

    def describe(self, made: Operation, what: Value | MergePlan | None) -> None:
        """Fill in what the summary of the snapshot says of the condition, which is nothing."""

    @property
    def metrics(self) -> dict[str, int]:
        """The effect of the operation, by the names that Delta's operations give to it."""
        return {
            "numAddedFiles": self._added_files,
            "numRemovedFiles": self._removed_files,
            "numCopiedRows": self.counts.copied,
            "numDeletionVectorsAdded": self._hidden.vectors_added,
            "numDeletionVectorsRemoved": self._hidden.vectors_removed,
            "numDeleteFilesAdded": self._hidden.delete_files_added,
            "executionTimeMs": int((time.monotonic() - self._begun) * 1000),
        }
