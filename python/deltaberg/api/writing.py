"""Creating and writing tables of either format."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from deltaberg.api.place import place_to_write
from deltaberg.errors import InvalidArgumentError, TableExistsError, TableNotFoundError, UnsupportedFeatureError
from deltaberg.schema import column_names
from deltaberg.signatures import public
from deltaberg.storage import StoreOptions, parse_location
from deltaberg.table import CommitResult, OpenOptions, checked_choice, checked_note, checked_properties

if TYPE_CHECKING:
    from deltaberg.delta import DeltaTable
    from deltaberg.delta.operations.create import NewTable
    from deltaberg.expressions import Filter
    from deltaberg.iceberg import IcebergTable
    from deltaberg.iceberg.catalogs.base import Catalog
    from deltaberg.iceberg.catalogs.names import Identifier
    from deltaberg.schema import ColumnName, Struct

__all__ = ["create_table", "write_table"]

_MODES = ("error", "append", "overwrite", "ignore")


@overload
def create_table(
    target: str | os.PathLike[str],
    schema: Struct | Any,
    *,
    format: Literal["iceberg"],
    catalog: Catalog | None = ...,
    partition_by: ColumnName | Sequence[ColumnName] | None = ...,
    sort_by: ColumnName | Sequence[ColumnName] | None = ...,
    properties: Mapping[str, Any] | None = ...,
    description: str | None = ...,
    if_exists: Literal["error", "ignore", "replace"] = ...,
    storage_options: StoreOptions | None = ...,
    unsafe_single_writer: bool = ...,
) -> IcebergTable: ...


@overload
def create_table(
    target: Identifier,
    schema: Struct | Any,
    *,
    catalog: Catalog,
    format: Literal["iceberg"] | None = ...,
    partition_by: ColumnName | Sequence[ColumnName] | None = ...,
    sort_by: ColumnName | Sequence[ColumnName] | None = ...,
    properties: Mapping[str, Any] | None = ...,
    description: str | None = ...,
    if_exists: Literal["error", "ignore", "replace"] = ...,
) -> IcebergTable: ...


@overload
def create_table(
    target: str | os.PathLike[str],
    schema: Struct | Any,
    *,
    format: Literal["delta"] | None = ...,
    partition_by: ColumnName | Sequence[ColumnName] | None = ...,
    sort_by: ColumnName | Sequence[ColumnName] | None = ...,
    cluster_by: ColumnName | Sequence[ColumnName] | None = ...,
    properties: Mapping[str, Any] | None = ...,
    name: str | None = ...,
    description: str | None = ...,
    if_exists: Literal["error", "ignore", "replace"] = ...,
    storage_options: StoreOptions | None = ...,
    unsafe_single_writer: bool = ...,
) -> DeltaTable: ...


@public
def create_table(
    target: str | os.PathLike[str] | Identifier,
    schema: Struct | Any,
    *,
    format: str | None = None,
    catalog: Catalog | None = None,
    partition_by: ColumnName | Sequence[ColumnName] | None = None,
    sort_by: ColumnName | Sequence[ColumnName] | None = None,
    cluster_by: ColumnName | Sequence[ColumnName] | None = None,
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    if_exists: Literal["error", "ignore", "replace"] = "error",
    storage_options: StoreOptions | None = None,
    unsafe_single_writer: bool = False,
) -> DeltaTable | IcebergTable:
    """Create a table without rows.

    The protocol of a Delta table is the lowest that the types of the columns and the properties need. An Iceberg table
    has the format version 2, unless the property ``format-version`` says otherwise.

    Parameters
    ----------
    target
        The directory of the table: a local path, or the URL of an object store.
    schema
        The columns: an Arrow schema, anything with ``__arrow_c_schema__``, a mapping of names to Arrow types, or the
        ``schema`` of a table. Of the metadata of Arrow fields comments are kept, and for a Delta table the rules of the
        protocol, such as ``delta.generationExpression``.
    format
        ``delta`` or ``iceberg``. By default that of a table that is there already, else ``delta``; with ``catalog``,
        ``iceberg``.
    catalog
        The catalog of the table, from `load_catalog`. Then ``target`` is the name of the table in it.
    partition_by
        The names of the columns whose values keep rows in files of their own. In Iceberg tables also transforms of
        columns, such as ``day(at)``, ``bucket(16, id)`` and ``truncate(4, name)``.
    sort_by
        The order of rows that an Iceberg table records: columns or transforms, such as ``id desc nulls last``. Refused
        for Delta tables.
    cluster_by
        The names of the columns by which engines cluster the rows of a Delta table. Partitioning and clustering exclude
        each other.
    properties
        Table properties. ``delta.feature.NAME`` set to ``supported`` adds a table feature.
    name, description
        What the metadata says about the table. An Iceberg table has no name, and the property ``comment``.
    if_exists
        What becomes of a table that is there already: ``error`` raises, ``ignore`` returns it as it is, and ``replace``
        removes its rows, and gives it these columns and properties.
    storage_options
        Options of the store, as for `open_table`.
    unsafe_single_writer
        Write to a store in which two writers would overwrite one another. Make sure that nobody else writes to it.

    Returns
    -------
    DeltaTable or IcebergTable
        The newest version of the table.

    Raises
    ------
    TableExistsError
        There is a table, and ``if_exists`` is ``error``.
    SchemaError
        The columns are not valid.
    InvalidArgumentError
        A property is unknown to Delta or has a value that is not valid, or an argument is for tables of the other
        format.
    UnsupportedFeatureError
        The columns or properties need a feature that cannot be written yet, or the store has no conditional put.

    Examples
    --------
    >>> import pyarrow as pa
    >>> columns = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    >>> orders = create_table(f"{new_path}/orders", columns, partition_by="day")
    >>> orders.version, orders.partition_columns
    (0, ['day'])
    >>> events = create_table(f"{new_path}/days", columns, format="iceberg", partition_by="month(day)")
    >>> events.spec.fields[0].name, events.format_version
    ('day_month', 2)
    """
    options = OpenOptions(storage_options=storage_options)
    place = place_to_write(target, format, catalog, options)
    if place.pointer is not None:
        from deltaberg.iceberg import create as iceberg
        from deltaberg.iceberg.operations.create import NewTable as NewIcebergTable

        _refuse_for_iceberg(place.location, name=name, cluster_by=cluster_by)
        own = _with_comment(properties, description)
        table = NewIcebergTable(schema, column_names(partition_by), column_names(sort_by), own)
        return iceberg.create_table(
            place.pointer,
            place.location,
            table,
            options,
            if_exists=if_exists,
            unsafe_single_writer=unsafe_single_writer,
        )
    root = parse_location(place.location)
    from deltaberg.delta.operations import create
    from deltaberg.delta.table import open_delta_table

    if sort_by is not None:
        raise UnsupportedFeatureError(
            "Delta tables record no order of rows", hint="sort the rows before they are written, or pass cluster_by"
        )
    from deltaberg.delta.schema.writer_rules import given_metadata
    from deltaberg.schema.from_arrow import as_table_schema

    columns = as_table_schema(schema, given_metadata)
    new = _new_table(columns, partition_by, cluster_by, properties, name, description)
    create.create_table(
        create.log_of(root, options), new, if_exists=if_exists, unsafe_single_writer=unsafe_single_writer
    )
    return open_delta_table(str(root), options)


@public
def write_table(
    target: str | os.PathLike[str] | Identifier | DeltaTable | IcebergTable,
    data: Any,
    *,
    format: str | None = None,
    catalog: Catalog | None = None,
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    predicate: Filter | None = None,
    partition_by: ColumnName | Sequence[ColumnName] | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, Any] | None = None,
    storage_options: StoreOptions | None = None,
    txn: tuple[str, int] | None = None,
    timezone: str | None = None,
    allow_truncation: bool = False,
    target_file_size: int | None = None,
    compression: str | None = None,
    writer_properties: Any = None,
    user_metadata: str | None = None,
    commit_properties: Any = None,
    post_commithook_properties: Any = None,
    unsafe_single_writer: bool = False,
) -> CommitResult:
    """Write rows to a table, which is created if there is none.

    The arguments are named as in ``deltalake.write_deltalake``.

    Parameters
    ----------
    target
        The directory of the table: a local path, or the URL of an object store. Or an open table, which moves to the
        new version.
    data
        Anything with ``__arrow_c_stream__``, a table, batch, reader or dataset of pyarrow, a pandas or Polars data
        frame, or a scan. A Spark DataFrame is written by Spark.
    format
        ``delta`` or ``iceberg``. By default that of a table that is there already, else ``delta``; with ``catalog``,
        ``iceberg``.
    catalog
        The catalog of the table, from `load_catalog`. Then ``target`` is the name of the table in it.
    mode
        What becomes of a table that is there already: ``error`` raises, ``append`` adds the rows, ``overwrite``
        replaces the rows of the table by them, and ``ignore`` writes nothing.
    predicate
        With ``overwrite``, a filter or, for a Delta table, a condition of SQL: only rows that match it are replaced.
    partition_by
        The partition columns of a new table. Those of an existing table must be the same, unless its columns are
        replaced.
    schema_mode
        ``merge`` adds columns that the table lacks, and ``overwrite`` replaces its columns by those of the rows.
    name, description, configuration
        What the metadata of a new table says, and its properties. They do not change a table that is there already.
        Properties that are None are left out.
    storage_options
        Options of the store, as for `open_table`.
    txn, timezone, allow_truncation, target_file_size, compression, user_metadata, unsafe_single_writer
        As for `DeltaTable.append`. Iceberg tables have no ``txn`` and no ``user_metadata``.
    writer_properties
        How Parquet files are written: `ParquetOptions`, or ``WriterProperties`` of deltalake for a Delta table.
    commit_properties, post_commithook_properties
        ``CommitProperties`` and ``PostCommitHookProperties`` of deltalake: further members of the history, progress of
        applications, and how often the commit is tried again.

    Returns
    -------
    CommitResult
        What was done. Where nothing was committed, ``committed`` is False.

    Raises
    ------
    TableExistsError
        There is a table, and ``mode`` is ``error``.
    SchemaError
        The rows do not fit the columns.
    ConstraintViolationError
        A new row does not match ``predicate``.
    CommitConflictError
        Another commit came first, and this one does not fit on top of it.
    CommitUnknownError
        It is not known whether the commit took effect.

    Examples
    --------
    >>> import pyarrow as pa
    >>> write_table(f"{new_path}/events", pa.table({"id": [1, 2]})).version
    0
    >>> write_table(f"{new_path}/events", pa.table({"id": [3]}), mode="append").added_rows
    1
    """
    checked_choice("mode", mode, _MODES, "leave it out to create a table")
    if predicate is not None and mode != "overwrite":
        raise InvalidArgumentError(f"predicate has no meaning if mode is {mode}", hint='pass mode="overwrite"')
    _check_descriptions(name, description, configuration)
    rows: dict[str, Any] = {
        "schema_mode": schema_mode,
        "timezone": timezone,
        "allow_truncation": allow_truncation,
        "target_file_size": target_file_size,
        "compression": compression,
        "writer_properties": writer_properties,
    }
    options = OpenOptions(storage_options=storage_options)
    place = place_to_write(target, format, catalog, options)
    if place.pointer is not None:
        from deltaberg.iceberg import create as iceberg

        _refuse_for_iceberg(
            place.location,
            name=name,
            txn=txn,
            user_metadata=user_metadata,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )
        return iceberg.write_table(
            place.pointer,
            place.location,
            data,
            options,
            mode=mode,
            where=predicate,
            partition_by=None if partition_by is None else column_names(partition_by),
            properties=_with_comment(_given(configuration), description),
            unsafe_single_writer=unsafe_single_writer,
            **rows,
        )
    from deltaberg.delta.operations import create
    from deltaberg.delta.table import DeltaTable, open_delta_table
    from deltaberg.table.commit_options import CommitOptions
    from deltaberg.table.write import can_be_read_again

    root = parse_location(place.location)
    commit: Any = {
        "txn": txn,
        "user_metadata": user_metadata,
        "unsafe_single_writer": unsafe_single_writer,
        "commit_properties": commit_properties,
        "post_commithook_properties": post_commithook_properties,
    }
    if isinstance(target, DeltaTable):
        table = target
    else:
        try:
            table = open_delta_table(str(root), options)
        except TableNotFoundError:
            found = create.open_rows(data)
            new = _new_table(found.schema, partition_by, None, _given(configuration), name, description)
            log = create.log_of(root, options)
            try:
                return create.create_with_rows(
                    log,
                    new,
                    found,
                    create.RowOptions(**rows),
                    mode=mode,
                    where=predicate,
                    commit=CommitOptions(**commit),
                )
            except TableExistsError:
                # Somebody else was faster.
                if not (mode == "ignore" or (mode != "error" and can_be_read_again(data))):
                    raise
                table = open_delta_table(str(root), options)
    if mode in ("append", "overwrite"):
        with table.transaction(**commit) as transaction:
            if mode == "append":
                transaction.append(data, partition_by=partition_by, **rows)
            else:
                transaction.overwrite(data, where=predicate, partition_by=partition_by, **rows)
            return transaction.commit()
    if mode == "error":
        raise TableExistsError(
            "there is a table already", hint='pass mode="append" or mode="overwrite"', table=table.location
        )
    return CommitResult(table.version, "", "WRITE", committed=False)


def _refuse_for_iceberg(location: str, **arguments: Any) -> None:
    """Refuse arguments that have no meaning for Iceberg tables."""
    for name, value in arguments.items():
        if value is not None:
            raise UnsupportedFeatureError(
                f"{name} applies only to Delta tables; this is an Iceberg table",
                hint="leave it out",
                table=location,
                feature=name,
            )


def _check_descriptions(name: Any, description: Any, properties: Any) -> None:
    """Refuse what cannot describe a table, also where there is one already that keeps its own."""
    for what, text in (("name", name), ("description", description)):
        checked_note(what, text, "leave it out if there is none")
    checked_properties(properties)


def _given(configuration: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return properties without those that are None, as deltalake takes them."""
    if not isinstance(configuration, Mapping):
        return configuration
    return {name: value for name, value in configuration.items() if value is not None}


def _with_comment(properties: Mapping[str, Any] | None, description: str | None) -> Mapping[str, Any]:
    checked_note("description", description, "leave it out if there is none")
    return {**checked_properties(properties), **({} if description is None else {"comment": description})}


def _new_table(
    schema: Any,
    partition_by: ColumnName | Sequence[ColumnName] | None,
    cluster_by: ColumnName | Sequence[ColumnName] | None,
    properties: Mapping[str, Any] | None,
    name: str | None,
    description: str | None,
) -> NewTable:
    from deltaberg.delta.operations.create import NewTable
    from deltaberg.schema.from_arrow import as_table_schema

    return NewTable(
        as_table_schema(schema),
        column_names(partition_by),
        column_names(cluster_by),
        checked_properties(properties),
        name,
        description,
    )
