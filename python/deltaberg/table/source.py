"""What a table format gives to a scan: a table of files, and statistics of them when asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from deltaberg.pruning import FileStats
from deltaberg.schema import Field, Struct
from deltaberg.storage import StoreSpec

__all__ = ["ROW", "ScanSource"]

#: The column of a file table that holds the number of the row in the whole of it.
ROW = "row"


class ScanSource(Protocol):
    """A set of data files that read as one table: a snapshot, or the changes between two.

    ``files`` gives the file table, a row for each data file, with the columns

    - ``row``: its number (int64);
    - ``path``: as the metadata records it (string);
    - ``size`` in bytes and ``modified`` in milliseconds since 1970 (int64);
    - ``exclude`` and ``include``: deletion vectors, as the format describes them;
    - ``base_row_id`` and ``row_commit_version`` (int64);
    - ``=name`` for each of ``constants``, typed.
    """

    @property
    def table(self) -> str:
        """Where the table is, for messages."""
        ...

    @property
    def description(self) -> str:
        """What is read, as ``version 3``."""
        ...

    @property
    def store(self) -> StoreSpec:
        """What opens the stores of the files."""
        ...

    @property
    def schema(self) -> Struct:
        """The columns of the rows."""
        ...

    @property
    def metadata(self) -> Field | None:
        """The ``_metadata`` column, which is read only where it is asked for."""
        ...

    @property
    def constants(self) -> Struct:
        """The columns that have one value in each file."""
        ...

    @property
    def stored(self) -> frozenset[str]:
        """Constants that a file stores itself where its row of the file table has no value."""
        ...

    @property
    def partition_columns(self) -> Sequence[str]:
        """The constants by which the table is partitioned."""
        ...

    @property
    def by_id(self) -> bool:
        """Whether columns of files are found by field id."""
        ...

    @property
    def row_id_column(self) -> str | None:
        """The hidden column of materialized row ids."""
        ...

    @property
    def row_commit_version_column(self) -> str | None:
        """The hidden column of materialized row commit versions."""
        ...

    def files(self) -> pa.Table:
        """Give the file table."""
        ...

    def statistics(self, rows: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Give statistics of some columns, for the files of these numbers in this order; None means all."""
        ...

    def locate(self, files: pa.Table) -> pa.Table:
        """Give ``location``, ``exclude`` and ``include`` (`BITMAP`) for rows of the file table."""
        ...
