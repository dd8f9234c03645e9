"""Manifests, manifest lists and Avro data files for tests, written by fastavro."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro

__all__ = ["AVRO_TYPES", "avro_type", "entry_schema", "optional", "write_avro", "write_list", "write_rows"]

AVRO_TYPES: dict[str, Any] = {
    **{name: name for name in ("boolean", "int", "long", "float", "double", "string")},
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "time": {"type": "long", "logicalType": "time-micros"},
}


def entry_schema(version: int, partition: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of manifest entries with these partition fields."""
    data_file = [
        {"name": "content", "type": "int", "default": 0, "field-id": 134},
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "partition", "type": {"type": "record", "name": "r102", "fields": partition}, "field-id": 102},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        optional("value_counts", 109, _pairs(119, 120, "long")),
        optional("null_value_counts", 110, _pairs(121, 122, "long")),
        optional("nan_value_counts", 137, _pairs(138, 139, "long")),
        optional("lower_bounds", 125, _pairs(126, 127, "bytes")),
        optional("upper_bounds", 128, _pairs(129, 130, "bytes")),
        optional("key_metadata", 131, "bytes"),
        optional("split_offsets", 132, {"type": "array", "items": "long", "element-id": 133}),
        optional("equality_ids", 135, {"type": "array", "items": "int", "element-id": 136}),
        optional("sort_order_id", 140, "int"),
        optional("first_row_id", 142, "long"),
        optional("referenced_data_file", 143, "string"),
        optional("content_offset", 144, "long"),
        optional("content_size_in_bytes", 145, "long"),
    ]
    if version == 1:
        data_file = data_file[1:]
    entry = [
        {"name": "status", "type": "int", "field-id": 0},
        optional("snapshot_id", 1, "long"),
        *([optional("sequence_number", 3, "long"), optional("file_sequence_number", 4, "long")] if version > 1 else []),
        {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": data_file}, "field-id": 2},
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def write_list(path: Path, rows: Sequence[dict[str, Any]], version: int) -> None:
    """Write a manifest list."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            {"name": "contains_null", "type": "boolean", "field-id": 509},
            optional("contains_nan", 518, "boolean"),
            optional("lower_bound", 510, "bytes"),
            optional("upper_bound", 511, "bytes"),
        ],
    }
    names = [
        ("manifest_path", 500, "string"),
        ("manifest_length", 501, "long"),
        ("partition_spec_id", 502, "int"),
        ("content", 517, "int"),
        ("sequence_number", 515, "long"),
        ("min_sequence_number", 516, "long"),
        ("added_snapshot_id", 503, "long"),
        ("added_files_count", 504, "int"),
        ("existing_files_count", 505, "int"),
        ("deleted_files_count", 506, "int"),
        ("added_rows_count", 512, "long"),
        ("existing_rows_count", 513, "long"),
        ("deleted_rows_count", 514, "long"),
    ]
    if version == 1:
        names = [name for name in names if name[1] not in (517, 515, 516)]
    fields = [{"name": name, "type": kind, "field-id": number} for name, number, kind in names]
    fields += [
        optional("partitions", 507, {"type": "array", "items": summary, "element-id": 508}),
        optional("key_metadata", 519, "bytes"),
        optional("first_row_id", 520, "long"),
    ]
    write_avro(
        path,
        {"type": "record", "name": "manifest_file", "fields": fields},
        rows,
        {"format-version": str(version)},
    )


def optional(name: str, number: int, kind: Any) -> dict[str, Any]:
    """Return an optional field with its id."""
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _pairs(key: int, value: int, kind: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "int", "field-id": key}, {"name": "value", "type": kind, "field-id": value}]
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": f"k{key}_v{value}", "fields": fields},
    }


def write_avro(
    path: Path, schema: dict[str, Any], rows: Sequence[Mapping[str, Any]], header: Mapping[str, str]
) -> None:
    """Write rows of an Avro schema."""
    buffer = io.BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(schema), rows, codec="deflate", metadata=dict(header))
    path.write_bytes(buffer.getvalue())


def write_rows(path: Path, fields: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of Iceberg fields."""
    schema = {
        "type": "record",
        "name": "row",
        "fields": [optional(c["name"], c["id"], avro_type(c["type"], c["id"])) for c in fields],
    }
    records = [{child["name"]: _avro_value(row.get(child["name"]), child["type"]) for child in fields} for row in rows]
    write_avro(path, schema, records, {})


def _avro_value(value: Any, kind: Any) -> Any:
    """Return a value in the form of the Avro type, in which map entries are records."""
    if value is None or isinstance(kind, str):
        return value
    if kind["type"] == "struct":
        return {child["name"]: _avro_value(value.get(child["name"]), child["type"]) for child in kind["fields"]}
    if kind["type"] == "list":
        return [_avro_value(element, kind["element"]) for element in value]
    return [{"key": _avro_value(k, kind["key"]), "value": _avro_value(v, kind["value"])} for k, v in value]


def avro_type(kind: Any, number: int) -> Any:
    """Return the type of a column with this id."""
    if isinstance(kind, str):
        return AVRO_TYPES.get(kind) or _fixed_type(kind, number)
    if kind["type"] == "struct":
        fields = [
            optional(child["name"], child["id"], avro_type(child["type"], child["id"])) for child in kind["fields"]
        ]
        return {"type": "record", "name": f"s{number}", "fields": fields}
    if kind["type"] == "list":
        items = ["null", avro_type(kind["element"], kind["element-id"])]
        return {"type": "array", "items": items, "element-id": kind["element-id"]}
    pair = [
        {"name": "key", "type": avro_type(kind["key"], kind["key-id"]), "field-id": kind["key-id"]},
        optional("value", kind["value-id"], avro_type(kind["value"], kind["value-id"])),
    ]
    return {"type": "array", "logicalType": "map", "items": {"type": "record", "name": f"m{number}", "fields": pair}}


def _fixed_type(kind: str, number: int) -> dict[str, Any]:
    """Return a type of fixed length: a uuid, a decimal or a fixed."""
    stored: dict[str, Any] = {"type": "fixed", "name": f"fixed_{number}", "size": 16}
    if kind == "uuid":
        return stored | {"logicalType": "uuid"}
    if kind.startswith("decimal"):
        precision, scale = (int(part) for part in kind[8:-1].split(","))
        return stored | {"logicalType": "decimal", "precision": precision, "scale": scale}
    return stored | {"size": int(kind[6:-1])}
