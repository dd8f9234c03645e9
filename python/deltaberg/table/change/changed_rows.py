"""The remaining and the new rows of rewritten files, computed in this process or in tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.gather import gathered
from deltaberg.table.change.match import MatchedRows, RowSearch
from deltaberg.table.change.matched_rows import (
    Change,
    DividedChange,
    Replacement,
    rewritten_batches,
    scan_of_files,
    scan_of_matched,
)
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.read.bound import BoundScan, RowAddress
from deltaberg.table.rows.progress import Progress
from deltaberg.table.write.rolling import Trail
from deltaberg.table.write.sources import LOCAL_ROAD, WriteRoad
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files

__all__ = ["ChangedRows", "NewFiles", "RowCounts", "RowIdentity", "RowTasks", "WrittenChange"]

_Result = TypeVar("_Result")


class RowIdentity(Protocol):
    """The columns that are read and stored of rows that move, so that they keep their ids. It pickles."""

    @property
    def columns(self) -> Sequence[ColumnName]:
        """The columns to read of rows that move: those of the table, and those of ids behind them."""

    def change(self, change: Change) -> Change:
        """Return a change of rows with ids, made of one of the columns of the table."""

    def flat(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with ``columns`` as files store them."""

    def new(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return new rows as files store them, which have no ids yet."""


@dataclass
class RowCounts:
    """How many rows are deleted, replaced, inserted, and written anew as they are.

    The number of deleted ones is None if a file that was not read does not tell it.
    """

    deleted: int | None = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0

    def replace(self, rows: int) -> None:
        """Count rows as replaced that were counted as deleted."""
        self.updated += rows
        if self.deleted is not None:
            self.deleted -= rows


@dataclass(frozen=True)
class ChangedRows:
    """The rows that take the place of those that matched, file by file. It pickles if the change does.

    Parameters
    ----------
    identity
        What keeps the ids of rows.
    address
        The columns of row addresses.
    whole, rows
        The rows that matched: files by their numbers, and the rows of others.
    change
        What replaces them; None deletes them.
    hides
        Whether old rows stay in their files, hidden. Otherwise all rows of these files are written anew, those that
        stay as they are included.
    """

    identity: RowIdentity
    address: RowAddress
    whole: frozenset[int]
    rows: RowPositions
    change: Change | None
    hides: bool

    @classmethod
    def of(cls, matched: MatchedRows, change: Change | None, identity: RowIdentity, *, hides: bool) -> ChangedRows:
        """Return the rows that take the place of matched ones."""
        return cls(identity, matched.address, matched.whole, matched.rows, change, hides)

    def scan(self, matched: MatchedRows) -> BoundScan:
        """Return the scan of the rows that `made` takes."""
        if self.hides:
            return scan_of_matched(matched, self.identity.columns)
        return scan_of_files(matched, self.identity.columns, deletes=self.change is None)

    def of_files(self, numbers: Collection[int]) -> ChangedRows | None:
        """Return the part of some files, by their numbers, as pickle takes it; None if the change cannot be divided."""
        change = self.change
        if change is not None:
            if not isinstance(change, DividedChange):
                return None
            change = change.of_files(numbers)
        # A scan of rows that are hidden returns no others.
        rows = RowPositions() if self.hides else self.rows.of_files(numbers)
        return replace(self, whole=self.whole.intersection(numbers), rows=rows, change=change)

    def made(self, batches: Iterable[pa.RecordBatch], counts: RowCounts) -> Iterator[pa.RecordBatch]:
        """Return the rows as files store them, and count those that are replaced."""
        change = None if self.change is None else self._counted(self.change, counts)
        if not self.hides:
            for batch in rewritten_batches(batches, self.address, self.whole, self.rows, change):
                yield self.identity.flat(batch)
        elif change is not None:
            for batch in gathered(batches):
                rows = change(batch).rows
                if rows.num_rows:
                    yield self.identity.flat(rows)

    def _counted(self, change: Change, counts: RowCounts) -> Change:
        tracked = self.identity.change(change)

        def counted(batch: pa.RecordBatch) -> Replacement:
            found = tracked(batch)
            counts.replace(found.rows.num_rows)
            return found

        return counted


@dataclass(frozen=True)
class NewFiles:
    """The files that rows are written to.

    Parameters
    ----------
    spec
        What the table asks of them.
    store
        Opens the store of the table.
    place
        The directory that they are written below.
    note
        Is told of files as soon as they are written, and of the road that the rows took to them.
    progress
        What is told how far rows are written, unless others write them.
    """

    spec: WriteSpec
    store: StoreSpec
    place: Location
    note: Callable[[pa.Table, WriteRoad], None]
    progress: Progress | None = None

    def write(
        self, batches: Iterable[pa.RecordBatch], *, threads: int | None = None, trail: Trail | None = None
    ) -> pa.Table:
        """Write rows as files store them, and return a row for each file.

        Parameters
        ----------
        threads
            How many files are encoded at a time; None for the number of processors.
        trail
            What is told which rows go to which file. The rows have its columns behind the others.
        """
        beside = () if trail is None else trail.columns
        reader = pa.RecordBatchReader.from_batches(arrow_schema(Struct((*self.spec.schema, *beside))), batches)
        files = write_files(
            reader,
            self.spec,
            self.store.open(self.place),
            self.place.path,
            threads=threads,
            progress=self.progress,
            trail=trail,
        )
        self.note(files, LOCAL_ROAD)
        return files


class WrittenChange(NamedTuple):
    """The files that were written for a change of rows, and how many of the rows replace others.

    Parameters
    ----------
    files
        A row for each file; see `write_files`.
    updated
        The number of rows that replace others.
    road
        The road that the rows took.
    """

    files: pa.Table
    updated: int
    road: WriteRoad


class RowTasks(RowSearch, Protocol):
    """A reader and writer of the files of a table for an operation, such as the tasks of Spark."""

    def takes(self, table: str, size: int) -> bool:
        """Return whether tasks are to read so many bytes of a table, rather than this process."""

    def run(
        self,
        work: Callable[[Any], _Result],
        items: Sequence[Any],
        discard: Callable[[_Result], object] = lambda _: None,
    ) -> list[_Result]:
        """Return what a function returns for each item, of which each is the work of one task.

        Parameters
        ----------
        work
            The function. It travels to every task, and an item to its own task alone. All of them pickle, and so do the
            results.
        items
            The items.
        discard
            Is called with the results of all other tasks where one fails.

        Raises
        ------
        DeltabergError
            What the function raised. Tasks in which the store failed have run again before.
        """

    def write(self, bound: BoundScan, changed: ChangedRows, files: NewFiles) -> WrittenChange | None:
        """Write the rows that take the place of others; None to have them written by this process.

        Parameters
        ----------
        bound
            The scan of the rows that ``changed`` takes.
        changed
            What is written.
        files
            Where it is written. They are not told of the files.

        Raises
        ------
        StorageError
            The store fails. Files of tasks that had succeeded may be left behind; no version names them.
        """
