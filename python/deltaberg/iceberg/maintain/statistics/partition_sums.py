"""Statistics of partitions: sums of their live files (Iceberg spec, "Partition Statistics").

They are Arrow tables with a row for each spec and partition, in the columns of `partition_stats_columns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.iceberg.deletes.index import row_codes
from deltaberg.iceberg.manifests.fields import (
    ADDED,
    DATA,
    DELETED,
    EQUALITY_DELETES,
    POSITION_DELETES,
    ManifestPart,
)
from deltaberg.iceberg.manifests.partition_stats_file import PARTITION_COUNTS, UPDATED, partition_stats_columns
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.partition.structs import union_values
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.table.sort.order import OrderTerm, sort_indices

__all__ = ["partition_sums", "sums_since"]

#: Whether a row only says that files of its partition were removed.
_REMOVES = "removes"


def partition_sums(source: IcebergSource) -> pa.Table:
    """Return the statistics of a snapshot, from all of its manifests."""
    found = source.reader.read(_listed(source), ManifestPart())
    return _as_stored(source, _summed(source, _of_entries(source, found)))


def sums_since(source: IcebergSource, base: pa.Table, since: Sequence[Snapshot]) -> pa.Table:
    """Return the same statistics from those of an ancestor, and from what later snapshots have added and removed.

    Parameters
    ----------
    source
        The snapshot.
    base
        The statistics of the ancestor.
    since
        All snapshots after the ancestor, up to this one.
    """
    added, removed = [], []
    for snapshot in since:
        then = source.at(snapshot)
        own = then.manifests.filter(pc.equal(then.manifests.column("added_snapshot_id"), snapshot.snapshot_id))
        found = then.reader.read(own.to_pylist(), ManifestPart(deleted=True))
        added += [one.with_values(status=ADDED, snapshot_id=snapshot.snapshot_id) for one in found]
        removed += [one.with_values(status=DELETED, snapshot_id=snapshot.snapshot_id) for one in found]
    marks = _marks(source, removed)
    known = base.drop_columns(["total_record_count"])
    if "dv_count" not in known.column_names:
        known = known.append_column("dv_count", pa.nulls(len(known), pa.int32()))
    known = known.append_column(_REMOVES, pa.repeat(False, len(known)))
    together = _summed(source, [known, *_of_entries(source, added), *marks])
    parts = [together.filter(pc.and_not(_has_files(together), together.column(_REMOVES)))]
    if marks:
        # What has updated such a partition last, the files tell that it still has.
        specs = {one.spec.spec_id for one in removed}
        rows = [row for row in _listed(source) if row["partition_spec_id"] in specs]
        anew = _summed(source, [*_of_entries(source, source.reader.read(rows, ManifestPart())), *marks])
        parts.append(anew.filter(pc.and_(_has_files(anew), anew.column(_REMOVES))))
    return _as_stored(source, pa.concat_tables(parts))


def _listed(source: IcebergSource) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = source.manifests.to_pylist()
    return found


def _of_entries(source: IcebergSource, entries: Sequence[Entries]) -> list[pa.Table]:
    """Return a row for each file."""
    snapshots = list(source.metadata.snapshots.values())
    ids = pa.array([one.snapshot_id for one in snapshots], pa.int64())
    times = pa.array([one.timestamp_ms for one in snapshots], pa.int64())
    parts = []
    for one in entries:
        table = one.table
        content, records = table.column("content"), table.column("record_count")
        is_vector = pc.equal(table.column("file_format"), "puffin")
        masks = {
            "data": pc.equal(content, DATA),
            "position_delete": pc.equal(content, POSITION_DELETES),
            "equality_delete": pc.equal(content, EQUALITY_DELETES),
        }
        columns = _keys(source, one)
        for kind, mask in masks.items():
            columns[f"{kind}_record_count"] = pc.if_else(mask, records, 0)
            is_file = pc.and_not(mask, is_vector) if kind == "position_delete" else mask
            columns[f"{kind}_file_count"] = is_file.cast(pa.int32())
        columns["total_data_file_size_in_bytes"] = pc.if_else(masks["data"], table.column("file_size_in_bytes"), 0)
        columns["dv_count"] = pc.and_(masks["position_delete"], is_vector).cast(pa.int32())
        # A snapshot that has expired is not named, since nobody could look it up.
        place = pc.index_in(as_array(table.column("snapshot_id")), value_set=ids)
        columns["last_updated_at"], columns["last_updated_snapshot_id"] = times.take(place), ids.take(place)
        columns[_REMOVES] = pa.repeat(False, len(table))
        parts.append(pa.table(columns).select(_names()))
    return parts


def _marks(source: IcebergSource, removed: Sequence[Entries]) -> list[pa.Table]:
    """Return rows that mark the partitions of removed files."""
    parts = []
    for one in removed:
        rows = len(one.table)
        columns = _keys(source, one)
        columns |= {name: pa.repeat(pa.scalar(0, kind), rows) for name, (_, kind) in PARTITION_COUNTS.items()}
        columns |= {name: pa.nulls(rows, pa.int64()) for name in UPDATED}
        columns[_REMOVES] = pa.repeat(True, rows)
        if rows:
            parts.append(pa.table(columns).select(_names()))
    return parts


def _keys(source: IcebergSource, one: Entries) -> dict[str, pa.Array]:
    values = union_values(as_array(one.table.column("partition")), one.partition, source.partition)
    return {"partition": values, "spec_id": pa.repeat(pa.scalar(one.spec.spec_id, pa.int32()), len(values))}


def _names() -> list[str]:
    return ["partition", "spec_id", *PARTITION_COUNTS, *UPDATED, _REMOVES]


def _summed(source: IcebergSource, parts: Sequence[pa.Table]) -> pa.Table:
    """Return one row for each partition of a spec, which removes if one of its rows does."""
    values = pa.struct([pa.field(child.name, arrow_type(child.type)) for child in source.partition])
    kinds = {"partition": values, "spec_id": pa.int32(), _REMOVES: pa.bool_()}
    kinds |= {name: kind for name, (_, kind) in PARTITION_COUNTS.items()} | dict.fromkeys(UPDATED, pa.int64())
    schema = pa.schema([(name, kinds[name]) for name in _names()])
    typed = [part.select(_names()).cast(schema) for part in parts]
    rows = pa.concat_tables([schema.empty_table(), *typed]).combine_chunks()
    partition = as_array(rows.column("partition"))
    fields = [pc.struct_field(partition, [at]) for at in range(values.num_fields)]
    groups = row_codes([as_array(rows.column("spec_id")), *fields], len(rows))
    newest = pa.table({"group": groups, **{name: rows.column(name) for name in UPDATED}})
    newest = newest.take(pc.sort_indices(newest, [("group", "ascending"), *((name, "descending") for name in UPDATED)]))
    sums = [(name, "sum") for name in PARTITION_COUNTS] + [(_REMOVES, "max")]
    table = rows.append_column("group", groups)
    grouped = table.group_by("group", use_threads=False).aggregate(sums)
    first = pc.index_in(grouped.column("group"), value_set=groups)
    last = pc.index_in(grouped.column("group"), value_set=as_array(newest.column("group")))
    columns = {name: rows.column(name).take(first) for name in ("partition", "spec_id")}
    columns |= {
        name: grouped.column(f"{name}_sum").fill_null(0).cast(kind) for name, (_, kind) in PARTITION_COUNTS.items()
    }
    columns |= {name: newest.column(name).take(last) for name in UPDATED}
    columns[_REMOVES] = grouped.column(f"{_REMOVES}_max")
    return pa.table(columns)


def _has_files(table: pa.Table) -> pa.BooleanArray:
    return reduce(pc.or_, (pc.greater(table.column(name), 0) for name in PARTITION_COUNTS if name.endswith("_count")))


def _as_stored(source: IcebergSource, table: pa.Table) -> pa.Table:
    """Return statistics in the columns and the order of a file: by partition, nulls first."""
    completed = table.append_column("total_record_count", pa.nulls(len(table), pa.int64()))
    schema = partition_stats_columns(source.partition, source.metadata)
    values = schema.field("partition").type
    terms = [OrderTerm(("partition", child.name)) for child in values if not pt.is_null(child.type)]
    order = sort_indices(completed, [*terms, OrderTerm(("spec_id",))])
    chosen = completed.take(order).select(schema.names).combine_chunks()
    partition = as_array(chosen.column("partition"))
    children = [pc.struct_field(partition, [at]) for at in range(values.num_fields)]
    columns = {name: as_array(chosen.column(name)) for name in schema.names}
    columns["partition"] = pa.StructArray.from_arrays(children, fields=list(values))
    return pa.Table.from_arrays(list(columns.values()), schema=schema)
