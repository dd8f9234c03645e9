"""The files of one batch of a stream, as what a scan reads."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltaberg.expressions.compute.bound import Bound
from deltaberg.files.formats.layout import FileLayout
from deltaberg.pruning.stats import FileStats
from deltaberg.schema.arrow import count_up
from deltaberg.schema.types import Field, Struct
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.read.source import FILE_NUMBER, FileSelection, ScanSource

__all__ = ["BatchSource"]


class BatchSource:
    """Chosen files of a table, in the columns of another source of it.

    Parameters
    ----------
    source
        The source whose columns are read, and which knows where files are.
    files
        The files, as a file table of that source.
    description
        What is read, such as ``version 3``.
    layout
        The layout of data files; by default, that of the source.
    """

    def __init__(self, source: ScanSource, files: pa.Table, description: str, layout: FileLayout | None = None) -> None:
        self._source = source
        numbers = count_up(0, len(files))
        index = files.column_names.index(FILE_NUMBER)
        self._files = files.set_column(index, FILE_NUMBER, numbers).combine_chunks()
        self._layout = layout
        self.description = description

    @property
    def table(self) -> str:
        """Where the table is."""
        return self._source.table

    @property
    def store(self) -> StoreSpec:
        """The description by which the stores of the files are opened."""
        return self._source.store

    @property
    def schema(self) -> Struct:
        """The columns of the rows."""
        return self._source.schema

    @property
    def hidden(self) -> Struct:
        """The columns that are read only on request."""
        return self._source.hidden

    @property
    def constants(self) -> Struct:
        """The columns that have a single value in each file."""
        return self._source.constants

    @property
    def layout(self) -> FileLayout:
        """The layout of the columns in data files."""
        return self._source.layout if self._layout is None else self._layout

    def select_files(self, condition: Bound) -> FileSelection:
        """Return all files of the batch: those that a condition excludes by partition values are left out later."""
        return FileSelection.of_all(self._files)

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Return the typed partition values of rows of the file table."""
        return self._source.partition_values(files)

    def statistics(self, numbers: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Return that nothing is known of the values in the files: a batch is read once, and as a whole."""
        return FileStats.unknown(len(self._files) if numbers is None else len(numbers))

    def locate(self, files: pa.Table) -> pa.Table:
        """Return where files are, and what deletes their rows."""
        return self._source.locate(files)

    def with_all_deletes(self, files: pa.Table) -> pa.Table:
        """Return the files as they are: no filter left out any deletes."""
        return files
