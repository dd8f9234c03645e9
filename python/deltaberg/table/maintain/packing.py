"""Which files of a table are put together, whatever its format.

Files are packed into *bins*, each of which becomes one file, or several where its rows are put into an order. Bins are
taken together into *groups*, each of which is one commit, so that the work of a commit is bounded, and a conflict costs
one group only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint, at_fault, shown_value
from deltaberg.table.arguments import checked_number

__all__ = ["PackedFile", "Packing", "group_bins", "kept_size", "pack_files", "size_of"]


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
        The share of its rows that are deleted; infinite if rows are deleted, and nobody knows how many.
    """

    row: int
    partition: Hashable
    size: int
    deleted: float = 0.0

    @property
    def kept(self) -> int:
        """Bytes of the rows that are not deleted, as far as somebody knows."""
        return int(self.size * (1 - self.deleted)) if self.deleted <= 1 else self.size


@dataclass(frozen=True)
class Packing:
    """Which files are put together.

    Parameters
    ----------
    target_size
        Bytes of a new file at most, as far as the sizes of the old files tell.
    min_files
        How many files a bin has at least. Fewer do if together they have more than half of the target size, and none of
        them alone. A file that is only rewritten to drop its deleted rows is a bin of its own.
    max_deleted
        Files with a larger share of deleted rows are rewritten whatever their size.
    group_size
        Bytes of the files that one commit replaces. A bin that is larger is committed alone.
    min_file_size
        Files of at least so many bytes are large enough to stay; None for a share of the target size.
    max_file_size
        Files with more bytes are divided into files of the target size; None for what ``divided_from`` says.
    is_whole
        Whether a bin has all files of its partition, however large they are, since their rows are put into an order.
    takes_all
        Whether every file is rewritten that is left to choose from, in bins of however few files.
    large
        The share of the target size with which a file is large enough. With a half, nothing is left to do for the files
        of a compaction, and those of a partition are at most twice as many as they must be, and ``min_files``: each
        bin that another one follows is filled to more than half.
    divided_from
        The share of the target size above which files are divided, where no bytes are given; None to leave them.

    Raises
    ------
    InvalidArgumentError
        A number is out of its range.
    """

    target_size: int
    min_files: int = 2
    max_deleted: float = 0.05
    group_size: int = 16 << 30
    min_file_size: int | None = None
    max_file_size: int | None = None
    is_whole: bool = False
    takes_all: bool = False
    large: float = 0.75
    divided_from: float | None = None

    def __post_init__(self) -> None:
        positive = "pass a positive number of bytes"
        for name, least, hint in (
            ("target_size", 1, positive),
            ("min_files", 2, "a single file cannot be put together"),
            ("group_size", 1, positive),
            ("min_file_size", 0, "pass 0 to rewrite files for their deleted rows alone"),
            ("max_file_size", 1, positive),
        ):
            if getattr(self, name) is not None or not name.endswith("_file_size"):
                object.__setattr__(self, name, checked_number(name, getattr(self, name), least, hint))
        share = self.max_deleted
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise InvalidArgumentError(
                at_fault("max_deleted", f"must be a share of the rows, from 0 to 1, not {shown_value(share)}")
            )

    def check_sizes(self) -> None:
        """Refuse bounds between which a new file would not lie, so that it would be rewritten again and again.

        Raises
        ------
        InvalidArgumentError
            The sizes contradict each other.
        """
        if self.min_file_size is not None and self.min_file_size > self.target_size:
            raise InvalidArgumentError(
                Hint(f"⟪min_file_size⟫ is {self.min_file_size} bytes, but new files have {self.target_size} at most"),
                hint="pass a smaller one, or a larger ⟪target_file_size⟫",
            )
        if self.max_file_size is not None and self.max_file_size <= self.target_size:
            raise InvalidArgumentError(
                Hint(f"⟪max_file_size⟫ is {self.max_file_size} bytes, but new files have about {self.target_size}"),
                hint="pass a larger one, or a smaller ⟪target_file_size⟫",
            )

    def is_chosen(self, file: PackedFile) -> bool:
        """Return whether a file is to be rewritten, if others can be put together with it where it is small."""
        least = self.large * self.target_size if self.min_file_size is None else self.min_file_size
        return self.is_whole or file.size < least or self.is_chosen_alone(file)

    def is_chosen_alone(self, file: PackedFile) -> bool:
        """Return whether a file is to be rewritten even if no other one is put together with it."""
        return self.is_whole or self.takes_all or file.deleted > self.max_deleted or self.is_too_large(file)

    def is_too_large(self, file: PackedFile) -> bool:
        """Return whether a file is to be divided."""
        most: float | None = self.max_file_size
        if most is None and self.divided_from is not None:
            most = self.divided_from * self.target_size
        return most is not None and file.size > most

    def is_cut(self, files: Sequence[PackedFile]) -> bool:
        """Return whether a bin becomes files of the target size, rather than one file."""
        return self.is_whole or any(map(self.is_too_large, files))


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
        if packing.is_chosen(file):
            partitions.setdefault(file.partition, []).append(file)
    if packing.is_whole:
        return list(partitions.values())
    bins = [one for candidates in partitions.values() for one in _fill(candidates, packing)]
    return [kept for one in bins for kept in _worthwhile(one, packing)]


def _fill(files: Sequence[PackedFile], packing: Packing) -> Iterator[list[PackedFile]]:
    """Put files into bins in their order; the next bin begins where a file does not fit any more.

    A file that is large enough, and is chosen for another reason, has a bin of its own.
    """
    current: list[PackedFile] = []
    size = 0
    for file in files:
        if file.kept >= packing.large * packing.target_size:
            yield [file]
            continue
        if current and size + file.kept > packing.target_size:
            yield current
            current, size = [], 0
        current.append(file)
        size += file.kept
    if current:
        yield current


def _worthwhile(files: list[PackedFile], packing: Packing) -> list[list[PackedFile]]:
    """Return a bin that is large enough; else those of its files that are worth the work each alone."""
    half = packing.target_size / 2
    is_large = packing.takes_all or len(files) >= packing.min_files
    if is_large or kept_size(files) > half >= max(file.kept for file in files):
        return [files]
    return [[file] for file in files if packing.is_chosen_alone(file)]


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
        own = size_of(one)
        if not groups or held + own > size:
            groups.append([])
            held = 0
        groups[-1].append(one)
        held += own
    return groups


def size_of(files: Sequence[PackedFile]) -> int:
    """Return the bytes of some files."""
    return sum(file.size for file in files)


def kept_size(files: Sequence[PackedFile]) -> int:
    """Return the bytes of the rows of some files that are not deleted."""
    return sum(file.kept for file in files)
