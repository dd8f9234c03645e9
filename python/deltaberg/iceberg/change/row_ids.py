"""Ids of rows that move to other files (Iceberg spec, "Row Lineage")."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.files.read.metadata import LINEAGE_COLUMNS
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Struct
from deltaberg.table.change.matched_rows import Change, Replacement

__all__ = ["RowIds"]


class RowIds:
    """The columns that are read and stored of rows that move, so that they keep their ids: a `RowIdentity`.

    From format version 3 on, a row that moves as it is keeps the id and the number of the snapshot that last changed
    it. A row that replaces another keeps the id, and gets the number of the new snapshot.

    Parameters
    ----------
    source
        The rows of the table.

    Raises
    ------
    UnsupportedFeatureError
        Rows have ids that cannot be kept, because columns of the table have the names of those that hold them.
    """

    def __init__(self, source: IcebergSource) -> None:
        lineage = LINEAGE_COLUMNS if source.metadata.format_version >= ROW_LINEAGE else ()
        for child in lineage:
            if source.hidden.get(child.name) is None:
                raise UnsupportedFeatureError(
                    f"the table has a column {child.name}, so that rows that move cannot keep their ids",
                    hint="rename the column",
                    column=child.name,
                    feature="row lineage",
                )
        self._width = len(source.schema)
        #: The columns of files.
        self.stored = Struct((*source.schema, *lineage))
        #: The columns to read of rows that move.
        self.columns: Sequence[ColumnName] = [(child.name,) for child in self.stored]
        self._schema = arrow_schema(self.stored)
        self._extra = len(lineage)

    def change(self, change: Change) -> Change:
        """Return a change of rows with ids."""
        if not self._extra:
            return change
        width, extra = self._width, self._extra

        def tracked(batch: pa.RecordBatch) -> Replacement:
            places = [*range(width), *range(width + extra, batch.num_columns)]
            found = change(batch.select(places))
            ids = batch.column(width).take(found.sources)
            arrays = [*found.rows.columns, ids, pa.nulls(len(ids), pa.int64())]
            return Replacement(pa.RecordBatch.from_arrays(arrays, schema=self._schema), found.sources)

        return tracked

    def flat(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with ``columns`` as files store them."""
        return pa.RecordBatch.from_arrays(batch.columns[: len(self._schema)], schema=self._schema)

    def new(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return new rows, which get their ids from the file."""
        ids = [pa.nulls(batch.num_rows, pa.int64()) for _ in range(self._extra)]
        return pa.RecordBatch.from_arrays([*batch.columns, *ids], schema=self._schema)
