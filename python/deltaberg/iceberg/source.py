"""A snapshot of an Iceberg table as what a scan reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import DeltabergError
from deltaberg.expressions import TRUE, Bound, bound_paths
from deltaberg.files import LINEAGE_COLUMNS, ROW_COLUMNS, FileLayout, constant_column
from deltaberg.iceberg.delete_files import DeleteFiles
from deltaberg.iceberg.encryption import encrypted
from deltaberg.iceberg.manifest_list import describe_manifests, read_manifest_list
from deltaberg.iceberg.manifests import ManifestPart
from deltaberg.iceberg.metadata import TableMetadata
from deltaberg.iceberg.metrics import METRIC_NAMES, Metrics, entry_rows
from deltaberg.iceberg.partitioning import identity_sources, union_struct, union_values
from deltaberg.iceberg.paths import locate_paths
from deltaberg.iceberg.planning import Entries, ManifestReader, prune_manifests
from deltaberg.iceberg.snapshots import Snapshot
from deltaberg.pruning import FileStats, keep_rows
from deltaberg.schema import Field, NameMapping, Primitive, Struct, arrow_schema, arrow_type, mapping_of
from deltaberg.storage import PathResolver, StoreSpec
from deltaberg.table import ROW, FileSelection, PruneStep

__all__ = ["DATA_REST", "IcebergSource"]

_FILE = Field("_file", Primitive("string"), nullable=False, id=2147483646)
_SPEC_ID = Field("_spec_id", Primitive("integer"), nullable=False, id=2147483643)
_PARTITION_ID = 2147483642
#: The format version from which on rows have ids.
_ROW_IDS_SINCE = 3
#: What is read of data files beside the columns that all files have.
DATA_REST = ("first_row_id", "key_metadata")


class IcebergSource:
    """The rows of a snapshot, in the columns of a schema.

    Parameters
    ----------
    snapshot
        None for a table that has none yet, and so no rows.
    part
        Data manifests of the snapshot that are all that is read; None for the whole snapshot.
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
        older = [metadata.schemas[number].struct for number in sorted(metadata.schemas, reverse=True)]
        self.reader = ManifestReader(table, store, resolver, metadata.specs, (schema, *older))
        self._metrics = Metrics(self.reader)
        self._part_manifests = part

    def __reduce__(self) -> tuple[type[IcebergSource], tuple[Any, ...]]:
        # What was read is left behind, and so is what other snapshots say.
        snapshots = {} if self.snapshot is None else {self.snapshot.snapshot_id: self.snapshot}
        slim = replace(self.metadata, raw={}, snapshots=snapshots, snapshot_log=(), metadata_log=(), refs={})
        own = (self.store, self.resolver, self.table, self.metadata_file, self._part_manifests)
        return IcebergSource, (slim, self.snapshot, self._schema, *own)

    def divide(self, condition: Bound) -> pa.Table:
        """Give the data manifests that must be read, each with its ``length``."""
        data = self._manifests_of(0)
        chosen = prune_manifests(data, self.reader, condition)
        return chosen.append_column("length", chosen.column("manifest_length"))

    def part(self, pieces: pa.Table) -> IcebergSource:
        """Give the rows of some of the data manifests, with all deletes of the snapshot."""
        own = (self.store, self.resolver, self.table, self.metadata_file, pieces.drop_columns(["length"]))
        return IcebergSource(self.metadata, self.snapshot, self._schema, *own)

    def at(self, snapshot: Snapshot | None) -> IcebergSource:
        """Give another snapshot of the table, in the same columns."""
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

    @cached_property
    def partition(self) -> Struct:
        """The partition fields of all specs."""
        return union_struct(list(self.metadata.specs.values()), self.reader.schemas)

    @cached_property
    def _sources(self) -> tuple[Field, ...]:
        """The columns that some spec partitions by identity."""
        found = identity_sources(list(self.metadata.specs.values()), self._schema)
        return tuple({child.name: child for child in found.values()}.values())

    @cached_property
    def _origin(self) -> tuple[Field, ...]:
        """The metadata columns that have one value in a file."""
        partition = (Field("_partition", self.partition, id=_PARTITION_ID),) if self.partition else ()
        return tuple(child for child in (_FILE, _SPEC_ID, *partition) if self._schema.get(child.name) is None)

    @cached_property
    def _computed(self) -> tuple[Field, ...]:
        lineage = LINEAGE_COLUMNS if self.metadata.format_version >= _ROW_IDS_SINCE else ()
        return tuple(child for child in (*ROW_COLUMNS, *lineage) if self._schema.get(child.name) is None)

    @property
    def hidden(self) -> Struct:
        """The metadata columns ("Reserved Field IDs")."""
        return Struct((*self._origin, *self._computed))

    @property
    def constants(self) -> Struct:
        """The columns that a spec partitions by identity, and those that say where a row is from."""
        return Struct((*self._sources, *self._origin))

    @property
    def _own_names(self) -> NameMapping | None:
        """The table's own names, for files that were added without ids; they are sure while nothing was renamed."""
        return mapping_of(self._schema) if len(self.metadata.schemas) == 1 else None

    @cached_property
    def layout(self) -> FileLayout:
        """How data files hold the columns."""
        has_ids = self.metadata.format_version >= _ROW_IDS_SINCE
        row_id, row_version = LINEAGE_COLUMNS if has_ids else (None, None)
        return FileLayout(
            by_id=True,
            name_mapping=self.metadata.name_mapping or self._own_names,
            computed=frozenset(child.name for child in self._computed),
            stored=frozenset(child.name for child in self._sources),
            row_id=row_id,
            row_version=row_version,
            keys=self._deletes.key_fields,
            resolver=self.resolver,
        )

    @cached_property
    def manifests(self) -> pa.Table:
        """The manifests of the snapshot, each with its ``number``."""
        snapshot = self.snapshot
        if snapshot is None:
            table = describe_manifests([], None)
        elif snapshot.manifest_list is None:
            found = ((path, self.reader.fetch(path)) for path in snapshot.manifests)
            table = describe_manifests(found, snapshot.snapshot_id)
        else:
            data = self.reader.fetch(snapshot.manifest_list)
            try:
                table = read_manifest_list(data)
            except DeltabergError as error:
                if snapshot.key_id is not None:
                    raise encrypted("a manifest list", self.table) from error
                raise error.with_context(table=self.table, file=snapshot.manifest_list) from None
        return table.append_column("number", pa.array(range(len(table)), pa.int32()))

    def _manifests_of(self, content: int) -> pa.Table:
        return keep_rows(self.manifests, pc.equal(self.manifests.column("content"), content))

    @cached_property
    def _deletes(self) -> DeleteFiles:
        found = self._manifests_of(1)
        return DeleteFiles.read(prune_manifests(found, self.reader, TRUE), self.reader)

    def select_files(self, condition: Bound) -> FileSelection:
        """Give the live data files whose partition can hold a matching row, with what deletes their rows."""
        data = self._part_manifests
        if data is None:
            data = self._manifests_of(0)
        chosen = prune_manifests(data, self.reader, condition)
        ids = frozenset(path[-1].id for path in bound_paths(condition) if path[-1].id is not None)
        part = ManifestPart(METRIC_NAMES if ids else (), ids, DATA_REST)
        entries = self.reader.read(chosen.to_pylist(), part, condition)
        self._metrics.keep(ids, entries)
        files = self.file_table(entries, condition)
        steps = [_counted("files", data), _counted("manifests", chosen)]
        size: int = pc.sum(files.column("size")).as_py() or 0
        proven = pa.chunked_array([found.proven for found in entries], pa.bool_()).combine_chunks()
        return FileSelection(files, [*steps, PruneStep("partition values", len(files), size)], proven)

    def file_table(self, entries: Sequence[Entries], condition: Bound = TRUE) -> pa.Table:
        """Give the file table of data files (`ScanSource`), with what can delete rows that match a condition."""
        parts = [self._part(found) for found in entries]
        files = pa.concat_tables(parts) if parts else self._no_files()
        return self._deletes.attach(files, entries, condition)

    def _part(self, found: Entries) -> pa.Table:
        """Give the rows of the file table that the entries of one spec are."""
        table = found.table
        if pc.any(table.column("key_metadata").is_valid(), min_count=0).as_py():
            raise encrypted("a data file", self.table)
        rows = len(table)
        own = table.column("partition").combine_chunks()
        union = union_values(own, found.partition, self.partition)
        columns: dict[str, pa.Array] = {
            ROW: entry_rows(table),
            "path": table.column("file_path"),
            "format": table.column("file_format"),
            "size": table.column("file_size_in_bytes"),
            "modified": pa.nulls(rows, pa.int64()),
            "record_count": table.column("record_count"),
            "include": pa.nulls(rows),
            "base_row_id": table.column("first_row_id"),
            "row_commit_version": table.column("sequence_number"),
            constant_column(_FILE.name): table.column("file_path"),
            constant_column(_SPEC_ID.name): pa.repeat(pa.scalar(found.spec.spec_id, pa.int32()), rows),
        }
        if self.partition:
            columns[constant_column("_partition")] = union
        identities = identity_sources([found.spec], self._schema)
        places = {child.id: number for number, child in enumerate(found.partition)}
        values = {child.name: pc.struct_field(own, places[field]) for field, child in identities.items()}
        for child in self._sources:
            target = arrow_type(child.type)
            value = values.get(child.name)
            columns[constant_column(child.name)] = pa.nulls(rows, target) if value is None else value.cast(target)
        return pa.table(columns)

    def _no_files(self) -> pa.Table:
        fields = [
            pa.field(ROW, pa.int64()),
            *(pa.field(name, pa.string()) for name in ("path", "format")),
            *(pa.field(name, pa.int64()) for name in ("size", "modified", "record_count")),
            pa.field("include", pa.null()),
            *(pa.field(name, pa.int64()) for name in ("base_row_id", "row_commit_version")),
            *(pa.field(constant_column(child.name), child.type) for child in arrow_schema(self.constants)),
        ]
        return pa.schema(fields).empty_table()

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Give typed partition values, with the fields of all specs, for rows of the file table."""
        if not self.partition:
            return pa.Array.from_buffers(pa.struct([]), len(files), [None], children=[])
        return files.column(constant_column("_partition")).combine_chunks()

    def statistics(self, rows: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Give statistics of some columns for some of the files."""
        wanted = self._all_rows() if rows is None else rows
        return self._metrics.read(self.manifests, wanted, columns)

    def _all_rows(self) -> pa.Int64Array:
        """Give the numbers of all live data files."""
        return self.select_files(TRUE).files.column(ROW).combine_chunks()

    def locate(self, files: pa.Table) -> pa.Table:
        """Give where data files, deletion vectors and delete files are."""
        columns = {
            "location": locate_paths(files.column("path").combine_chunks(), self.resolver, self.metadata.location)
        }
        return pa.table(columns | self._deletes.locate(files))


def _counted(name: str, manifests: pa.Table) -> PruneStep:
    """Say how many files manifests hold, as far as they count them."""
    counts = [manifests.column(column).fill_null(0) for column in ("added_files_count", "existing_files_count")]
    return PruneStep(name, sum(pc.sum(count).as_py() or 0 for count in counts), None)
