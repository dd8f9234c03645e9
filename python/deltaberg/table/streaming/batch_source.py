"""The files of one batch of a stream, as what a scan reads."""

from __future__ import annotations

import pyarrow as pa

from deltaberg.files.formats.layout import FileLayout
from deltaberg.schema.arrow import count_up
from deltaberg.schema.types import Struct
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.read.all_files import AllFiles
from deltaberg.table.read.source import FILE_NUMBER, ScanSource

__all__ = ["BatchSource"]


class BatchSource(AllFiles):
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
        self._chosen = files.set_column(index, FILE_NUMBER, numbers).combine_chunks()
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

    @property
    def _files(self) -> pa.Table:
        return self._chosen

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Return the typed partition values of rows of the file table."""
        return self._source.partition_values(files)

    def locate(self, files: pa.Table) -> pa.Table:
        """Return where files are, and what deletes their rows."""
        return self._source.locate(files)
