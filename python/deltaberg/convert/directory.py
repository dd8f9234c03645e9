"""Directories of Parquet files that become Delta tables."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from deltaberg.choices import ConvertMode, PartitionStrategy
from deltaberg.schema.types import Struct
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.storage.location import parse_location
from deltaberg.table.arguments import checked_choice, checked_flag
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.verbs.shared_arguments import NewTableArguments, SingleCommitArguments, arguments_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["convert_to_delta"]


class ConvertArguments(NewTableArguments, total=False):
    """The arguments of `convert_to_delta`."""

    uri: str | os.PathLike[str]


@public
@takes(ConvertArguments)
def convert_to_delta(
    target: str | os.PathLike[str] = NEEDED,
    *,
    partition_by: Struct | Any = None,
    partition_strategy: PartitionStrategy = "hive",
    mode: ConvertMode = "error",
    collect_stats: bool = True,
    timezone: str = "UTC",
    **arguments: Unpack[ConvertArguments],
) -> CommitResult:
    """Make a Delta table of the Parquet files in a directory, in place and in one commit.

    No file is written but the log, and none is read but its footer. Every file below the directory becomes part of the
    table, except those that Spark ignores: names that begin with ``.`` or ``_``. The columns are those of all files
    together; a type that differs from file to file, or that Delta tables cannot hold, is refused. Statistics come from
    footers, as far as these can be trusted. Files that are added to the directory later do not become part of the
    table. Calls of ``deltalake.convert_to_deltalake`` work with the same arguments.

    Parameters
    ----------
    target
        The directory: a local path, or the URL of an object store. Symbolic links are followed, as by Spark.
    partition_by
        The names and types of the columns whose values are in the names of directories: an Arrow schema, or a mapping
        of names to Arrow types.
    partition_strategy
        How directories show partition values: ``hive`` as in ``year=2020/month=1``, where
        ``__HIVE_DEFAULT_PARTITION__`` is null and special characters are percent-encoded; ``directory`` as in
        ``2020/1``, in the order of ``partition_by``.
    mode
        What becomes of a Delta table that is there already: ``error`` raises, and ``ignore`` leaves it as it is.
    collect_stats
        Whether the log records the statistics of footers. Without them, it records the number of rows only.
    timezone
        The zone of partition values of the type ``timestamp`` that have none.
    **arguments
        ``name``, ``description``, ``properties``, ``storage_options`` and how the commit is made, as for
        `create_table`. Column mapping can be enabled afterwards.

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
        A file is empty, not Parquet, or damaged.
    SchemaError
        A column has no type that fits all files, or one that Delta tables cannot hold.
    InvalidArgumentError, InvalidPartitionValueError
        The directories do not fit ``partition_by``, or a symbolic link leads nowhere, or to files that are also
        found without it.

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
    from deltaberg.delta.create.convert import Conversion, convert_directory
    from deltaberg.delta.place import DeltaPlace
    from deltaberg.schema.from_arrow import as_table_schema
    from deltaberg.table.open.new_table import NewTable

    checked_choice("mode", mode, get_args(ConvertMode), "leave it out to have a table that is there reported")
    strategies = get_args(PartitionStrategy)
    checked_choice("partition_strategy", partition_strategy, strategies, "leave it out for names such as day=1")
    options = OpenOptions(storage_options=arguments.get("storage_options"), timezone=timezone)
    place, table = DeltaPlace(str(parse_location(target)), options), NewTable.of(Struct(), arguments)
    conversion = Conversion(
        Struct() if partition_by is None else as_table_schema(partition_by),
        table,
        place.commit_options(table, arguments_of(SingleCommitArguments, arguments)),
        is_hive=partition_strategy == "hive",
        collects_statistics=checked_flag("collect_stats", collect_stats),
        timezone=timezone,
    )
    committed = place.create_first(
        mode,
        lambda: convert_directory(place.log, conversion),
        place.unchanged,
        arguments,
        instead='use ⟪mode="ignore"⟫ to leave it as it is',
    )
    return replace(committed, operation="CONVERT", inserted_rows=committed.added_rows)
