"""A snapshot of a Delta table as what a scan reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.data.deletion_vectors import locate_vectors
from deltaberg.delta.data.partition_values import read_partition_values
from deltaberg.delta.snapshot.lazy_value import lazy_value
from deltaberg.delta.snapshot.planning_parts import SnapshotPart
from deltaberg.delta.snapshot.scanned_version import ScannedVersion
from deltaberg.errors import ColumnNotFoundError, CorruptLogError, in_context
from deltaberg.expressions.compute.bound import Bound
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.metadata import METADATA, metadata_field
from deltaberg.files.read.task import BITMAP, constant_column
from deltaberg.kernels.results import empty_structs
from deltaberg.pruning.stats import FileStats
from deltaberg.schema.arrow import arrow_schema, as_array, count_up
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.location import PathResolver
from deltaberg.table.read.all_files import AllFiles
from deltaberg.table.read.source import FILE_NUMBER, ScanSource

__all__ = ["DeltaFiles", "SnapshotSource", "about_row_fields"]

_ROW_FIELDS = ("row_id", "row_commit_version")
_ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


class DeltaFiles(AllFiles):
    """The common base of scans of snapshots and of changes: the table, and where its files are."""

    def __init__(self, snapshot: ScannedVersion, timezone: str = "UTC", resolver: PathResolver | None = None) -> None:
        self.snapshot = snapshot
        self.store = snapshot.log.store
        self.resolver = PathResolver(snapshot.log.root) if resolver is None else resolver
        self.timezone = timezone

    @property
    def table(self) -> str:
        """Where the table is."""
        return str(self.snapshot.log.root)

    @property
    def layout(self) -> FileLayout:
        """The layout of the columns in data files."""
        return FileLayout(by_id=self.snapshot.mapping_mode == "id")

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns."""
        return self.snapshot.partition_fields

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Return typed partition values for rows of the file table."""
        fields = list(arrow_schema(Struct(self.partition_fields)))
        if not fields:
            return empty_structs(len(files))
        values = [as_array(files.column(constant_column(child.name))) for child in fields]
        return pa.StructArray.from_arrays(values, fields=fields)

    def locate(self, files: pa.Table) -> pa.Table:
        """Return ``location``, ``deletion_vector`` and ``only_in_vector`` for rows of the file table."""
        columns = {"location": self.resolver.locate(files.column("path"))}
        for name in ("deletion_vector", "only_in_vector"):
            vectors = as_array(files.column(name))
            with in_context(table=self.table):
                columns[name] = locate_vectors(vectors, self.resolver)
        return pa.table(
            columns,
            schema=pa.schema([("location", pa.string()), ("deletion_vector", BITMAP), ("only_in_vector", BITMAP)]),
        )


class SnapshotSource(DeltaFiles):
    """The rows of a snapshot."""

    def __reduce__(self) -> tuple[type[SnapshotSource], tuple[Any, ...]]:
        # What was read is left behind.
        return SnapshotSource, (self._whole, self.timezone, self.resolver)

    @property
    def _whole(self) -> SnapshotPart:
        """The version as something that can be divided and pickled."""
        return lazy_value(self, "_kept_whole", lambda: SnapshotPart.of(self.snapshot))

    def divide(self, condition: Bound) -> pa.Table | None:
        """Return the parts of the checkpoint and what came after it, each with its ``length`` in bytes."""
        return self._whole.divide()

    def part(self, pieces: pa.Table) -> SnapshotSource:
        """Return the rows whose files some of the pieces list."""
        return SnapshotSource(self._whole.only(pieces), self.timezone, self.resolver)

    @property
    def description(self) -> str:
        """The version that is read."""
        return f"version {self.snapshot.version}"

    @property
    def schema(self) -> Struct:
        """The columns of the table."""
        return self.snapshot.schema

    @property
    def hidden(self) -> Struct:
        """The ``_metadata`` column."""
        if self.snapshot.schema.get(METADATA) is not None:
            return Struct()
        return Struct((metadata_field(row_tracking=self._tracks_rows),))

    @property
    def constants(self) -> Struct:
        """The partition columns."""
        return Struct(self.snapshot.partition_fields)

    @property
    def layout(self) -> FileLayout:
        """The layout of the columns in data files. Partition values come from the log, even if files store them."""
        return replace(
            super().layout,
            computed=frozenset(self.hidden.names),
            row_id=self._materialized(_ROW_ID_COLUMN),
            row_version=self._materialized(_ROW_VERSION_COLUMN),
            all_rows_have_ids=self._tracks_rows,
        )

    @property
    def _tracks_rows(self) -> bool:
        return "rowTracking" in self.snapshot.active_features

    def _materialized(self, key: str) -> Field | None:
        """Return the hidden column that a property names, which has no id."""
        name = self.snapshot.metadata.configuration.get(key) if self._tracks_rows else None
        return None if name is None else Field(name, Primitive("long"))

    @cached_property
    def _files(self) -> pa.Table:
        return self.file_table(self.snapshot.live.table)

    def file_table(self, live: pa.Table) -> pa.Table:
        """Return the file table of files as ``add`` actions record them."""
        rows = len(live)
        if pc.any(pc.is_null(live.column("path")), min_count=0).as_py():
            raise CorruptLogError("a live file has no path", table=self.table, version=self.snapshot.version)
        columns = {
            FILE_NUMBER: count_up(0, rows),
            "path": live.column("path"),
            "size": live.column("size"),
            "modified": live.column("modificationTime"),
            "deletion_vector": live.column("deletionVector"),
            "only_in_vector": pa.nulls(rows, live.schema.field("deletionVector").type),
            "base_row_id": live.column("baseRowId"),
            "row_commit_version": live.column("defaultRowCommitVersion"),
        }
        fields = self.snapshot.partition_fields
        with in_context(table=self.table, version=self.snapshot.version):
            values = read_partition_values(live, fields, self.timezone)
        for field, array in zip(fields, values, strict=True):
            columns[constant_column(field.name)] = array
        return pa.table(columns)

    def statistics(self, numbers: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Return statistics of some columns for some of the files."""
        return self.snapshot.live.statistics(numbers, columns)


def about_row_fields(error: ColumnNotFoundError, source: ScanSource) -> ColumnNotFoundError:
    """Return the error of a column that was not found, with what to do if it is one of the ids of rows."""
    name = str(error.context.get("column", ""))
    if name.lower() in _ROW_FIELDS:
        return ColumnNotFoundError(
            error.message, hint=f"read _metadata.{name.lower()}", table=source.table, column=name
        )
    if name.rpartition(".")[2] in _ROW_FIELDS:
        return ColumnNotFoundError(
            "rows have no ids: row tracking is not enabled, or this is a scan of changes",
            hint="set delta.enableRowTracking on the table",
            table=source.table,
            column=error.context["column"],
        )
    return error
