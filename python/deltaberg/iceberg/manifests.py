"""Manifests: the files of a part of a table, a row an entry (Iceberg spec, "Manifests")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import CorruptMetadataError, UnsupportedFeatureError
from deltaberg.files.avro import AvroFile, AvroType, arrow_field_of
from deltaberg.iceberg.manifest_list import numbered
from deltaberg.iceberg.partitioning import AS_TEXT
from deltaberg.pruning import keep_rows
from deltaberg.schema import Struct, arrow_type

__all__ = [
    "DELETED",
    "EQUALITY_DELETES",
    "METRICS",
    "POSITION_DELETES",
    "ManifestPart",
    "no_entries",
    "read_manifest",
]

#: Values of ``status``.
EXISTING, ADDED, DELETED = 0, 1, 2
#: Values of ``content``.
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2

#: Field ids of records in entries.
_DATA_FILE, _PARTITION = 2, 102
_FORMATS = ("parquet", "orc", "avro", "puffin")


def _map(name: str, number: int, key: int, value: int, type: pa.DataType) -> pa.Field:
    entry = pa.map_(numbered("key", key, pa.int32(), required=True), numbered("value", value, type))
    return numbered(name, number, entry)


#: Metrics of columns: maps from field ids, each with the id of its keys.
METRICS: Mapping[str, tuple[pa.Field, int]] = {
    "column_sizes": (_map("column_sizes", 108, 117, 118, pa.int64()), 117),
    "value_counts": (_map("value_counts", 109, 119, 120, pa.int64()), 119),
    "null_value_counts": (_map("null_value_counts", 110, 121, 122, pa.int64()), 121),
    "nan_value_counts": (_map("nan_value_counts", 137, 138, 139, pa.int64()), 138),
    "lower_bounds": (_map("lower_bounds", 125, 126, 127, pa.binary()), 126),
    "upper_bounds": (_map("upper_bounds", 128, 129, 130, pa.binary()), 129),
}
_REST = {
    "key_metadata": numbered("key_metadata", 131, pa.binary()),
    "split_offsets": numbered("split_offsets", 132, pa.list_(numbered("element", 133, pa.int64()))),
    "equality_ids": numbered("equality_ids", 135, pa.list_(numbered("element", 136, pa.int32()))),
    "sort_order_id": numbered("sort_order_id", 140, pa.int32()),
    "first_row_id": numbered("first_row_id", 142, pa.int64()),
    "referenced_data_file": numbered("referenced_data_file", 143, pa.string()),
    "content_offset": numbered("content_offset", 144, pa.int64()),
    "content_size_in_bytes": numbered("content_size_in_bytes", 145, pa.int64()),
}


@dataclass(frozen=True)
class ManifestPart:
    """What is wanted of manifests.

    Parameters
    ----------
    metrics
        Names among `METRICS`.
    ids
        The columns whose metrics are wanted; None for all.
    rest
        Further fields of ``data_file``.
    deleted
        Whether entries of removed files are wanted too.
    """

    metrics: Sequence[str] = ()
    ids: frozenset[int] | None = None
    rest: Sequence[str] = ()
    deleted: bool = False


def read_manifest(
    data: bytes, manifest: Mapping[str, Any], partition: Struct, part: ManifestPart, threads: int = 0
) -> pa.Table:
    """Give the entries of a manifest, what they inherit filled in.

    The columns are ``status``, ``snapshot_id``, ``sequence_number``, ``file_sequence_number``, ``position`` (the number
    of the entry in the manifest), and the fields of ``data_file``.

    Parameters
    ----------
    manifest
        The row of the manifest list.
    partition
        The partition struct of the manifest's spec, with field ids.

    Raises
    ------
    CorruptAvroError, CorruptMetadataError
        Where the manifest cannot be decoded, or says what it must not.
    """
    file = AvroFile(data)
    stored = _stored_types(file.schema, partition)
    data_file = pa.struct(_data_file_fields(partition, part, stored))
    wanted = pa.schema(
        [
            numbered("status", 0, pa.int32(), required=True),
            numbered("snapshot_id", 1, pa.int64()),
            numbered("sequence_number", 3, pa.int64()),
            numbered("file_sequence_number", 4, pa.int64()),
            numbered("data_file", 2, data_file, required=True),
        ]
    )
    keys = {} if part.ids is None else {METRICS[name][1]: sorted(part.ids) for name in part.metrics}
    found = file.read_by_id(wanted, keys, threads).combine_chunks()
    files = _struct_of(found.column("data_file"))
    columns = {name: found.column(name) for name in (child.name for child in wanted) if name != "data_file"}
    columns["position"] = _numbers(len(found))
    columns |= {child.name: files.field(index) for index, child in enumerate(data_file)}
    if stored:
        columns["partition"] = _with_text(columns["partition"], partition)
    table = pa.table(columns)
    _check(table, manifest)
    table = _inherit(table, manifest)
    return table if part.deleted else keep_rows(table, pc.not_equal(table.column("status"), DELETED))


def no_entries(partition: Struct, part: ManifestPart) -> pa.Table:
    """Give the columns of `read_manifest` without rows."""
    own = [("status", pa.int32()), *((name, pa.int64()) for name in ("snapshot_id", "sequence_number"))]
    own += [("file_sequence_number", pa.int64()), ("position", pa.int64())]
    fields = [pa.field(name, kind) for name, kind in own]
    return pa.schema([*fields, *_data_file_fields(partition, part)]).empty_table()


def _data_file_fields(
    partition: Struct, part: ManifestPart, stored: Mapping[int | None, pa.DataType] | None = None
) -> list[pa.Field]:
    known = stored or {}
    types = [numbered(child.name, child.id or 0, known.get(child.id) or arrow_type(child.type)) for child in partition]
    return [
        numbered("content", 134, pa.int32()),
        numbered("file_path", 100, pa.string(), required=True),
        numbered("file_format", 101, pa.string(), required=True),
        numbered("partition", 102, pa.struct(types)),
        numbered("record_count", 103, pa.int64(), required=True),
        numbered("file_size_in_bytes", 104, pa.int64(), required=True),
        *(METRICS[name][0] for name in part.metrics),
        *(_REST[name] for name in part.rest),
    ]


def _stored_types(schema: AvroType, partition: Struct) -> dict[int | None, pa.DataType]:
    """Give the types in which a manifest holds partition values of which only it knows one."""
    wanted = {child.id for child in partition if AS_TEXT in child.metadata}
    if not wanted:
        return {}
    values = _child(_child(schema, _DATA_FILE), _PARTITION)
    return {child.id: arrow_field_of(child).type for child in values.fields if child.id in wanted}


def _child(record: AvroType, number: int) -> AvroType:
    found = next((child.type.value for child in record.fields if child.id == number), None)
    return found or AvroType("record")


def _with_text(values: pa.StructArray, partition: Struct) -> pa.StructArray:
    """Bring the partition values that a manifest holds in its own types to text."""
    arrays = []
    for index, child in enumerate(partition):
        own = values.field(index)
        if pt.is_binary(own.type) or pt.is_fixed_size_binary(own.type):
            own = pa.array([None if value is None else value.hex() for value in own.to_pylist()], pa.string())
        arrays.append(own.cast(pa.string()) if AS_TEXT in child.metadata else values.field(index))
    fields = [pa.field(child.name, array.type) for child, array in zip(partition, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())


def _struct_of(column: pa.ChunkedArray) -> pa.StructArray:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _numbers(count: int) -> pa.Int64Array:
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


def _check(table: pa.Table, manifest: Mapping[str, Any]) -> None:
    """Refuse what no entry may say."""
    if not {*_distinct(table, "status")} <= {0, 1, 2}:
        raise CorruptMetadataError("the status of an entry is not 0, 1 or 2")
    allowed = {DATA} if manifest["content"] == 0 else {POSITION_DELETES, EQUALITY_DELETES}
    if not {content or DATA for content in _distinct(table, "content")} <= allowed:
        kind = "data" if manifest["content"] == 0 else "delete"
        raise CorruptMetadataError(f"a manifest of {kind} files holds another kind of file")
    lowest = pc.min_max(table.column("record_count")).as_py()["min"]
    if lowest is not None and lowest < 0:
        raise CorruptMetadataError(f"a file has {lowest} records")
    unknown = [name for name in _distinct(table, "file_format") if name.lower() not in _FORMATS]
    if unknown:
        raise UnsupportedFeatureError(
            f"a file is of format {unknown[0]!r}", hint=f"known are {', '.join(_FORMATS)}", feature=unknown[0]
        )


def _distinct(table: pa.Table, name: str) -> list[Any]:
    found: list[Any] = table.column(name).unique().to_pylist()
    return found


def _inherit(table: pa.Table, manifest: Mapping[str, Any]) -> pa.Table:
    """Fill in what entries leave to the manifest list ("Sequence Number Inheritance", "Row Lineage")."""
    sequence = manifest["sequence_number"]
    status = table.column("status")
    # Files of version 1 are older than any number; else only added ones take the manifest's.
    inherits = pc.or_(pc.equal(status, ADDED), pa.scalar(not sequence))
    own = {
        "snapshot_id": table.column("snapshot_id").fill_null(manifest["added_snapshot_id"])
        if manifest["added_snapshot_id"] is not None
        else table.column("snapshot_id"),
        "content": table.column("content").fill_null(DATA),
        "file_format": pc.utf8_lower(table.column("file_format")),
    }
    for name in ("sequence_number", "file_sequence_number"):
        given = own[name] = table.column(name)
        if given.null_count:
            own[name] = pc.if_else(pc.and_(given.is_null(), inherits), pa.scalar(sequence, pa.int64()), given)
    live = pc.not_equal(status, DELETED)
    unknown = own["sequence_number"]
    if unknown.null_count and pc.any(pc.and_(unknown.is_null(), live), min_count=0).as_py():
        raise CorruptMetadataError("an existing entry of a manifest has no sequence number, and must not inherit one")
    if "first_row_id" in table.column_names:
        own["first_row_id"] = _row_ids(table, manifest["first_row_id"], live)
    columns = [own.get(name, table.column(name)) for name in table.column_names]
    return pa.table(columns, names=table.column_names)


def _row_ids(table: pa.Table, first: int | None, live: pa.ChunkedArray) -> pa.Array:
    """Give files without a first row id the next ones of the manifest."""
    given = table.column("first_row_id")
    if first is None:
        return pa.nulls(len(table), pa.int64())
    takes = pc.and_(given.is_null(), live)
    counts = pc.if_else(takes, table.column("record_count"), 0)
    before = pc.subtract(pc.cumulative_sum(counts), counts)
    return pc.if_else(takes, pc.add(before, pa.scalar(first, pa.int64())), given)
