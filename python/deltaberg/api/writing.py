"""Creating and writing tables of either format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from deltaberg.api.place import PlaceArguments, place_to_write
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.verbs.shared_arguments import (
    CreateArguments,
    RowArguments,
    SingleCommitArguments,
    StoreArguments,
    StrategyArguments,
    UriWords,
    WhereWords,
    arguments_of,
)

# What writes is loaded by the first write: it has more modules than all that reads.
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.catalogs.base import Catalog
    from deltaberg.catalogs.names import Identifier
    from deltaberg.choices import Format, IfExists, Mode
    from deltaberg.delta.table import DeltaTable
    from deltaberg.expressions.build.filters import Filter
    from deltaberg.iceberg.table import IcebergTable
    from deltaberg.schema.types import Struct

__all__ = ["create_table", "write_table"]


class WriteArguments(CreateArguments, RowArguments, StrategyArguments, WhereWords, PlaceArguments, total=False):
    """The arguments of `write_table`."""

    table_or_uri: str | os.PathLike[str] | DeltaTable


class CreateTableArguments(CreateArguments, UriWords, total=False):
    """The arguments of `create_table`."""


@overload
def create_table(
    target: str | os.PathLike[str] = ...,
    schema: Struct | Any = ...,
    *,
    format: Literal["iceberg"],
    catalog: Catalog | None = ...,
    if_exists: IfExists = ...,
    **arguments: Unpack[CreateTableArguments],
) -> IcebergTable: ...


@overload
def create_table(
    target: Identifier = ...,
    schema: Struct | Any = ...,
    *,
    catalog: Catalog,
    format: Literal["iceberg"] | None = ...,
    if_exists: IfExists = ...,
    **arguments: Unpack[CreateTableArguments],
) -> IcebergTable: ...


@overload
def create_table(
    target: str | os.PathLike[str] = ...,
    schema: Struct | Any = ...,
    *,
    format: Literal["delta"] | None = ...,
    if_exists: IfExists = ...,
    **arguments: Unpack[CreateTableArguments],
) -> DeltaTable: ...


@public
@takes(CreateTableArguments)
def create_table(
    target: str | os.PathLike[str] | Identifier = NEEDED,
    schema: Struct | Any = NEEDED,
    *,
    format: Format | None = None,
    catalog: Catalog | None = None,
    if_exists: IfExists = "error",
    **arguments: Unpack[CreateTableArguments],
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
        protocol, such as ``delta.generationExpression``, and the lengths of texts, which ``arrow_schema`` states.
    format
        ``delta`` or ``iceberg``. By default that of a table that is there already, else ``delta``; with ``catalog``,
        ``iceberg``.
    catalog
        The catalog of the table, from `load_catalog`. Then ``target`` is the name of the table in it.
    if_exists
        What becomes of a table that is there already: ``error`` raises, unless the table records the progress of
        ``txn``; ``ignore`` returns it as it is, and ``replace`` removes its rows, and gives it these columns and
        properties, also if others change it meanwhile.
    **arguments
        ``partition_by``: the names of the columns whose values keep rows in files of their own. In Iceberg tables also
        transforms of columns, such as ``day(at)``, ``bucket(16, id)`` and ``truncate(4, name)``. ``sort_by``: the order
        of rows that an Iceberg table records, of columns or transforms, such as ``id desc nulls last``. ``cluster_by``:
        the names of the columns by which engines cluster the rows of a Delta table, which is then not partitioned.
        ``properties``: the properties of the table; ``delta.feature.NAME`` set to ``supported`` adds a table feature.
        ``name`` and ``description``: what the metadata says about the table. An Iceberg table has no name, and the
        property ``comment``. ``storage_options``: options of the store, as for `open_table`. And how the commit is
        made, from ``txn`` on: see `DeltaTable.append`. ``commit_properties`` takes what the verbs call ``properties``.

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
        A property is unknown to Delta or has a value that is not valid.
    UnsupportedFeatureError
        The columns or properties need a feature that cannot be written yet, an argument is for tables of the other
        format, or the store has no conditional put.

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
    from deltaberg.table.open.new_table import NewTable

    new = NewTable.of(schema, arguments)
    place = place_to_write(target, format, catalog, OpenOptions.of(arguments_of(StoreArguments, arguments)))
    made: DeltaTable | IcebergTable = place.create_table(new, if_exists, arguments_of(SingleCommitArguments, arguments))
    return made


@public
@takes(WriteArguments)
def write_table(
    target: str | os.PathLike[str] | Identifier | DeltaTable | IcebergTable = NEEDED,
    data: Any = NEEDED,
    *,
    format: Format | None = None,
    mode: Mode = "error",
    where: Filter | None = None,
    dynamic: bool = False,
    check: bool = True,
    **arguments: Unpack[WriteArguments],
) -> CommitResult:
    """Write rows to a table, which is created if there is none.

    Calls of ``deltalake.write_deltalake`` work with the same arguments.

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
    mode
        What becomes of a table that is there already: ``error`` raises, unless the table records the progress of
        ``txn``; ``append`` adds the rows, ``overwrite`` replaces the rows of the table by them, and ``ignore`` writes
        nothing.
    where
        With ``overwrite``, a condition: only rows that match it are replaced.
    dynamic
        With ``overwrite``, replace the partitions that the new rows are in, and leave the others.
    check
        Refuse new rows that do not match ``where``.
    **arguments
        ``catalog``: the catalog of the table, from `load_catalog`; then ``target`` is the name of the table in it. What
        a new table is like: ``partition_by``, ``sort_by``, ``cluster_by``, ``properties``, ``name`` and
        ``description``, as for `create_table`; properties that are None are left out. They do not change a table that
        is there already: rows are written to it only if it has these properties and is like that. Its partitioning may
        differ if its columns are replaced. ``storage_options``: options of the store, as for
        `open_table`. ``strategy``: as for `DeltaTable.overwrite`. And how files are written, the columns and the
        commit: see `DeltaTable.append`. ``commit_properties`` takes what the verbs call ``properties``.

    Returns
    -------
    CommitResult
        What was done. Where nothing was committed, ``committed`` is False.

    Raises
    ------
    TableExistsError
        There is a table, and ``mode`` is ``error``.
    InvalidArgumentError
        The table that is there already lacks a property, or is not as the caller says; `DeltaTable.alter` changes it.
    SchemaError
        The rows do not fit the columns.
    ConstraintViolationError
        A new row does not match ``where``.
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
    from deltaberg.table.open.new_table import NewTable
    from deltaberg.table.transaction.operations import Overwritten

    new = NewTable.of(None, arguments).without_nothing()
    place = place_to_write(
        target, format, arguments.get("catalog"), OpenOptions.of(arguments_of(StoreArguments, arguments))
    )
    which = Overwritten(where, dynamic, check, strategy=arguments.get("strategy"))
    said = {**arguments_of(RowArguments, arguments), **arguments_of(SingleCommitArguments, arguments)}
    return place.write_table(data, new, mode, which, said)
