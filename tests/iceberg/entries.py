"""Manifests as they are read, and manifests rewritten the way other writers would have written them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro

from deltaberg.iceberg.manifests.fields import ManifestPart
from deltaberg.iceberg.manifests.manifest_list import read_manifest_list
from deltaberg.iceberg.manifests.manifests import read_manifest
from deltaberg.schema.types import Struct
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

__all__ = ["NO_PARTITION", "added", "entry", "field_of", "latest_list", "list_rows", "read_entries", "rewrite_avro"]

NO_PARTITION = Struct(())


def entry(file: IcebergFile, status: int = 1, sequence: int | None = None, snapshot: int | None = None) -> Any:
    """Return an entry for `IcebergBuilder.manifest`."""
    return {"status": status, "snapshot_id": snapshot, "sequence_number": sequence, "file": file}


def added(*files: IcebergFile) -> list[Any]:
    """Return entries of files that inherit everything."""
    return [entry(file) for file in files]


def latest_list(builder: IcebergBuilder) -> Path:
    """Return the path of the newest manifest list."""
    return Path(builder.snapshots[-1]["manifest-list"])


def list_rows(builder: IcebergBuilder) -> list[dict[str, Any]]:
    """Return the newest manifest list as it is read."""
    found: list[dict[str, Any]] = read_manifest_list(latest_list(builder).read_bytes()).to_pylist()
    return found


def read_entries(
    builder: IcebergBuilder,
    number: int = 0,
    *,
    partition: Struct = NO_PARTITION,
    metrics: tuple[str, ...] = (),
    rest: tuple[str, ...] = (),
    deleted: bool = True,
) -> list[dict[str, Any]]:
    """Return the entries of a manifest of the newest snapshot as they are read."""
    row = list_rows(builder)[number]
    data = Path(row["manifest_path"]).read_bytes()
    part = ManifestPart(metrics=metrics, rest=rest, deleted=deleted)
    found: list[dict[str, Any]] = read_manifest(data, row, partition, part).to_pylist()
    return found


def field_of(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field of an Avro record, or of the record that is its field ``data_file``."""
    fields: list[dict[str, Any]] = list(schema["fields"])
    for child in schema["fields"]:
        if child["name"] == "data_file":
            fields += child["type"]["fields"]
    return next(child for child in fields if child["name"] == name)


def rewrite_avro(
    path: Path,
    *,
    schema: Callable[[dict[str, Any]], Any] | None = None,
    record: Callable[[dict[str, Any]], Any] | None = None,
    header: Mapping[str, str | None] | None = None,
    codec: str = "deflate",
) -> None:
    """Rewrite an Avro file with its schema and records changed in place, and header keys set, or removed (None)."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Any] = list(reader)
        writer_schema: Any = reader.writer_schema
        kept = {key: text for key, text in reader.metadata.items() if not key.startswith("avro.")}
    for row in records:
        if record is not None:
            record(row)
    if schema is not None:
        schema(writer_schema)
    metadata = {key: text for key, text in (kept | dict(header or {})).items() if text is not None}
    buffer = io.BytesIO()
    parsed = fastavro.parse_schema(_plain(writer_schema))
    fastavro.writer(buffer, parsed, records, codec=codec, metadata=metadata)
    path.write_bytes(buffer.getvalue())


def _plain(schema: Any) -> Any:
    """Return a schema without the marks of fastavro, and without defaults, which may not fit changed types."""
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if key != "default" and not key.startswith("__")}
        return {key: _plain(value) for key, value in kept.items()}
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema
