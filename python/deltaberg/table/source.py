"""What a table format gives to a scan: a table of files, and statistics of them when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from deltaberg.expressions import Bound
from deltaberg.files import FileLayout
from deltaberg.pruning import FileStats
from deltaberg.schema import Field, Struct
from deltaberg.storage import StoreSpec

__all__ = ["ROW", "DividedSource", "FileSelection", "PruneStep", "ScanSource"]

#: The column of a file table that holds the number of the row in the whole of it.
ROW = "row"


@dataclass(frozen=True)
class PruneStep:
    """How many files, and bytes of them, a step of planning left; None where the bytes are not known by then."""

    name: str
    files: int
    size: int | None


@dataclass(frozen=True)
class FileSelection:
    """The files that a source chose.

    ``proven`` says of each whether all of its rows match; None where nothing is known of that. ``steps`` are how they
    were chosen, beginning with all files of the source.
    """

    files: pa.Table
    steps: list[PruneStep] = field(default_factory=list)
    proven: pa.BooleanArray | None = None


class ScanSource(Protocol):
    """A set of data files that read as one table: a snapshot, or the changes between two.

    `select_files` gives a file table, a row for each data file, with the columns

    - ``row``: its number (int64);
    - ``path``: as the metadata records it (string);
    - ``size`` in bytes and ``modified`` in milliseconds since 1970 (int64);
    - ``exclude`` and ``include``: deletion vectors, as the format describes them;
    - ``record_count`` (int64), with deleted rows, where it is known beforehand; the column may be missing;
    - ``format`` (string), where a file is not Parquet, and ``deletes`` (a list), where delete files apply to it; both
      columns may be missing;
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
    def hidden(self) -> Struct:
        """The columns that are read only where they are asked for."""
        ...

    @property
    def constants(self) -> Struct:
        """The columns that have one value in each file."""
        ...

    @property
    def layout(self) -> FileLayout:
        """How data files hold the columns."""
        ...

    def select_files(self, condition: Bound) -> FileSelection:
        """Give the files in which rows can match, as far as metadata above the files' own tells it."""
        ...

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Give typed partition values for rows of the file table."""
        ...

    def statistics(self, rows: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Give statistics of some columns, for the files of these numbers in this order; None means all."""
        ...

    def locate(self, files: pa.Table) -> pa.Table:
        """Give where rows of the file table are.

        The columns are ``location``, ``exclude`` and ``include`` (`BITMAP`), and where delete files apply ``deletes``
        and ``included`` (`DELETE_FILES`).
        """
        ...


@runtime_checkable
class DividedSource(ScanSource, Protocol):
    """A source whose metadata can be read in parts, each elsewhere. It pickles."""

    def divide(self, condition: Bound) -> pa.Table | None:
        """Give a row for each piece of metadata that must be read, with its bytes in ``length``.

        None where the metadata must be read as a whole.
        """
        ...

    def part(self, pieces: pa.Table) -> ScanSource:
        """Give the rows whose files some of the pieces list."""
        ...
