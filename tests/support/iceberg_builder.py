"""Iceberg tables, built file by file: metadata as JSON, manifests by fastavro, data files by pyarrow and fastavro.

The package under test writes nothing here, except the bitmaps of deletion vectors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg import kernels
from tests.support.iceberg_avro import AVRO_TYPES, avro_type, entry_schema, optional, write_avro, write_list, write_rows
from tests.support.iceberg_orc import write_orc

__all__ = ["PATH_ID", "POS_ID", "IcebergBuilder", "IcebergFile", "arrow_of", "iceberg_fields"]

PATH_ID, POS_ID = 2147483546, 2147483545

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "uuid": pa.binary(16),
}


def iceberg_fields(**types: str) -> list[dict[str, Any]]:
    """Return optional fields with ids from 1 on."""
    return [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(types.items(), start=1)
    ]


def arrow_of(fields: Sequence[Mapping[str, Any]]) -> pa.Schema:
    """Return the Arrow schema of Iceberg fields, with ids."""
    return pa.schema([_arrow_field(child["name"], child["type"], child["id"]) for child in fields])


def _arrow_field(name: str, kind: Any, number: int) -> pa.Field:
    return pa.field(name, _arrow_type(kind), metadata={b"PARQUET:field_id": str(number)})


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        if kind.startswith("decimal"):
            precision, scale = kind[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
        if kind.startswith("fixed"):
            return pa.binary(int(kind[6:-1]))
        return _ARROW[kind]
    if kind["type"] == "struct":
        return pa.struct([_arrow_field(child["name"], child["type"], child["id"]) for child in kind["fields"]])
    if kind["type"] == "list":
        return pa.list_(_arrow_field("element", kind["element"], kind["element-id"]))
    key = _arrow_field("key", kind["key"], kind["key-id"]).with_nullable(False)
    return pa.map_(key, _arrow_field("value", kind["value"], kind["value-id"]))


@dataclass
class IcebergFile:
    """An entry of a manifest."""

    path: str
    rows: int
    size: int
    format: str = "parquet"
    content: int = 0
    spec_id: int = 0
    partition: dict[str, Any] = field(default_factory=dict)
    equality_ids: list[int] | None = None
    metrics: dict[str, dict[int, Any]] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


class IcebergBuilder:
    """A table under construction.

    Parameters
    ----------
    fields
        The columns, as the schema's JSON has them; a mapping of names to types stands for optional ones.
    specs
        The fields of each partition spec, as their JSON has them.
    """

    def __init__(
        self,
        root: Path,
        fields: Sequence[dict[str, Any]] | Mapping[str, str],
        *,
        format_version: int = 2,
        specs: Sequence[Sequence[dict[str, Any]]] = ((),),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.version = format_version
        self.schemas = [iceberg_fields(**fields) if isinstance(fields, Mapping) else list(fields)]
        self.specs = [[{"field-id": 1000 + number, **part} for number, part in enumerate(spec)] for spec in specs]
        self.properties = dict(properties or {})
        #: Whether manifests declare days as integers, as those of some writers do.
        self.days_are_integers = False
        self.snapshots: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []
        self.refs: dict[str, dict[str, Any]] = {}
        self.current: int | None = None
        self.sequence = 0
        self.metadata_version = 0
        self.extra: dict[str, Any] = {}
        self._manifests: dict[int, list[dict[str, Any]]] = {}
        self._files = 0
        (root / "metadata").mkdir(parents=True)
        (root / "data").mkdir()

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The columns of the newest schema."""
        return self.schemas[-1]

    def _path(self, suffix: str) -> Path:
        self._files += 1
        return self.root / "data" / f"{self._files:05}.{suffix}"

    def data(
        self,
        rows: Sequence[Mapping[str, Any]] | pa.Table,
        *,
        fields: Sequence[dict[str, Any]] | None = None,
        partition: Mapping[str, Any] | None = None,
        spec_id: int = 0,
        format: str = "parquet",
        metrics: Mapping[str, dict[int, Any]] | None = None,
        row_group_size: int | None = None,
        ids: bool = True,
        **more: Any,
    ) -> IcebergFile:
        """Write a data file with the fields of the newest schema, or with others."""
        columns = self.fields if fields is None else list(fields)
        schema = arrow_of(columns)
        if not ids:
            schema = pa.schema([child.remove_metadata() for child in schema])
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema)
        path = self._path(format)
        if format == "parquet":
            pq.write_table(table, path, row_group_size=row_group_size)
        elif format == "avro":
            write_rows(path, columns, table.to_pylist())
        else:
            write_orc(path, table)
        return IcebergFile(
            str(path),
            len(table),
            path.stat().st_size,
            format,
            0,
            spec_id,
            dict(partition or {}),
            None,
            dict(metrics or {}),
            more,
        )

    def position_deletes(
        self, deleted: Sequence[tuple[IcebergFile, int]], *, format: str = "parquet", **more: Any
    ) -> IcebergFile:
        """Write a position delete file, in the partition of the first data file."""
        fields = [
            {"id": PATH_ID, "name": "file_path", "required": True, "type": "string"},
            {"id": POS_ID, "name": "pos", "required": True, "type": "long"},
        ]
        rows = [{"file_path": file.path, "pos": pos} for file, pos in deleted]
        first = deleted[0][0]
        found = self.data(rows, fields=fields, partition=first.partition, spec_id=first.spec_id, format=format, **more)
        found.content = 1
        return found

    def equality_deletes(
        self,
        ids: Sequence[int],
        rows: Sequence[Mapping[str, Any]],
        *,
        fields: Sequence[dict[str, Any]] | None = None,
        **more: Any,
    ) -> IcebergFile:
        """Write an equality delete file that compares columns of these ids."""
        wanted = [child for child in (fields or self.fields) if child["name"] in rows[0]]
        found = self.data(rows, fields=wanted, **more)
        found.content, found.equality_ids = 2, list(ids)
        return found

    def deletion_vectors(
        self, deleted: Mapping[str, Sequence[int]], partition: Mapping[str, Any] | None = None
    ) -> list[IcebergFile]:
        """Write a Puffin file with a deletion vector for each data file."""
        path = self._path("puffin")
        body, blobs, vectors = b"PFA1", [], []
        for file, positions in deleted.items():
            blob = kernels.encode_bitmap(pa.array(sorted(positions), pa.uint64()), "puffin")
            properties = {"referenced-data-file": file, "cardinality": str(len(positions))}
            blobs.append(
                {
                    "type": "deletion-vector-v1",
                    "fields": [],
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": len(body),
                    "length": len(blob),
                    "properties": properties,
                }
            )
            more = {"referenced_data_file": file, "content_offset": len(body), "content_size_in_bytes": len(blob)}
            vectors.append(
                IcebergFile(str(path), len(positions), 0, "puffin", 1, 0, dict(partition or {}), None, {}, more)
            )
            body += blob
        footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
        body += b"PFA1" + footer + len(footer).to_bytes(4, "little") + b"\0\0\0\0" + b"PFA1"
        path.write_bytes(body)
        for vector in vectors:
            vector.size = len(body)
        return vectors

    def commit(
        self,
        *files: IcebergFile,
        removed: Sequence[IcebergFile] = (),
        manifests: Sequence[dict[str, Any]] | None = None,
        operation: str = "append",
        branch: str = "main",
        timestamp_ms: int | None = None,
        sequence: int | None = None,
    ) -> int:
        """Add a snapshot: the manifests of the one before, and new ones for the files; give its id.

        ``removed`` rewrites the manifests that hold those files, in which they become deleted entries.
        """
        self.sequence = self.sequence + 1 if sequence is None else sequence
        number = 1000 + len(self.snapshots)
        parent = self.refs[branch]["snapshot-id"] if branch in self.refs else self.current
        kept = list(self._manifests.get(parent, [])) if parent is not None else []
        gone = {file.path for file in removed}
        rows = [self._without(row, gone, number) if gone & row["paths"] else row for row in kept]
        rows += list(manifests or [])
        for content in (0, 1):
            for spec_id in sorted({file.spec_id for file in files}):
                mine = [file for file in files if (file.content > 0) == (content > 0) and file.spec_id == spec_id]
                if mine:
                    entries = [
                        {"status": 1, "snapshot_id": None, "sequence_number": None, "file": file} for file in mine
                    ]
                    rows.append(self.manifest(entries, content, spec_id, number))
        self._manifests[number] = rows
        path = self.root / "metadata" / f"snap-{number}.avro"
        write_list(path, rows, self.version)
        time = 1_700_000_000_000 + 1000 * number if timestamp_ms is None else timestamp_ms
        snapshot = {
            "snapshot-id": number,
            "timestamp-ms": time,
            "manifest-list": str(path),
            "summary": {"operation": operation},
            "schema-id": len(self.schemas) - 1,
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        if self.version > 1:
            snapshot["sequence-number"] = self.sequence
        if self.version > 2:
            snapshot |= {"first-row-id": 0, "added-rows": sum(file.rows for file in files if file.content == 0)}
        self.snapshots.append(snapshot)
        if branch == "main":
            self.current = number
            self.log.append({"timestamp-ms": time, "snapshot-id": number})
        self.refs[branch] = {"snapshot-id": number, "type": "branch"}
        self.write()
        return number

    def _without(self, row: dict[str, Any], gone: set[str], number: int) -> dict[str, Any]:
        """Rewrite a manifest: removed files become deleted entries, the others existing ones."""
        entries = []
        for entry in row["entries"]:
            if entry["status"] == 2:
                continue
            is_gone = entry["file"].path in gone
            sequence = row["sequence_number"] if entry["sequence_number"] is None else entry["sequence_number"]
            snapshot = row["added_snapshot_id"] if entry["snapshot_id"] is None else entry["snapshot_id"]
            entries.append(
                {
                    "status": 2 if is_gone else 0,
                    "sequence_number": sequence,
                    "snapshot_id": number if is_gone else snapshot,
                    "file": entry["file"],
                }
            )
        return self.manifest(entries, row["content"], row["partition_spec_id"], number)

    def manifest(
        self,
        entries: Sequence[dict[str, Any]],
        content: int = 0,
        spec_id: int = 0,
        snapshot_id: int = 0,
        **own: Any,
    ) -> dict[str, Any]:
        """Write a manifest; give its row of the manifest list."""
        path = self.root / "metadata" / f"m{self._files:05}-{snapshot_id}-{content}-{spec_id}-{len(entries)}.avro"
        self._files += 1
        spec = self.specs[spec_id]
        header = {
            "schema": json.dumps({"type": "struct", "schema-id": 0, "fields": self.fields}),
            "partition-spec": json.dumps(spec),
            "partition-spec-id": str(spec_id),
            "format-version": str(self.version),
            "content": "deletes" if content else "data",
        }
        records = [self._entry(entry, spec) for entry in entries]
        write_avro(path, entry_schema(self.version, self._partition_fields(spec)), records, header)
        counts = [sum(1 for entry in entries if entry["status"] == status) for status in (1, 0, 2)]
        sums = [sum(entry["file"].rows for entry in entries if entry["status"] == status) for status in (1, 0, 2)]
        row = {
            "manifest_path": str(path),
            "manifest_length": path.stat().st_size,
            "partition_spec_id": spec_id,
            "content": content,
            "sequence_number": self.sequence,
            "min_sequence_number": self.sequence,
            "added_snapshot_id": snapshot_id,
            "added_files_count": counts[0],
            "existing_files_count": counts[1],
            "deleted_files_count": counts[2],
            "added_rows_count": sums[0],
            "existing_rows_count": sums[1],
            "deleted_rows_count": sums[2],
            "partitions": None,
            "first_row_id": 0 if self.version > 2 and not content else None,
            "paths": {entry["file"].path for entry in entries},
            "entries": list(entries),
        }
        return row | own

    def _entry(self, entry: dict[str, Any], spec: Sequence[dict[str, Any]]) -> dict[str, Any]:
        file: IcebergFile = entry["file"]
        maps = {
            name: [{"key": key, "value": value} for key, value in found.items()] for name, found in file.metrics.items()
        }
        data_file = {
            "content": file.content,
            "file_path": file.path,
            "file_format": file.format.upper(),
            "partition": {part["name"]: file.partition.get(part["name"]) for part in spec},
            "record_count": file.rows,
            "file_size_in_bytes": file.size,
            "equality_ids": file.equality_ids,
            **maps,
            **file.more,
        }
        return {
            "status": entry["status"],
            "snapshot_id": entry["snapshot_id"],
            "sequence_number": entry["sequence_number"],
            "file_sequence_number": entry["sequence_number"],
            "data_file": data_file,
        }

    def _partition_fields(self, spec: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [optional(part["name"], part["field-id"], self._partition_type(part)) for part in spec]

    def _partition_type(self, part: Mapping[str, Any]) -> Any:
        transform = part["transform"]
        if transform in ("identity", "void") or transform.startswith("truncate"):
            source = next(
                child for fields in reversed(self.schemas) for child in fields if child["id"] == part["source-id"]
            )
            return avro_type(source["type"], part["field-id"])
        return AVRO_TYPES["date"] if transform == "day" and not self.days_are_integers else "int"

    def metadata(self) -> dict[str, Any]:
        """Return the table metadata."""
        highest = max((number for fields in self.schemas for number in _ids(fields)), default=0)
        schemas = [
            {"type": "struct", "schema-id": number, "fields": fields} for number, fields in enumerate(self.schemas)
        ]
        document: dict[str, Any] = {
            "format-version": self.version,
            "table-uuid": "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94",
            "location": str(self.root),
            "last-updated-ms": max([1_700_000_000_000, *(entry["timestamp-ms"] for entry in self.log)]),
            "last-column-id": highest,
            "schemas": schemas,
            "current-schema-id": len(schemas) - 1,
            "schema": schemas[-1],
            "partition-specs": [{"spec-id": number, "fields": spec} for number, spec in enumerate(self.specs)],
            "partition-spec": self.specs[-1],
            "default-spec-id": len(self.specs) - 1,
            "last-partition-id": 1999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": self.properties,
            "current-snapshot-id": self.current,
            "snapshots": self.snapshots,
            "snapshot-log": self.log,
            "metadata-log": [],
            "refs": self.refs,
        }
        if self.version > 1:
            document["last-sequence-number"] = self.sequence
            del document["schema"], document["partition-spec"]
        if self.version > 2:
            document["next-row-id"] = sum(snapshot["added-rows"] for snapshot in self.snapshots)
        return document | self.extra

    def write(self) -> Path:
        """Write the metadata as the next version, with the version hint."""
        self.metadata_version += 1
        path = self.root / "metadata" / f"v{self.metadata_version}.metadata.json"
        path.write_text(json.dumps(self.metadata()), encoding="utf-8")
        (self.root / "metadata" / "version-hint.text").write_text(str(self.metadata_version))
        return path


def _ids(fields: Any) -> list[int]:
    if isinstance(fields, list):
        return [number for child in fields for number in _ids(child)]
    if isinstance(fields, dict):
        own = [value for key, value in fields.items() if key in ("id", "element-id", "key-id", "value-id")]
        return own + [number for value in fields.values() for number in _ids(value)]
    return []
