"""Writing rows to the data files of an Iceberg table: what the table asks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.expressions.tree.tree import Literal
from deltaberg.iceberg.location.new_files import DataPaths, data_location
from deltaberg.iceberg.manifests.entries import added_entries, leaves_with_metrics
from deltaberg.iceberg.manifests.metrics_modes import metrics_modes
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.property_values import choice_of
from deltaberg.iceberg.metadata.sort_orders import SortOrder
from deltaberg.iceberg.partition.assign import PartitionPaths, partition_rows_by
from deltaberg.iceberg.partition.sorting import RowSorter, row_sorter
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.iceberg.rows.columns_meanwhile import require_columns
from deltaberg.iceberg.rows.file_options import FORMAT, file_options, form_of
from deltaberg.iceberg.schema.shapes import edges_of, stored_shape
from deltaberg.iceberg.schema.type_names import TYPE, is_shape
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.new_columns import written_default
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field, Struct, nested_fields
from deltaberg.table.property_values import number_of
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.rows.row_rules import ColumnFill, RowCheck, RowRules
from deltaberg.table.rows.table_rules import TableRules
from deltaberg.table.write.sources import Rows
from deltaberg.table.write.spec import WriteSpec

__all__ = [
    "FilePlaces",
    "check_types",
    "distribution",
    "entries_of",
    "has_bounds",
    "own_sorter",
    "row_spec",
    "rules_of",
    "target_size",
    "write_rows",
]

_DISTRIBUTION = "write.distribution-mode"
_TARGET, _DEFAULT_TARGET = "write.target-file-size-bytes", 512 << 20


def write_rows(
    transaction: Transaction, rows: Rows, options: RowOptions, checks: Sequence[RowCheck] = ()
) -> AddedFiles:
    """Write rows to new data files that no snapshot names yet, and return their entries.

    Parameters
    ----------
    transaction
        It is told of the files, and has the columns that the rows need.
    rows
        The rows, from `open_rows`.
    options
        What the caller says of them.
    checks
        What every row has to pass.

    Raises
    ------
    SchemaError
        The rows do not fit the columns.
    ConstraintViolationError
        A row does not pass a check.
    UnsupportedFeatureError
        The table asks for files that are not written.
    """
    metadata = transaction.metadata
    if transaction.write_properties:
        metadata = replace(metadata, properties={**metadata.properties, **transaction.write_properties})
    schema, properties = metadata.current_schema.struct, metadata.properties
    spec = row_spec(metadata, options)
    spec = replace(spec, rules=RowRules(schema, _fills(schema), checks))
    location = data_location(metadata.location, properties)
    place = transaction.resolver.resolve(location)
    road = rows.road(spec, place)
    files = rows.write(spec, transaction.store, place)
    transaction.note_written(place, files.column("path").to_pylist(), road)
    require_columns(transaction, schema)
    return entries_of(metadata, files, schema)


def entries_of(
    metadata: TableMetadata, files: pa.Table, columns: Struct, sort_order_id: int | None = None
) -> AddedFiles:
    """Return the entries of files that were written as `row_spec` says.

    Parameters
    ----------
    files
        The rows that describe the files.
    columns
        Their columns: those of the table, and others behind them.
    sort_order_id
        The order that their rows are in, 0 for none that the table knows; None for that of `row_spec`.
    """
    schema, properties = metadata.current_schema.struct, metadata.properties
    spec = metadata.specs[metadata.default_spec_id]
    # The source of a void field may be a column of an older schema.
    partition = partition_struct(spec, metadata.known_columns)
    modes = metrics_modes(schema, properties, _sorted_by(metadata))
    location = data_location(metadata.location, properties)
    if sort_order_id is None:
        # Files of the order 0 are in no order that the table knows.
        sort_order_id = 0 if own_sorter(metadata) is None else _order(metadata).order_id
    entries = added_entries(files, location, columns, partition, modes, sort_order_id=sort_order_id)
    return AddedFiles(spec, partition, entries)


@dataclass(frozen=True)
class FilePlaces:
    """Makes the paths of data files; it pickles."""

    partitions: PartitionPaths
    paths: DataPaths

    def __call__(self, values: Sequence[pa.Scalar], number: int) -> str:
        """Return the path of a file from its partition values and its number in the write."""
        return self.paths.path(self.partitions.of(values), number)


def row_spec(metadata: TableMetadata, options: RowOptions) -> WriteSpec:
    """Return what a table asks of the files that rows are written to.

    Raises
    ------
    InvalidArgumentError
        A property has no valid value.
    UnsupportedFeatureError
        The table asks for files of a format, or has columns of a type, that are not written.
    """
    properties, schema = metadata.properties, metadata.current_schema.struct
    form = form_of(metadata)
    check_types(schema, form)
    spec = metadata.specs[metadata.default_spec_id]
    modes = metrics_modes(schema, properties, _sorted_by(metadata))
    sorter = own_sorter(metadata)
    return WriteSpec(
        schema,
        partition_rows_by(spec, schema),
        options.conform(_write_default),
        file_options(metadata, form, options),
        format=form,
        target_size=options.target_file_size or target_size(properties),
        is_sized=options.target_file_size is not None or _TARGET in properties,
        memory=options.waiting,
        statistics=leaves_with_metrics(schema, modes),
        stores_partition_columns=True,
        required=True,
        own_types=stored_shape if form == "parquet" else None,
        footers=True,
        sort=sorter,
        order=() if sorter is None else sorter.terms,
        distribution=distribution(properties, is_sorted=sorter is not None),
        place=FilePlaces(PartitionPaths(spec, metadata.known_columns), DataPaths(dict(properties), suffix=f".{form}")),
    )


def own_sorter(metadata: TableMetadata) -> RowSorter | None:
    """Return what sorts rows by the order of a table; None if there is none, or rows cannot be sorted by it."""
    return row_sorter(_order(metadata), metadata.current_schema.struct)


def has_bounds(metadata: TableMetadata, column: Field) -> bool:
    """Return whether a table asks for bounds of a column, between which its values lie: those of shapes are points."""
    modes = metrics_modes(metadata.current_schema.struct, metadata.properties, _sorted_by(metadata))
    mode = None if column.id is None else modes.get(column.id)
    return mode is not None and mode.bounds and not is_shape(column)


def target_size(properties: Mapping[str, str]) -> int:
    """Return the bytes that a data file should have.

    Raises
    ------
    InvalidArgumentError
        The property is not a positive whole number.
    """
    return number_of(properties, _TARGET, _DEFAULT_TARGET)


def distribution(properties: Mapping[str, str], *, is_sorted: bool) -> str:
    """Return how rows come to the tasks of Spark; by default as in iceberg-spark.

    Raises
    ------
    InvalidArgumentError
        The property names no way.
    """
    return choice_of(properties, _DISTRIBUTION, ("none", "hash", "range"), "range" if is_sorted else "hash")


def _order(metadata: TableMetadata) -> SortOrder:
    return metadata.sort_orders.get(metadata.default_sort_order_id, SortOrder(0))


def _sorted_by(metadata: TableMetadata) -> frozenset[int]:
    """Return the ids of the columns by which files are sorted."""
    kept = ("identity", "truncate", "year", "month", "day", "hour")
    return frozenset(
        number
        for part in _order(metadata).fields
        for number in part.source_ids
        if part.transform.partition("[")[0] in kept
    )


def check_types(schema: DataType, form: str) -> None:
    """Refuse columns of types that files of a format are not written with.

    Raises
    ------
    UnsupportedFeatureError
        If there is one; the message names it.
    """
    for child in nested_fields(schema):
        kind = str(child.metadata.get(TYPE)) if is_shape(child) else str(child.type)
        if form != "parquet" and (kind == "variant" or is_shape(child)):
            raise UnsupportedFeatureError(
                f"columns of the type {kind} are not written to {form.upper()} files",
                hint=f"set {FORMAT} to parquet",
                column=child.name,
                feature=kind,
            )
        if is_shape(child) and edges_of(child) not in ("planar", "spherical"):
            raise UnsupportedFeatureError(
                f"columns of the type {kind} are not written, as its edges are {edges_of(child)}",
                hint="use a geography with spherical edges",
                column=child.name,
                feature=kind,
            )
        check_types(child.type, form)


@dataclass(frozen=True)
class _Constant:
    """Fills a column with one value; it pickles."""

    value: Any
    kind: DataType

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.repeat(pa.scalar(self.value, arrow_type(self.kind)), batch.num_rows)


def rules_of(schema: Struct) -> TableRules:
    """Return what a table asks of new rows."""
    fills = _fills(schema)
    known = {fill.column: fill.values for fill in fills}
    defaults = {name: Literal(one.value, one.kind) for name, one in known.items() if isinstance(one, _Constant)}
    return TableRules(RowRules(schema, fills), defaults=defaults)


def _fills(schema: Struct) -> list[ColumnFill]:
    """Return what fills columns that rows lack: their write defaults."""
    fills = []
    for child in schema:
        found = written_default(child)
        if found is not None:
            fills.append(ColumnFill(child.name, _Constant(found, child.type)))
    return fills


def _write_default(field: Field) -> pa.Scalar | None:
    """Return the value of a field in new rows that lack it; None for null."""
    found = written_default(field)
    return None if found is None else pa.scalar(found, arrow_type(field.type))
