"""Compaction of tables of every format: which files are put together, and what became of them.

Files are packed into *bins*, each of which becomes one file. Bins are taken together into *groups*, each of which is
one commit, so that the work of a commit is bounded, and a conflict costs one group only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeVar

import pyarrow as pa

from deltaberg.errors import CommitConflictError, InvalidArgumentError
from deltaberg.expressions.given.given import Filter
from deltaberg.table.arguments import checked_number
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.read.scan_options import ScanOptions, processors
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.whole_numbers import known_sum
from deltaberg.workers import map_in_order

__all__ = [
    "CompactResult",
    "CompactedGroup",
    "Compaction",
    "PackedFile",
    "Packing",
    "commit_groups",
    "group_bins",
    "pack_files",
    "rows_of_bins",
    "write_bins",
]

#: A file with this share of the target size is large enough.
_LARGE = 0.75
#: Bytes of rows that wait to be written, and that wait to be read, in all bins together.
_WRITING = 512 << 20
_READING = 256 << 20

_Bin = TypeVar("_Bin")
_Rows = TypeVar("_Rows", pa.Array, pa.Table)


class PackedFile(NamedTuple):
    """A file as packing sees it.

    Parameters
    ----------
    row
        The number by which the caller knows it.
    partition
        What is equal for files that may be put together.
    size
        Its size in bytes.
    deleted
        The share of its rows that are deleted.
    """

    row: int
    partition: Hashable
    size: int
    deleted: float = 0.0


@dataclass(frozen=True)
class Packing:
    """Which files are put together.

    Parameters
    ----------
    target_size
        Bytes of a new file at most, as far as the sizes of the old files tell.
    min_files
        How many files a bin has at least. A file that is only rewritten to drop its deleted rows is a bin of its own.
    max_deleted
        Files with a larger share of deleted rows are rewritten whatever their size.
    group_size
        Bytes of the files that one commit replaces. A bin that is larger is committed alone.

    Raises
    ------
    InvalidArgumentError
        A number is out of its range.
    """

    target_size: int
    min_files: int = 2
    max_deleted: float = 0.05
    group_size: int = 16 << 30

    def __post_init__(self) -> None:
        for name, least, hint in (
            ("target_size", 1, "pass a positive number of bytes"),
            ("min_files", 2, "a single file cannot be put together"),
            ("group_size", 1, "pass a positive number of bytes"),
        ):
            object.__setattr__(self, name, checked_number(name, getattr(self, name), least, hint))
        share = self.max_deleted
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise InvalidArgumentError(f"max_deleted must be a share of the rows, from 0 to 1, not {share!r}")


def pack_files(files: Sequence[PackedFile], packing: Packing) -> list[list[PackedFile]]:
    """Return the bins of files that are to be put together; other files stay as they are.

    Files of a partition stay in the given order, within bins and from one bin to the next, so that rows that were
    written together stay together.

    Examples
    --------
    >>> files = [PackedFile(row, "p", size) for row, size in enumerate((40, 30, 90, 20, 60))]
    >>> [[file.row for file in files] for files in pack_files(files, Packing(target_size=100))]
    [[0, 1, 3]]
    """
    partitions: dict[Hashable, list[PackedFile]] = {}
    for file in files:
        if file.size < _LARGE * packing.target_size or file.deleted > packing.max_deleted:
            partitions.setdefault(file.partition, []).append(file)
    bins = [one for candidates in partitions.values() for one in _fill(candidates, packing.target_size)]
    return [kept for one in bins for kept in _worthwhile(one, packing)]


def _fill(files: Sequence[PackedFile], target: int) -> Iterator[list[PackedFile]]:
    """Put files into bins in their order; the next bin begins where a file does not fit any more."""
    current: list[PackedFile] = []
    size = 0
    for file in files:
        if current and size + file.size > target:
            yield current
            current, size = [], 0
        current.append(file)
        size += file.size
    if current:
        yield current


def _worthwhile(files: list[PackedFile], packing: Packing) -> list[list[PackedFile]]:
    """Return a bin that is large enough; else those of its files that have too many deleted rows, each alone."""
    if len(files) >= packing.min_files:
        return [files]
    return [[file] for file in files if file.deleted > packing.max_deleted]


def group_bins(bins: Sequence[list[PackedFile]], size: int) -> list[list[list[PackedFile]]]:
    """Return bins in groups of at most so many bytes, as far as single bins allow.

    Examples
    --------
    >>> bins = [[PackedFile(0, "p", 40), PackedFile(1, "p", 30)], [PackedFile(2, "q", 50)]]
    >>> [len(group) for group in group_bins(bins, 100)], [len(group) for group in group_bins(bins, 200)]
    ([1, 1], [2])
    """
    groups: list[list[list[PackedFile]]] = []
    held = 0
    for one in bins:
        own = sum(file.size for file in one)
        if not groups or held + own > size:
            groups.append([])
            held = 0
        groups[-1].append(one)
        held += own
    return groups


@dataclass(frozen=True)
class Compaction:
    """The request for a compaction.

    Parameters
    ----------
    where
        Only files in which rows can match this filter are rewritten; None for all.
    packing
        Which files are put together. Its target size is that of ``rows``, else what the table says.
    rows
        How rows are written.
    concurrency
        How many new files are written at a time; None for the number of processors.
    timezone
        The zone of timestamps without one in the filter and in partition values.
    """

    where: Filter | None = None
    packing: Packing = field(default_factory=lambda: Packing(1))
    rows: RowOptions = field(default_factory=RowOptions)
    concurrency: int | None = None
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            number = checked_number("max_concurrent", self.concurrency, 1, "leave it out for the number of processors")
            object.__setattr__(self, "concurrency", number)


def write_bins(
    bins: Sequence[_Bin],
    compaction: Compaction,
    write: Callable[[_Bin, ScanOptions, int], pa.Table],
    note: Callable[[pa.Table], None],
) -> pa.Table:
    """Write the rows of each bin to a new file, several at a time, and return a row for each new file.

    Parameters
    ----------
    bins
        What the caller knows of each bin.
    compaction
        How many bins are written at a time.
    write
        Writes a bin, by the options by which its rows are read, and within so many bytes of rows that wait.
    note
        Is called for what was written, whether or not all bins could be.
    """
    together = min(compaction.concurrency or processors(), len(bins))
    options = ScanOptions(
        threads=max(processors() // together, 1),
        memory=max(_READING // together, 1),
        timezone=compaction.timezone,
    )
    written: list[pa.Table] = []

    def write_one(one: _Bin) -> pa.Table:
        table = write(one, options, max(_WRITING // together, 1))
        written.append(table)
        return table

    try:
        return pa.concat_tables(map_in_order(together, write_one, bins))
    finally:
        for table in written:
            note(table)


@dataclass(frozen=True)
class CompactedGroup:
    """What became of one group of files.

    Parameters
    ----------
    files
        How many files were to be put together.
    bytes
        Their sizes in bytes.
    commit
        The commit that replaced them; None if there is none.
    conflict
        Why there is none: another commit changed one of the files, or the table, meanwhile.
    """

    files: int
    bytes: int
    commit: CommitResult | None = None
    conflict: CommitConflictError | None = None


@dataclass(frozen=True)
class CompactResult:
    """What a compaction did, group by group.

    Parameters
    ----------
    groups
        What became of each group, in the order in which they were tried. There is none if no file is worth the work.
    """

    groups: tuple[CompactedGroup, ...] = ()

    def __repr__(self) -> str:
        counts = f"{self.removed_files} files into {self.added_files}, {len(self.commits)} commits"
        left = f", {len(self.conflicts)} groups left after conflicts" if self.conflicts else ""
        return f"CompactResult({counts}{left})"

    @property
    def commits(self) -> list[CommitResult]:
        """The commits, oldest first."""
        return [group.commit for group in self.groups if group.commit is not None]

    @property
    def conflicts(self) -> list[CommitConflictError]:
        """Why groups were left as they are, one error for each."""
        return [group.conflict for group in self.groups if group.conflict is not None]

    @property
    def added_files(self) -> int:
        """How many files were added."""
        return sum(commit.added_files for commit in self.commits)

    @property
    def removed_files(self) -> int:
        """How many files were removed."""
        return sum(commit.removed_files for commit in self.commits)

    @property
    def added_bytes(self) -> int:
        """The size of the added files in bytes."""
        return sum(commit.added_bytes for commit in self.commits)

    @property
    def removed_bytes(self) -> int:
        """The size of the removed files in bytes."""
        return sum(commit.removed_bytes for commit in self.commits)

    @property
    def copied_rows(self) -> int | None:
        """How many rows were written anew, as they were; None where nobody counted them."""
        return known_sum(commit.copied_rows for commit in self.commits)


def rows_of_bins(rows: _Rows, bins: Sequence[Sized]) -> list[_Rows]:
    """Return the part of each bin of an array or a table that has the rows of all bins, one bin after the other."""
    ends = accumulate(map(len, bins))
    return [rows.slice(end - len(one), len(one)) for one, end in zip(bins, ends, strict=True)]


def commit_groups(
    groups: Sequence[Sequence[Sequence[PackedFile]]],
    commit: Callable[[int, Sequence[Sequence[PackedFile]]], CommitResult],
    refresh: Callable[[], object],
) -> CompactResult:
    """Commit one group of bins after the other, and go on with the next one after a conflict.

    Parameters
    ----------
    groups
        The bins of each group.
    commit
        Rewrites a group by its number and its bins, and commits it.
    refresh
        Looks for newer states of the table.
    """
    outcomes = []
    for number, group in enumerate(groups):
        files = sum(map(len, group))
        size = sum(file.size for one in group for file in one)
        try:
            outcomes.append(CompactedGroup(files, size, commit=commit(number, group)))
        except CommitConflictError as error:
            refresh()
            outcomes.append(CompactedGroup(files, size, conflict=error))
    return CompactResult(tuple(outcomes))
