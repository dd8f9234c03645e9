"""Metadata tables of snapshots, references and metadata files."""

from __future__ import annotations

import pyarrow as pa

from deltaberg.iceberg.inspect.readable import TIME
from deltaberg.iceberg.scan.source import IcebergSource

__all__ = ["history_table", "metadata_log_table", "refs_table", "snapshots_table"]

_TEXTS = pa.map_(pa.string(), pa.string())


def snapshots_table(source: IcebergSource) -> pa.Table:
    """Return the snapshots that the table still has."""
    schema = pa.schema(
        [
            ("committed_at", TIME),
            ("snapshot_id", pa.int64()),
            ("parent_id", pa.int64()),
            ("operation", pa.string()),
            ("manifest_list", pa.string()),
            ("summary", _TEXTS),
        ]
    )
    rows = [
        {
            "committed_at": found.timestamp_ms,
            "snapshot_id": found.snapshot_id,
            "parent_id": found.parent_snapshot_id,
            "operation": found.operation,
            "manifest_list": found.manifest_list,
            "summary": [(key, value) for key, value in found.summary.items() if key != "operation"],
        }
        for found in source.metadata.snapshots.values()
    ]
    return pa.Table.from_pylist(rows, schema)


def history_table(source: IcebergSource) -> pa.Table:
    """Return the entries of the snapshot log."""
    schema = pa.schema(
        [
            ("made_current_at", TIME),
            ("snapshot_id", pa.int64()),
            ("parent_id", pa.int64()),
            ("is_current_ancestor", pa.bool_()),
        ]
    )
    metadata = source.metadata
    current = metadata.current_snapshot
    ancestors = set() if current is None else {found.snapshot_id for found in metadata.ancestors(current)}
    rows = []
    for entry in metadata.snapshot_log:
        found = metadata.snapshots.get(entry.snapshot_id)
        rows.append(
            {
                "made_current_at": entry.timestamp_ms,
                "snapshot_id": entry.snapshot_id,
                "parent_id": None if found is None else found.parent_snapshot_id,
                "is_current_ancestor": entry.snapshot_id in ancestors,
            }
        )
    return pa.Table.from_pylist(rows, schema)


def refs_table(source: IcebergSource) -> pa.Table:
    """Return the branches and tags."""
    schema = pa.schema(
        [
            ("name", pa.string()),
            ("type", pa.string()),
            ("snapshot_id", pa.int64()),
            ("max_reference_age_in_ms", pa.int64()),
            ("min_snapshots_to_keep", pa.int32()),
            ("max_snapshot_age_in_ms", pa.int64()),
        ]
    )
    rows = [
        {
            "name": name,
            "type": ref.type.upper(),
            "snapshot_id": ref.snapshot_id,
            "max_reference_age_in_ms": ref.max_ref_age_ms,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
            "max_snapshot_age_in_ms": ref.max_snapshot_age_ms,
        }
        for name, ref in source.metadata.all_refs.items()
    ]
    return pa.Table.from_pylist(rows, schema)


def metadata_log_table(source: IcebergSource) -> pa.Table:
    """Return the metadata files, the current one last."""
    schema = pa.schema(
        [
            ("timestamp", TIME),
            ("file", pa.string()),
            ("latest_snapshot_id", pa.int64()),
            ("latest_schema_id", pa.int32()),
            ("latest_sequence_number", pa.int64()),
        ]
    )
    metadata = source.metadata
    entries = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    rows = []
    for millis, file in [*entries, (metadata.last_updated_ms, _recorded_file(source))]:
        logged = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= millis]
        found = metadata.snapshots.get(logged[-1]) if logged else None
        rows.append(
            {
                "timestamp": millis,
                "file": file,
                "latest_snapshot_id": None if found is None else found.snapshot_id,
                "latest_schema_id": None if found is None else found.schema_id,
                "latest_sequence_number": None if found is None else found.sequence_number,
            }
        )
    return pa.Table.from_pylist(rows, schema)


def _recorded_file(source: IcebergSource) -> str:
    """Return the path of the metadata file below the location that the table records, as former ones are recorded."""
    root = source.table.rstrip("/") + "/"
    if not source.metadata_file.startswith(root):
        return source.metadata_file
    return f"{source.metadata.location.rstrip('/')}/{source.metadata_file[len(root) :]}"
