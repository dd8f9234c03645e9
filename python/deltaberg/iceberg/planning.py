"""From a snapshot and a filter to the files that must be read, in columns (Iceberg spec, "Scan Planning").

The manifest list is pruned by the summaries of partitions, manifests by partition values. A thousand manifests are read
by several threads, each at once as Arrow columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import (
    CorruptMetadataError,
    DataFileNotFoundError,
    DeltabergError,
    ObjectNotFoundError,
)
from deltaberg.expressions import TRUE, Bound, bound_paths
from deltaberg.iceberg.encryption import encrypted
from deltaberg.iceberg.manifests import ManifestPart, no_entries, read_manifest
from deltaberg.iceberg.partitioning import partition_struct
from deltaberg.iceberg.projections import project
from deltaberg.iceberg.schema import iceberg_type_name
from deltaberg.iceberg.spec import PartitionSpec
from deltaberg.pruning import ColumnStats, FileStats, StatsKey, keep_rows, may_match, must_match, stats_key
from deltaberg.schema import Struct, arrow_type
from deltaberg.storage import PathResolver, StoreSpec
from deltaberg.table import processors

__all__ = ["Entries", "ManifestReader", "prune_manifests"]

#: Requests to a remote store at a time.
_REMOTE_READERS = 16


@dataclass(frozen=True)
class Entries:
    """The live entries of some manifests of one spec.

    ``table`` has the columns of `read_manifest`, and ``manifest``: the number of the manifest. ``proven`` says of which
    files the partition alone proves the filter.
    """

    spec: PartitionSpec
    partition: Struct
    table: pa.Table
    proven: pa.BooleanArray


@dataclass(frozen=True)
class ManifestReader:
    """Reads manifests of a table."""

    table: str
    store: StoreSpec
    resolver: PathResolver
    specs: Mapping[int, PartitionSpec]
    schemas: Sequence[Struct]

    def spec_of(self, number: int) -> PartitionSpec:
        """Give the spec of a manifest."""
        spec = self.specs.get(number)
        if spec is None:
            raise CorruptMetadataError(
                f"a manifest is of the partition spec {number}, which the table does not have", table=self.table
            )
        return spec

    def read(
        self, manifests: Sequence[Mapping[str, Any]], part: ManifestPart, condition: Bound = TRUE
    ) -> list[Entries]:
        """Read manifests, and give their live entries whose partition can match, for each spec.

        ``manifests`` are rows of the manifest list, with their ``number``.
        """
        prepared = {
            number: self._prepare(number, condition) for number in {row["partition_spec_id"] for row in manifests}
        }
        cores = processors()
        remote = self.resolver.root.scheme != "file"
        workers = max(1, min(len(manifests), _REMOTE_READERS if remote else cores))
        threads = max(1, cores // workers)

        def work(row: Mapping[str, Any]) -> tuple[pa.Table, pa.BooleanArray]:
            return self._one(row, part, prepared[row["partition_spec_id"]], threads)

        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(work, manifests)) if workers > 1 else [work(row) for row in manifests]
        entries = []
        for number, ready in prepared.items():
            parts = [pair for pair, row in zip(found, manifests, strict=True) if row["partition_spec_id"] == number]
            table = pa.concat_tables([table for table, _ in parts])
            proven = pa.chunked_array([proven for _, proven in parts], pa.bool_()).combine_chunks()
            entries.append(Entries(ready.spec, ready.partition, table, proven))
        return entries

    def none(self, spec_id: int, part: ManifestPart) -> Entries:
        """Give no entries, with the columns that entries have."""
        ready = self._prepare(spec_id, TRUE)
        return Entries(ready.spec, ready.partition, no_entries(ready.partition, part), pa.array([], pa.bool_()))

    def _prepare(self, number: int, condition: Bound) -> _Prepared:
        spec = self.spec_of(number)
        partition = partition_struct(spec, self.schemas)
        if condition == TRUE:
            return _Prepared(spec, partition, TRUE, TRUE)
        may = project(condition, spec.fields, self.schemas[0], strict=False)
        return _Prepared(spec, partition, may, project(condition, spec.fields, self.schemas[0], strict=True))

    def _one(
        self, row: Mapping[str, Any], part: ManifestPart, ready: _Prepared, threads: int
    ) -> tuple[pa.Table, pa.BooleanArray]:
        path = row["manifest_path"]
        if row["key_metadata"]:
            raise encrypted("a manifest", self.table, path)
        data = self.fetch(path)
        try:
            table = read_manifest(data, row, ready.partition, part, threads)
        except DeltabergError as error:
            raise error.with_context(table=self.table, file=path) from None
        table = table.append_column("manifest", pa.repeat(pa.scalar(row["number"], pa.int32()), len(table)))
        if ready.may != TRUE:
            table = keep_rows(table, may_match(ready.may, _partition_stats(table, ready.partition)))
        if ready.must == TRUE:
            return table, pa.repeat(ready.may == TRUE, len(table))
        return table, must_match(ready.must, _partition_stats(table, ready.partition))

    def fetch(self, path: str) -> bytes:
        """Read a metadata file."""
        location = self.resolver.resolve(path)
        try:
            return self.store.open(location).get(location.path)
        except ObjectNotFoundError as error:
            raise DataFileNotFoundError(
                "a metadata file of a live snapshot is gone",
                hint="the table was moved (see location_map), the snapshot was expired, or the copy is incomplete",
                table=self.table,
                file=str(location),
            ) from error


@dataclass(frozen=True)
class _Prepared:
    """A spec, and the projections of a filter through it."""

    spec: PartitionSpec
    partition: Struct
    may: Bound
    must: Bound


def _partition_stats(table: pa.Table, partition: Struct) -> FileStats:
    """Give partition values as known values of files."""
    values: dict[StatsKey, pa.Array] = {}
    struct = table.column("partition")
    struct = struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct
    for index, child in enumerate(partition):
        values[(child.physical_name,)] = pc.struct_field(struct, index)
    return FileStats(len(table), table.column("record_count").combine_chunks(), values=values)


def prune_manifests(manifests: pa.Table, reader: ManifestReader, condition: Bound) -> pa.Table:
    """Leave out manifests without live files, and those whose partition summaries rule the filter out."""
    manifests = keep_rows(manifests, _may_be_alive(manifests))
    if condition == TRUE or not len(manifests):
        return manifests
    keep = pa.repeat(True, len(manifests))
    specs = manifests.column("partition_spec_id").combine_chunks()
    for number in specs.unique().to_pylist():
        spec = reader.spec_of(number)
        may = project(condition, spec.fields, reader.schemas[0], strict=False)
        if may == TRUE:
            continue
        mine = pc.equal(specs, number)
        partition = partition_struct(spec, reader.schemas)
        found = may_match(may, _summary_stats(manifests, partition, may))
        keep = pc.and_(keep, pc.or_(found, pc.invert(mine)))
    return keep_rows(manifests, keep)


def _may_be_alive(manifests: pa.Table) -> pa.BooleanArray:
    """Say of each manifest whether its counts leave room for a live file; unknown counts do."""
    counts = [manifests.column(name).combine_chunks() for name in ("added_files_count", "existing_files_count")]
    dead = pc.and_(pc.equal(counts[0], 0), pc.equal(counts[1], 0)).fill_null(False)
    return pc.invert(dead)


def _summary_stats(manifests: pa.Table, partition: Struct, condition: Bound) -> FileStats:
    """Give the summaries of partition fields as statistics of manifests."""
    rows = len(manifests)
    summaries = manifests.column("partitions").combine_chunks()
    wanted = {path[0].id for path in bound_paths(condition)}
    columns: dict[StatsKey, ColumnStats] = {}
    for index, child in enumerate(partition):
        if child.id not in wanted:
            continue
        summary = _element(summaries, index)
        bounds = []
        for name in ("lower_bound", "upper_bound"):
            maps = _single_maps(pc.struct_field(summary, name))
            bounds.append(kernels.parse_bounds(maps, [(0, iceberg_type_name(child.type))]).column(0))
        has_null = pc.struct_field(summary, "contains_null")
        # No count is known, only whether there are nulls at all, and nothing else where there are no bounds.
        has_nan = pc.fill_null(pc.struct_field(summary, "contains_nan"), fill_value=True)
        is_floating = str(child.type) in ("float", "double")
        empty = pc.and_(pc.struct_field(summary, "lower_bound").is_null(), has_null)
        all_null = pc.and_(empty, pc.invert(has_nan)) if is_floating else empty
        nulls = pc.if_else(pc.invert(has_null), 0, pc.if_else(all_null, 1, None)).cast(pa.int64())
        lower, upper = (bound.cast(arrow_type(child.type)) for bound in bounds)
        columns[stats_key((child,))] = ColumnStats(lower, upper, nulls)
    # With one "record" a manifest, a null count of 1 says that all values are null.
    return FileStats(rows, pa.repeat(pa.scalar(1, pa.int64()), rows), columns)


def _element(lists: pa.ListArray, index: int) -> pa.StructArray:
    """Give the element of a number of each list; null where it has fewer."""
    starts = lists.offsets[:-1].cast(pa.int64())
    long_enough = pc.greater(pc.list_value_length(lists), index).fill_null(False)
    places = pc.if_else(long_enough, pc.add(starts, index), pa.scalar(None, pa.int64()))
    return lists.values.take(places)


def _single_maps(values: pa.BinaryArray) -> pa.MapArray:
    """Give maps with one entry, of key 0."""
    keys = pa.repeat(pa.scalar(0, pa.int32()), len(values))
    offsets = pa.array(range(len(values) + 1), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, values)
