"""Writing manifests (Iceberg spec, "Manifests")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError
from deltaberg.files.avro.encode import UUID, write_avro
from deltaberg.iceberg.manifests.fields import (
    ADDED,
    DATA,
    DELETED,
    ENTRY_FIELDS,
    EQUALITY_DELETES,
    EXISTING,
    FURTHER,
    METRICS,
    POSITION_DELETES,
    file_fields,
    numbered,
)
from deltaberg.iceberg.manifests.summaries import partition_summaries
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.specs import PartitionSpec, encode_spec
from deltaberg.iceberg.partition.structs import AS_TEXT
from deltaberg.iceberg.schema.schema import encode_schema
from deltaberg.kernels.results import empty_structs
from deltaberg.lossless_json import write_json
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import Field, Primitive, Struct

__all__ = ["ManifestHeader", "encode_manifest", "manifest_row", "partition_values", "retyped", "with_required_parts"]

#: The value that version 1 requires, and nobody reads.
_BLOCK_SIZE = 64 << 20
#: Chunks of so many entries are not copied together.
_LARGE_CHUNK = 4096
#: The format versions that brought fields; the others have been there from the beginning.
_SINCE = dict.fromkeys(
    ("sequence_number", "file_sequence_number", "content", "equality_ids", "referenced_data_file"), 2
)
_SINCE |= dict.fromkeys(("first_row_id", "content_offset", "content_size_in_bytes"), 3)


@dataclass(frozen=True)
class ManifestHeader:
    """The facts that hold for all entries of a manifest.

    Parameters
    ----------
    format_version
        The version of the format, 1 to 3.
    content
        What the files are: 0 for data files, 1 for delete files.
    schema_json
        The JSON of the table's schema, and its id.
    spec
        The partition spec of the files.
    partition
        The struct of the spec (`partition_struct`).
    """

    format_version: int
    content: int
    schema_json: str
    schema_id: int
    spec: PartitionSpec
    partition: Struct

    @classmethod
    def of(cls, metadata: TableMetadata, spec: PartitionSpec, partition: Struct, content: int) -> ManifestHeader:
        """Return the header of a new manifest of a table."""
        schema = metadata.current_schema
        text = write_json(encode_schema(schema))
        return cls(metadata.format_version, content, text, schema.schema_id, spec, partition)

    def pairs(self) -> dict[str, str]:
        """Return the metadata of the file."""
        pairs = {
            "schema": self.schema_json,
            "schema-id": str(self.schema_id),
            "partition-spec": write_json(encode_spec(self.spec)["fields"]),
            "partition-spec-id": str(self.spec.spec_id),
            "format-version": str(self.format_version),
        }
        return pairs if self.format_version == 1 else {**pairs, "content": ("data", "deletes")[self.content]}


def encode_manifest(
    entries: pa.Table, header: ManifestHeader, codec: str = "deflate", level: int | None = None, threads: int = 0
) -> bytes:
    """Return the bytes of a manifest.

    Parameters
    ----------
    entries
        Entries with columns of `read_manifest`; optional ones may be missing. Fields that the format version does not
        have are not written.
    header
        What holds for all entries.
    codec, level, threads
        See `write_avro`.

    Raises
    ------
    InvalidArgumentError
        If an entry says what none may say: a file of the other content, no sequence number although the file is not
        added, equality deletes without columns, or nothing where a value is required.
    """
    _check(entries, header)
    table = pa.concat_tables([_as_written(piece, header) for piece in _pieces(entries)])
    return write_avro(table, name="manifest_entry", metadata=header.pairs(), codec=codec, level=level, threads=threads)


def _pieces(entries: pa.Table) -> list[pa.Table]:
    """Return entries in pieces of one chunk each, unless these are small.

    Entries of large manifests that are merged stay where they were read, since their metrics take most of the memory;
    those of small ones are copied together, since a block of the file does not go on in another chunk.
    """
    chunks = entries.column(0).num_chunks
    if len(entries) < chunks * _LARGE_CHUNK:
        return [entries]
    return [pa.Table.from_batches([batch]) for batch in entries.to_batches()] or [entries]


def _as_written(entries: pa.Table, header: ManifestHeader) -> pa.Table:
    """Return entries in the columns that the format version has."""
    version = header.format_version
    files = [(field, _column(entries, field, header)) for field in _file_fields(entries, header)]
    fields, arrays = [field for field, _ in files], [array for _, array in files]
    data_file = pa.StructArray.from_arrays(arrays, fields=fields)
    kept = [field for field in ENTRY_FIELDS if _SINCE.get(field.name, 1) <= version]
    # Version 1 requires the id of the snapshot.
    needed = ("snapshot_id",) if version == 1 else ()
    own = [field.with_nullable(field.nullable and field.name not in needed) for field in kept]
    schema = pa.schema([*own, numbered("data_file", 2, data_file.type, required=True)])
    columns = [*(_column(entries, field, header) for field in own), data_file]
    return pa.Table.from_arrays(columns, schema=schema)


def _file_fields(entries: pa.Table, header: ManifestHeader) -> list[pa.Field]:
    stored = entries.schema.field("partition").type
    values = [_partition_field(child, stored.field(at).type) for at, child in enumerate(header.partition)]
    fields = [
        *(field.with_nullable(False) for field in file_fields(values)),
        *(with_required_parts(field) for field, _ in METRICS.values()),
        *(with_required_parts(field) for field in FURTHER.values()),
    ]
    if header.format_version == 1:
        fields.insert(6, numbered("block_size_in_bytes", 105, pa.int64(), required=True))
    return [field for field in fields if _SINCE.get(field.name, 1) <= header.format_version]


def _partition_field(child: Field, stored: pa.DataType) -> pa.Field:
    field = numbered(child.name, child.id or 0, stored if AS_TEXT in child.metadata else arrow_type(child.type))
    return field.with_metadata(field.metadata | UUID) if child.type == Primitive("uuid") else field


def with_required_parts(field: pa.Field) -> pa.Field:
    """Return a field whose elements or values cannot be null, as the specification has them."""
    kind = field.type
    if pt.is_map(kind):
        return field.with_type(pa.map_(kind.key_field, kind.item_field.with_nullable(False)))
    return field.with_type(pa.list_(kind.value_field.with_nullable(False))) if pt.is_list(kind) else field


def _column(entries: pa.Table, field: pa.Field, header: ManifestHeader) -> pa.Array:
    """Return a column of the entries as the field has it."""
    name, rows = field.name, len(entries)
    if name == "block_size_in_bytes":
        return pa.repeat(pa.scalar(_BLOCK_SIZE, pa.int64()), rows)
    is_given = name in entries.column_names
    column = as_array(entries.column(name)) if is_given else pa.nulls(rows, field.type)
    if name == "content":
        column = column.fill_null(DATA)
    if name == "equality_ids" and header.content == 0:
        column = pa.nulls(rows, field.type)
    if name == "partition":
        return partition_values(column, field)
    if column.null_count and not field.nullable:
        raise InvalidArgumentError(f"an entry of a manifest has no {name}, which is required", column=name)
    return retyped(column, field)


def partition_values(found: pa.StructArray, field: pa.Field) -> pa.StructArray:
    """Return partition values in the types that the field of a manifest has."""
    if not field.type.num_fields:
        return empty_structs(len(found))
    values = [pc.struct_field(found, at) for at in range(field.type.num_fields)]
    values = [
        value if value.type == child.type else value.cast(child.type)
        for value, child in zip(values, field.type, strict=True)
    ]
    return pa.StructArray.from_arrays(values, fields=list(field.type))


def retyped(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return values with the names, ids and nullability that a field has.

    Raises
    ------
    InvalidArgumentError
        If a list or a map holds a null, and the field allows none.
    """
    kind = field.type
    if array.type.equals(kind, check_metadata=True):
        return array
    if not (pt.is_map(kind) or pt.is_list(kind)):
        return array.cast(kind)
    if pt.is_map(kind):
        keys, items = array.keys.cast(kind.key_type), _full(array.items.cast(kind.item_type), field)
        inner = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    else:
        inner = _full(array.values.cast(kind.value_type), field)
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(kind, len(array), [validity, offsets], offset=array.offset, children=[inner])


def _full(items: pa.Array, field: pa.Field) -> pa.Array:
    if items.null_count:
        raise InvalidArgumentError(f"{field.name} of an entry of a manifest holds a null", column=field.name)
    return items


def _check(entries: pa.Table, header: ManifestHeader) -> None:
    """Raise if an entry says what none may say."""
    if header.format_version == 1 and header.content:
        raise InvalidArgumentError("a table of version 1 has no delete files")
    contents = _distinct(entries, "content", DATA)
    allowed = {DATA} if header.content == 0 else {POSITION_DELETES, EQUALITY_DELETES}
    if not contents <= allowed:
        kind = ("data", "delete")[header.content]
        raise InvalidArgumentError(
            f"a manifest of {kind} files cannot hold a file of content {max(contents - allowed)}"
        )
    if not _distinct(entries, "status", -1) <= {EXISTING, ADDED, DELETED}:
        raise InvalidArgumentError("the status of an entry must be 0, 1 or 2")
    if header.format_version > 1:
        # Only added files inherit the number of their manifest.
        unnumbered = _nulls(entries, "sequence_number")
        kept = pc.not_equal(as_array(entries.column("status")), ADDED)
        if pc.any(pc.and_(unnumbered, kept), min_count=0).as_py():
            raise InvalidArgumentError("an entry that is not added has no sequence number of its own")
    if EQUALITY_DELETES in contents:
        equality = pc.equal(as_array(entries.column("content")), EQUALITY_DELETES)
        if pc.any(pc.and_(_nulls(entries, "equality_ids"), equality), min_count=0).as_py():
            raise InvalidArgumentError("an equality delete file has no equality_ids")


def _distinct(entries: pa.Table, name: str, default: int) -> set[int]:
    if name not in entries.column_names:
        return {default}
    found = entries.column(name).unique().to_pylist()
    return {default if value is None else value for value in found}


def _nulls(entries: pa.Table, name: str) -> pa.BooleanArray:
    if name not in entries.column_names:
        return pa.repeat(True, len(entries))
    return as_array(entries.column(name).is_null())


def manifest_row(
    entries: pa.Table,
    header: ManifestHeader,
    path: str,
    length: int,
    *,
    snapshot_id: int,
    sequence_number: int | None = None,
) -> dict[str, Any]:
    """Return the row of a manifest in the manifest list, with the columns of `MANIFESTS`.

    Parameters
    ----------
    entries, header
        What was written.
    path, length
        Where it was written, and the number of bytes.
    snapshot_id
        The snapshot that adds the manifest.
    sequence_number
        The number of that snapshot, 0 in version 1. None leaves it to the commit, as `complete_rows` does: a
        manifest is written once, and each attempt to commit it has its own number.
    """
    status = as_array(entries.column("status"))
    records = as_array(entries.column("record_count"))
    row: dict[str, Any] = {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": header.spec.spec_id,
        "content": header.content,
        "sequence_number": sequence_number,
        "min_sequence_number": _least_number(entries, status, header, sequence_number),
        "added_snapshot_id": snapshot_id,
    }
    for name, code in (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED)):
        chosen = pc.equal(status, code)
        row[f"{name}_files_count"] = pc.sum(chosen, min_count=0).as_py() or 0
        row[f"{name}_rows_count"] = pc.sum(records.filter(chosen), min_count=0).as_py() or 0
    values = as_array(entries.column("partition"))
    return {
        **row,
        "partitions": partition_summaries(values, header.partition),
        "key_metadata": None,
        "first_row_id": None,
    }


def _least_number(
    entries: pa.Table, status: pa.Array, header: ManifestHeader, sequence_number: int | None
) -> int | None:
    """Return the least sequence number of the live files; those that inherit it have the greatest."""
    if header.format_version == 1 or "sequence_number" not in entries.column_names:
        return sequence_number
    live = as_array(entries.column("sequence_number")).filter(pc.not_equal(status, DELETED))
    found: int | None = pc.min(live).as_py()
    return sequence_number if found is None else found
