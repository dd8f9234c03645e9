"""Manifests: files of a table, one row for each entry (Iceberg spec, "Manifests")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import CorruptMetadataError, UnsupportedFeatureError
from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.schema import AvroType, arrow_field_of
from deltaberg.iceberg.manifests.fields import (
    ADDED,
    DATA,
    DELETED,
    ENTRY_FIELDS,
    EQUALITY_DELETES,
    FURTHER,
    METRICS,
    POSITION_DELETES,
    ManifestPart,
    file_fields,
    numbered,
)
from deltaberg.iceberg.partition.structs import AS_TEXT
from deltaberg.kernels import plain_values as pv
from deltaberg.pruning.evaluate import keep_rows
from deltaberg.schema.arrow import arrow_type, as_array, count_up, with_columns
from deltaberg.schema.types import Struct

__all__ = ["no_entries", "read_manifest"]

#: Field ids of records in entries.
_DATA_FILE, _PARTITION = 2, 102
_FORMATS = ("parquet", "orc", "avro", "puffin")


def read_manifest(
    data: bytes,
    manifest: Mapping[str, Any],
    partition: Struct,
    part: ManifestPart,
    threads: int = 0,
    choose: Callable[[pa.StructArray], pa.BooleanArray] | None = None,
) -> pa.Table:
    """Return the entries of a manifest, with the values that they inherit from the manifest list.

    The columns are ``status``, ``snapshot_id``, ``sequence_number``, ``file_sequence_number``, ``position`` (the number
    of the entry in the manifest), and the fields of ``data_file``. Inherited values are those that have to be written
    when an entry moves to another manifest.

    Parameters
    ----------
    data
        The bytes of the manifest.
    manifest
        The row of the manifest in the manifest list.
    partition
        The partition struct of the manifest's spec, with field ids.
    part
        Which fields and entries are read.
    threads
        The number of threads to decode with; 0 for all processors.
    choose
        Takes partitions, and returns a mask, without nulls, that is true where the entries of the partition are read.
        It may be asked once about equal partitions, and by several threads. None for all entries.

    Raises
    ------
    CorruptAvroError, CorruptMetadataError
        If the manifest cannot be decoded, or says of the entries that are read what no manifest may say.
    UnsupportedFeatureError
        If one of these files is of a format that is not known.
    """
    file = AvroFile(data)
    stored = _stored_types(file.schema, partition)
    data_file = pa.struct(_data_file_fields(partition, part, stored))
    schema = pa.schema([*ENTRY_FIELDS, numbered("data_file", _DATA_FILE, data_file, required=True)])
    keys = {} if part.ids is None else {METRICS[name][1]: sorted(part.ids) for name in part.metrics}
    as_text = bool(stored) and not part.as_stored

    # The row ids of an entry depend on all entries before it.
    depends = "first_row_id" in part.rest and manifest["first_row_id"] is not None
    if choose is None or depends:
        rows = file.read_by_id(schema, keys, threads).combine_chunks()
        position = count_up(0, len(rows))
    else:
        values = pa.struct([child for child in data_file if child.name == "partition"])
        first = pa.schema([numbered("data_file", _DATA_FILE, values, required=True)])
        by_partition = _by_partition(choose, partition if as_text else None)
        rows, position = file.read_chosen_by_id(schema, first, by_partition, keys, threads)
        rows = rows.combine_chunks()
    files = as_array(rows.column("data_file"))
    columns = {child.name: rows.column(child.name) for child in ENTRY_FIELDS}
    columns["position"] = position
    columns |= {child.name: files.field(index) for index, child in enumerate(data_file)}
    if as_text:
        columns["partition"] = _with_text(columns["partition"], partition)
    table = pa.table(columns)
    states = _check(table, manifest)
    table = _inherit(table, manifest, states)
    if choose is not None and depends:
        table = keep_rows(table, choose(as_array(table.column("partition"))))
    if not part.as_stored:
        table = with_columns(table, file_format=pc.utf8_lower(table.column("file_format")))
    if part.deleted or DELETED not in states:
        return table
    return keep_rows(table, pc.not_equal(table.column("status"), pv.scalar(DELETED)))


def _by_partition(
    choose: Callable[[pa.StructArray], pa.BooleanArray], texts: Struct | None
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Return what chooses entries, of which ``data_file.partition`` is read, by a function of partitions.

    ``texts`` is the partition struct if values whose types only the manifest knows are texts to the function.
    """

    def choose_entries(rows: pa.RecordBatch) -> pa.BooleanArray:
        values = as_array(pc.struct_field(rows.column(0), 0))
        return choose(values if texts is None else _with_text(values, texts))

    return choose_entries


def no_entries(partition: Struct, part: ManifestPart) -> pa.Table:
    """Return the columns of `read_manifest` without any row."""
    own = [*ENTRY_FIELDS, pa.field("position", pa.int64())]
    fields = [*own, *_data_file_fields(partition, part)]
    return pa.schema([pa.field(child.name, child.type) for child in fields]).empty_table()


def _data_file_fields(
    partition: Struct, part: ManifestPart, stored: Mapping[int | None, pa.DataType] | None = None
) -> list[pa.Field]:
    known = stored or {}
    types = [numbered(child.name, child.id or 0, known.get(child.id) or arrow_type(child.type)) for child in partition]
    return [
        *file_fields(types),
        *(METRICS[name][0] for name in part.metrics),
        *(FURTHER[name] for name in part.rest),
    ]


def _stored_types(schema: AvroType, partition: Struct) -> dict[int | None, pa.DataType]:
    """Return the types of the partition values whose types only the manifest knows."""
    wanted = {child.id for child in partition if AS_TEXT in child.metadata}
    if not wanted:
        return {}
    values = _child(_child(schema, _DATA_FILE), _PARTITION)
    return {child.id: arrow_field_of(child).type for child in values.fields if child.id in wanted}


def _child(record: AvroType, number: int) -> AvroType:
    found = next((child.type.value for child in record.fields if child.id == number), None)
    return found or AvroType("record")


def _with_text(values: pa.StructArray, partition: Struct) -> pa.StructArray:
    """Return partition values with those as text whose types only the manifest knows."""
    arrays = []
    for index, child in enumerate(partition):
        own = values.field(index)
        if pt.is_binary(own.type) or pt.is_fixed_size_binary(own.type):
            own = pv.array([None if value is None else value.hex() for value in own.to_pylist()], pa.string())
        arrays.append(own.cast(pa.string()) if AS_TEXT in child.metadata else values.field(index))
    fields = [pa.field(child.name, array.type) for child, array in zip(partition, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())


def _check(table: pa.Table, manifest: Mapping[str, Any]) -> frozenset[int]:
    """Raise if an entry says what none may say; return which states there are."""
    states = frozenset(_distinct(table, "status"))
    if not states <= {0, 1, 2}:
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
            f"a file is of format {unknown[0]!r}", hint=f"supported are {', '.join(_FORMATS)}", feature=unknown[0]
        )
    return states


def _distinct(table: pa.Table, name: str) -> list[Any]:
    found: list[Any] = table.column(name).unique().to_pylist()
    return found


def _inherit(table: pa.Table, manifest: Mapping[str, Any], states: frozenset[int]) -> pa.Table:
    """Return entries with the values that they leave to the list ("Sequence Number Inheritance", "Row Lineage").

    Parameters
    ----------
    states
        The states of the entries: usually all files were added, or none, which takes less work.
    """
    sequence = manifest["sequence_number"]
    status = table.column("status")
    own = {
        "snapshot_id": table.column("snapshot_id").fill_null(pv.scalar(manifest["added_snapshot_id"]))
        if manifest["added_snapshot_id"] is not None
        else table.column("snapshot_id"),
        "content": table.column("content").fill_null(pv.scalar(DATA, pa.int32())),
    }
    for name in ("sequence_number", "file_sequence_number"):
        recorded = own[name] = table.column(name)
        if not recorded.null_count:
            continue
        # Files of version 1 have the number 0, like their manifests; otherwise only added files inherit the manifest's.
        if not sequence or states <= {ADDED}:
            own[name] = recorded if sequence is None else recorded.fill_null(pv.scalar(sequence))
        elif ADDED in states:
            inherits = pc.and_(recorded.is_null(), pc.equal(status, pv.scalar(ADDED)))
            own[name] = pc.if_else(inherits, pv.scalar(sequence, pa.int64()), recorded)
    unknown = own["sequence_number"]
    if unknown.null_count and pc.any(pc.and_(unknown.is_null(), _live(table)), min_count=0).as_py():
        raise CorruptMetadataError("an existing entry of a manifest has no sequence number, and must not inherit one")
    if "first_row_id" in table.column_names:
        own["first_row_id"] = _row_ids(table, manifest["first_row_id"])
    columns = [own.get(name, table.column(name)) for name in table.column_names]
    return pa.table(columns, names=table.column_names)


def _live(table: pa.Table) -> pa.ChunkedArray:
    return pc.not_equal(table.column("status"), pv.scalar(DELETED))


def _row_ids(table: pa.Table, first: int | None) -> pa.Array:
    """Return first row ids: files that have none take the next ones of the manifest."""
    recorded = table.column("first_row_id")
    if first is None:
        return pa.nulls(len(table), pa.int64())
    takes = pc.and_(recorded.is_null(), _live(table))
    counts = pc.if_else(takes, table.column("record_count"), pv.ZERO)
    before = pc.subtract(pc.cumulative_sum(counts), counts)
    return pc.if_else(takes, pc.add(before, pv.scalar(first, pa.int64())), recorded)
