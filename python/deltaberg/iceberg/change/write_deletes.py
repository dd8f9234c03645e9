"""Writing the deletion vectors and the position delete files of data files (Iceberg spec, "Row-level Deletes")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from deltaberg.iceberg.deletes.new_entries import position_delete_entries, vector_entries
from deltaberg.iceberg.deletes.write_positions import POSITION_DELETES_SCHEMA, DeletedRows, write_position_deletes
from deltaberg.iceberg.deletes.write_puffin import write_vectors
from deltaberg.iceberg.location.new_files import DataPaths, data_location
from deltaberg.iceberg.manifests.fields import DELETES
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.partition.assign import PartitionPaths
from deltaberg.iceberg.rows.file_options import delete_file_options
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.types import Struct
from deltaberg.table.rows.row_options import RowOptions

__all__ = ["write_positions_of", "write_vectors_of"]


def write_vectors_of(
    transaction: Transaction,
    spec: PartitionSpec,
    partition: Struct,
    values: pa.StructArray,
    positions: Iterable[tuple[str, pa.UInt64Array]],
) -> AddedFiles:
    """Write the deletion vectors of data files of one spec, for a transaction that is told of their file.

    Parameters
    ----------
    values
        The partition values of the data files.
    positions
        The recorded path of each data file, and the physical positions of its deleted rows.
    """
    metadata = transaction.metadata
    location = data_location(metadata.location, metadata.properties)
    name = DataPaths(dict(metadata.properties), suffix="-deletes.puffin").path("", 0)
    folder = transaction.resolver.resolve(location)
    place = folder.join(name)
    transaction.note_written(folder, [name])
    vectors, size = write_vectors(transaction.store.open(place), place.path, positions)
    entries = vector_entries(vectors, f"{location}/{name}", size, partition, values)
    return AddedFiles(spec, partition, entries, DELETES)


def write_positions_of(
    transaction: Transaction,
    spec: PartitionSpec,
    partition: Struct,
    values: pa.StructArray,
    deleted: Sequence[DeletedRows],
    options: RowOptions | None = None,
) -> AddedFiles:
    """Write position delete files of data files of one spec, for a transaction that is told of them.

    Parameters
    ----------
    values
        The partition values of each group of rows.
    deleted
        The rows.
    options
        What the caller says of the files; None for what the table says.
    """
    metadata = transaction.metadata
    chosen = delete_file_options(metadata, options)
    location = data_location(metadata.location, metadata.properties)
    place = transaction.resolver.resolve(location)
    paths = DataPaths(dict(metadata.properties), suffix=f"-deletes.{chosen.format}")
    directories = PartitionPaths(spec, metadata.known_columns)

    def path(group: int, number: int) -> str:
        directory = directories.of(values.field(index)[group] for index in range(values.type.num_fields))
        return paths.path(directory, number)

    files, groups = write_position_deletes(
        deleted,
        transaction.store.open(place),
        place.path,
        path,
        form=chosen.format,
        options=chosen.options,
        target_size=chosen.target_size,
        memory=chosen.memory,
    )
    transaction.note_written(place, files.column("path").to_pylist())
    own = values.take(pa.array(groups, pa.int64()))
    entries = position_delete_entries(files, POSITION_DELETES_SCHEMA, location, own)
    return AddedFiles(spec, partition, entries, DELETES)
