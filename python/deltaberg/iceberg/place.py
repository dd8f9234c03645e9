"""The place of an Iceberg table that may not exist: its directory, or its name in a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from deltaberg.choices import Mode
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.create.create import descriptions, metadata_of
from deltaberg.iceberg.location.pointer import FilePointer, TablePointer
from deltaberg.iceberg.maintain.auto_compact import compact_after
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.write_metadata import version_of
from deltaberg.iceberg.operations import IcebergOperations
from deltaberg.iceberg.rows.columns_meanwhile import check_replaced_columns
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING, encode_name_mapping
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.table import IcebergTable, open_iceberg_table
from deltaberg.iceberg.transaction.find import find_commit_of
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.new_table import with_fresh_ids
from deltaberg.iceberg.updates.updates import (
    AddSchema,
    RemoveProperties,
    SetCurrentSchema,
    SetProperties,
    Update,
    UpgradeFormatVersion,
)
from deltaberg.schema.name_mapping import extended_mapping
from deltaberg.storage.location import Location
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import ICEBERG
from deltaberg.table.open.new_table import Description, NewTable
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.verbs.place import Place

__all__ = ["IcebergPlace"]


@dataclass(frozen=True)
class IcebergPlace(Place[IcebergTable, IcebergOperations]):
    """The place of an Iceberg table.

    Parameters
    ----------
    pointer, location
        Where the table is or will be found, and its location as its metadata records it.
    options
        How a table is opened.
    opened
        The table, if the caller has opened it.
    """

    format = ICEBERG
    pointer: TablePointer
    location: str
    options: OpenOptions
    opened: IcebergTable | None = None

    @classmethod
    def at(cls, root: Location, options: OpenOptions) -> IcebergPlace:
        """Return a directory."""
        return cls(FilePointer(root, options.store), str(root), options)

    @classmethod
    def of(cls, table: IcebergTable) -> IcebergPlace:
        """Return the place of an open table."""
        return cls(table._pointer, table.location, table._options, table)  # noqa: SLF001 - it is what finds the table

    def open(self) -> IcebergTable:
        """Open the newest snapshot."""
        return open_iceberg_table(self.pointer, self.options)

    def create(self, new: NewTable, options: CommitOptions) -> IcebergOperations:
        """Begin a transaction that creates the table."""
        committer = self.pointer.committer(unsafe_single_writer=options.unsafe_single_writer)
        loaded = committer.stage(metadata_of(new, self.location))
        run = IcebergOperations(Transaction(loaded, committer, options, creates=True))
        run.transaction.follow = partial(compact_after, committer=committer)
        return run

    def replace(self, run: IcebergOperations, new: NewTable) -> None:
        """Remove all rows, and set the columns, the partitioning, the order and the properties.

        Columns whose names and types stay keep their ids, so that branches and older snapshots have their values.
        """
        transaction = run.transaction
        updates = _replacing(transaction.metadata, new)
        run.delete(None, RowOptions())
        # Rows that others add meanwhile would have to go, too, whatever deletes ask for.
        transaction.claims.conditions.append(TRUE)
        transaction.change_metadata(*updates)
        check_replaced_columns(transaction, transaction.metadata.current_schema.struct)
        run.alter().partition_by(*(new.partition_by or ())).sort_by(*(new.sort_by or ()))

    def commit(self, run: IcebergOperations, mode: Mode | None) -> CommitResult:
        """Commit the creation, of which metadata says no more than it does of other commits."""
        return run.transaction.commit()

    def descriptions(self, table: IcebergTable, new: NewTable) -> Iterator[Description]:
        """Yield what is said of a new table, and what a table has instead."""
        return descriptions(table.metadata, new)

    def unchanged(self, table: IcebergTable) -> CommitResult:
        """Return the result of no commit."""
        version = version_of(table.metadata_location.rpartition("/")[2]) or 0
        return CommitResult(version, "", "append", committed=False, snapshot_id=table.snapshot_id)

    def find_commit(self, token: str) -> CommitResult | None:
        """Look for a commit in the newest metadata."""
        return find_commit_of(self.pointer.committer(), token)


def _replacing(before: TableMetadata, table: NewTable) -> list[Update]:
    """Return the changes that give a table other columns and properties."""
    wanted = {"format-version": before.format_version, **table.properties}
    new = metadata_of_json(metadata_of(replace(table, properties=wanted), before.location))
    known, version = before.current_schema.struct, new.format_version
    columns, _ = with_fresh_ids(new.current_schema.struct, before.last_column_id or 0, known, version)
    # Files without field ids, which branches and older snapshots still have, are read by the name mapping.
    gone = tuple(name for name in before.properties if name not in new.properties and name != NAME_MAPPING)
    updates: list[Update] = []
    if new.format_version != before.format_version:
        updates.append(UpgradeFormatVersion(new.format_version))
    updates += [AddSchema(Schema(columns, max(before.schemas) + 1)), SetCurrentSchema()]
    if gone:
        updates.append(RemoveProperties(gone))
    if before.name_mapping is not None and NAME_MAPPING not in new.properties:
        mapping = extended_mapping(before.name_mapping, columns)
        updates.append(SetProperties({NAME_MAPPING: encode_name_mapping(mapping)}))
    return [*updates, SetProperties(new.properties)] if new.properties else updates
