"""The rows that matched, and what files hold once these were deleted or replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.tree.tree import TRUE
from deltaberg.schema.arrow import as_batch, count_up
from deltaberg.schema.columns import ColumnName, select_columns
from deltaberg.schema.types import Struct
from deltaberg.table.change.gather import gathered
from deltaberg.table.change.match import MatchedRows
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.read.bound import BoundScan, RowAddress
from deltaberg.table.read.plan import Plan, file_numbers
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.read.source import ScanSource

__all__ = [
    "Change",
    "DividedChange",
    "Replacement",
    "matched_rows",
    "rewritten_batches",
    "scan_of_files",
    "scan_of_matched",
    "scan_of_whole_files",
]


class Replacement(NamedTuple):
    """What becomes of some rows: rows that are not replaced are deleted.

    Parameters
    ----------
    rows
        The rows as they are after the change.
    sources
        For each of them, the number of the row that it replaces, ascending, each at most once.
    """

    rows: pa.RecordBatch
    sources: pa.Int64Array


#: What replaces rows, which may be of several files. It is called again for the same rows, and must then return the
#: same.
Change = Callable[[pa.RecordBatch], Replacement]


@runtime_checkable
class DividedChange(Protocol):
    """A `Change` that other processes can make of the rows of some files."""

    def __call__(self, batch: pa.RecordBatch) -> Replacement:
        """Return what replaces rows of one file."""

    def of_files(self, numbers: Collection[int]) -> Change:
        """Return the change of the rows of some files, by their numbers, as pickle takes it."""


def matched_rows(matched: MatchedRows, columns: Sequence[ColumnName]) -> Iterator[pa.RecordBatch]:
    """Return the rows that matched, in the order of the files and of their positions.

    Parameters
    ----------
    columns
        The wanted columns. Those of row addresses follow them.
    """
    yield from gathered(scan_of_matched(matched, columns).batches())


def scan_of_matched(matched: MatchedRows, columns: Sequence[ColumnName]) -> BoundScan:
    """Return the scan of the rows that matched; the parameters are those of `matched_rows`."""
    bound = _with_columns(matched.files, columns)
    numbers = file_numbers(bound.plan.files).to_pylist()
    # The filter still holds for them, and spares reading row groups.
    return replace(bound, given=bound.plan.with_only(matched.rows.references(numbers)))


def scan_of_files(matched: MatchedRows, columns: Sequence[ColumnName], *, deletes: bool) -> BoundScan:
    """Return the scan of all rows of the files that hold matched rows.

    Parameters
    ----------
    columns
        The wanted columns. Those of row addresses follow them.
    deletes
        Whether matched rows are deleted, so that nothing stays of files that match as a whole.
    """
    files = matched.of(frozenset(matched.rows.numbers)) if deletes else matched.files
    return _with_columns(files.without_filter(), columns)


def scan_of_whole_files(
    source: ScanSource, files: pa.Table, columns: Sequence[ColumnName], options: ScanOptions
) -> BoundScan:
    """Return the scan of all rows of some files, by their rows of the file table.

    Parameters
    ----------
    columns
        The wanted columns of the table, hidden ones included.
    """
    output = select_columns(Struct((*source.schema, *source.hidden)), columns)
    plan = Plan(source, TRUE, files, pa.repeat(False, len(files)))
    return BoundScan(source, TRUE, output, None, options, given=plan)


def rewritten_batches(
    batches: Iterable[pa.RecordBatch],
    address: RowAddress,
    whole: frozenset[int],
    rows: RowPositions,
    change: Change | None,
) -> Iterator[pa.RecordBatch]:
    """Return rows of files without those that matched, or with what replaces them.

    Rows keep their order, and replaced rows their places.

    Parameters
    ----------
    batches
        All rows of the files, from `scan_of_files`. The columns of addresses are given to ``change``, but not returned.
    whole, rows
        The rows that matched: files by their numbers, and the rows of others.
    change
        What replaces them by others of the same columns. None deletes them.
    """
    for batch in gathered(batches):
        width = batch.num_columns - len(address)
        mask = rows.mask_of_files(batch.column(address.file_number.name), batch.column(address.position.name), whole)
        matched = pc.sum(mask, min_count=0).as_py()
        new_batch = batch.select(range(width))
        if matched:
            if change is None:
                new_batch = new_batch.filter(pc.invert(mask))
            else:
                new_batch = _in_places(new_batch, change(batch.filter(mask)), mask, matched)
        if new_batch.num_rows:
            yield new_batch


def _with_columns(bound: BoundScan, columns: Sequence[ColumnName]) -> BoundScan:
    return bound.with_columns(columns).with_addresses()


def _in_places(rows: pa.RecordBatch, replaced: Replacement, mask: pa.BooleanArray, found: int) -> pa.RecordBatch:
    """Return rows with new ones in the places of those that matched, or without these where nothing replaces them."""
    new = pa.RecordBatch.from_arrays(replaced.rows.columns, schema=rows.schema)
    places = pc.index_in(count_up(0, found), value_set=replaced.sources).cast(pa.int64())
    order = pc.replace_with_mask(count_up(0, rows.num_rows), mask, pc.add(places, rows.num_rows))
    return as_batch([rows, new], rows.schema).take(order.drop_null())
