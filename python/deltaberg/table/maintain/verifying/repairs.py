"""The result of `repair`: which files it removed from a table because the store has lost them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltaberg.signatures import public
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.verifying.findings import first_lines
from deltaberg.whole_numbers import counted, known_sum

__all__ = ["LostFile", "RepairResult", "rows_of"]


@public
@dataclass(frozen=True)
class LostFile:
    """A data file that leaves the table, because it is lost, or because what says which of its rows count is lost.

    Parameters
    ----------
    path
        The file, as the metadata records it.
    lost
        Where the file is that the store has lost: the data file, or its deletion vector.
    what
        ``data file`` or ``deletion vector``.
    size
        The bytes of the data file.
    rows
        How many rows leave the table with it: those that were not deleted before. None where nobody counted them.
    """

    path: str
    lost: str
    what: str
    size: int
    rows: int | None


def rows_of(files: Iterable[LostFile]) -> int | None:
    """Return how many rows leave the table with some files; None where nobody counted them.

    Examples
    --------
    >>> rows_of([LostFile("a", "/t/a", "data file", 700, 2), LostFile("b", "/t/b", "data file", 700, 3)])
    5
    """
    return known_sum(file.rows for file in files)


@public
@dataclass(frozen=True, repr=False)
class RepairResult:
    """The result of `repair`, or of its dry run.

    Parameters
    ----------
    files
        The data files that left the table, or would leave it.
    commit
        The commit; None for a dry run, and where nothing was lost.
    dry_run
        Whether nothing was to be changed.
    warnings
        What to know of the outcome, a sentence each: files that could not be checked and stay, and what readers of the
        change feed will see.
    refs
        Branches and tags of an Iceberg table that left it, because the table does not have their snapshots.
    statistics
        Where the statistics of an Iceberg table were that it names no more.

    Examples
    --------
    >>> RepairResult((LostFile("a.parquet", "/t/a.parquet", "data file", 700, 2),), dry_run=True)
    RepairResult(dry run: 1 file with 2 rows would leave the table)
    """

    files: tuple[LostFile, ...] = ()
    commit: CommitResult | None = None
    dry_run: bool = False
    warnings: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()

    @property
    def rows(self) -> int | None:
        """How many rows leave the table; None where nobody counted them."""
        return rows_of(self.files)

    @property
    def bytes(self) -> int:
        """The sizes of the data files together."""
        return sum(file.size for file in self.files)

    @property
    def _summary(self) -> str:
        if self.commit is not None and not self.commit.committed:
            return "there was nothing to do: the progress was recorded before"
        names = counted(len(self.refs), "branch or tag", "branches and tags")
        statistics = counted(len(self.statistics), "file of statistics", "files of statistics")
        others = [text for text, found in ((names, self.refs), (statistics, self.statistics)) if found]
        if not self.files:
            if others:
                return f"{'dry run: ' if self.dry_run else ''}{' and '.join(others)} named what is not there"
            return "no file is lost"
        count = counted(len(self.files), "file")
        rows = self.rows
        held = "rows that nobody counted" if rows is None else counted(rows, "row")
        count = " and ".join([f"{count} with {held}", *others])
        if self.dry_run:
            return f"dry run: {count} would leave the table"
        done = "" if self.commit is None else f" by version {self.commit.version}"
        return f"{count} left the table{done}"

    def __repr__(self) -> str:
        return f"RepairResult({'; '.join((self._summary, *self.warnings))})"

    def __str__(self) -> str:
        """Return what was done on one line, and the first files and all warnings on the lines below it."""
        return "\n".join([self._summary, *first_lines([_line(file) for file in self.files]), *self.warnings])


def _line(file: LostFile) -> str:
    held = "" if file.rows is None else f", {counted(file.rows, 'row')}"
    why = "it is lost" if file.what == "data file" else f"its deletion vector {file.lost} is lost"
    return f"{file.path}{held}: {why}"
