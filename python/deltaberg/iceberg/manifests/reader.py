"""Reading manifests: several at once, as Arrow columns, pruned by partition (Iceberg spec, "Scan Planning")."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import (
    CorruptMetadataError,
    DataFileNotFoundError,
    DeltabergError,
    ObjectNotFoundError,
    in_context,
)
from deltaberg.expressions.compute.bound import Bound
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.encryption import encrypted
from deltaberg.iceberg.manifests.fields import ManifestPart
from deltaberg.iceberg.manifests.manifest_list import describe_manifests, read_manifest_list
from deltaberg.iceberg.manifests.manifests import no_entries, read_manifest
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.partition.projections import project
from deltaberg.iceberg.partition.structs import partition_keys, partition_struct
from deltaberg.kernels import plain_values as pv
from deltaberg.pruning.evaluate import may_match, must_match
from deltaberg.pruning.stats import FileStats, StatsKey
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Struct
from deltaberg.storage.location import PathResolver
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.read.scan_options import processors
from deltaberg.workers import map_in_order

__all__ = ["Entries", "ManifestReader"]

#: The most requests to a remote store at a time.
_REMOTE_READERS = 16


@dataclass(frozen=True)
class Entries:
    """Entries of manifests of one partition spec.

    ``table`` has the columns of `read_manifest`, and ``manifest``: the number of the manifest. ``proven`` says for each
    file whether its partition alone proves that all of its rows match the filter.
    """

    spec: PartitionSpec
    partition: Struct
    table: pa.Table
    proven: pa.BooleanArray

    def filter(self, mask: pa.BooleanArray | pa.ChunkedArray) -> Entries:
        """Return the entries where a mask is true."""
        # Before pyarrow 17, arrays were filtered by arrays alone.
        return replace(self, table=self.table.filter(mask), proven=self.proven.filter(as_array(mask)))

    def with_values(self, **values: int | None) -> Entries:
        """Return the entries with certain values in some columns."""
        return self.filter(as_array(reduce(pc.and_, (pc.equal(self.table[name], values[name]) for name in values))))

    @property
    def keys(self) -> list[Hashable]:
        """Keys that are equal for equal partition values."""
        return partition_keys(as_array(self.table.column("partition")), self.partition)


@dataclass(frozen=True)
class ManifestReader:
    """Reads the manifests of a table. ``schemas`` are its schemas, the one of the scan first.

    ``known`` has the bytes of metadata files that are not in the store, by their recorded paths.
    """

    table: str
    store: StoreSpec
    resolver: PathResolver
    specs: Mapping[int, PartitionSpec]
    schemas: Sequence[Struct]
    known: Mapping[str, bytes] = field(default_factory=dict)

    def spec_of(self, number: int) -> PartitionSpec:
        """Return the spec of a manifest."""
        spec = self.specs.get(number)
        if spec is None:
            raise CorruptMetadataError(
                f"a manifest is of the partition spec {number}, which the table does not have", table=self.table
            )
        return spec

    def manifests_of(self, snapshot: Snapshot | None) -> pa.Table:
        """Return the manifests of a snapshot: the columns of `MANIFESTS`, and the ``number`` of each in its list."""
        if snapshot is None:
            table = describe_manifests([], None)
        elif snapshot.manifest_list is None:
            found = ((path, self.fetch(path)) for path in snapshot.manifests)
            table = describe_manifests(found, snapshot.snapshot_id)
        else:
            data = self.fetch(snapshot.manifest_list)
            try:
                table = read_manifest_list(data)
            except DeltabergError as error:
                if snapshot.key_id is not None:
                    raise encrypted("a manifest list", self.table) from error
                raise error.with_context(table=self.table, file=snapshot.manifest_list) from None
        return table.append_column("number", pv.array(range(len(table)), pa.int32()))

    def read(
        self, manifests: Sequence[Mapping[str, Any]], part: ManifestPart, condition: Bound = TRUE
    ) -> list[Entries]:
        """Return the entries of manifests whose partition can match a condition, grouped by spec.

        Parameters
        ----------
        manifests
            Rows of the manifest list, with their ``number``.
        part
            Which fields and entries are read.
        condition
            A filter on rows of the table.
        """
        prepared = {
            number: self._prepare(number, condition) for number in {row["partition_spec_id"] for row in manifests}
        }
        cores = processors()
        remote = self.resolver.root.scheme != "file"
        workers = max(1, min(len(manifests), _REMOTE_READERS if remote else cores))
        threads = max(1, cores // workers)

        def work(row: Mapping[str, Any]) -> tuple[pa.Table, pa.BooleanArray]:
            return self._read_one(row, part, prepared[row["partition_spec_id"]], threads)

        found = map_in_order(workers, work, manifests)
        entries = []
        for number, ready in prepared.items():
            parts = [pair for pair, row in zip(found, manifests, strict=True) if row["partition_spec_id"] == number]
            table = pa.concat_tables([table for table, _ in parts])
            proven = as_array(pa.chunked_array([proven for _, proven in parts], pa.bool_()))
            entries.append(Entries(ready.spec, ready.partition, table, proven))
        return entries

    def is_decided_by_partitions(self, manifests: pa.Table, condition: Bound) -> bool:
        """Return whether the partition of each file in manifests tells that all of its rows match, or that none do."""
        prepared = [
            self._prepare(number, condition) for number in pc.unique(manifests["partition_spec_id"]).to_pylist()
        ]
        return all(ready.may == ready.must for ready in prepared)

    def no_entries(self, spec_id: int, part: ManifestPart) -> Entries:
        """Return no entries, with the columns that those of a spec have."""
        ready = self._prepare(spec_id, TRUE)
        return Entries(ready.spec, ready.partition, no_entries(ready.partition, part), pv.array([], pa.bool_()))

    def _prepare(self, number: int, condition: Bound) -> _Prepared:
        spec = self.spec_of(number)
        partition = partition_struct(spec, self.schemas)
        if condition == TRUE:
            return _Prepared(spec, partition, TRUE, TRUE)
        may = project(condition, spec.fields, self.schemas[0], strict=False)
        return _Prepared(spec, partition, may, project(condition, spec.fields, self.schemas[0], strict=True))

    def _read_one(
        self, row: Mapping[str, Any], part: ManifestPart, ready: _Prepared, threads: int
    ) -> tuple[pa.Table, pa.BooleanArray]:
        path = row["manifest_path"]
        if row["key_metadata"]:
            raise encrypted("a manifest", self.table, path)
        data = self.fetch(path)

        def choose(partitions: pa.StructArray) -> pa.BooleanArray:
            return may_match(ready.may, _partition_stats(partitions, ready.partition))

        with in_context(table=self.table, file=path):
            table = read_manifest(data, row, ready.partition, part, threads, None if ready.may == TRUE else choose)
        table = table.append_column("manifest", pa.repeat(pv.scalar(row["number"], pa.int32()), len(table)))
        if ready.must == TRUE:
            return table, pa.repeat(pv.scalar(ready.may == TRUE), len(table))
        return table, must_match(ready.must, _partition_stats(as_array(table.column("partition")), ready.partition))

    def fetch(self, path: str) -> bytes:
        """Return the bytes of a metadata file that a snapshot names."""
        if path in self.known:
            return self.known[path]
        location = self.resolver.resolve(path)
        try:
            return self.store.open(location).get(location.path)
        except ObjectNotFoundError as error:
            raise DataFileNotFoundError(
                "a metadata file of the snapshot is missing",
                hint="the snapshot was expired, the copy is incomplete, or the table was moved (see ⟪location_map⟫)",
                table=self.table,
                file=str(location),
            ) from error


@dataclass(frozen=True)
class _Prepared:
    """A spec, and the inclusive and strict projections of a filter by it."""

    spec: PartitionSpec
    partition: Struct
    may: Bound
    must: Bound


def _partition_stats(partitions: pa.StructArray, partition: Struct) -> FileStats:
    """Return partition values in the form of statistics, as values that hold for all rows of a file."""
    values: dict[StatsKey, pa.Array] = {
        (child.physical_name,): pc.struct_field(partitions, index) for index, child in enumerate(partition)
    }
    # With values, nothing depends on how many records there are.
    records = pa.repeat(pv.scalar(1, pa.int64()), len(partitions))
    return FileStats(len(partitions), records, values=values)
