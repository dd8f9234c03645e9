"""A transaction of an Iceberg table with the verbs of the table, each of which becomes a part of one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltaberg.expressions import Filter
from deltaberg.iceberg.operations.alter import Alteration
from deltaberg.iceberg.operations.change_rows import delete_rows, merge_rows, update_rows, upsert_rows
from deltaberg.iceberg.operations.delete_by_keys import delete_by_keys
from deltaberg.iceberg.operations.write import append_rows, overwrite_rows
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema import ColumnName, column_names
from deltaberg.signatures import public
from deltaberg.table.rewrite import Condition, MergeClause, MergeOptions, RowVerbs
from deltaberg.table.write import RowOptions

__all__ = ["TableTransaction"]


@public
class TableTransaction(RowVerbs, Transaction):
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
        names = None if partition_by is None else column_names(partition_by)
        overwrite_rows(self, data, options, where=where, dynamic=dynamic, check=check, partition_by=names)

    def _delete_rows(self, where: Condition | None, options: RowOptions, strategy: str | None) -> None:
        delete_rows(self, where, options, strategy=strategy)

    def _update_rows(
        self, values: Mapping[ColumnName, Any], where: Condition | None, options: RowOptions, strategy: str | None
    ) -> None:
        update_rows(self, values, where, options, strategy=strategy)

    def merge_clauses(self, source: Any, on: Any, clauses: Sequence[MergeClause], options: MergeOptions) -> None:
        """Merge rows, including into those that the transaction has written; `merge` of the table makes the clauses."""
        merge_rows(self, source, on, clauses, options)

    def upsert(
        self,
        data: Any,
        keys: ColumnName | Sequence[ColumnName] | None = None,
        *,
        when_matched: str = "update",
        when_not_matched: str = "insert",
        schema_mode: str | None = None,
        strategy: str | None = None,
        memory: int | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> None:
        """Update the rows that have the keys of new rows, and insert the other new rows.

        The parameters, and the exceptions besides those of a commit, are those of the table's verb.
        """
        rows = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        options = MergeOptions(rows, strategy=strategy, memory=memory)
        upsert_rows(self, data, keys, options, when_matched=when_matched, when_not_matched=when_not_matched)

    def delete_by_keys(self, keys: Any, columns: ColumnName | Sequence[ColumnName] | None = None) -> None:
        """Delete rows by keys. The parameters and exceptions are those of the table's verb.

        Rows that the transaction has added before are not found, so that this is refused then; and so are changes of
        rows after it.
        """
        delete_by_keys(self, keys, None if columns is None else column_names(columns))

    def add_files(self, file_paths: Sequence[str], *, check_duplicate_files: bool = True) -> None:
        """Add files of others where they are. The parameters, and the exceptions, are those of the table's verb."""
        from deltaberg.iceberg.operations.add_files import add_existing_files

        add_existing_files(self, file_paths, check_duplicates=check_duplicate_files)

    def alter(self) -> Alteration:
        """Change columns, properties and partitioning as a part of the transaction. See `Alteration`."""
        return Alteration(self, is_part=True)
