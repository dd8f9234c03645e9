"""A write whose rows are written by other processes, between its planning and its commit.

What the first process finds travels to the others: the metadata file that the write is planned on, and what the table
asks of data files. The commit makes the same changes of columns as the plan, since both begin with that file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from deltaberg.errors import CommitConflictError, ObjectNotFoundError
from deltaberg.iceberg.create.create import metadata_of
from deltaberg.iceberg.location.loaded import LoadedTable, load_file
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.maintain.auto_compact import compact_after
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.operations import IcebergOperations
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.new_table import NewTable
from deltaberg.table.transaction.write_request import WriteRequest
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.staged import PlannedRows, WrittenRows

__all__ = ["StagedWrite", "stage_write"]


class _Layout(NamedTuple):
    """What data files depend on. Where it is the same, files that were written for one state of a table fit another."""

    table_uuid: str | None
    schema_id: int
    last_column_id: int | None
    spec_id: int
    sort_order_id: int

    @classmethod
    def of(cls, metadata: TableMetadata) -> _Layout:
        """Return that of a state of a table."""
        return cls(
            metadata.table_uuid,
            metadata.current_schema_id,
            metadata.last_column_id,
            metadata.default_spec_id,
            metadata.default_sort_order_id,
        )


class _Base(NamedTuple):
    """The state of the table that a write is planned on; its metadata does not travel, since it may be large."""

    file: Location
    root: Location
    meta: ObjectMeta | None
    layout: _Layout

    @classmethod
    def of(cls, loaded: LoadedTable) -> _Base:
        """Return that of a table as it was loaded."""
        return cls(loaded.file, loaded.root, loaded.meta, _Layout.of(loaded.metadata))

    def load(self, store: StoreSpec) -> LoadedTable:
        """Read the metadata again. What the store said of the file tells whether it is the newest one still."""
        loaded = LoadedTable(load_file(self.file, store), self.file, self.root, store, self.meta)
        if _Layout.of(loaded.metadata) != self.layout:
            raise self.conflict("another table has taken the place of the one that the write was planned on")
        return loaded

    def conflict(self, message: str) -> CommitConflictError:
        """Return the error about a state that is there no more."""
        return CommitConflictError(message, hint="repeat the write", table=str(self.root), file=str(self.file))


@dataclass(frozen=True)
class StagedWrite:
    """A write that is planned. It pickles.

    Parameters
    ----------
    pointer, location
        Where the table is or will be found, and its location as its metadata records it.
    request
        The request.
    columns
        The columns of the rows.
    base
        The state of the table that the write is planned on; None if it creates the table.
    spec, store, place
        What the table asks of data files, and where they go.
    token
        What tells the commit from all others.
    """

    pointer: TablePointer
    location: str
    request: WriteRequest
    columns: pa.Schema
    base: _Base | None
    spec: WriteSpec
    store: StoreSpec
    place: Location
    token: str

    def of_batch(self, txn: tuple[str, int] | None, compact_seconds: float) -> StagedWrite:
        """Return the same write, as that of the batch of a stream."""
        return replace(self, request=self.request.of_batch(txn, compact_seconds))

    def begin(self, files: pa.Table, road: str, *, was_tried: bool) -> Transaction:
        """Return the transaction that adds files which were written as `spec` asks; see `StagedFiles`."""
        planned, is_late = None, False
        if self.base is not None:
            try:
                planned = self.base.load(self.store)
            except ObjectNotFoundError:
                planned, is_late = self._newest_like(self.base), True
        transaction = _transaction(self.pointer, self.location, planned, self.columns, self.request)
        transaction.stand_for(self.token, was_tried=was_tried, is_late=is_late)
        if self.request.compact_seconds:
            committer = self.pointer.committer()
            transaction.follow = partial(compact_after, committer=committer, seconds=self.request.compact_seconds)
        self.request.carry_out(IcebergOperations(transaction), WrittenRows(self.columns, files, road))
        return transaction

    def _newest_like(self, base: _Base) -> LoadedTable:
        """Return the newest metadata in place of that of the plan, which others have deleted after their commits.

        A batch of a stream is appended to it. Other writes look for rows that were added since the plan, or are known
        by their snapshots alone, which may be expired.
        """
        if self.request.commit.txn is not None and not self.request.overwrite:
            newest = self.pointer.load()
            if _Layout.of(newest.metadata) == base.layout:
                return newest
        raise base.conflict("the metadata file that the write was planned on is gone: other commits came first")


def stage_write(pointer: TablePointer, location: str, columns: pa.Schema, request: WriteRequest) -> StagedWrite:
    """Plan a write of rows with these columns.

    Raises
    ------
    SchemaError
        The rows do not fit the columns of the table.
    InvalidArgumentError, UnsupportedFeatureError
        The request is not valid, or the table cannot be written to.
    """
    loaded = pointer.committer().load()
    transaction = _transaction(pointer, location, loaded, columns, request)
    rows = PlannedRows(columns)
    request.carry_out(IcebergOperations(transaction), rows)
    transaction.abort()
    if rows.spec is None or rows.place is None:
        raise AssertionError("every write asks for files")
    base = None if loaded is None else _Base.of(loaded)
    own = (rows.spec, transaction.store, rows.place, transaction.token)
    return StagedWrite(pointer, location, request, columns, base, *own)


def _transaction(
    pointer: TablePointer, location: str, planned: LoadedTable | None, columns: pa.Schema, request: WriteRequest
) -> Transaction:
    """Begin a transaction on metadata, or one that creates the table."""
    committer = pointer.committer()
    loaded = planned
    if loaded is None:
        loaded = committer.stage(metadata_of(NewTable(columns, request.partition_by), location))
    transaction = Transaction(loaded, committer, request.commit, creates=planned is None, timezone=request.timezone)
    transaction.write_properties = request.write_properties
    return transaction
