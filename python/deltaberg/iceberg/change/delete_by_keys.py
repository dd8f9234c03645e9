"""Deleting rows by keys, without reading the table (Iceberg spec, "Equality Delete Files")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.deletes.new_entries import equality_delete_entries
from deltaberg.iceberg.location.new_files import DataPaths, data_location
from deltaberg.iceberg.manifests.entries import leaves_with_metrics
from deltaberg.iceberg.manifests.fields import DELETES
from deltaberg.iceberg.manifests.metrics_modes import metrics_modes
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.metadata.versions import ROW_DELETES_SINCE
from deltaberg.iceberg.partition.assign import PartitionPaths, partition_rows_by
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.iceberg.partition.transforms import Unknown, parse_transform
from deltaberg.iceberg.rows.file_options import delete_file_options
from deltaberg.iceberg.rows.row_spec import FilePlaces
from deltaberg.iceberg.schema.type_names import is_shape
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.layout_updates import AddSpec
from deltaberg.iceberg.updates.new_columns import own_types
from deltaberg.schema.columns import ColumnName, fields_given, find_column, join_name
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.rows.conform import ConformOptions
from deltaberg.schema.types import Field, List, Map, Primitive, Struct
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.rows.stream import all_rows
from deltaberg.table.write.sources import open_source
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files

__all__ = ["delete_by_keys"]

_UNCOMPARED = (Primitive("float"), Primitive("double"), Primitive("variant"), Primitive("void"))


def delete_by_keys(
    transaction: Transaction, keys: Any, columns: Sequence[ColumnName] | None, options: RowOptions
) -> None:
    """Delete the rows that equal one of some keys, as the table has them when the transaction commits.

    Parameters
    ----------
    transaction
        The transaction.
    keys
        The keys, as `open_source` takes rows. A null equals a null.
    columns
        The columns, or fields of structs, that are compared; None for all columns of the keys. Others are stored with
        the keys.
    options
        How the delete files are written.

    Raises
    ------
    UnsupportedFeatureError
        The table has version 1, or the transaction has added rows, which would stay.
    InvalidArgumentError
        There are no columns, or one cannot be compared.
    SchemaError
        The keys do not fit the columns.
    StorageError
        The store fails, in which Spark stores the keys of a DataFrame on their way, and all others are written.
    """
    with transaction.operation("delete") as operation:
        if transaction.is_done:
            return
        metadata = transaction.metadata
        if metadata.format_version < ROW_DELETES_SINCE or transaction.pending.adds_rows:
            is_old = metadata.format_version < ROW_DELETES_SINCE
            raise UnsupportedFeatureError(
                "tables of version 1 have no deletes by keys"
                if is_old
                else "the transaction has added rows, which deletes by keys would not find",
                hint="set format-version to 2" if is_old else "commit the rows first",
                feature="equality deletes",
            )
        source = open_source(keys)
        stored = _stored(metadata, source.schema)
        paths = [(child,) for child in stored] if columns is None else [find_column(stored, name) for name in columns]
        ids = _compared_ids(paths)
        with source.staged(set(source.schema.names), transaction.store, transaction.root) as reader:
            rows = all_rows(reader)
        if not len(rows):
            return
        operation.rows.deleted = None
        specs = _specs(transaction, ids)
        if all(spec.is_partitioned for spec in specs):
            transaction.claims.reach_only(spec.spec_id for spec in specs)
        written = [_write(transaction, rows, stored, ids, spec, options) for spec in specs]
        operation.metrics["numDeleteFilesAdded"] = sum(written)


def _stored(metadata: TableMetadata, keys_schema: pa.Schema) -> Struct:
    """Return the columns that keys have."""
    if not keys_schema.names:
        raise InvalidArgumentError("the keys have no columns")
    schema = metadata.current_schema.struct
    keys = table_schema(keys_schema, own=own_types(metadata.format_version))
    kinds = {find_column(schema, (child.name,))[0].name: child.type for child in keys}
    if len(kinds) < len(keys_schema.names):
        raise SchemaError("the keys have a column twice")
    # Fields of structs that are not compared are none of the keys, even if the table requires them.
    return Struct(
        tuple(
            replace(child, type=fields_given(child.type, kinds[child.name], required=False))
            for child in schema
            if child.name in kinds
        )
    )


def _compared_ids(compared: Sequence[Sequence[Field]]) -> list[int]:
    """Return the ids of the columns that are compared, by the fields that lead to each."""
    ids = []
    for path in compared:
        child = path[-1]
        if isinstance(child.type, (Struct, List, Map)) or child.type in _UNCOMPARED or is_shape(child):
            is_struct = isinstance(child.type, Struct)
            raise InvalidArgumentError(
                f"rows cannot be deleted by keys of the type {child.type}",
                hint="name fields of the struct in ⟪columns⟫, with dots"
                if is_struct
                else "compare columns of other types, or delete rows by a condition",
                column=join_name([field.name for field in path]),
            )
        ids += [] if child.id is None else [child.id]
    if not ids:
        raise InvalidArgumentError("there are no columns to compare", hint="name a column in ⟪columns⟫")
    return ids


def _specs(transaction: Transaction, ids: Sequence[int]) -> list[PartitionSpec]:
    """Return the specs that together reach all rows.

    A delete file applies to the files of its own partition, or to all files if its spec has no partitions. So there is
    one for each spec in use if the keys tell the partition, and else one for a spec without partitions, which the table
    is given if it has none.
    """
    metadata = transaction.metadata
    data = transaction.source.data_manifests
    used = {metadata.default_spec_id, *data.column("partition_spec_id").to_pylist()}
    specs = [metadata.specs[number] for number in sorted(used) if number in metadata.specs]
    everywhere = [spec for spec in metadata.specs.values() if not spec.fields]
    if all(spec.is_partitioned and _is_told(spec, ids) for spec in specs):
        return specs
    if not everywhere:
        before = set(metadata.specs)
        transaction.change_metadata(AddSpec(PartitionSpec(max(before) + 1, ())))
        everywhere = [spec for number, spec in transaction.metadata.specs.items() if number not in before]
    return everywhere[:1]


def _is_told(spec: PartitionSpec, ids: Sequence[int]) -> bool:
    """Return whether columns tell the partition of a row."""
    return all(
        set(part.source_ids) <= set(ids) and not isinstance(parse_transform(part.transform), Unknown)
        for part in spec.fields
    )


def _write(
    transaction: Transaction,
    rows: pa.Table,
    stored: Struct,
    ids: Sequence[int],
    spec: PartitionSpec,
    options: RowOptions,
) -> int:
    """Write the delete files of a spec, and return how many these are."""
    metadata: TableMetadata = transaction.metadata
    schema, properties = metadata.current_schema.struct, metadata.properties
    chosen = delete_file_options(metadata, options)
    modes = metrics_modes(schema, properties)
    write_spec = WriteSpec(
        stored,
        partition_rows_by(spec, stored),
        ConformOptions(options.timezone or transaction.timezone),
        chosen.options,
        format=chosen.format,
        target_size=chosen.target_size,
        memory=chosen.memory,
        statistics=leaves_with_metrics(stored, modes),
        stores_partition_columns=True,
        required=True,
        footers=True,
        place=FilePlaces(
            PartitionPaths(spec, metadata.known_columns),
            DataPaths(dict(properties), suffix=f"-deletes.{chosen.format}"),
        ),
    )
    location = data_location(metadata.location, properties)
    place = transaction.resolver.resolve(location)
    files = write_files(rows, write_spec, transaction.store.open(place), place.path, progress=transaction.progress)
    transaction.note_written(place, files.column("path").to_pylist())
    partition = partition_struct(spec, metadata.known_columns)
    entries = equality_delete_entries(files, stored, location, partition, modes, ids)
    transaction.add_entries(AddedFiles(spec, partition, entries, DELETES))
    return len(entries)
