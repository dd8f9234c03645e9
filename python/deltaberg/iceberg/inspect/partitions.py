"""The metadata table of partitions, and sums of files by content."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.deletes.index import row_codes
from deltaberg.iceberg.inspect.files import entries_of, partition_columns
from deltaberg.iceberg.inspect.readable import TIME
from deltaberg.iceberg.manifests.fields import DATA, EQUALITY_DELETES, POSITION_DELETES, ManifestPart
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import as_array

__all__ = ["content_sums", "partitions_table"]

#: Sums of files need only what is read of every entry.
_SUM_PART = ManifestPart()


def _live_files(source: IcebergSource) -> pa.Table:
    """Return the columns of all live files that are summed up."""
    found = entries_of(source, (DATA, POSITION_DELETES), _SUM_PART)
    names = ("snapshot_id", "content", "record_count", "file_size_in_bytes")
    parts = []
    for one in found:
        columns = {name: one.table.column(name) for name in names} | partition_columns(one, source)
        shared = {child.id for child in one.partition} & {child.id for child in source.partition}
        columns["shared_fields"] = pa.repeat(pa.scalar(len(shared), pa.int32()), len(one.table))
        parts.append(pa.table(columns))
    return pa.concat_tables(parts).combine_chunks()


def content_sums(source: IcebergSource) -> pa.Table:
    """Return the number of live files of each ``content``, with their rows and bytes."""
    table = _live_files(source).select(["content", "record_count", "file_size_in_bytes"])
    sums = [("content", "count"), ("record_count", "sum"), ("file_size_in_bytes", "sum")]
    found = table.group_by("content", use_threads=False).aggregate(sums)
    names = {"content_count": "files", "record_count_sum": "rows", "file_size_in_bytes_sum": "bytes"}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def partitions_table(source: IcebergSource) -> pa.Table:
    """Return sums of live files for each partition; one row if the table never had partitions.

    As in Iceberg's own library, files of two specs are of one partition if their values are the same, and both specs
    have the same number of the fields of all specs. So a file without partitions is not of the partition of nulls.
    """
    files = _live_files(source)
    is_partitioned = "partition" in files.column_names
    partition = as_array(files.column("partition")) if is_partitioned and len(files) else None
    values = [] if partition is None else [pc.struct_field(partition, [n]) for n in range(partition.type.num_fields)]
    groups = row_codes([*values, as_array(files.column("shared_fields"))], len(files))
    # Groups are numbered in the order in which they first occur.
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
    newest = _last_updates(source, groups, files)
    columns = (
        {"partition": files.column("partition").take(first), "spec_id": newest["spec_id"]} if is_partitioned else {}
    )
    columns |= {name: sums.column(f"{name}_sum") for name in measured}
    for name in measured:
        if name.endswith("file_count"):
            columns[name] = columns[name].cast(pa.int32())
    return pa.table(columns | {name: newest[name] for name in ("last_updated_at", "last_updated_snapshot_id")})


def _last_updates(source: IcebergSource, groups: pa.Int64Array, files: pa.Table) -> dict[str, pa.Array]:
    """Return the newest snapshot that added files of each group, of those that the table still has, and their spec."""
    snapshots = as_array(files.column("snapshot_id"))
    known = list(source.metadata.snapshots.values())
    place = pc.index_in(snapshots, value_set=pa.array([found.snapshot_id for found in known], pa.int64()))
    times = pa.array([found.timestamp_ms for found in known], pa.int64()).take(place)
    table = pa.table({"group": groups, "time": times, "id": pc.if_else(place.is_valid(), snapshots, None)})
    table = table.append_column("spec_id", files.column("spec_id"))
    order = [("group", "ascending"), ("time", "descending"), ("id", "descending")]
    newest_first = table.take(pc.sort_indices(table, order))
    first = pc.index_in(groups.unique(), value_set=as_array(newest_first.column("group")))
    newest = newest_first.take(first)
    return {
        "spec_id": newest.column("spec_id"),
        "last_updated_at": newest.column("time").cast(TIME),
        "last_updated_snapshot_id": newest.column("id"),
    }
