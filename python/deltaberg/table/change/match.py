"""Finding the rows that an operation changes: by metadata where that proves it, and else by reading."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.build.filters import Filter, as_filter
from deltaberg.expressions.derive.derive import bind
from deltaberg.files.formats.open_file import open_data_file
from deltaberg.schema.arrow import as_array
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Struct
from deltaberg.storage.location import parse_location
from deltaberg.table.change.gather import gathered
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.read.bound import BoundScan, RowAddress
from deltaberg.table.read.plan import Plan, file_formats, file_numbers
from deltaberg.table.read.scan_options import scan_options
from deltaberg.table.read.source import ScanSource

__all__ = [
    "DividedTest",
    "MatchedRows",
    "RowSearch",
    "RowTest",
    "count_rows",
    "find_rows",
    "matching_rows",
    "scan_of_rows",
    "search_here",
]

#: Which rows of a batch match. Nulls do not.
RowTest = Callable[[pa.RecordBatch], pa.BooleanArray]


@runtime_checkable
class DividedTest(Protocol):
    """A `RowTest` of which other processes need only what is about the files that they read."""

    def __call__(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows match."""

    def of_files(self, numbers: Collection[int]) -> RowTest:
        """Return the test of the rows of some files, by their numbers, as pickle takes it."""


class RowSearch(Protocol):
    """A reader of the files of a table for an operation, such as the tasks of Spark."""

    def find(self, bound: BoundScan, width: int, test: RowTest | None) -> Iterator[tuple[pa.Int64Array, pa.Int64Array]]:
        """Return the numbers of files and the positions of the rows that match.

        Parameters
        ----------
        bound
            The scan, with addresses.
        width
            How many columns the test takes; they are the first ones.
        test
            Which rows match that the filter of the scan lets through; None for all of them.
        """

    def read(self, bound: BoundScan, test: RowTest) -> Iterator[pa.RecordBatch]:
        """Return the rows of a scan that match, and perhaps others.

        Parameters
        ----------
        test
            Which rows match; it takes all columns of the scan.
        """


@dataclass(frozen=True)
class MatchedRows:
    """Rows of some files of a plan.

    Parameters
    ----------
    bound
        The scan that the rows were looked for with. It has addresses, and its plan has all of the files.
    whole
        The numbers of the files in which every row matches, which metadata has proven.
    rows
        The rows of the other files.
    counted
        How many rows were found in those of the whole files that were read.
    """

    bound: BoundScan
    whole: frozenset[int]
    rows: RowPositions
    counted: Mapping[int, int] = field(default_factory=dict)

    @property
    def address(self) -> RowAddress:
        """The columns of row addresses."""
        if self.bound.address is None:
            raise AssertionError("rows are found by a scan with addresses")
        return self.bound.address

    @property
    def is_empty(self) -> bool:
        """Whether no row matches."""
        return not self.whole and not self.rows.numbers

    @property
    def total(self) -> int | None:
        """How many rows match; None if metadata does not tell it of a file in which all do."""
        unread = self.of(self.whole - self.counted.keys()).plan.row_counts()
        known: int | None = pc.sum(unread, skip_nulls=False, min_count=0).as_py()
        return None if known is None else known + sum(self.counted.values()) + self.rows.total

    @cached_property
    def files(self) -> BoundScan:
        """The scan of the files that hold matched rows, ``whole`` ones included."""
        return self.of({*self.whole, *self.rows.numbers})

    def of(self, numbers: set[int] | frozenset[int]) -> BoundScan:
        """Return the scan of some of the files, by their numbers."""
        wanted = pa.array(sorted(numbers), pa.int64())
        return self.bound.of_files(pc.is_in(file_numbers(self.bound.plan.files), value_set=wanted))

    def with_whole(self, numbers: set[int]) -> MatchedRows:
        """Return the rows where more files are known to match as a whole."""
        rows = RowPositions()
        for number in self.rows.numbers:
            if number not in numbers:
                positions = self.rows.positions(number)
                rows.add(pa.repeat(pa.scalar(number, pa.int64()), len(positions)), positions.cast(pa.int64()))
        counted = {**self.counted, **{number: self.rows.count(number) for number in numbers}}
        return replace(self, whole=self.whole | numbers, rows=rows, counted=counted)


def search_here(bound: BoundScan, width: int, test: RowTest | None) -> Iterator[tuple[pa.Int64Array, pa.Int64Array]]:
    """Read a scan on this machine: a `RowSearch`."""
    for batch in gathered(bound.batches()):
        yield matching_rows(batch, width, test)


def matching_rows(batch: pa.RecordBatch, width: int, test: RowTest | None) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Return the addresses of the rows of a batch that match; they are its last columns."""
    numbers, positions = batch.columns[-2:]
    if test is None:
        return numbers, positions
    matches = test(batch.select(range(width)))
    return numbers.filter(matches), positions.filter(matches)


def scan_of_rows(source: ScanSource, condition: Filter | None, timezone: str, memory: int = 0) -> BoundScan:
    """Return the scan, with addresses, of the rows of a table that match a filter, or of all.

    Parameters
    ----------
    timezone
        The zone of literals in the filter.
    memory
        Bytes of rows that are read ahead at most; 0 for the default.
    """
    bound = bind(as_filter(condition), Struct((*source.schema, *source.hidden)), timezone)
    return BoundScan(
        source, bound, source.schema, None, scan_options(None, {"memory": memory}, timezone)
    ).with_addresses()


def find_rows(
    bound: BoundScan,
    test: RowTest | None = None,
    columns: Sequence[ColumnName] | None = None,
    search: RowSearch | None = None,
) -> MatchedRows:
    """Return the rows of a scan for which its filter is true, and a test, if there is one.

    Files in which no row can match are left out by metadata, and those in which every row must match are not read,
    either. Of the others only the columns are read that the filter or the test needs. Memory is bounded by the batches
    that are read, and by the bitmaps of what is found.

    Parameters
    ----------
    bound
        The scan; its limit does not count.
    test
        What says which rows of a batch match that the filter lets through. The batch has ``columns``, in this order.
    columns
        The columns that the test needs.
    search
        What reads the files; by default this machine.

    Raises
    ------
    CorruptDataFileError, DataFileNotFoundError
        A data file is damaged, or gone.
    """
    test_columns = list(columns or ()) if test is not None else []
    addressed = bound.with_columns(test_columns).with_addresses()
    plan = addressed.plan
    # What metadata proves of the filter says nothing about the test.
    undecided = plan.filtered if test is None else pa.repeat(True, len(plan.files))
    whole = frozenset(file_numbers(plan.files).filter(pc.invert(undecided)).to_pylist())
    rows = RowPositions()
    find = search_here if search is None else search.find
    for numbers, positions in find(addressed.of_files(undecided), len(test_columns), test):
        rows.add(numbers, positions)
    return MatchedRows(addressed, whole, rows)


def count_rows(plan: Plan, numbers: set[int]) -> dict[int, int]:
    """Return how many rows some files of a plan hold, deleted ones included, by reading the ends of the files."""
    counts = {}
    located = as_array(plan.located.column("location")).to_pylist()
    facts = zip(
        file_numbers(plan.files).to_pylist(),
        located,
        file_formats(plan.files).to_pylist(),
        plan.files.column("size").to_pylist(),
        strict=True,
    )
    for number, place, kind, size in facts:
        if number in numbers:
            source = open_data_file(kind, parse_location(place), plan.source.store, size or None)
            try:
                counts[number] = sum(group.rows for group in source.row_groups(0, (1 << 63) - 1))
            finally:
                source.close()
    return counts
