"""Adding Parquet files that others have written, as they are (Iceberg spec, "Column Projection", name mapping)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError, SchemaError, UnsupportedFeatureError
from deltaberg.expressions import TRUE
from deltaberg.files.read.footers import Footer, LeafBounds, read_footers
from deltaberg.files.write import WrittenFile, leaf_paths, written_rows
from deltaberg.iceberg.manifests.entries import added_entries
from deltaberg.iceberg.manifests.metrics_modes import metrics_modes
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.new_columns import iceberg_columns
from deltaberg.iceberg.metadata.schema_evolution import is_promotion, nested_fields
from deltaberg.iceberg.metadata.specs import PartitionField
from deltaberg.iceberg.operations.columns import extend_name_mapping
from deltaberg.iceberg.partition.structs import partition_struct, path_to_id
from deltaberg.iceberg.partition.transforms import Bucket, Identity, Unknown, Void, parse_transform
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema import DataType, Field, List, Map, NameMapping, Struct, arrow_type, join_name
from deltaberg.storage import Location, ObjectMeta, parse_location
from deltaberg.table.write.footers import footer_statistics

__all__ = ["add_existing_files"]


class _Found(NamedTuple):
    """A file: its recorded path, and where it is."""

    path: str
    place: Location
    meta: ObjectMeta


def add_existing_files(transaction: Transaction, paths: Sequence[str], *, check_duplicates: bool = True) -> None:
    """Add Parquet files to a table, which become its data files where they are.

    Parameters
    ----------
    paths
        Files, or directories of which all files below are added, but for those whose names begin with ``_`` or ``.``.
    check_duplicates
        Refuse files that the table has already.

    Raises
    ------
    InvalidArgumentError
        The table has one of the files already, or there is no file, or the rows of one belong to several partitions.
    SchemaError
        The columns of a file do not fit those of the table.
    UnsupportedFeatureError
        A file is no Parquet file, or its columns have field ids.
    """
    with transaction.operation("add files"):
        found = [one for path in paths for one in _files_of(transaction, path)]
        if not found:
            raise InvalidArgumentError("there are no files to add", hint="check the paths")
        if check_duplicates:
            _refuse_known(transaction, [one.path for one in found])
        footers = read_footers((transaction.store.open(one.place), one.meta) for one in found)
        names = extend_name_mapping(transaction)
        for one, footer in zip(found, footers, strict=True):
            try:
                _check_columns(transaction.metadata, footer, names)
            except SchemaError as error:
                raise error.with_context(file=one.path) from None
        transaction.add_files(_entries(transaction.metadata, found, footers))


def _files_of(transaction: Transaction, path: str) -> Iterator[_Found]:
    place = parse_location(path)
    store = transaction.store.open(place)
    try:
        meta = store.head(place.path)
    except ObjectNotFoundError:
        prefix = place.path.rstrip("/")
        below = sorted(store.walk(prefix), key=lambda one: one.path)
        for one in below:
            inside = one.path[len(prefix) :].strip("/").split("/")
            if not any(part.startswith((".", "_")) and "=" not in part for part in inside):
                yield from _known_format(place.join("/".join(inside)), one)
    else:
        yield from _known_format(place, meta)


def _known_format(place: Location, meta: ObjectMeta) -> Iterator[_Found]:
    for suffix in (".orc", ".avro"):
        if place.path.endswith(suffix):
            raise UnsupportedFeatureError(
                "only Parquet files can be added to a table as they are",
                hint="read the file, and append its rows",
                file=str(place),
                feature=suffix[1:],
            )
    yield _Found(str(place), place, meta)


def _refuse_known(transaction: Transaction, paths: Sequence[str]) -> None:
    known = set(transaction.source.select_files(TRUE).files.column("path").to_pylist())
    for files in transaction.pending.added:
        known.update(files.entries.column("file_path").to_pylist())
    places = {transaction.resolver.resolve(path) for path in known}
    for number, path in enumerate(paths):
        if path in paths[:number] or transaction.resolver.resolve(path) in places:
            raise InvalidArgumentError(
                f"the table has the file {path} already", hint="pass every file once", table=transaction.source.table
            )


def _check_columns(metadata: TableMetadata, footer: Footer, names: NameMapping) -> None:
    """Refuse a file whose columns are not those of the table.

    Raises
    ------
    SchemaError
        A column is not one of the table, or has a type that cannot be read as that of the table, or may hold nulls.
    UnsupportedFeatureError
        Columns have field ids.
    """
    if footer.has_ids:
        raise UnsupportedFeatureError(
            "the columns of the file have field ids, which may be those of another table",
            hint="read the file, and append its rows",
            feature="field ids",
        )
    schema = metadata.current_schema.struct
    for child in footer.columns:
        mapped, own = names.find(child.name), schema.get(child.name)
        if own is None or mapped is None or mapped.id != own.id:
            raise SchemaError(
                f"the file has a column {child.name!r} that the table does not have",
                hint="add the column to the table first",
                column=child.name,
            )
    held = {child.name: child for child in iceberg_columns(footer.columns)}
    for column in schema:
        found = held.get(column.name)
        if found is not None:
            _check_fits(metadata, column, found, footer, (column.name,))
        elif not column.nullable:
            raise SchemaError("the file lacks a required column", column=column.name)


def _check_fits(metadata: TableMetadata, own: Field, held: Field, footer: Footer, path: tuple[str, ...]) -> None:
    if not own.nullable and held.nullable:
        known = footer.leaves.get(path)
        if known is None or known.null_count != 0:
            raise SchemaError("the column is required, but may hold nulls in the file", column=join_name(path))
    pairs = _inner_pairs(own.type, held.type)
    if pairs is None:
        if own.type != held.type and not is_promotion(held.type, own.type, metadata.format_version):
            raise SchemaError(
                f"the column is of the type {own.type}, and {held.type} in the file", column=join_name(path)
            )
        return
    for name, inner, other in pairs:
        if inner is None or (other is None and not inner.nullable):
            raise SchemaError(
                f"the field {name!r} is not in the {'table' if inner is None else 'file'}", column=join_name(path)
            )
        if other is not None:
            _check_fits(metadata, inner, other, footer, (*path, name))


def _inner_pairs(own: DataType, held: DataType) -> list[tuple[str, Field | None, Field | None]] | None:
    """Return the fields of nested types of one kind, by their names; None for other types."""
    kinds = [kind for kind in (Struct, List, Map) if isinstance(own, kind) and isinstance(held, kind)]
    if not kinds:
        return None
    mine = {child.name: child for child in nested_fields(own)}
    theirs = {child.name: child for child in nested_fields(held)}
    return [(name, mine.get(name), theirs.get(name)) for name in {**mine, **theirs}]


def _entries(metadata: TableMetadata, found: Sequence[_Found], footers: Sequence[Footer]) -> AddedFiles:
    schema = metadata.current_schema.struct
    spec = metadata.specs[metadata.default_spec_id]
    older = [metadata.schemas[number].struct for number in sorted(metadata.schemas, reverse=True)]
    partition = partition_struct(spec, [schema, *older])
    modes = metrics_modes(schema, metadata.properties)
    leaves = {
        number: (tuple(part.name for part in path), arrow_type(path[-1].type))
        for number, path in leaf_paths(schema).items()
    }
    files = []
    for one, footer in zip(found, footers, strict=True):
        values = {
            part.name: _partition_value(part, schema, footer, one.path).cast(arrow_type(target.type))
            for part, target in zip(spec.fields, partition, strict=True)
        }
        files.append(
            WrittenFile(
                one.path,
                one.meta.size,
                footer.rows,
                one.meta.modified,
                values,
                *footer_statistics(footer, leaves),
            )
        )
    rows = written_rows(files, schema, list(partition), footers=True)
    entries = added_entries(rows, "", schema, partition, modes)
    changed = {"file_path": rows.column("path"), "split_offsets": None}
    for name, column in changed.items():
        place = entries.schema.get_field_index(name)
        kind = entries.schema.field(place).type
        entries = entries.set_column(
            place, entries.schema.field(place), pa.nulls(len(rows), kind) if column is None else column
        )
    return AddedFiles(spec, partition, entries)


def _partition_value(part: PartitionField, schema: Struct, footer: Footer, path: str) -> pa.Scalar:
    """Return the partition value that all rows of a file have, as its statistics prove it.

    Raises
    ------
    InvalidArgumentError
        The rows may have several values.
    """
    transform, source = parse_transform(part.transform), path_to_id(schema, part.source_id)
    if isinstance(transform, Void) or not source:
        return pa.scalar(None)
    names, kind = tuple(child.name for child in source), source[-1].type
    stats = footer.leaves.get(names, LeafBounds())
    if footer.rows and stats.null_count == footer.rows:
        return pa.scalar(None)
    if stats.lower is not None and stats.upper is not None and stats.null_count == 0:
        bounds = pa.concat_arrays([pa.repeat(bound.cast(arrow_type(kind)), 1) for bound in (stats.lower, stats.upper)])
        if pc.equal(bounds[0], bounds[1]).as_py() or not isinstance(transform, (Bucket, Unknown, Identity)):
            first, last = transform.apply(bounds, kind)
            if pc.equal(first, last).as_py():
                return first
    raise InvalidArgumentError(
        f"the rows of the file {path} may belong to several partitions of the field {part.name!r}",
        hint="read the file, and append its rows",
        file=path,
    )
