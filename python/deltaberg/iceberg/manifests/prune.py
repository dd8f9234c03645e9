"""Leaving out manifests that hold no matching file, by the manifest list alone (Iceberg spec, "Scan Planning")."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.manifests.reader import ManifestReader
from deltaberg.iceberg.partition.projections import project
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.iceberg.schema.type_names import iceberg_type_name
from deltaberg.iceberg.schema.value_bytes import has_value_bytes
from deltaberg.kernels import plain_values as pv
from deltaberg.pruning.evaluate import keep_rows, may_match
from deltaberg.pruning.stats import ColumnStats, FileStats, StatsKey, stats_key
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import Field, Struct

__all__ = ["partition_stats", "prune_manifests"]


def prune_manifests(manifests: pa.Table, reader: ManifestReader, condition: Bound) -> pa.Table:
    """Return the manifests that can hold a live file whose rows match a condition.

    Manifests without live files are left out, and those whose partition summaries exclude the condition.
    """
    manifests = keep_rows(manifests, _may_be_alive(manifests))
    if condition == TRUE or not len(manifests):
        return manifests
    keep = pa.repeat(pv.TRUE, len(manifests))
    specs = as_array(manifests.column("partition_spec_id"))
    for number in specs.unique().to_pylist():
        spec = reader.spec_of(number)
        may = project(condition, spec.fields, reader.schemas[0], strict=False)
        if may == TRUE:
            continue
        mine = pc.equal(specs, pv.scalar(number))
        partition = partition_struct(spec, reader.schemas)
        found = may_match(may, _summary_stats(manifests, partition, may))
        keep = pc.and_(keep, pc.or_(found, pc.invert(mine)))
    return keep_rows(manifests, keep)


def _may_be_alive(manifests: pa.Table) -> pa.BooleanArray:
    """Return for each manifest whether it can hold a live file, by its counts; unknown counts allow it."""
    counts = [as_array(manifests.column(name)) for name in ("added_files_count", "existing_files_count")]
    dead = pc.and_(pc.equal(counts[0], pv.ZERO), pc.equal(counts[1], pv.ZERO)).fill_null(pv.FALSE)
    return pc.invert(dead)


def _summary_stats(manifests: pa.Table, partition: Struct, condition: Bound) -> FileStats:
    """Return partition summaries in the form of statistics, one row for each manifest."""
    rows = len(manifests)
    summaries = as_array(manifests.column("partitions"))
    wanted = {path[0].id for path in bound_paths(condition)}
    columns: dict[StatsKey, ColumnStats] = {}
    for index, child in enumerate(partition):
        if child.id not in wanted:
            continue
        columns[stats_key((child,))] = _column_stats(_element(summaries, index), child)
    # Each manifest counts as one record, so that a null count of 1 means that all values are null.
    return FileStats(rows, pa.repeat(pv.scalar(1, pa.int64()), rows), columns)


def partition_stats(manifests: pa.Table, partition: Struct, index: int) -> ColumnStats:
    """Return the partition summaries of one field of manifests of one spec, in the form of statistics.

    A null count of 0 says that there are no nulls, and one of 1 that there is nothing else.
    """
    return _column_stats(_element(as_array(manifests.column("partitions")), index), partition.fields[index])


def _column_stats(summary: pa.StructArray, child: Field) -> ColumnStats:
    bounds = []
    for name in ("lower_bound", "upper_bound"):
        if not has_value_bytes(child.type):
            # A column without a type is null in all rows.
            bounds.append(pa.nulls(len(summary), arrow_type(child.type)))
            continue
        maps = _single_maps(pc.struct_field(summary, name))
        bounds.append(kernels.parse_bounds(maps, [(0, iceberg_type_name(child.type))]).column(0))
    has_null = pc.struct_field(summary, "contains_null")
    # There are no counts, only whether there are nulls; and without bounds, whether there is nothing else.
    has_nan = pc.fill_null(pc.struct_field(summary, "contains_nan"), fill_value=pv.TRUE)
    is_floating = str(child.type) in ("float", "double")
    empty = pc.and_(pc.struct_field(summary, "lower_bound").is_null(), has_null)
    all_null = pc.and_(empty, pc.invert(has_nan)) if is_floating else empty
    nulls = pc.if_else(pc.invert(has_null), pv.ZERO, pc.if_else(all_null, pv.ONE, pv.scalar(None))).cast(pa.int64())
    lower, upper = (bound.cast(arrow_type(child.type)) for bound in bounds)
    return ColumnStats(lower, upper, nulls)


def _element(lists: pa.ListArray, index: int) -> pa.StructArray:
    """Return the element of each list at an index; null for shorter lists."""
    starts = lists.offsets[:-1].cast(pa.int64())
    long_enough = pc.greater(pc.list_value_length(lists), pv.scalar(index)).fill_null(pv.FALSE)
    places = pc.if_else(long_enough, pc.add(starts, pv.scalar(index)), pv.scalar(None, pa.int64()))
    return lists.values.take(places)


def _single_maps(values: pa.BinaryArray) -> pa.MapArray:
    """Return maps of one entry each, with the key 0."""
    keys = pa.repeat(pv.scalar(0, pa.int32()), len(values))
    offsets = pv.array(range(len(values) + 1), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, values)
