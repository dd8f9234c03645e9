"""Converting a directory of Parquet files to a Delta table in place: the log is written, and no file is touched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from deltaberg.delta.create.create import define_table
from deltaberg.delta.data.partition_values import read_partition_values
from deltaberg.delta.features import MAPPING_MODE
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.schema.new_columns import check_columns
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import InvalidArgumentError
from deltaberg.files.formats.footers import Footer, read_footers
from deltaberg.files.write.written import WrittenFile, leaf_paths, written_rows
from deltaberg.hints import Hint
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import Struct
from deltaberg.storage.base import ObjectMeta
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.open.new_table import NewTable
from deltaberg.table.open.source_trees import SourceFiles, source_files
from deltaberg.table.write.footers import footer_statistics
from deltaberg.table.write.hive_names import HIVE_NULL, texts_of_columns
from deltaberg.table.write.united_columns import united_columns

__all__ = ["Conversion", "convert_directory"]

#: Files that are there have no other names for their columns than these.
_INSTEAD = (
    f'write the rows to a new table with the property {MAPPING_MODE}="name", or make an Iceberg table of the '
    "directory, which takes any name"
)
_STRING_MAP = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True)
class Conversion:
    """The table that a directory shall become.

    Parameters
    ----------
    partition
        The columns whose values are in the names of directories.
    table
        The name, description and properties of the table; its columns are those of the files.
    commit
        How the commit is made, and what it records.
    is_hive
        Whether directories show the names of partition columns, as in ``day=1``; else only values, in order.
    collects_statistics
        Whether the statistics of footers are recorded.
    timezone
        The zone of timestamps without one in the names of directories.
    """

    partition: Struct
    table: NewTable
    commit: CommitOptions
    is_hive: bool = True
    collects_statistics: bool = True
    timezone: str = "UTC"


class _Found(NamedTuple):
    """A data file: its path relative to the directory, what the store says of it, and its partition directories."""

    path: str
    meta: ObjectMeta
    partition: dict[str, str | None]


def convert_directory(log: LogDirectory, conversion: Conversion) -> CommitResult:
    """Make a table of the Parquet files below a directory, in one commit.

    Parameters
    ----------
    log
        The log that the table will have.

    Raises
    ------
    TableNotFoundError
        There are no data files.
    TableExistsError
        There is a table already.
    CorruptDataFileError
        A file is not Parquet, or damaged.
    SchemaError
        The files have columns that do not fit together, or that Delta tables cannot hold.
    InvalidArgumentError
        The directories have other partitions than the caller says, or also belong to another table.
    InvalidPartitionValueError
        The name of a directory is not a value of its column.
    UnsupportedFeatureError
        A property needs what files that exist do not have.
    """
    with Transaction(log, None, conversion.commit) as transaction:
        below = source_files(log.root, log.store)
        files = _data_files(below, conversion)
        footers = read_footers(((log.storage, file.meta) for file in files), told=transaction.tell)
        columns = zip((file.path for file in files), (footer.columns for footer in footers), strict=True)
        schema = united_columns(columns, conversion.partition)
        names = conversion.partition.names
        check_columns(schema, mapped=False, instead=_INSTEAD)
        define_table(transaction, replace(conversion.table, schema=schema, partition_by=names), None)
        table = transaction.snapshot
        _check_names(table)
        transaction.add_files(_described(table, files, footers, conversion))
        parameters = {
            "numFiles": str(len(files)),
            "partitionedBy": json.dumps(names, ensure_ascii=False, separators=(",", ":")),
            "collectStats": json.dumps(conversion.collects_statistics),
            "sourceFormat": "parquet",
        }
        committed = transaction.commit("CONVERT", parameters, metrics={"numConvertedFiles": len(files)})
        return replace(committed, ignored_files=below.ignored)


def _check_names(table: Snapshot) -> None:
    """Refuse column mapping, which would give the columns other names than the files have."""
    if table.mapping_mode != "none":
        raise InvalidArgumentError(
            f"{MAPPING_MODE} is {table.mapping_mode!r}, but the files are named by the columns themselves",
            hint="convert without it, and enable it afterwards by ⟪alter().set(…)⟫",
        )


# The files


def _data_files(found: SourceFiles, conversion: Conversion) -> list[_Found]:
    """Return the data files below the directory, in the order of their paths."""
    read, partition = texts_of_columns if conversion.is_hive else _values_in_order, conversion.partition
    return [_Found(path, meta, read(path, path.split("/")[:-1], partition)) for path, meta in found.files]


def _values_in_order(path: str, directories: Sequence[str], partition: Struct) -> dict[str, str | None]:
    """Return the text of each partition value where directories are named by values alone."""
    if len(directories) != len(partition):
        raise InvalidArgumentError(
            Hint(f"the file is in {len(directories)} directories, and ⟪partition_by⟫ has {len(partition)} columns"),
            hint='pass a column for each directory⟦, or ⟪partition_strategy="hive"⟫⟧',
            path=path,
        )
    return {field.name: None if text == HIVE_NULL else text for field, text in zip(partition, directories, strict=True)}


# What the log says of them


def _described(table: Snapshot, files: Sequence[_Found], footers: Sequence[Footer], conversion: Conversion) -> pa.Table:
    """Return a row for each file, with the statistics that its footer tells."""
    spec = row_spec(table, RowOptions())
    leaves = {
        number: (tuple(part.name for part in path), arrow_type(path[-1].type))
        for number, path in leaf_paths(table.schema).items()
        if conversion.collects_statistics and (spec.statistics is None or number in spec.statistics)
    }
    fields = table.partition_fields
    texts = pa.table(
        {
            "path": [file.path for file in files],
            "partitionValues": pa.array([list(file.partition.items()) for file in files], _STRING_MAP),
        }
    )
    values = read_partition_values(texts, fields, conversion.timezone)
    written = [
        WrittenFile(
            file.path,
            file.meta.size,
            footer.rows,
            file.meta.modified,
            {field.name: array[number] for field, array in zip(fields, values, strict=True)},
            *footer_statistics(footer, leaves, spec.cut),
        )
        for number, (file, footer) in enumerate(zip(files, footers, strict=True))
    ]
    return written_rows(written, table.schema, fields)
