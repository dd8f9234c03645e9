"""A snapshot of an Iceberg table as the source of a scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.metadata import LINEAGE_COLUMNS, ROW_COLUMNS
from deltaberg.iceberg.deletes.delete_files import DeleteFiles
from deltaberg.iceberg.deletes.index import row_codes
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.manifests.fields import DATA, DELETES, ManifestPart
from deltaberg.iceberg.manifests.metrics import Metrics, manifests_of, metric_names
from deltaberg.iceberg.manifests.partition_stats_file import read_exact_stats
from deltaberg.iceberg.manifests.prune import prune_manifests
from deltaberg.iceberg.manifests.reader import Entries, ManifestReader
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.scan.file_table import FURTHER_FIELDS, FileRows
from deltaberg.kernels import plain_values as pv
from deltaberg.pruning.evaluate import keep_rows
from deltaberg.pruning.stats import FileStats
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.schema.name_mapping import NameMapping, mapping_of
from deltaberg.schema.types import Field, Struct
from deltaberg.storage.location import PathResolver
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.read.source import FILE_NUMBER, FileSelection, PartitionShare, PruneStep, total_size

__all__ = ["IcebergSource"]

#: The first format version in which rows have ids.
_ROW_IDS_SINCE = 3


class IcebergSource:
    """The rows of a snapshot, in the columns of a schema.

    Parameters
    ----------
    metadata
        The metadata of the table.
    snapshot
        None for a table without snapshots, which has no rows.
    schema
        The columns to read.
    store, resolver
        What opens the stores of files, and what finds the places that recorded paths lead to.
    table, metadata_file
        Where the table and its metadata file are.
    part
        The data manifests to read; None for all data manifests of the snapshot.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        snapshot: Snapshot | None,
        schema: Struct,
        store: StoreSpec,
        resolver: PathResolver,
        table: str,
        metadata_file: str,
        part: pa.Table | None = None,
    ) -> None:
        self.metadata = metadata
        self.metadata_file = metadata_file
        self.snapshot = snapshot
        self.table = table
        self.store = store
        self.resolver = resolver
        self._schema = schema
        self.reader = ManifestReader(table, store, resolver, metadata.specs, (schema, *metadata.known_columns))
        self._rows = FileRows(self.reader, schema)
        self._metrics = Metrics(self.reader)
        self._part_manifests = part

    @classmethod
    def of(
        cls,
        loaded: LoadedTable,
        snapshot: Snapshot | None = None,
        schema: Struct | None = None,
        resolver: PathResolver | None = None,
    ) -> IcebergSource:
        """Return the rows of a snapshot of a table, by default in its current columns."""
        columns = loaded.metadata.current_schema.struct if schema is None else schema
        place = (loaded.store, resolver or loaded.resolver, str(loaded.root), str(loaded.file))
        return cls(loaded.metadata, snapshot, columns, *place)

    def __reduce__(self) -> tuple[type[IcebergSource], tuple[Any, ...]]:
        # What was read already is left out, and so are all other snapshots.
        snapshots = {} if self.snapshot is None else {self.snapshot.snapshot_id: self.snapshot}
        slim = replace(self.metadata, raw={}, snapshots=snapshots, snapshot_log=(), metadata_log=(), refs={})
        own = (self.store, self.resolver, self.table, self.metadata_file, self._part_manifests)
        return IcebergSource, (slim, self.snapshot, self._schema, *own)

    def divide(self, condition: Bound) -> pa.Table:
        """Return the data manifests that have to be read, each with its ``length`` in bytes."""
        chosen = prune_manifests(self.data_manifests, self.reader, condition)
        return chosen.append_column("length", chosen.column("manifest_length"))

    def part(self, pieces: pa.Table) -> IcebergSource:
        """Return the source of the rows of some data manifests, with all deletes of the snapshot."""
        own = (self.store, self.resolver, self.table, self.metadata_file, pieces.drop_columns(["length"]))
        return IcebergSource(self.metadata, self.snapshot, self._schema, *own)

    def at(self, snapshot: Snapshot | None) -> IcebergSource:
        """Return the source of another snapshot of the table, in the same columns."""
        own = (self.store, self.resolver, self.table, self.metadata_file)
        return IcebergSource(self.metadata, snapshot, self._schema, *own)

    @property
    def description(self) -> str:
        """The snapshot that is read."""
        return "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.snapshot_id}"

    @property
    def schema(self) -> Struct:
        """The columns of the table."""
        return self._schema

    @property
    def partition(self) -> Struct:
        """The partition fields of all specs."""
        return self._rows.partition

    @cached_property
    def _computed(self) -> tuple[Field, ...]:
        lineage = LINEAGE_COLUMNS if self.metadata.format_version >= _ROW_IDS_SINCE else ()
        return tuple(child for child in (*ROW_COLUMNS, *lineage) if self._schema.get(child.name) is None)

    @property
    def hidden(self) -> Struct:
        """The metadata columns ("Reserved Field IDs")."""
        return Struct((*self._rows.origin, *self._computed))

    @property
    def constants(self) -> Struct:
        """The columns that some spec partitions by identity, and those that say which file a row is from."""
        return self._rows.constants

    @property
    def _own_names(self) -> NameMapping | None:
        """The table's own names, for files without ids: they are certain only if the schema never changed."""
        return mapping_of(self._schema) if len(self.metadata.schemas) == 1 else None

    @cached_property
    def layout(self) -> FileLayout:
        """The layout of the columns in data files."""
        has_ids = self.metadata.format_version >= _ROW_IDS_SINCE
        row_id, row_version = LINEAGE_COLUMNS if has_ids else (None, None)
        return FileLayout(
            by_id=True,
            name_mapping=self.metadata.name_mapping or self._own_names,
            computed=frozenset(child.name for child in self._computed),
            stored=frozenset(child.name for child in self._rows.identities),
            row_id=row_id,
            row_version=row_version,
            keys=self.deletes.key_fields,
            resolver=self.resolver,
        )

    @cached_property
    def manifests(self) -> pa.Table:
        """The manifests of the snapshot, each with its ``number``."""
        return self.reader.manifests_of(self.snapshot)

    @cached_property
    def partition_stats(self) -> pa.Table | None:
        """Sums of the live files of each partition, if a file of statistics has those that manifests would tell."""
        return read_exact_stats(self.reader, self.partition, self.metadata, self.snapshot)

    @property
    def data_manifests(self) -> pa.Table:
        """The manifests of data files."""
        return keep_rows(self.manifests, pc.equal(self.manifests.column("content"), pv.scalar(DATA)))

    @cached_property
    def deletes(self) -> DeleteFiles:
        """The delete files of the snapshot."""
        found = keep_rows(self.manifests, pc.equal(self.manifests.column("content"), pv.scalar(DELETES)))
        return DeleteFiles.read(prune_manifests(found, self.reader, TRUE), self.reader)

    def select_files(self, condition: Bound) -> FileSelection:
        """Return the live data files whose partitions can hold a matching row, with what deletes their rows."""
        data = self.data_manifests if self._part_manifests is None else self._part_manifests
        chosen = prune_manifests(data, self.reader, condition)
        paths = list(bound_paths(condition))
        ids = frozenset(path[-1].id for path in paths if path[-1].id is not None)
        if self.reader.is_decided_by_partitions(chosen, condition):
            ids = frozenset()
        part = ManifestPart(metric_names(paths) if ids else (), ids, FURTHER_FIELDS)
        entries = self.reader.read(chosen.to_pylist(), part, condition)
        self._metrics.keep(ids, entries)
        files = self.file_table(entries, condition)
        steps = [_counted("files", data), _counted("manifests", chosen)]
        proven = as_array(pa.chunked_array([found.proven for found in entries], pa.bool_()))
        return FileSelection(files, [*steps, PruneStep("partition values", len(files), total_size(files))], proven)

    def with_all_deletes(self, files: pa.Table) -> pa.Table:
        """Return rows of the file table with all delete files that apply, also those that a filter left out."""
        if not self.deletes.key_fields:
            # A filter leaves out equality deletes only.
            return files
        numbers = as_array(files.column(FILE_NUMBER))
        listed = manifests_of(self.manifests, numbers).to_pylist()
        whole = self.file_table(self.reader.read(listed, ManifestPart(rest=FURTHER_FIELDS)))
        place = pc.index_in(numbers, value_set=as_array(whole.column(FILE_NUMBER)))
        return with_columns(files, delete_files=whole.column("delete_files").take(place))

    def file_table(self, entries: Sequence[Entries], condition: Bound = TRUE) -> pa.Table:
        """Return the file table of data files (`ScanSource`), with what can delete rows that match a condition."""
        parts = [self._rows.rows(found) for found in entries]
        files = pa.concat_tables(parts) if parts else self._rows.no_rows()
        return self.deletes.attach(files, entries, condition)

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Return the partition values of rows of a file table, with the fields of all specs."""
        return self._rows.partition_values(files)

    def partition_share(self, files: pa.Table) -> PartitionShare | None:
        """Return in how many partitions files are, and in how many all data files, if there are statistics of them."""
        stats = self.partition_stats
        if stats is None:
            return None
        values = self.partition_values(files)
        fields = [pc.struct_field(values, [at]) for at in range(values.type.num_fields)]
        codes = row_codes([pv.array(self.spec_ids(files), pa.int32()), *fields], len(files))
        return PartitionShare(
            len(codes.unique()), pc.sum(pc.greater(stats.column("data_file_count"), pv.ZERO)).as_py() or 0
        )

    def spec_ids(self, files: pa.Table) -> list[int]:
        """Return the ids of the specs of rows of a file table."""
        return self._rows.spec_ids(files)

    def statistics(self, numbers: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Return statistics of some columns, for some files or for all."""
        wanted = self._all_numbers() if numbers is None else numbers
        return self._metrics.read(self.manifests, wanted, columns)

    def _all_numbers(self) -> pa.Int64Array:
        """Return the numbers of all live data files."""
        return as_array(self.select_files(TRUE).files.column(FILE_NUMBER))

    def locate(self, files: pa.Table) -> pa.Table:
        """Return where data files, deletion vectors and delete files are."""
        prefix = self.metadata.location.rstrip("/") + "/"
        columns = {"location": self.resolver.locate(files.column("path"), prefix)}
        return pa.table(columns | self.deletes.locate(files))


def _counted(name: str, manifests: pa.Table) -> PruneStep:
    """Return the step that leaves manifests, with the number of their files as far as they count them."""
    counts = [
        manifests.column(column).fill_null(pv.scalar(0, pa.int32()))
        for column in ("added_files_count", "existing_files_count")
    ]
    return PruneStep(name, sum(pc.sum(count).as_py() or 0 for count in counts), None)
