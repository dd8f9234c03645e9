"""Rows that move to other files without being changed, and keep their ids (Iceberg spec, "Row Lineage")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from deltaberg.iceberg.change.row_ids import RowIds
from deltaberg.iceberg.location.new_files import data_location
from deltaberg.iceberg.rows.row_spec import entries_of, row_spec
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.table.change.changed_rows import NewFiles
from deltaberg.table.change.matched_rows import scan_of_whole_files
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.rows.progress import Progress
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.write.sources import LOCAL_ROAD, WriteRoad
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files

__all__ = ["MovedRows"]

#: Which rows of a batch are written.
Choice = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]


class MovedRows:
    """Writes rows of a table, as a transaction leaves them, to new files in the newest partitioning.

    Parameters
    ----------
    transaction
        The transaction. It does not learn of the files by itself.
    options
        How rows are written.
    source
        The rows of the table, as the transaction leaves them, where the caller has them.

    Raises
    ------
    UnsupportedFeatureError
        Rows have ids that cannot be kept, because columns of the table have the names of those that hold them.
    """

    def __init__(self, transaction: Transaction, options: RowOptions, source: IcebergSource | None = None) -> None:
        self._metadata = transaction.metadata
        self._source = source or transaction.changed_source
        self._store, self._resolver = transaction.store, transaction.resolver
        self._options = options
        #: What keeps the ids of rows.
        self.ids = RowIds(self._source)
        #: The columns of the new files.
        self.stored = self.ids.stored

    def write(
        self,
        files: pa.Table,
        options: ScanOptions,
        choose: Choice | None = None,
        *,
        memory: int,
        progress: Progress | None = None,
    ) -> pa.Table:
        """Write rows of some files, and return a row for each new file.

        Parameters
        ----------
        files
            Rows of the file table.
        options
            How the rows are read, and how many threads write.
        choose
            Returns the rows of a batch that are written; None for all. Deleted rows are left out in any case.
        memory
            Bytes of rows that wait to be written.
        progress
            What is told how far the write has come.
        """
        bound = scan_of_whole_files(self._source, files, self.ids.columns, options)
        with closing(bound.batches()) as batches:  # type: ignore[type-var]
            kept = batches if choose is None else (part for batch in batches for part in choose(batch))
            reader = pa.RecordBatchReader.from_batches(arrow_schema(self.stored), _as_stored(kept, self.stored))
            spec, store, place = replace(self._spec, memory=memory), self._store.open(self._place), self._place.path
            return write_files(reader, spec, store, place, threads=options.threads, progress=progress)

    def new_files(self, transaction: Transaction) -> NewFiles:
        """Return the files that rows are written to for a transaction, which is told of them."""

        def note(files: pa.Table, road: WriteRoad) -> None:
            self.note(transaction, files, road)

        return NewFiles(self._spec, self._store, self._place, note, transaction.progress)

    @property
    def _spec(self) -> WriteSpec:
        return row_spec(self._metadata, self._options).for_kept_rows(self.stored)

    @property
    def _place(self) -> Location:
        return self._resolver.resolve(self.location)

    @property
    def location(self) -> str:
        """The recorded location that the paths of new files are relative to."""
        return data_location(self._metadata.location, self._metadata.properties)

    def note(self, transaction: Transaction, files: pa.Table, road: WriteRoad = LOCAL_ROAD) -> None:
        """Leave new files to a transaction, which deletes them if it does not commit."""
        transaction.note_written(self._place, files.column("path").to_pylist(), road)

    def entries(self, files: pa.Table, sort_order_id: int | None = None) -> AddedFiles:
        """Return the entries of new files; see `entries_of`."""
        return entries_of(self._metadata, files, self.stored, sort_order_id)


def _as_stored(batches: Iterator[pa.RecordBatch], columns: Struct) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
