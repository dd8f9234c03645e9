"""Row ids and row commit versions of rows that move to other files (Delta protocol, "Row Tracking")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.metadata import METADATA
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Struct
from deltaberg.table.change.matched_rows import Change, Replacement

__all__ = ["PendingSource", "RowIds"]

_ROW_PARTS = ("row_id", "row_commit_version")


class PendingSource(SnapshotSource):
    """The rows of a table as a transaction has changed it so far.

    Rows of files that the transaction itself has written have no ids before the commit. They are null here, so that
    rows that move again get their ids from the last file that they move to.

    Parameters
    ----------
    fresh
        The recorded paths of these files.
    """

    def __init__(self, snapshot: Snapshot, timezone: str, fresh: frozenset[str]) -> None:
        super().__init__(snapshot, timezone)
        self._fresh = fresh

    def __reduce__(self) -> tuple[type[SnapshotSource], tuple[Any, ...]]:
        raise TypeError("what a transaction has not committed cannot be read elsewhere")

    @property
    def layout(self) -> FileLayout:
        """The layout of the columns in data files, some of which have no row ids yet."""
        layout = super().layout
        return replace(layout, all_rows_have_ids=layout.all_rows_have_ids and not self._fresh)

    @cached_property
    def _files(self) -> pa.Table:
        files = super()._files
        if not self._fresh:
            return files
        is_fresh = pc.is_in(files.column("path"), value_set=pa.array(sorted(self._fresh), pa.string()))
        for name in ("base_row_id", "row_commit_version"):
            known = pc.if_else(is_fresh, pa.scalar(None, pa.int64()), files.column(name))
            files = files.set_column(files.column_names.index(name), name, known)
        return files


class RowIds:
    """The columns of ids and versions that rows keep when they move to other files, where the table tracks rows."""

    def __init__(self, table: Snapshot) -> None:
        source = SnapshotSource(table)
        layout = source.layout
        self._width = len(table.schema)
        named = [field for field in (layout.row_id, layout.row_version) if field is not None]
        is_visible = source.hidden.get(METADATA) is not None
        tracks = "rowTracking" in table.active_features
        #: Whether ids stay with their rows. They need not where the table does not rely on them.
        self.are_kept = tracks and is_visible and len(named) == len(_ROW_PARTS)
        #: The columns of files.
        self.stored = Struct((*table.schema, *named)) if self.are_kept else table.schema
        names: list[ColumnName] = [(field.name,) for field in table.schema]
        #: The columns to read of rows that move.
        self.columns: Sequence[ColumnName] = (
            [*names, *((METADATA, part) for part in _ROW_PARTS)] if self.are_kept else names
        )
        self._schema = arrow_schema(self.stored)

    def change(self, change: Change) -> Change:
        """Return a change of rows with ids: a row that replaces another keeps its id, and gets the new version."""
        if not self.are_kept:
            return change

        def tracked(batch: pa.RecordBatch) -> Replacement:
            places = [*range(self._width), *range(self._width + 1, batch.num_columns)]
            replacement = change(batch.select(places))
            metadata = batch.column(self._width)
            ids = pc.struct_field(metadata, 0).take(replacement.sources)
            kept = pa.StructArray.from_arrays([ids, pa.nulls(len(ids), pa.int64())], fields=list(metadata.type))
            rows = [*replacement.rows.columns, kept]
            names = [*replacement.rows.schema.names, METADATA]
            return Replacement(pa.RecordBatch.from_arrays(rows, names=names), replacement.sources)

        return tracked

    def flat(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with their ids and versions as columns of files."""
        arrays = batch.columns[: self._width]
        if self.are_kept:
            metadata = batch.column(self._width)
            arrays += [pc.struct_field(metadata, part) for part in range(len(_ROW_PARTS))]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def new(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return new rows, which get their ids from the file."""
        extra = len(self._schema) - self._width
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *(pa.nulls(batch.num_rows, pa.int64()) for _ in range(extra))], schema=self._schema
        )
