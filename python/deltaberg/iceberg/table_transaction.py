"""A transaction of an Iceberg table with the verbs of the table, each of which becomes a part of one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltaberg.expressions import Filter
from deltaberg.iceberg.operations.alter import Alteration
from deltaberg.iceberg.operations.write import append_rows, delete_rows, overwrite_rows
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema import ColumnName
from deltaberg.table.write import RowOptions

__all__ = ["TableTransaction"]


class TableTransaction(Transaction):
    """Several operations on an Iceberg table that become one snapshot, or none.

    Each operation sees what the ones before it did. An operation that fails has changed nothing, so that a block that
    handles its exception can go on. At the end of the block everything is committed at once. An exception that leaves
    the block commits nothing, and the files that were written are deleted.
    """

    def append(
        self,
        data: Any,
        *,
        schema_mode: str | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> None:
        """Append rows. The parameters, and the exceptions besides those of a commit, are those of the table's verb."""
        options = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        append_rows(self, data, options)

    def overwrite(
        self,
        data: Any,
        *,
        where: Filter | None = None,
        dynamic: bool = False,
        check: bool = True,
        schema_mode: str | None = None,
        partition_by: ColumnName | Sequence[ColumnName] | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> None:
        """Replace rows. The parameters, and the exceptions besides those of a commit, are those of the table's verb."""
        options = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        names = (partition_by,) if isinstance(partition_by, str) else partition_by
        overwrite_rows(self, data, options, where=where, dynamic=dynamic, check=check, partition_by=names)

    def delete(self, where: Filter | None) -> None:
        """Delete rows by removing whole files. The parameters and exceptions are those of the table's verb."""
        delete_rows(self, where)

    def alter(self) -> Alteration:
        """Change columns, properties and partitioning as a part of the transaction. See `Alteration`."""
        return Alteration(self, is_part=True)
