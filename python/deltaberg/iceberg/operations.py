"""The operations of a transaction of an Iceberg table, as its verbs call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.alter.alter import Alteration
from deltaberg.iceberg.change.delete_by_keys import delete_by_keys
from deltaberg.iceberg.change.row_changes import RowChanges
from deltaberg.iceberg.change.upsert_keys import identifier_names
from deltaberg.iceberg.create.create import check_partitioning
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.new_columns import own_types
from deltaberg.iceberg.write.add_files import add_existing_files
from deltaberg.iceberg.write.write_rows import append_rows, overwrite_rows
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.from_arrow import OwnTypes
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.transaction.operations import Operations, Overwritten
from deltaberg.table.write.sources import Rows

__all__ = ["IcebergOperations"]


class IcebergOperations(Operations[Transaction]):
    """The operations of a transaction of an Iceberg table."""

    def check_partitioning(self, partition_by: Sequence[ColumnName]) -> None:
        """Refuse a partitioning that is not that of the table."""
        check_partitioning(self.transaction.metadata, partition_by)

    def _append(self, made: Operation, rows: Rows, options: RowOptions) -> None:
        append_rows(self.transaction, made, rows, options)

    def _overwrite(self, made: Operation, rows: Rows, options: RowOptions, which: Overwritten) -> None:
        overwrite_rows(self.transaction, made, rows, options, which)

    def alter(self, *, is_part: bool = True) -> Alteration:
        """Begin changes of the table. Alone they make no snapshot, which could keep what the caller says of it."""
        if not is_part and self.transaction.says:
            raise InvalidArgumentError(
                "properties describe a snapshot, and changes of columns, properties and branches make none",
                hint="set properties of the table by ⟪alter().set()⟫, or pass ⟪properties=⟫ to what changes rows",
            )
        return Alteration(self.transaction, is_part=is_part)

    def target(self, operation: str, options: RowOptions, strategy: str | None) -> RowChanges:
        """Return the table for an operation, whose properties say how rows change."""
        return RowChanges(self.transaction, options, operation, strategy)

    @property
    def own_types(self) -> OwnTypes | None:
        """Returns the types that the version of the format has, and Delta tables do not."""
        return own_types(self.transaction.metadata.format_version)

    @property
    def identifier(self) -> Sequence[ColumnName]:
        """The identifier fields."""
        return identifier_names(self.transaction.metadata)

    def delete_by_keys(self, keys: Any, columns: Sequence[ColumnName] | None, options: RowOptions) -> None:
        """Delete the rows that equal one of some keys."""
        delete_by_keys(self.transaction, keys, columns, options)

    def add_files(self, paths: Any, *, check_duplicates: bool) -> None:
        """Add files of others where they are."""
        add_existing_files(self.transaction, paths, check_duplicates=check_duplicates)
