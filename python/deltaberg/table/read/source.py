"""The interface of a table format to a scan: a table of files, and their statistics on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.compute.bound import Bound
from deltaberg.files.formats.layout import FileLayout
from deltaberg.hints import verbatim
from deltaberg.pruning.stats import FileStats
from deltaberg.schema.types import Field, Struct
from deltaberg.storage.stores import StoreSpec

__all__ = [
    "FILE_NUMBER",
    "DividedSource",
    "FileSelection",
    "PartitionShare",
    "PartitionedSource",
    "PruneStep",
    "ScanSource",
    "require_free_names",
    "total_size",
]

#: The column of a file table that holds the number of each file: within its source no other file has it.
FILE_NUMBER = "file_number"


def total_size(files: pa.Table) -> int:
    """Return the bytes of the files of a file table, as far as they are known."""
    return pc.sum(files.column("size")).as_py() or 0


def require_free_names(columns: Struct, added: Sequence[Field], table: str) -> None:
    """Refuse to read the changes of a table that has a column of a name that a change feed adds, in any case."""
    names = {child.name for child in added}
    taken = next((child.name for child in columns if child.name.lower() in names), None)
    if taken is not None:
        raise InvalidArgumentError(
            f"the table has a column {taken}, and its changes a column of this name that describes them",
            hint=f'rename the column, with ⟪alter().rename("{verbatim(taken)}", new_name)⟫',
            table=table,
            column=taken,
        )


@dataclass(frozen=True)
class PruneStep:
    """How many files, and how many bytes, a planning step kept; None if the bytes are not known yet."""

    name: str
    files: int
    size: int | None


@dataclass(frozen=True)
class FileSelection:
    """The files that a source chose.

    ``proven`` tells for each file whether all of its rows are known to match; None if that is not known of any.
    ``steps`` describes how they were chosen, beginning with all files of the source.
    """

    files: pa.Table
    steps: list[PruneStep] = field(default_factory=list)
    proven: pa.BooleanArray | None = None

    @classmethod
    def of_all(cls, files: pa.Table) -> FileSelection:
        """Return all files of a source that cannot choose among them by itself."""
        return cls(files, [PruneStep("files", len(files), total_size(files))])


class ScanSource(Protocol):
    """A set of data files that read as one table: a snapshot, or the changes between two.

    `select_files` returns a file table, which has a row for each data file and the columns

    - ``file_number``: the number by which the source knows it (int64), whatever planning leaves out;
    - ``path``: its path, verbatim as the log or the manifest records it (string); `locate` tells where that leads;
    - ``size`` in bytes and ``modified`` in milliseconds since 1970 (int64);
    - ``deletion_vector``, as the format describes it, whose rows are deleted; and ``only_in_vector``, likewise, of a
      file of which only the rows in it are wanted;
    - ``record_count`` (int64), with deleted rows, where it is known beforehand; the column may be missing;
    - ``format`` (string), where a file is not Parquet; the column may be missing;
    - ``delete_files`` and ``only_in_delete_files`` (lists), likewise, of delete files; the columns may be missing;
    - ``base_row_id`` and ``row_commit_version`` (int64);
    - ``=name`` for each of ``constants``, typed.
    """

    @property
    def table(self) -> str:
        """Where the table is, for error messages."""

    @property
    def description(self) -> str:
        """The state that is read, such as ``version 3``."""

    @property
    def store(self) -> StoreSpec:
        """Opens the stores of the files."""

    @property
    def schema(self) -> Struct:
        """The columns of the rows."""

    @property
    def hidden(self) -> Struct:
        """The columns that are read only on request."""

    @property
    def constants(self) -> Struct:
        """The columns that have a single value in each file."""

    @property
    def layout(self) -> FileLayout:
        """How data files store the columns."""

    def select_files(self, condition: Bound) -> FileSelection:
        """Return the files in which rows can match, as far as that follows from metadata such as manifests."""

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Return the typed partition values of rows of the file table."""

    def statistics(self, numbers: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Return statistics of some columns for the files with these numbers, in this order; None means all files."""

    def locate(self, files: pa.Table) -> pa.Table:
        """Return where the files of a file table are, and what deletes their rows.

        The columns are ``location``, ``deletion_vector`` and ``only_in_vector`` (`BITMAP`), and where delete
        files apply ``delete_files`` and ``only_in_delete_files`` (`DELETE_FILES`).
        """

    def with_all_deletes(self, files: pa.Table) -> pa.Table:
        """Return rows of the file table with everything that deletes rows of those files.

        `select_files` may leave out delete files that delete no row for which its condition is true.
        """


@runtime_checkable
class DividedSource(ScanSource, Protocol):
    """A source whose metadata can be read in parts, by different processes. It pickles."""

    def divide(self, condition: Bound) -> pa.Table | None:
        """Return a row for each piece of metadata that must be read, with its size in the column ``length``.

        None if the metadata must be read as a whole.
        """

    def part(self, pieces: pa.Table) -> ScanSource:
        """Return the source of the rows in the files that some of the pieces list."""


@dataclass(frozen=True)
class PartitionShare:
    """In how many partitions files are, and in how many all files of the table."""

    chosen: int
    all: int


@runtime_checkable
class PartitionedSource(ScanSource, Protocol):
    """A source that may know its partitions without looking at all of its files."""

    def partition_share(self, files: pa.Table) -> PartitionShare | None:
        """Return the share of partitions that files of the file table have; None if it is not known."""
