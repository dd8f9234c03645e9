"""Opens, creates and writes tables of either format; the one module that knows both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from deltaberg.errors import InvalidArgumentError, TableExistsError, TableNotFoundError, UnsupportedFeatureError
from deltaberg.storage import Location, LocationMap, StoreOptions, parse_location
from deltaberg.table import CommitResult, Instant, OpenOptions, checked_choice

if TYPE_CHECKING:
    from deltaberg.delta import DeltaTable
    from deltaberg.delta.operations.create import NewTable
    from deltaberg.expressions import Filter
    from deltaberg.iceberg import IcebergTable
    from deltaberg.schema import ColumnName, Struct

__all__ = ["create_table", "find_commit", "open_table", "write_table"]

#: The entry by which the directory of a table of each format is recognized.
_MARKS = {"delta": "_delta_log", "iceberg": "metadata"}
_MODES = ("error", "append", "overwrite", "ignore")
_METADATA_FILES = (".metadata.json", ".metadata.json.gz")


@overload
def open_table(
    location: str | os.PathLike[str],
    format: Literal["delta"],
    *,
    version: int | None = ...,
    timestamp: Instant | None = ...,
    storage_options: StoreOptions | None = ...,
    location_map: LocationMap | str | None = ...,
    validate: bool = ...,
    timezone: str = ...,
) -> DeltaTable: ...


@overload
def open_table(
    location: str | os.PathLike[str],
    format: Literal["iceberg"],
    *,
    snapshot_id: int | None = ...,
    ref: str | None = ...,
    timestamp: Instant | None = ...,
    storage_options: StoreOptions | None = ...,
    location_map: LocationMap | str | None = ...,
    validate: bool = ...,
    timezone: str = ...,
) -> IcebergTable: ...


@overload
def open_table(
    location: str | os.PathLike[str],
    format: str | None = ...,
    *,
    version: int | None = ...,
    snapshot_id: int | None = ...,
    ref: str | None = ...,
    timestamp: Instant | None = ...,
    storage_options: StoreOptions | None = ...,
    location_map: LocationMap | str | None = ...,
    validate: bool = ...,
    timezone: str = ...,
) -> Any: ...


def open_table(  # noqa: PLR0913
    location: str | os.PathLike[str],
    format: str | None = None,
    *,
    version: int | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    timestamp: Instant | None = None,
    storage_options: StoreOptions | None = None,
    location_map: LocationMap | str | None = None,
    validate: bool = False,
    timezone: str = "UTC",
) -> DeltaTable | IcebergTable:
    """Open a table.

    Parameters
    ----------
    location
        A directory, or a metadata file of an Iceberg table: a local path, or the URL of an object store.
    format
        ``delta`` or ``iceberg``; by default, the directory is inspected.
    version
        The version of a Delta table.
    snapshot_id, ref
        The snapshot, or the branch or tag, of an Iceberg table.
    timestamp, storage_options, location_map, validate, timezone
        As for `DeltaTable` and `IcebergTable`.

    Returns
    -------
    DeltaTable | IcebergTable
        A type checker knows which, if ``format`` is a literal.

    Raises
    ------
    TableNotFoundError
        If there is no table.
    UnsupportedFeatureError
        If the table needs a feature that this library does not have.

    Examples
    --------
    >>> open_table(table_path).version
    0
    >>> open_table(iceberg_path).format_version
    2
    """
    known = _checked_format(format)
    options = OpenOptions.of(locals())
    found = known or _detect(location, options)
    if found == "delta":
        # Each format is imported where it is wanted: that is most of the time to a first row.
        from deltaberg.delta.table import open_delta_table

        return open_delta_table(location, options)
    from deltaberg.iceberg.table import open_iceberg_table

    return open_iceberg_table(location, options)


def create_table(  # noqa: PLR0913
    target: str | os.PathLike[str],
    schema: Struct | Any,
    *,
    format: str | None = None,
    partition_by: ColumnName | Sequence[ColumnName] | None = None,
    sort_by: ColumnName | Sequence[ColumnName] | None = None,
    cluster_by: ColumnName | Sequence[ColumnName] | None = None,
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    if_exists: Literal["error", "ignore", "replace"] = "error",
    storage_options: StoreOptions | None = None,
    unsafe_single_writer: bool = False,
) -> DeltaTable:
    """Create a Delta table without rows.

    The protocol is the lowest that the types of the columns and the properties need.

    Parameters
    ----------
    target
        The directory of the table: a local path, or the URL of an object store.
    schema
        The columns: an Arrow schema, anything with ``__arrow_c_schema__``, a mapping of names to Arrow types, or the
        ``schema`` of a table. Of the metadata of fields only comments are kept.
    format
        ``delta``, which is also the default. Iceberg tables cannot be created yet.
    partition_by
        The names of the columns whose values keep rows in files of their own.
    sort_by
        Refused: Delta tables record no order of rows.
    cluster_by
        The names of the columns by which engines cluster the rows. Partitioning and clustering exclude each other.
    properties
        Table properties. ``delta.feature.NAME`` set to ``supported`` adds a table feature.
    name, description
        What the metadata says about the table.
    if_exists
        What becomes of a Delta table that is there already: ``error`` raises, ``ignore`` returns it as it is, and
        ``replace`` removes its rows, and gives it these columns and properties.
    storage_options
        Options of the store, as for `open_table`.
    unsafe_single_writer
        Write to a store in which two writers would overwrite one another. Surely nobody else must write.

    Returns
    -------
    DeltaTable
        The newest version of the table.

    Raises
    ------
    TableExistsError
        There is a table, and ``if_exists`` is ``error``.
    SchemaError
        The columns are not valid.
    InvalidArgumentError
        A property is unknown to Delta or has a value that is not valid.
    UnsupportedFeatureError
        The columns or properties need a feature that cannot be written yet, or the store has no conditional put.

    Examples
    --------
    >>> import pyarrow as pa
    >>> columns = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    >>> orders = create_table(f"{new_path}/orders", columns, partition_by="day")
    >>> orders.version, orders.partition_columns
    (0, ['day'])
    """
    from deltaberg.delta.operations import create
    from deltaberg.delta.table import open_delta_table

    if sort_by is not None:
        raise UnsupportedFeatureError(
            "Delta tables record no order of rows", hint="sort the rows before they are written, or pass cluster_by"
        )
    options = OpenOptions(storage_options=storage_options)
    root = _writable_root(target, format, options)
    new = _new_table(schema, partition_by, cluster_by, properties, name, description)
    create.create_table(
        create.log_of(root, options), new, if_exists=if_exists, unsafe_single_writer=unsafe_single_writer
    )
    return open_delta_table(target, options)


def write_table(  # noqa: PLR0913
    target: str | os.PathLike[str] | DeltaTable,
    data: Any,
    *,
    format: str | None = None,
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
    """Write rows to a Delta table, which is created if there is none.

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
        ``delta``, which is also the default. Iceberg tables cannot be written yet.
    mode
        What becomes of a table that is there already: ``error`` raises, ``append`` adds the rows, ``overwrite``
        replaces the rows of the table by them, and ``ignore`` writes nothing.
    predicate
        With ``overwrite``, a filter or a condition of SQL: only rows that match it are replaced.
    partition_by
        The partition columns of a new table. Those of an existing table must be the same, unless its columns are
        replaced.
    schema_mode
        ``merge`` adds columns that the table lacks, and ``overwrite`` replaces its columns by those of the rows.
    name, description, configuration
        What the metadata of a new table says, and its properties. They do not change a table that is there already.
    storage_options
        Options of the store, as for `open_table`.
    txn, timezone, allow_truncation, target_file_size, compression, user_metadata, unsafe_single_writer
        As for `DeltaTable.append`.
    writer_properties
        How Parquet files are written: `ParquetOptions`, or ``WriterProperties`` of deltalake.
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
    from deltaberg.delta.operations import create
    from deltaberg.delta.operations.commit_words import CommitWords
    from deltaberg.delta.table import DeltaTable, open_delta_table

    checked_choice("mode", mode, _MODES, "leave it out to create a table")
    if predicate is not None and mode != "overwrite":
        raise InvalidArgumentError(f"predicate has no meaning if mode is {mode}", hint='pass mode="overwrite"')
    rows: dict[str, Any] = {
        "schema_mode": schema_mode,
        "timezone": timezone,
        "allow_truncation": allow_truncation,
        "target_file_size": target_file_size,
        "compression": compression,
        "writer_properties": writer_properties,
    }
    words = CommitWords.of(commit_properties, post_commithook_properties)
    commit: dict[str, Any] = {
        "txn": txn,
        "user_metadata": words.user_metadata(user_metadata),
        "unsafe_single_writer": unsafe_single_writer,
    }
    if isinstance(target, DeltaTable):
        table = target
    else:
        options = OpenOptions(storage_options=storage_options)
        root = _writable_root(target, format, options)
        try:
            table = open_delta_table(target, options)
        except TableNotFoundError:
            found = create.open_rows(data)
            new = _new_table(found.schema, partition_by, None, configuration, name, description)
            log = create.log_of(root, options)
            return create.create_with_rows(
                log, new, found, create.RowOptions(**rows), mode=mode, where=predicate, words=words, **commit
            )
    if mode in ("append", "overwrite"):
        with table.transaction(policy=words.policy, **commit) as transaction:
            words.apply(transaction)
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


def _writable_root(target: str | os.PathLike[str], format: str | None, options: OpenOptions) -> Location:
    """Return where a table is written, and refuse formats that are not written."""
    chosen = _checked_format(format)
    root = parse_location(target)
    is_iceberg = chosen == "iceberg"
    if chosen is None:
        storage = options.store.open(root)
        marks = {known: storage.has_objects(root.join(mark).path) for known, mark in _MARKS.items()}
        is_iceberg = marks["iceberg"] and not marks["delta"]
    if is_iceberg:
        raise UnsupportedFeatureError(
            "Iceberg tables cannot be written yet", hint="write a Delta table", table=str(root), feature="iceberg"
        )
    return root


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
        as_table_schema(schema), _names(partition_by), _names(cluster_by), properties or {}, name, description
    )


def _names(given: ColumnName | Sequence[ColumnName] | None) -> Sequence[ColumnName]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else given


def _checked_format(format: object) -> str | None:
    if format is None:
        return None
    given = format.lower() if isinstance(format, str) else format
    return checked_choice("format", given, tuple(_MARKS), "leave it out to have the directory inspected")


def _detect(location: str | os.PathLike[str], options: OpenOptions) -> str:
    root = parse_location(location)
    if root.path.endswith(_METADATA_FILES):
        return "iceberg"
    storage = options.store.open(root)
    found = [known for known, mark in _MARKS.items() if storage.has_objects(root.join(mark).path)]
    if len(found) > 1:
        raise InvalidArgumentError(
            "the directory contains a Delta table and an Iceberg table",
            hint='pass format="delta" or format="iceberg"',
            table=str(root),
        )
    if not found:
        raise TableNotFoundError(
            "there is no table: the directory contains neither _delta_log nor metadata",
            hint="check the location and its credentials",
            table=str(root),
        )
    return found[0]


def find_commit(
    location: str | os.PathLike[str], token: str, *, storage_options: StoreOptions | None = None
) -> CommitResult | None:
    """Return what became of a commit for which the store gave no answer.

    Parameters
    ----------
    location
        The directory of the Delta table.
    token
        ``context["token"]`` of a `CommitUnknownError`, or ``token`` of a `CommitResult`.
    storage_options
        What the store needs, as for `open_table`.

    Returns
    -------
    CommitResult or None
        None if the table has no such commit. While a request is still on its way, it may get one.

    Raises
    ------
    InvalidArgumentError
        The text is not a token.
    CommitUnknownError
        Log entries were cleaned up that could be the commit.

    Examples
    --------
    >>> find_commit(table_path, "1-6a5f0d4e-3c52-4a8e-9d1b-7e2f8c0b4a11") is None
    True
    """
    from deltaberg.delta.log.directory import LogDirectory
    from deltaberg.delta.transaction.find import find_commit_of

    log = LogDirectory(parse_location(location), OpenOptions(storage_options=storage_options).store)
    return find_commit_of(log, token)
