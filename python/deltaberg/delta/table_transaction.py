"""A transaction of a Delta table with the verbs of the table, each of which becomes a part of one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltaberg.delta.operations.alter import Alteration
from deltaberg.delta.operations.delete import delete_rows
from deltaberg.delta.operations.merge import merge_rows, upsert_rows
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.operations.update import update_rows
from deltaberg.delta.operations.write import append_rows, overwrite_rows
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.schema import ColumnName
from deltaberg.signatures import public
from deltaberg.table.rewrite import Condition, MergeClause, MergeOptions, RowVerbs

__all__ = ["TableTransaction"]


@public
class TableTransaction(RowVerbs, Transaction):
    """Several operations on a Delta table that become one version, or none.

    Each operation sees what the ones before it did: `snapshot` is the table as they leave it. An operation that fails
    has changed nothing, so that a block that handles its exception can go on. At the end of the block everything is
    committed at once. An exception that leaves the block commits nothing, and the files that were written are deleted.
    On a table that records a change data feed, an operation that changes rows must be the only operation on rows,
    unless it deletes whole files.

    The parameters are those of `Transaction`, which also has what is below the verbs: adding and removing files,
    domains, and the protocol.

    Examples
    --------
    >>> import pyarrow as pa
    >>> with table.transaction() as transaction:
    ...     transaction.append(pa.table({"id": [4], "name": ["d"]}))
    ...     transaction.alter().add("price", pa.float64())
    ...     transaction.append(pa.table({"id": [5], "price": [9.5]}))
    Alteration(['ADD COLUMNS'])
    >>> table.scan("id > 3", columns=["id", "price"]).to_arrow().to_pylist()
    [{'id': 4, 'price': None}, {'id': 5, 'price': 9.5}]
    """

    def append(
        self,
        data: Any,
        *,
        schema_mode: str | None = None,
        partition_by: ColumnName | Sequence[ColumnName] | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> None:
        """Append rows. The parameters, and the exceptions besides those of a commit, are those of `DeltaTable.append`.

        If the progress of an application that the transaction would record is recorded already, nothing is written.
        """
        options = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        append_rows(self, data, options, partition_by)

    def overwrite(
        self,
        data: Any,
        *,
        where: Condition | None = None,
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
        """Replace rows, including those that the transaction has written.

        The parameters, and the exceptions besides those of a commit, are those of `DeltaTable.overwrite`.
        """
        options = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        overwrite_rows(self, data, options, where=where, dynamic=dynamic, check=check, partition_by=partition_by)

    def _delete_rows(self, where: Condition | None, options: RowOptions, strategy: str | None) -> None:
        delete_rows(self, where, options, strategy=strategy)

    def _update_rows(
        self, values: Mapping[ColumnName, Any], where: Condition | None, options: RowOptions, strategy: str | None
    ) -> None:
        update_rows(self, values, where, options, strategy=strategy)

    def merge_clauses(self, source: Any, on: Any, clauses: Sequence[MergeClause], options: MergeOptions) -> None:
        """Merge rows, including into those that the transaction has written; `DeltaTable.merge` makes the clauses."""
        merge_rows(self, source, on, clauses, options)

    def upsert(
        self,
        data: Any,
        keys: ColumnName | Sequence[ColumnName],
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

        The parameters, and the exceptions besides those of a commit, are those of `DeltaTable.upsert`.
        """
        rows = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        options = MergeOptions(rows, strategy=strategy, memory=memory)
        upsert_rows(self, data, keys, options, when_matched=when_matched, when_not_matched=when_not_matched)

    def alter(self) -> Alteration:
        """Change columns, properties, features and clustering. Each change takes effect at once in the transaction.

        The result has no commit of its own: the transaction commits it.
        """
        return Alteration(self, is_part=True)
