"""Metadata tables: what a table's metadata says, as Arrow tables under the names that iceberg-spark gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.delete_index import row_codes
from deltaberg.iceberg.manifests import DATA, EQUALITY_DELETES, METRICS, POSITION_DELETES, ManifestPart
from deltaberg.iceberg.partitioning import union_values
from deltaberg.iceberg.planning import Entries
from deltaberg.iceberg.readable import readable_metrics, readable_summaries
from deltaberg.iceberg.source import IcebergSource
from deltaberg.table import checked_text

__all__ = ["METADATA_TABLES", "content_sums", "inspect_table"]

_TIME = pa.timestamp("ms", "UTC")
_TEXTS = pa.map_(pa.string(), pa.string())
_FILE_REST = ("key_metadata", "split_offsets", "equality_ids", "sort_order_id", "first_row_id", "referenced_data_file")
_FILE_PART = ManifestPart(tuple(METRICS), None, (*_FILE_REST, "content_offset", "content_size_in_bytes"))
#: What sums of files need: nothing but what is read of every entry.
_SUM_PART = ManifestPart()
_ENTRY_COLUMNS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
_READABLE = "readable_metrics"
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
    known = f"known are {', '.join(METADATA_TABLES)}"
    make = _TABLES.get(checked_text("the name of a metadata table", name, known))
    if make is None:
        raise InvalidArgumentError(f"there is no metadata table {name!r:.200}", hint=known, table=source.table)
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
    """Give the metadata file as the table records its former ones: below the table's recorded location."""
    root = source.table.rstrip("/") + "/"
    if not source.metadata_file.startswith(root):
        return source.metadata_file
    return f"{source.metadata.location.rstrip('/')}/{source.metadata_file[len(root) :]}"


def _manifests(source: IcebergSource) -> pa.Table:
    found = source.manifests
    columns = {name: found.column(column) for name, column in _MANIFEST_NAMES.items()}
    is_data = pc.equal(found.column("content"), DATA)
    for kind, mask in (("data", is_data), ("delete", pc.invert(is_data))):
        for state in ("added", "existing", "deleted"):
            counts = found.column(f"{state}_files_count")
            columns[f"{state}_{kind}_files_count"] = pc.if_else(mask, counts, pa.scalar(0, pa.int32()))
    columns["partition_summaries"] = readable_summaries(found, source.reader)
    return pa.table(columns)


def _all_manifests(source: IcebergSource) -> pa.Table:
    """Give the manifests of every snapshot, each with the snapshot that refers to it."""
    parts = []
    for snapshot in source.metadata.snapshots.values():
        then = source.at(snapshot)
        found = _manifests(then)
        number = pa.repeat(pa.scalar(snapshot.snapshot_id, pa.int64()), len(found))
        found = found.append_column("reference_snapshot_id", number)
        parts.append(found.append_column("key_metadata", then.manifests.column("key_metadata")))
    if not parts:
        none = _manifests(source).append_column("reference_snapshot_id", pa.array([], pa.int64()))
        return none.append_column("key_metadata", pa.array([], pa.binary()))
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
    """Give entries with the partition struct of all specs, the number of their own, and metrics that can be read."""
    table = found.table
    columns = {name: table.column(name) for name in (*_ENTRY_COLUMNS, "content", "file_path")}
    columns["file_format"] = pc.utf8_upper(table.column("file_format"))
    columns |= _partition_columns(found, source)
    rest = ("record_count", "file_size_in_bytes", *METRICS, *_FILE_PART.rest)
    columns |= {name: table.column(name) for name in rest}
    columns[_READABLE] = readable_metrics(table, source.schema)
    return pa.table(columns)


def _partition_columns(found: Entries, source: IcebergSource) -> dict[str, pa.Array]:
    own = found.table.column("partition").combine_chunks()
    return {
        "spec_id": pa.repeat(pa.scalar(found.spec.spec_id, pa.int32()), len(own)),
        "partition": union_values(own, found.partition, source.partition),
    }


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
    names = [name for name in table.column_names if name not in (*_ENTRY_COLUMNS, _READABLE)]
    arrays = [table.column(name).combine_chunks() for name in names]
    data_file = pa.StructArray.from_arrays(arrays, fields=[table.schema.field(name) for name in names])
    own = table.select(list(_ENTRY_COLUMNS)).append_column("data_file", data_file)
    return own.append_column(_READABLE, table.column(_READABLE))


def _live_files(source: IcebergSource) -> pa.Table:
    """Give of all live files what sums are made of."""
    found = _entries_of(source, (DATA, POSITION_DELETES), _SUM_PART)
    found = found or [source.reader.none(source.metadata.default_spec_id, _SUM_PART)]
    names = ("snapshot_id", "content", "record_count", "file_size_in_bytes")
    parts = [
        pa.table({name: one.table.column(name) for name in names} | _partition_columns(one, source)) for one in found
    ]
    return pa.concat_tables(parts).combine_chunks()


def content_sums(source: IcebergSource) -> pa.Table:
    """Give the number of live files of each ``content``, of their rows and of their bytes."""
    table = _live_files(source).select(["content", "record_count", "file_size_in_bytes"])
    sums = [("content", "count"), ("record_count", "sum"), ("file_size_in_bytes", "sum")]
    found = table.group_by("content", use_threads=False).aggregate(sums)
    names = {"content_count": "files", "record_count_sum": "rows", "file_size_in_bytes_sum": "bytes"}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def _partitions(source: IcebergSource) -> pa.Table:
    """Sum live files up by partition and spec."""
    files = _live_files(source)
    partition = files.column("partition").combine_chunks() if len(files) else None
    values = [] if partition is None else [pc.struct_field(partition, [n]) for n in range(partition.type.num_fields)]
    groups = row_codes([*values, _one(files.column("spec_id"))], len(files))
    # Groups are numbered as they come.
    first = pc.index_in(groups.unique(), value_set=groups)
    count, one = files.column("record_count"), pa.repeat(pa.scalar(1, pa.int32()), len(files))
    measured: dict[str, pa.Array] = {}
    for content, prefix in ((DATA, ""), (POSITION_DELETES, "position_delete_"), (EQUALITY_DELETES, "equality_delete_")):
        mine = pc.equal(files.column("content"), content)
        measured[f"{prefix}record_count"] = pc.if_else(mine, count, 0)
        measured[f"{prefix}file_count"] = pc.if_else(mine, one, 0)
        if content == DATA:
            measured["total_data_file_size_in_bytes"] = pc.if_else(mine, files.column("file_size_in_bytes"), 0)
    table = pa.table({"group": groups, **measured})
    sums = table.group_by("group", use_threads=False).aggregate([(name, "sum") for name in measured])
    columns = {name: files.column(name).take(first) for name in ("partition", "spec_id")}
    columns |= {name: sums.column(f"{name}_sum") for name in measured}
    for name in measured:
        if name.endswith("file_count"):
            columns[name] = columns[name].cast(pa.int32())
    return pa.table(columns | _last_updates(source, groups, _one(files.column("snapshot_id"))))


def _last_updates(source: IcebergSource, groups: pa.Int64Array, snapshots: pa.Int64Array) -> dict[str, pa.Array]:
    """Give of each group the newest of the snapshots that added its files, among those that the table still holds."""
    known = list(source.metadata.snapshots.values())
    place = pc.index_in(snapshots, value_set=pa.array([found.snapshot_id for found in known], pa.int64()))
    times = pa.array([found.timestamp_ms for found in known], pa.int64()).take(place)
    table = pa.table({"group": groups, "time": times, "id": pc.if_else(place.is_valid(), snapshots, None)})
    order = [("group", "ascending"), ("time", "descending"), ("id", "descending")]
    newest_first = table.take(pc.sort_indices(table, order))
    first = pc.index_in(groups.unique(), value_set=_one(newest_first.column("group")))
    newest = newest_first.take(first)
    return {"last_updated_at": newest.column("time").cast(_TIME), "last_updated_snapshot_id": newest.column("id")}


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


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
