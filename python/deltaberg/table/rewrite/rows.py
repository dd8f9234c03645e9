"""The rows that matched, and what files hold once these were deleted or replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.schema import ColumnName, as_batch, count_up
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import file_numbers
from deltaberg.table.rewrite.gather import gathered
from deltaberg.table.rewrite.match import MatchedRows

__all__ = ["Change", "Replacement", "matched_rows", "rewritten_rows"]


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


def matched_rows(matched: MatchedRows, columns: Sequence[ColumnName]) -> Iterator[pa.RecordBatch]:
    """Return the rows that matched, in the order of the files and of their positions.

    Parameters
    ----------
    columns
        The wanted columns. Those of row addresses follow them.
    """
    bound = _with_columns(matched.files, columns)
    numbers = file_numbers(bound.plan.files).to_pylist()
    # The filter still holds for them, and spares reading row groups.
    yield from gathered(replace(bound, given=bound.plan.with_only(matched.rows.references(numbers))).batches())


def rewritten_rows(
    matched: MatchedRows, columns: Sequence[ColumnName], change: Change | None = None
) -> Iterator[pa.RecordBatch]:
    """Return all rows of the files that hold matched rows, without these or with what replaces them.

    Rows keep their order, and replaced rows their places.

    Parameters
    ----------
    columns
        The wanted columns. Those of row addresses follow them, and are given to ``change``, but are not returned.
    change
        What replaces matched rows by others of the same columns. None deletes them.
    """
    # Nothing stays of files that match as a whole.
    files = matched.files if change is not None else matched.of(frozenset(matched.rows.numbers))
    bound = _with_columns(files.without_filter(), columns)
    address = matched.address
    for batch in gathered(bound.batches()):
        width = batch.num_columns - len(address)
        mask = matched.mask(batch.column(address.file_number.name), batch.column(address.position.name))
        kept = batch.select(range(width)).filter(pc.invert(mask))
        if change is None or kept.num_rows == batch.num_rows:
            if kept.num_rows:
                yield kept
            continue
        replaced = change(batch.filter(mask))
        if replaced.rows.num_rows or kept.num_rows:
            yield _in_places(kept, replaced, mask)


def _with_columns(bound: BoundScan, columns: Sequence[ColumnName]) -> BoundScan:
    return bound.with_columns(columns).with_addresses()


def _in_places(kept: pa.RecordBatch, replaced: Replacement, mask: pa.BooleanArray) -> pa.RecordBatch:
    """Return the kept rows, and the new ones where those were that they replace."""
    places = count_up(0, len(mask))
    order = pa.concat_arrays([places.filter(pc.invert(mask)), places.filter(mask).take(replaced.sources)])
    new = pa.RecordBatch.from_arrays(replaced.rows.columns, schema=kept.schema)
    return as_batch([kept, new], kept.schema).take(pc.sort_indices(order))
