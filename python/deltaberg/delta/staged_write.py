"""A write whose rows are written by other processes, between its planning and its commit.

What the first process finds travels to the others: the version that the write is planned on, the columns that it gives
the table, and what the table asks of data files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from deltaberg.delta.actions.domains import CLUSTERING_DOMAIN
from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.create.create import define_table, newest_version
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.maintain.auto_compact import compact_after
from deltaberg.delta.operations import DeltaOperations
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import CommitConflictError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.new_table import NewTable
from deltaberg.table.transaction.write_request import WriteRequest
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.staged import PlannedRows, WrittenRows

__all__ = ["StagedWrite", "stage_write"]


@dataclass(frozen=True)
class StagedWrite:
    """A write that is planned. It pickles.

    Parameters
    ----------
    log
        The log of the table.
    request
        What the caller asks for.
    columns
        The columns of the rows.
    version
        The version that the write is planned on; None if it creates the table.
    protocol, metadata
        Those that the table has after the write.
    clustering
        The columns by which it is clustered, as the log records them; None if it is not clustered.
    spec
        What the table asks of data files; None if nothing is to be written, because the progress of the application is
        recorded already.
    token
        What tells the commit from all others.
    """

    log: LogDirectory
    request: WriteRequest
    columns: pa.Schema
    version: int | None
    protocol: Protocol
    metadata: Metadata
    clustering: str | None
    spec: WriteSpec | None
    token: str

    @property
    def store(self) -> StoreSpec:
        """The opener of the store of the table."""
        return self.log.store

    @property
    def place(self) -> Location:
        """The directory of the table."""
        return self.log.root

    def of_batch(self, txn: tuple[str, int] | None, compact_seconds: float) -> StagedWrite:
        """Return the same write, as that of the batch of a stream."""
        return replace(self, request=self.request.of_batch(txn, compact_seconds))

    def begin(self, files: pa.Table, road: str, *, was_tried: bool) -> Transaction:
        """Return the transaction that adds files which were written as `spec` asks; see `StagedFiles`."""
        base = None if self.version is None else Snapshot.load(self.log, self.version)
        if base is not None and base.metadata.id != self.metadata.id:
            raise CommitConflictError(
                "another table has taken the place of the one that the write was planned on",
                hint="repeat the write",
                table=str(self.place),
                version=self.version,
            )
        transaction = _transaction(self.log, base, self.request)
        transaction.stand_for(self.token, was_tried=was_tried)
        if self.request.compact_seconds:
            transaction.follow = partial(compact_after, seconds=self.request.compact_seconds)
        if base is None or self.protocol != base.protocol:
            transaction.set_protocol(self.protocol)
        if base is None or self.metadata != base.metadata:
            transaction.set_metadata(self.metadata)
        if self.clustering is not None and (base is None or base.domains.get(CLUSTERING_DOMAIN) != self.clustering):
            transaction.set_domain(CLUSTERING_DOMAIN, self.clustering, system=True)
        # The columns are those that the write gives the table already.
        rows = replace(self.request.rows, schema_mode=None)
        request = replace(self.request, rows=rows, partition_by=None)
        request.carry_out(DeltaOperations(transaction), WrittenRows(self.columns, files, road))
        return transaction


def stage_write(log: LogDirectory, columns: pa.Schema, request: WriteRequest) -> StagedWrite:
    """Plan a write of rows with these columns.

    Raises
    ------
    SchemaError
        The rows do not fit the columns of the table.
    InvalidArgumentError, UnsupportedFeatureError
        The request is not valid, or the table cannot be written to.
    """
    base = newest_version(log)
    transaction = _transaction(log, base, request)
    if base is None:
        define_table(transaction, NewTable(columns, request.partition_by, of_rows=True), None)
        request = replace(request, partition_by=None)
    if not (request.partition_by or transaction.snapshot.partition_fields):
        # All rows are those of the only partition.
        request = replace(request, dynamic=False)
    rows = PlannedRows(columns)
    request.carry_out(DeltaOperations(transaction), rows)
    table = transaction.snapshot
    return StagedWrite(
        log,
        request,
        columns,
        None if base is None else base.version,
        table.protocol,
        table.metadata,
        table.domains.get(CLUSTERING_DOMAIN),
        rows.spec,
        transaction.token,
    )


def _transaction(log: LogDirectory, base: Snapshot | None, request: WriteRequest) -> Transaction:
    return Transaction(log, base, request.commit, timezone=request.timezone)
