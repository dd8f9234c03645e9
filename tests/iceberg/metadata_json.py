"""Table metadata of every format version, as JSON objects that tests change."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import read_metadata

__all__ = ["COLUMNS", "SCHEMA", "SNAPSHOT", "document", "parse", "parse_with", "schema_of", "write_metadata"]

COLUMNS: list[dict[str, Any]] = [{"id": 1, "name": "id", "required": True, "type": "long"}]
SCHEMA: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": COLUMNS}
#: A snapshot of version 2 and up.
SNAPSHOT: dict[str, Any] = {
    "snapshot-id": 10,
    "sequence-number": 1,
    "timestamp-ms": 100,
    "manifest-list": "s3://bucket/table/metadata/snap-10.avro",
    "summary": {"operation": "append"},
}
_COMMON = {
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://bucket/table",
    "last-updated-ms": 200,
    "last-column-id": 1,
}


def document(version: int = 2, *, without: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    """Return minimal metadata of a table without snapshots; names of members have underscores for hyphens."""
    metadata: dict[str, Any] = {"format-version": version, **_COMMON}
    if version == 1:
        metadata |= {"schema": SCHEMA, "partition-spec": []}
    else:
        metadata |= {
            "last-sequence-number": 1,
            "schemas": [SCHEMA],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
        }
    if version > 2:
        metadata["next-row-id"] = 0
    metadata |= {name.replace("_", "-"): value for name, value in members.items()}
    return copy.deepcopy({name: value for name, value in metadata.items() if name not in without})


def parse(found: Any) -> TableMetadata:
    """Read a JSON object as metadata."""
    return read_metadata(json.dumps(found).encode())


def parse_with(version: int = 2, **members: Any) -> TableMetadata:
    """Read minimal metadata with some members changed."""
    return parse(document(version, **members))


def schema_of(*fields: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return a schema of fields."""
    return {"type": "struct", "schema-id": 0, "fields": list(fields), **members}


def write_metadata(root: Path, name: str, found: dict[str, Any] | None = None) -> Path:
    """Write metadata as a file of a table's directory."""
    target = root / "metadata" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document() if found is None else found), encoding="utf-8")
    return target
