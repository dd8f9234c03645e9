"""Metadata tables of snapshots, references and metadata files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from deltaberg.iceberg.inspect.readable import TIME
from deltaberg.iceberg.scan.source import IcebergSource

__all__ = ["history_table", "metadata_log_table", "refs_table", "snapshots_table"]

_LONG, _TEXT = pa.int64(), pa.string()


def _table(columns: dict[str, pa.DataType], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return a table of rows, whose values are in the order of the columns."""
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], pa.schema(columns))


def snapshots_table(source: IcebergSource) -> pa.Table:
    """Return the snapshots that the table still has."""
    columns = {"committed_at": TIME, "snapshot_id": _LONG, "parent_id": _LONG, "operation": _TEXT}
    columns |= {"manifest_list": _TEXT, "summary": pa.map_(_TEXT, _TEXT)}
    rows = []
    for found in source.metadata.snapshots.values():
        summary = [(key, value) for key, value in found.summary.items() if key != "operation"]
        ids = (found.snapshot_id, found.parent_snapshot_id)
        rows.append((found.timestamp_ms, *ids, found.operation, found.manifest_list, summary))
    return _table(columns, rows)


def history_table(source: IcebergSource) -> pa.Table:
    """Return the entries of the snapshot log."""
    columns = {"made_current_at": TIME, "snapshot_id": _LONG, "parent_id": _LONG, "is_current_ancestor": pa.bool_()}
    metadata = source.metadata
    current = metadata.current_snapshot
    ancestors = set() if current is None else {found.snapshot_id for found in metadata.ancestors(current)}
    rows = []
    for entry in metadata.snapshot_log:
        found = metadata.snapshots.get(entry.snapshot_id)
        parent = None if found is None else found.parent_snapshot_id
        rows.append((entry.timestamp_ms, entry.snapshot_id, parent, entry.snapshot_id in ancestors))
    return _table(columns, rows)


def refs_table(source: IcebergSource) -> pa.Table:
    """Return the branches and tags."""
    columns = {"name": _TEXT, "type": _TEXT, "snapshot_id": _LONG, "max_reference_age_in_ms": _LONG}
    columns |= {"min_snapshots_to_keep": pa.int32(), "max_snapshot_age_in_ms": _LONG}
    rows = []
    for name, ref in source.metadata.all_refs.items():
        kept = (ref.max_ref_age_ms, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms)
        rows.append((name, ref.type.upper(), ref.snapshot_id, *kept))
    return _table(columns, rows)


def metadata_log_table(source: IcebergSource) -> pa.Table:
    """Return the metadata files, the current one last."""
    columns = {"timestamp": TIME, "file": _TEXT, "latest_snapshot_id": _LONG}
    columns |= {"latest_schema_id": pa.int32(), "latest_sequence_number": _LONG}
    metadata = source.metadata
    entries = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    rows: list[Sequence[Any]] = []
    for millis, file in [*entries, (metadata.last_updated_ms, _recorded_file(source))]:
        logged = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= millis]
        found = metadata.snapshots.get(logged[-1]) if logged else None
        latest = (None,) * 3 if found is None else (found.snapshot_id, found.schema_id, found.sequence_number)
        rows.append((millis, file, *latest))
    return _table(columns, rows)


def _recorded_file(source: IcebergSource) -> str:
    """Return the path of the metadata file below the location that the table records, as former ones are recorded."""
    root = source.table.rstrip("/") + "/"
    if not source.metadata_file.startswith(root):
        return source.metadata_file
    return f"{source.metadata.location.rstrip('/')}/{source.metadata_file[len(root) :]}"
