"""Metadata tables: what a table's metadata says, as Arrow tables under the names that iceberg-spark gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.manifests import DATA, EQUALITY_DELETES, METRICS, POSITION_DELETES, ManifestPart
from deltaberg.iceberg.partitioning import union_values
from deltaberg.iceberg.planning import Entries
from deltaberg.iceberg.source import IcebergSource

__all__ = ["METADATA_TABLES", "inspect_table"]

_TIME = pa.timestamp("ms", "UTC")
_TEXTS = pa.map_(pa.string(), pa.string())
_FILE_REST = ("key_metadata", "split_offsets", "equality_ids", "sort_order_id", "first_row_id", "referenced_data_file")
_FILE_PART = ManifestPart(tuple(METRICS), None, (*_FILE_REST, "content_offset", "content_size_in_bytes"))
_ENTRY_COLUMNS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
_MANIFEST_NAMES = {
    "content": "content",
    "path": "manifest_path",
    "length": "manifest_length",
    "partition_spec_id": "partition_spec_id",
    "added_snapshot_id": "added_snapshot_id",
}


def inspect_table(source: IcebergSource, name: str) -> pa.Table:
    """Give a metadata table.

    Raises
    ------
    InvalidArgumentError
        Where there is none of the name.
    """
    make = _TABLES.get(name) if isinstance(name, str) else None
    if make is None:
        raise InvalidArgumentError(
            f"there is no metadata table {name!r:.200}", hint=f"known are {', '.join(METADATA_TABLES)}", table=source.table
        )
    return make(source)


def _snapshots(source: IcebergSource) -> pa.Table:
    schema = pa.schema(
        [
            ("committed_at", _TIME),
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


def _history(source: IcebergSource) -> pa.Table:
    schema = pa.schema(
        [
            ("made_current_at", _TIME),
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


def _refs(source: IcebergSource) -> pa.Table:
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
        for name, ref in source.metadata.refs.items()
    ]
    return pa.Table.from_pylist(rows, schema)


def _metadata_log(source: IcebergSource) -> pa.Table:
    schema = pa.schema(
        [
            ("timestamp", _TIME),
            ("file", pa.string()),
            ("latest_snapshot_id", pa.int64()),
            ("latest_schema_id", pa.int32()),
            ("latest_sequence_number", pa.int64()),
        ]
    )
    metadata = source.metadata
    entries = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    rows = []
    for millis, file in [*entries, (metadata.last_updated_ms, source.metadata_file)]:
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


def _manifests(source: IcebergSource) -> pa.Table:
    found = source.manifests
    columns = {name: found.column(column) for name, column in _MANIFEST_NAMES.items()}
    is_data = pc.equal(found.column("content"), DATA)
    for kind, mask in (("data", is_data), ("delete", pc.invert(is_data))):
        for state in ("added", "existing", "deleted"):
            counts = found.column(f"{state}_files_count")
            columns[f"{state}_{kind}_files_count"] = pc.if_else(mask, counts, pa.scalar(0, pa.int32()))
    columns["partition_summaries"] = found.column("partitions")
    return pa.table(columns)


def _all_manifests(source: IcebergSource) -> pa.Table:
    """Give the manifests of every snapshot, each with the snapshot that refers to it."""
    parts = []
    for snapshot in source.metadata.snapshots.values():
        found = _manifests(source.at(snapshot))
        number = pa.repeat(pa.scalar(snapshot.snapshot_id, pa.int64()), len(found))
        parts.append(found.append_column("reference_snapshot_id", number))
    if not parts:
        return _manifests(source).append_column("reference_snapshot_id", pa.array([], pa.int64()))
    return pa.concat_tables(parts)


def _entries_of(source: IcebergSource, contents: Iterable[int], part: ManifestPart) -> list[Entries]:
    wanted = pa.array(sorted({0 if content == DATA else 1 for content in contents}), pa.int32())
    chosen = source.manifests.filter(pc.is_in(source.manifests.column("content"), value_set=wanted))
    return source.reader.read(chosen.to_pylist(), part)


def _files(contents: Sequence[int]) -> Callable[[IcebergSource], pa.Table]:
    """Give what makes a table of live files of some contents."""

    def make(source: IcebergSource) -> pa.Table:
        parts = [_file_rows(found, source) for found in _entries_of(source, contents, _FILE_PART)]
        table = pa.concat_tables([part.drop_columns(list(_ENTRY_COLUMNS)) for part in parts] or [_no_files(source)])
        return table.filter(pc.is_in(table.column("content"), value_set=pa.array(contents, pa.int32())))

    return make


def _file_rows(found: Entries, source: IcebergSource) -> pa.Table:
    """Give entries with the partition struct of all specs and the number of their own."""
    table = found.table
    union = union_values(table.column("partition").combine_chunks(), found.partition, source.partition)
    names = [*_ENTRY_COLUMNS, "content", "file_path", "file_format"]
    columns = {name: table.column(name) for name in names}
    columns["spec_id"] = pa.repeat(pa.scalar(found.spec.spec_id, pa.int32()), len(table))
    columns["partition"] = union
    rest = ("record_count", "file_size_in_bytes", *METRICS, *_FILE_PART.rest)
    columns |= {name: table.column(name) for name in rest}
    return pa.table(columns)


def _no_files(source: IcebergSource) -> pa.Table:
    empty = source.reader.none(source.metadata.default_spec_id, _FILE_PART)
    return _file_rows(empty, source).drop_columns(list(_ENTRY_COLUMNS))


def _entries(source: IcebergSource) -> pa.Table:
    part = ManifestPart(_FILE_PART.metrics, None, _FILE_PART.rest, deleted=True)
    found = _entries_of(source, (DATA, POSITION_DELETES), part)
    parts = [_file_rows(entries, source) for entries in found]
    if not parts:
        parts = [_file_rows(source.reader.none(source.metadata.default_spec_id, part), source)]
    table = pa.concat_tables(parts).combine_chunks()
    names = [name for name in table.column_names if name not in _ENTRY_COLUMNS]
    arrays = [table.column(name).combine_chunks() for name in names]
    data_file = pa.StructArray.from_arrays(arrays, fields=[table.schema.field(name) for name in names])
    return table.select(list(_ENTRY_COLUMNS)).append_column("data_file", data_file)


def _partitions(source: IcebergSource) -> pa.Table:
    """Sum live files up by partition and spec."""
    table = pa.concat_tables(
        [_file_rows(found, source) for found in _entries_of(source, (DATA, POSITION_DELETES), _FILE_PART)]
        or [_file_rows(source.reader.none(source.metadata.default_spec_id, _FILE_PART), source)]
    )
    sums: dict[tuple[str, int], dict[str, Any]] = {}
    names = ["partition", "spec_id", "content", "record_count", "file_size_in_bytes", "snapshot_id"]
    for row in table.select(names).to_pylist():
        entry = sums.setdefault((repr(row["partition"]), row["spec_id"]), _no_sum(row))
        _add(entry, row, source)
    schema = pa.schema(
        [
            pa.field("partition", table.schema.field("partition").type),
            ("spec_id", pa.int32()),
            ("record_count", pa.int64()),
            ("file_count", pa.int32()),
            ("total_data_file_size_in_bytes", pa.int64()),
            ("position_delete_record_count", pa.int64()),
            ("position_delete_file_count", pa.int32()),
            ("equality_delete_record_count", pa.int64()),
            ("equality_delete_file_count", pa.int32()),
            ("last_updated_at", _TIME),
            ("last_updated_snapshot_id", pa.int64()),
        ]
    )
    return pa.Table.from_pylist(list(sums.values()), schema)


def _no_sum(row: dict[str, Any]) -> dict[str, Any]:
    counts = dict.fromkeys(("record_count", "file_count", "total_data_file_size_in_bytes"), 0)
    for kind in ("position", "equality"):
        counts |= {f"{kind}_delete_record_count": 0, f"{kind}_delete_file_count": 0}
    return {"partition": row["partition"], "spec_id": row["spec_id"], **counts, "last_updated_at": None}


def _add(entry: dict[str, Any], row: dict[str, Any], source: IcebergSource) -> None:
    if row["content"] == DATA:
        entry["record_count"] += row["record_count"]
        entry["file_count"] += 1
        entry["total_data_file_size_in_bytes"] += row["file_size_in_bytes"]
    else:
        kind = "position" if row["content"] == POSITION_DELETES else "equality"
        entry[f"{kind}_delete_record_count"] += row["record_count"]
        entry[f"{kind}_delete_file_count"] += 1
    snapshot = source.metadata.snapshots.get(row["snapshot_id"])
    if snapshot is not None and (entry["last_updated_at"] or 0) < snapshot.timestamp_ms:
        entry["last_updated_at"] = snapshot.timestamp_ms
        entry["last_updated_snapshot_id"] = snapshot.snapshot_id


_TABLES: dict[str, Callable[[IcebergSource], pa.Table]] = {
    "snapshots": _snapshots,
    "history": _history,
    "refs": _refs,
    "metadata_log_entries": _metadata_log,
    "manifests": _manifests,
    "all_manifests": _all_manifests,
    "files": _files((DATA, POSITION_DELETES, EQUALITY_DELETES)),
    "data_files": _files((DATA,)),
    "delete_files": _files((POSITION_DELETES, EQUALITY_DELETES)),
    "entries": _entries,
    "partitions": _partitions,
}
#: The names of the metadata tables.
METADATA_TABLES = tuple(_TABLES)
