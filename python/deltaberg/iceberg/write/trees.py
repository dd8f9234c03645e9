"""Trees of files of others that become Iceberg tables: their files, and the columns that these have together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deltaberg.files.formats.footers import Footer
from deltaberg.files.formats.open_file import open_data_file
from deltaberg.iceberg.updates.new_columns import given_columns, iceberg_columns
from deltaberg.iceberg.write.add_files import FoundFile, footers_of, found_file
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.source_trees import source_files
from deltaberg.table.rows.progress import Told
from deltaberg.table.write.hive_names import texts_of_columns
from deltaberg.table.write.united_columns import united_columns
from deltaberg.workers import map_in_order

__all__ = ["Tree", "find_tree"]

_READERS = 16


class Tree(NamedTuple):
    """The files below a directory.

    Parameters
    ----------
    files
        The files, in the order of their paths.
    footers
        The footers of Parquet files, by their paths.
    columns
        The columns of all files together; those whose values are in the names of directories come last.
    ignored
        How many files were passed over.
    """

    files: Sequence[FoundFile]
    footers: Mapping[str, Footer]
    columns: Struct
    ignored: int


def find_tree(store: StoreSpec, root: Location, partition: Struct, version: int, told: Told) -> Tree:
    """Find the files below a directory. Of Parquet files no more is read than their footers.

    Parameters
    ----------
    partition
        The columns whose values are in the names of directories.
    version
        The format version of the table that they become.
    told
        What is told how many footers were read.

    Raises
    ------
    TableNotFoundError
        There are no data files.
    InvalidArgumentError
        The directories have other partitions than the caller says, or also belong to another table.
    SchemaError
        The files have columns that do not fit together, or that tables of this version cannot hold.
    CorruptDataFileError
        A file is damaged, or none of a known format.
    """
    files = []
    below = source_files(root, store)
    for path, meta in below.files:
        texts_of_columns(path, path.split("/")[:-1], partition)
        files.append(found_file(root.join(path), store, meta))
    footers = footers_of(store, files, version, told)

    def columns(one: FoundFile) -> Struct:
        if one.path in footers:
            return iceberg_columns(footers[one.path].columns)
        file = open_data_file(one.format, one.place, store, one.meta.size)
        return given_columns(file.schema_with(None), version)

    paths = (one.path for one in files)
    columns_of_files = zip(paths, map_in_order(_READERS, columns, files), strict=True)
    return Tree(files, footers, united_columns(columns_of_files, partition), below.ignored)
