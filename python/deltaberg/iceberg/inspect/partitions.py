"""The metadata table of partitions, and sums of files by content."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.iceberg.deletes.index import row_codes
from deltaberg.iceberg.inspect.files import entries_of, partition_columns
from deltaberg.iceberg.inspect.readable import TIME
from deltaberg.iceberg.manifests.fields import DATA, EQUALITY_DELETES, POSITION_DELETES, ManifestPart
from deltaberg.iceberg.manifests.partition_stats_file import UPDATED
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import as_array
from deltaberg.table.sort.order import OrderTerm, sort_indices

__all__ = ["content_sums", "partitions_table"]

#: Sums of files need only what is read of every entry.
_SUM_PART = ManifestPart()
_MEASURED = (
    *("record_count", "file_count", "total_data_file_size_in_bytes"),
    *("position_delete_record_count", "position_delete_file_count"),
    *("equality_delete_record_count", "equality_delete_file_count"),
)


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
    Manifests are read unless there are statistics of the snapshot that say the same.
    """
    stats = source.partition_stats
    rows = _summed_files(source) if stats is None else _summed_stats(source, stats)
    is_partitioned = "partition" in rows.column_names
    values = []
    if is_partitioned and len(rows):
        partition = as_array(rows.column("partition"))
        values = [pc.struct_field(partition, [n]) for n in range(partition.type.num_fields)]
    groups = row_codes([*values, as_array(rows.column("shared_fields"))], len(rows))
    # Groups are numbered in the order in which they first occur.
    first = pc.index_in(groups.unique(), value_set=groups)
    table = rows.select(_MEASURED).append_column("group", groups)
    sums = table.group_by("group", use_threads=False).aggregate([(name, "sum") for name in _MEASURED])
    newest = _newest_first(groups, rows)
    columns = (
        {"partition": rows.column("partition").take(first), "spec_id": newest["spec_id"]} if is_partitioned else {}
    )
    columns |= {name: sums.column(f"{name}_sum") for name in _MEASURED}
    for name in _MEASURED:
        if name.endswith("file_count"):
            columns[name] = columns[name].cast(pa.int32())
    columns["last_updated_at"] = newest["last_updated_at"].cast(TIME)
    columns["last_updated_snapshot_id"] = newest["last_updated_snapshot_id"]
    partitions = pa.table(columns)
    if not is_partitioned:
        return partitions
    kinds = partitions.schema.field("partition").type
    terms = [OrderTerm(("partition", child.name)) for child in kinds if not pt.is_null(child.type)]
    return partitions.take(sort_indices(partitions, [*terms, OrderTerm(("spec_id",))]))


def _summed_files(source: IcebergSource) -> pa.Table:
    """Return a row for each live file, with the snapshot that added it, if the table still has that."""
    files = _live_files(source)
    count, one = files.column("record_count"), pa.repeat(pa.scalar(1, pa.int32()), len(files))
    kept = [name for name in ("partition", "spec_id", "shared_fields") if name in files.column_names]
    columns: dict[str, pa.Array] = {name: files.column(name) for name in kept}
    for content, prefix in ((DATA, ""), (POSITION_DELETES, "position_delete_"), (EQUALITY_DELETES, "equality_delete_")):
        mine = pc.equal(files.column("content"), content)
        columns[f"{prefix}record_count"] = pc.if_else(mine, count, 0)
        columns[f"{prefix}file_count"] = pc.if_else(mine, one, 0)
        if content == DATA:
            columns["total_data_file_size_in_bytes"] = pc.if_else(mine, files.column("file_size_in_bytes"), 0)
    snapshots = as_array(files.column("snapshot_id"))
    kept_snapshots = list(source.metadata.snapshots.values())
    place = pc.index_in(snapshots, value_set=pa.array([one.snapshot_id for one in kept_snapshots], pa.int64()))
    times = pa.array([one.timestamp_ms for one in kept_snapshots], pa.int64()).take(place)
    columns |= zip(UPDATED, (times, pc.if_else(place.is_valid(), snapshots, None)), strict=True)
    return pa.table(columns)


def _summed_stats(source: IcebergSource, stats: pa.Table) -> pa.Table:
    """Return a row for each partition of a spec, with the columns of `_summed_files`."""
    specs = as_array(stats.column("spec_id"))
    fields = {number: len(source.reader.no_entries(number, _SUM_PART).partition) for number in source.metadata.specs}
    place = pc.index_in(specs, value_set=pa.array(list(fields), pa.int32()))
    columns = {name: stats.column(name) for name in ("partition", "spec_id", *UPDATED)}
    columns["shared_fields"] = pa.array(list(fields.values()), pa.int32()).take(place)
    for name in _MEASURED:
        columns[name] = stats.column(name if name.startswith(("position_", "equality_", "total_")) else f"data_{name}")
    if "dv_count" in stats.column_names:
        deletes = (columns["position_delete_file_count"], stats.column("dv_count").fill_null(0))
        columns["position_delete_file_count"] = pc.add(*deletes)
    return pa.table(columns).combine_chunks()


def _newest_first(groups: pa.Int64Array, rows: pa.Table) -> pa.Table:
    """Return what updated each group last, of the snapshots that the table still has: ``spec_id`` and `UPDATED`."""
    names = [*UPDATED, "spec_id"]
    table = pa.table({"group": groups, **{name: rows.column(name) for name in names}})
    order = [("group", "ascending"), *((name, "descending") for name in names)]
    ordered = table.take(pc.sort_indices(table, order))
    return ordered.take(pc.index_in(groups.unique(), value_set=as_array(ordered.column("group"))))
