"""Metadata tables: what a table's metadata says, as Arrow tables, under the names that iceberg-spark gives them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import pyarrow as pa

from deltaberg.choices import MetadataTable
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.iceberg.inspect.files import entries_table, files_table
from deltaberg.iceberg.inspect.history import history_table, metadata_log_table, refs_table, snapshots_table
from deltaberg.iceberg.inspect.manifest_tables import all_manifests_table, manifests_table
from deltaberg.iceberg.inspect.partitions import partitions_table
from deltaberg.iceberg.inspect.position_deletes import position_deletes_table
from deltaberg.iceberg.manifests.fields import DATA, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.table.arguments import checked_text

__all__ = ["METADATA_TABLES", "inspect_table"]

_DELETES = (POSITION_DELETES, EQUALITY_DELETES)
_EVERY = (DATA, *_DELETES)
_TABLES: dict[MetadataTable, Callable[[IcebergSource], pa.Table]] = {
    "snapshots": snapshots_table,
    "history": history_table,
    "refs": refs_table,
    "metadata_log_entries": metadata_log_table,
    "manifests": manifests_table,
    "all_manifests": all_manifests_table,
    "files": files_table(_EVERY),
    "data_files": files_table((DATA,)),
    "delete_files": files_table(_DELETES),
    "entries": entries_table,
    "all_files": files_table(_EVERY, of_all=True),
    "all_data_files": files_table((DATA,), of_all=True),
    "all_delete_files": files_table(_DELETES, of_all=True),
    "all_entries": partial(entries_table, of_all=True),
    "partitions": partitions_table,
    "position_deletes": position_deletes_table,
}
#: The names of the metadata tables.
METADATA_TABLES: tuple[MetadataTable, ...] = get_args(MetadataTable)


def inspect_table(source: IcebergSource, name: MetadataTable) -> pa.Table:
    """Return a metadata table.

    Raises
    ------
    InvalidArgumentError
        If there is no metadata table of this name.
    """
    known = f"the metadata tables are {', '.join(METADATA_TABLES)}"
    checked_text("the name of a metadata table", name, known)
    make = _TABLES.get(name)
    if make is None:
        raise InvalidArgumentError(f"there is no metadata table {shown_value(name)}", hint=known, table=source.table)
    return make(source)
