"""Creating tables, and writing rows to tables that may not exist yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deltaberg.errors import TableExistsError, TableNotFoundError
from deltaberg.expressions import TRUE, Filter
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.name_mapping import NAME_MAPPING, encode_name_mapping
from deltaberg.iceberg.metadata.new_table import with_fresh_ids
from deltaberg.iceberg.metadata.schema import Schema
from deltaberg.iceberg.metadata.updates import (
    AddSchema,
    RemoveProperties,
    SetCurrentSchema,
    SetProperties,
    Update,
    UpgradeFormatVersion,
)
from deltaberg.iceberg.operations.columns_meanwhile import check_replaced_columns
from deltaberg.iceberg.operations.create import NewTable, check_partitioning
from deltaberg.iceberg.operations.operations import IcebergOperations
from deltaberg.iceberg.operations.write import append_rows, overwrite_rows
from deltaberg.iceberg.table import IcebergTable, open_iceberg_table
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema import ColumnName
from deltaberg.schema.name_mapping import extended_mapping
from deltaberg.table import CommitResult, OpenOptions, check_if_exists, checked_flag
from deltaberg.table.write import RowOptions, Rows, can_be_read_again, open_rows

__all__ = ["create_table", "write_table"]


def create_table(
    pointer: TablePointer,
    location: str,
    table: NewTable,
    options: OpenOptions,
    *,
    if_exists: str = "error",
    unsafe_single_writer: bool = False,
) -> IcebergTable:
    """Create a table without rows, and return it.

    Parameters
    ----------
    pointer
        Where the table will be found.
    location
        Its location, as its metadata records it.
    table
        Its columns and metadata.
    options
        How the table is opened.
    if_exists
        What becomes of a table that is there already: ``error`` raises, ``ignore`` leaves it as it is, and ``replace``
        removes its rows and gives it the new columns, partitioning, order and properties. Its history stays. Columns
        whose names and types stay keep their ids, so that branches and older snapshots have their values.
    unsafe_single_writer
        Write to a store in which two writers would overwrite one another.

    Raises
    ------
    TableExistsError
        There is a table, and ``if_exists`` is ``error``.
    SchemaError, InvalidArgumentError
        The table is not valid, or a new column of one that is replaced has the name of one of its partition fields.
    """
    check_if_exists(if_exists)
    checked_flag("unsafe_single_writer", unsafe_single_writer)
    committer = pointer.committer(unsafe_single_writer=unsafe_single_writer)
    found = committer.load()
    if found is None:
        try:
            with Transaction(committer.stage(table.metadata(location)), committer, creates=True):
                pass
        except TableExistsError:
            # Somebody else was faster. A table to be replaced has to be read first.
            if if_exists == "error":
                raise
            found = committer.load()
    elif if_exists == "error":
        raise TableExistsError(
            "there is a table already", hint='pass if_exists="ignore" or if_exists="replace"', table=location
        )
    if found is not None and if_exists == "replace":
        _replace(found, committer, table)
    return open_iceberg_table(pointer, options)


def _replace(found: LoadedTable, committer: Committer, table: NewTable) -> None:
    with Transaction(found, committer) as transaction:
        operations = IcebergOperations(transaction)
        operations.delete(None, RowOptions())
        # Rows that others add meanwhile would have to go, too, whatever deletes ask for.
        transaction.claims.conditions.append(TRUE)
        transaction.change_metadata(*_replacing(found.metadata, table))
        check_replaced_columns(transaction, transaction.metadata.current_schema.struct)
        operations.alter().partition_by(*table.partition_by).sort_by(*table.sort_by)


def _replacing(before: TableMetadata, table: NewTable) -> list[Update]:
    """Return the changes that give a table other columns and properties."""
    wanted = {"format-version": before.format_version, **table.properties}
    new = metadata_of_json(replace(table, properties=wanted).metadata(before.location))
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


def write_table(
    pointer: TablePointer | IcebergTable,
    location: str,
    data: Any,
    options: OpenOptions,
    *,
    mode: str,
    where: Filter | None = None,
    partition_by: Sequence[ColumnName] | None = None,
    properties: Mapping[str, Any] | None = None,
    unsafe_single_writer: bool = False,
    **rows: Any,
) -> CommitResult:
    """Write rows to a table, which is created with them if there is none.

    Parameters
    ----------
    pointer, location
        Where the table is or will be found, or an open table, and its location as its metadata records it.
    data
        The rows.
    options
        How the table is opened.
    mode
        What becomes of a table that is there already: ``error`` raises, ``append`` adds the rows, ``overwrite``
        replaces its rows by them, and ``ignore`` writes nothing.
    where
        With ``overwrite``, a filter: only rows that match it are replaced.
    partition_by, properties
        The partitioning and the properties of a new table. The partitioning of a table that is there must be the same,
        unless its columns are replaced.
    unsafe_single_writer
        As for `create_table`.
    rows
        How the rows are written, as for `IcebergTable.append`.

    Raises
    ------
    TableExistsError
        There is a table, and ``mode`` is ``error``.
    """
    checked_flag("unsafe_single_writer", unsafe_single_writer)
    if isinstance(pointer, IcebergTable):
        table = pointer
    else:
        opened = _opened(pointer, options)
        if opened is None:
            found = open_rows(data)
            new = NewTable(found.schema, partition_by or (), (), properties or {})
            committer = pointer.committer(unsafe_single_writer=unsafe_single_writer)
            try:
                return _created(committer, committer.stage(new.metadata(location)), found, where, rows)
            except TableExistsError:
                # Somebody else was faster.
                if not (mode == "ignore" or (mode != "error" and can_be_read_again(data))):
                    raise
                opened = open_iceberg_table(pointer, options)
        table = opened
    if mode == "error":
        raise TableExistsError(
            "there is a table already", hint='pass mode="append" or mode="overwrite"', table=table.location
        )
    if mode == "ignore":
        return CommitResult(0, "", "append", committed=False, snapshot_id=table.snapshot_id)
    replaces = mode == "overwrite" and rows.get("schema_mode") == "overwrite"
    if partition_by is not None and not replaces:
        check_partitioning(table.metadata, partition_by)
    with table.transaction(unsafe_single_writer=unsafe_single_writer) as transaction:
        if mode == "append":
            transaction.append(data, **rows)
        else:
            transaction.overwrite(data, where=where, partition_by=partition_by if replaces else None, **rows)
        return transaction.commit()


def _opened(pointer: TablePointer, options: OpenOptions) -> IcebergTable | None:
    try:
        return open_iceberg_table(pointer, options)
    except TableNotFoundError:
        return None


def _created(
    committer: Committer, staged: LoadedTable, rows: Rows, where: Filter | None, options: Mapping[str, Any]
) -> CommitResult:
    with Transaction(staged, committer, creates=True) as transaction:
        if where is None:
            append_rows(transaction, rows, RowOptions(**options))
        else:
            overwrite_rows(transaction, rows, RowOptions(**options), where=where)
        return transaction.commit()
