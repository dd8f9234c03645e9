"""Directories of Parquet files that become Delta tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, get_args

from deltaberg.choices import ConvertMode, PartitionStrategy
from deltaberg.errors import InvalidArgumentError, TableExistsError, TableNotFoundError
from deltaberg.schema import Struct
from deltaberg.signatures import public
from deltaberg.storage import StoreOptions, parse_location
from deltaberg.table import CommitResult, OpenOptions, checked_choice, checked_flag

__all__ = ["convert_to_delta"]


@public
def convert_to_delta(
    target: str | os.PathLike[str],
    *,
    partition_by: Struct | Any = None,
    partition_strategy: PartitionStrategy = "hive",
    mode: ConvertMode = "error",
    name: str | None = None,
    description: str | None = None,
    properties: Mapping[str, Any] | None = None,
    configuration: Mapping[str, Any] | None = None,
    collect_stats: bool = True,
    storage_options: StoreOptions | None = None,
    timezone: str = "UTC",
    user_metadata: str | None = None,
    unsafe_single_writer: bool = False,
) -> CommitResult:
    """Make a Delta table of the Parquet files in a directory, in place and in one commit.

    No file is written but the log, and none is read but its footer. Every file below the directory becomes part of the
    table, except those that Spark ignores: names that begin with ``.`` or ``_``. The columns are those of all files
    together; a type that differs from file to file, or that Delta tables cannot hold, is refused. Statistics come from
    footers, as far as these can be trusted. Files that are added to the directory later do not become part of the
    table. Some arguments are named as in ``deltalake.convert_to_deltalake``.

    Parameters
    ----------
    target
        The directory: a local path, or the URL of an object store. Symbolic links to directories are not followed.
    partition_by
        The names and types of the columns whose values are in the names of directories: an Arrow schema, or a mapping
        of names to Arrow types.
    partition_strategy
        How directories show partition values: ``hive`` as in ``year=2020/month=1``, where
        ``__HIVE_DEFAULT_PARTITION__`` is null and special characters are percent-encoded; ``directory`` as in
        ``2020/1``, in the order of ``partition_by``.
    mode
        What becomes of a Delta table that is there already: ``error`` raises, and ``ignore`` leaves it as it is.
    name, description, properties
        As for `create_table`. Column mapping can be enabled afterwards.
    configuration
        Another name of ``properties``.
    collect_stats
        Whether the log records the statistics of footers. Without them, it records the number of rows only.
    storage_options, unsafe_single_writer
        As for `create_table`.
    timezone
        The zone of partition values of the type ``timestamp`` that have none.
    user_metadata
        Text that the history keeps with the commit.

    Returns
    -------
    CommitResult
        How many files and rows the table has. With ``mode="ignore"``, ``committed`` is False if there was a table.

    Raises
    ------
    TableExistsError
        There is a Delta table already.
    TableNotFoundError
        There are no data files.
    CorruptDataFileError
        A file is not Parquet, or damaged.
    SchemaError
        A column has no type that fits all files, or one that Delta tables cannot hold.
    InvalidArgumentError, InvalidPartitionValueError
        The directories do not fit ``partition_by``.

    Examples
    --------
    >>> import pathlib
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> for day in (1, 2):
    ...     folder = pathlib.Path(new_path, "sales", f"day={day}")
    ...     folder.mkdir(parents=True)
    ...     pq.write_table(pa.table({"id": [day]}), folder / "a.parquet")
    >>> convert_to_delta(f"{new_path}/sales", partition_by={"day": pa.int32()}).added_rows
    2
    """
    from deltaberg.delta.operations.convert import Conversion, convert_directory
    from deltaberg.delta.operations.create import NewTable, log_of
    from deltaberg.delta.table import open_delta_table
    from deltaberg.schema.from_arrow import as_table_schema

    checked_choice("mode", mode, get_args(ConvertMode), "leave it out to have a table that is there reported")
    strategies = get_args(PartitionStrategy)
    checked_choice("partition_strategy", partition_strategy, strategies, "leave it out for names such as day=1")
    if properties is not None and configuration is not None:
        raise InvalidArgumentError("properties and configuration are the same", hint="pass one of them")
    options = OpenOptions(storage_options=storage_options, timezone=timezone)
    try:
        there = open_delta_table(target, options)
    except TableNotFoundError:
        pass
    else:
        if mode == "error":
            raise TableExistsError(
                "there is a Delta table already", hint='pass mode="ignore" to leave it as it is', table=there.location
            )
        return CommitResult(there.version, "", "CONVERT", committed=False)
    conversion = Conversion(
        Struct() if partition_by is None else as_table_schema(partition_by),
        NewTable(Struct(), properties=properties or configuration or {}, name=name, description=description),
        is_hive=partition_strategy == "hive",
        collects_statistics=checked_flag("collect_stats", collect_stats),
        timezone=timezone,
        user_metadata=user_metadata,
        unsafe_single_writer=unsafe_single_writer,
    )
    return convert_directory(log_of(parse_location(target), options), conversion)
