"""A snapshot of a Delta table as what a scan reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.deletion_vectors import locate_vectors
from deltaberg.delta.divided import SnapshotPart, divide
from deltaberg.delta.partition import read_partition_values
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.statistics import read_statistics
from deltaberg.delta.table_state import TableState
from deltaberg.errors import CorruptLogError, DeltabergError
from deltaberg.expressions import Bound
from deltaberg.files import BITMAP, METADATA, FileLayout, constant_column, metadata_field
from deltaberg.pruning import FileStats
from deltaberg.schema import Field, Primitive, Struct, arrow_schema
from deltaberg.storage import PathResolver, StoreSpec
from deltaberg.table import ROW, FileSelection, PruneStep

__all__ = ["DeltaFiles", "SnapshotSource", "locate_files"]

_ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
#: Relative paths that need no decoding and no care.
_PLAIN_PATH = r"^[^/%:.][^%:]*$"
_UNTIDY_PATH = r"(^|/)\.{0,2}(/|$)"


class DeltaFiles(ABC):
    """What scans of snapshots and of changes have in common: the table, and how its files are found."""

    def __init__(self, snapshot: TableState, store: StoreSpec, resolver: PathResolver, timezone: str) -> None:
        self.snapshot = snapshot
        self.store = store
        self.resolver = resolver
        self.timezone = timezone

    @property
    def table(self) -> str:
        """Where the table is."""
        return str(self.snapshot.log.root)

    @property
    def layout(self) -> FileLayout:
        """How data files hold the columns."""
        return FileLayout(by_id=self.snapshot.mapping_mode == "id")

    @property
    @abstractmethod
    def _files(self) -> pa.Table:
        """Give the file table."""

    def select_files(self, condition: Bound) -> FileSelection:  # noqa: ARG002
        """Give all files: what prunes them is what each of them says of itself."""
        files = self._files
        size: int = pc.sum(files.column("size")).as_py() or 0
        return FileSelection(files, [PruneStep("files", len(files), size)])

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Give typed partition values for rows of the file table."""
        fields = list(arrow_schema(Struct(self.snapshot.partition_fields)))
        if not fields:
            return pa.Array.from_buffers(pa.struct([]), len(files), [None], children=[])
        values = [files.column(constant_column(child.name)).combine_chunks() for child in fields]
        return pa.StructArray.from_arrays(values, fields=fields)

    def locate(self, files: pa.Table) -> pa.Table:
        """Give ``location``, ``exclude`` and ``include`` for rows of the file table."""
        columns = {"location": locate_files(files.column("path").combine_chunks(), self.resolver)}
        for name in ("exclude", "include"):
            vectors = files.column(name).combine_chunks()
            try:
                columns[name] = locate_vectors(vectors, self.resolver)
            except DeltabergError as error:
                raise error.with_context(table=self.table) from None
        return pa.table(
            columns, schema=pa.schema([("location", pa.string()), ("exclude", BITMAP), ("include", BITMAP)])
        )


class SnapshotSource(DeltaFiles):
    """The rows of a snapshot."""

    snapshot: Snapshot | SnapshotPart

    def __reduce__(self) -> tuple[type[SnapshotSource], tuple[Any, ...]]:
        # What was read is left behind.
        return SnapshotSource, (self._slim, self.store, self.resolver, self.timezone)

    @cached_property
    def _slim(self) -> SnapshotPart:
        return self.snapshot if isinstance(self.snapshot, SnapshotPart) else SnapshotPart.of(self.snapshot)

    def divide(self, condition: Bound) -> pa.Table | None:  # noqa: ARG002 - any part of a checkpoint may hold a match
        """Give the parts of the checkpoint and what came after it, each with its ``length``."""
        return divide(self.snapshot)

    def part(self, pieces: pa.Table) -> SnapshotSource:
        """Give the rows whose files some of the pieces list."""
        return SnapshotSource(self._slim.only(pieces), self.store, self.resolver, self.timezone)

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
        """How data files hold the columns. No constant is stored in them: the log is authoritative."""
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
        """Give the hidden column that a property names; it has no id."""
        name = self.snapshot.metadata.configuration.get(key) if self._tracks_rows else None
        return None if name is None else Field(name, Primitive("long"))

    @cached_property
    def _files(self) -> pa.Table:
        live = self.snapshot.live
        rows = len(live)
        if pc.any(pc.is_null(live.column("path")), min_count=0).as_py():
            raise CorruptLogError("a live file has no path", table=self.table, version=self.snapshot.version)
        columns = {
            ROW: pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1),
            "path": live.column("path"),
            "size": live.column("size"),
            "modified": live.column("modificationTime"),
            "exclude": live.column("deletionVector"),
            "include": pa.nulls(rows, live.schema.field("deletionVector").type),
            "base_row_id": live.column("baseRowId"),
            "row_commit_version": live.column("defaultRowCommitVersion"),
        }
        fields = self.snapshot.partition_fields
        try:
            values = read_partition_values(live, fields, self.timezone)
        except DeltabergError as error:
            raise error.with_context(table=self.table, version=self.snapshot.version) from None
        for field, array in zip(fields, values, strict=True):
            columns[constant_column(field.name)] = array
        return pa.table(columns)

    def statistics(self, rows: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Give statistics of some columns for some of the files."""
        live = self.snapshot.live
        chosen = live if rows is None or len(rows) == len(live) else live.take(rows)
        wanted = chosen.select(["stats", "version", "part", "index", "deletionVector"])
        return read_statistics(wanted, self.snapshot.parts, self.snapshot.log_bytes, columns)


def locate_files(paths: pa.StringArray, resolver: PathResolver) -> pa.StringArray:
    """Give where recorded paths lead; nearly all are plain names below the table, which need no thought each."""
    plain = pc.and_(
        pc.match_substring_regex(paths, _PLAIN_PATH), pc.invert(pc.match_substring_regex(paths, _UNTIDY_PATH))
    )
    root = str(resolver.root).rstrip("/") + "/"
    located = pc.binary_join_element_wise(pa.scalar(root), paths, "")
    if pc.all(plain, min_count=0).as_py():
        return located
    rest = [str(resolver.resolve(path)) for path in paths.filter(pc.invert(plain)).to_pylist()]
    return pc.replace_with_mask(located, pc.invert(plain), pa.array(rest, pa.string()))
