"""Writes actions as the rows of Parquet checkpoints and sidecars."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Action", "rewrite", "with_column", "without_column", "write_actions"]

Action = dict[str, dict[str, Any]]

_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_COLUMNS = {
    "txn": [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())],
    "add": [
        ("path", pa.string()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _MAP),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ],
    "remove": [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ],
    "metaData": [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("createdTime", pa.int64()),
        ("configuration", _MAP),
    ],
    "protocol": [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ],
    "domainMetadata": [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())],
    "checkpointMetadata": [("version", pa.int64()), ("tags", _MAP)],
    "sidecar": [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", _MAP),
    ],
}


def write_actions(path: Path, actions: Sequence[Action], stats: str) -> None:
    """Write actions as the rows of a Parquet checkpoint; columns of actions that do not occur are left out."""
    present = [name for name in _COLUMNS if any(name in action for action in actions)]
    columns = {}
    for name in present:
        fields = list(_COLUMNS[name])
        bodies = [action.get(name) for action in actions]
        if name == "add" and stats in ("struct", "both"):
            parsed = [None if body is None or "stats" not in body else _parsed(body["stats"]) for body in bodies]
            parsed_type = pa.array([found for found in parsed if found is not None]).type
            fields.append(("stats_parsed", parsed_type))
            bodies = [
                None if body is None else {**body, "stats_parsed": found}
                for body, found in zip(bodies, parsed, strict=True)
            ]
        if name == "add" and stats in ("struct", "none"):
            fields = [(key, kind) for key, kind in fields if key != "stats"]
        if name == "add" and any("partitionValues_parsed" in body for body in bodies if body is not None):
            typed = [None if body is None else body.get("partitionValues_parsed") for body in bodies]
            fields.append(("partitionValues_parsed", pa.array(typed).type))
        rows = [None if body is None else {key: _cell(body.get(key), kind) for key, kind in fields} for body in bodies]
        columns[name] = pa.array(rows, pa.struct(fields))
    pq.write_table(pa.table(columns), path, store_schema=False)


def _parsed(stats: Any) -> Any:
    """Return statistics as a dictionary; typed ones already are dictionaries."""
    return json.loads(stats) if isinstance(stats, str) else stats


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows and columns of a Parquet file."""
    pq.write_table(change(pq.ParquetFile(path).read()), path, store_schema=False)


def without_column(table: pa.Table, name: str, inside: str | None = None) -> pa.Table:
    """Remove a column from a table, or a field from a column of structs."""
    if inside is None:
        return table.drop_columns([name])
    column = table.column(name).combine_chunks()
    fields = [field for field in column.type if field.name != inside]
    return _with_fields(table, name, [column.field(field.name) for field in fields], fields)


def with_column(table: pa.Table, name: str, inside: str, values: pa.Array) -> pa.Table:
    """Add a field to a column of structs, or replace the one of that name."""
    column = table.column(name).combine_chunks()
    fields = {field.name: (column.field(field.name), field) for field in column.type}
    fields[inside] = (values, pa.field(inside, values.type))
    arrays, types = zip(*fields.values(), strict=True)
    return _with_fields(table, name, list(arrays), list(types))


def _with_fields(table: pa.Table, name: str, arrays: list[pa.Array], fields: list[pa.Field]) -> pa.Table:
    column = table.column(name).combine_chunks()
    changed = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
    return table.set_column(table.schema.get_field_index(name), name, changed)


def _cell(value: Any, kind: pa.DataType) -> Any:
    """Return maps as pairs, as pyarrow takes them."""
    if isinstance(value, dict) and pa.types.is_map(kind):
        return list(value.items())
    if isinstance(value, dict) and pa.types.is_struct(kind):
        kinds = {child.name: child.type for child in kind}
        return {name: _cell(item, kinds[name]) for name, item in value.items() if name in kinds}
    return value
