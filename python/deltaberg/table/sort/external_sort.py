"""Sorting rows that memory does not hold.

Rows are gathered, sorted and stored on disk as *runs*, in blocks. Then the runs are merged: of each run, a block or two
are in memory, and what comes before the end of all that is there is sorted and given away. Each row is sorted twice,
by Arrow, and no row is looked at alone. If there are too many runs, some of them become one before that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial, total_ordering
from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg.schema.arrow import as_batch
from deltaberg.table.sort.disk_batches import DiskBatches
from deltaberg.table.sort.order import OrderTerm, sort_indices

__all__ = ["RowKey", "divided_rows", "row_keys", "sort_batches"]

#: What a row is sorted by, as Python values that compare as rows sort. It pickles.
RowKey = tuple[Any, ...]

#: Bytes of a block of a run, at least and at most.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 64 << 10, 1 << 20
#: Bytes of sorted rows that are given away at once.
_PIECE = 4 << 20
#: Of the memory, this part is gathered for a run, which takes as much again while it is sorted and stored.
_GATHERED = 3
#: While runs are merged, each of them takes so many blocks: two that wait, and copies of what is sorted.
_BLOCKS_OF_A_RUN = 5
#: How many runs are merged at once, if memory allows it.
_RUNS = 64


def sort_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    terms: Sequence[OrderTerm],
    *,
    memory: int,
    directory: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of batches in the order of some terms. Rows that are equal stay in their order.

    What is on disk is removed with the last row, and where the iterator is closed or fails.

    Parameters
    ----------
    batches
        The rows. A batch is small beside the memory.
    schema
        Their schema.
    terms
        What rows are sorted by.
    memory
        Bytes of rows in memory at most, approximately; all others are on disk.
    directory
        Where rows are stored; None for the system's directory of temporary files.

    Raises
    ------
    StorageError
        The disk takes no more rows.

    Examples
    --------
    >>> batches = [pa.record_batch({"x": [3, 1]}), pa.record_batch({"x": [2, None]})]
    >>> found = sort_batches(batches, batches[0].schema, [OrderTerm(("x",))], memory=1)
    >>> [value for batch in found for value in batch["x"].to_pylist()]
    [None, 1, 2, 3]
    """
    sort = _Sort(schema, tuple(terms), memory, directory)
    with sort.resources:
        kept = sort.gathered(batches)
        if not sort.runs:
            yield from _pieces(sort.ordered(kept), _PIECE)
            return
        if kept:
            sort.store(_pieces(sort.ordered(kept), sort.block))
            kept = []
        sort.reduce()
        yield from sort.merged(sort.runs)


class _Sort:
    """One sort, and its runs in the order in which their rows came."""

    def __init__(self, schema: pa.Schema, terms: tuple[OrderTerm, ...], memory: int, directory: str | None) -> None:
        self._schema = schema
        self._terms = terms
        self._memory = memory
        self._directory = directory
        self.block = min(max(memory // (_BLOCKS_OF_A_RUN * _RUNS), _SMALLEST_BLOCK), _LARGEST_BLOCK)
        self._most = max(memory // (_BLOCKS_OF_A_RUN * self.block), 2)
        self.runs: list[DiskBatches] = []
        self.resources = ExitStack()

    def gathered(self, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Store rows in runs as they come, and return those that are left."""
        kept: list[pa.RecordBatch] = []
        held = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if kept and held + batch.nbytes > self._memory // _GATHERED:
                ordered = self.ordered(kept)
                kept, held = [], 0
                self.store(_pieces(ordered, self.block))
                del ordered
            kept.append(batch)
            held += batch.nbytes
        return kept

    def ordered(self, batches: Sequence[pa.RecordBatch]) -> _Ordered:
        """Return rows, and their places in the order."""
        rows = as_batch(batches, self._schema)
        return _Ordered(rows, sort_indices(rows, self._terms))

    def store(self, rows: Iterable[pa.RecordBatch], place: int | None = None) -> None:
        """Store sorted rows as a run, which is the last one or takes a place among the runs."""
        run = DiskBatches(self._schema, self._directory, rows="rows that are being sorted", compression="lz4")
        self.resources.callback(run.close)
        for block in rows:
            run.write(block)
        self.runs.insert(len(self.runs) if place is None else place, run)

    def reduce(self) -> None:
        """Merge runs that follow each other until all that are left can be merged at once."""
        place = 0
        while len(self.runs) > self._most:
            count = min(self._most, len(self.runs) - self._most + 1, len(self.runs) - place)
            if count < 2:
                place = 0
                continue
            taken = self.runs[place : place + count]
            del self.runs[place : place + count]
            self.store(self.merged(taken, self.block), place)
            for run in taken:
                run.close()
            # The next ones are as short as these were.
            place += 1

    def merged(self, runs: Sequence[DiskBatches], size: int = _PIECE) -> Iterator[pa.RecordBatch]:
        """Return the rows of runs in order, in batches of about so many bytes."""
        heads = [_Head(run, self._schema, self._terms, self.block) for run in runs]
        while heads:
            for head in heads:
                head.fill()
            # A run may go on with the last key that is here, so that what is after it has to wait. Of equal rows, those
            # of earlier runs come first.
            ends = [(head.key(head.count - 1), number) for number, head in enumerate(heads) if head.has_more]
            cut, last = min(ends) if ends else (None, len(heads))
            parts = [head.take(cut, and_equal=number <= last) for number, head in enumerate(heads)]
            ordered = self.ordered([part for part in parts if part.num_rows])
            del parts
            yield from _pieces(ordered, size)
            heads = [head for head in heads if head.count or head.has_more]


class _Ordered(NamedTuple):
    """Rows, and their places in order."""

    rows: pa.RecordBatch
    places: pa.UInt64Array


def _pieces(ordered: _Ordered, size: int) -> Iterator[pa.RecordBatch]:
    """Return rows in order, in batches of about so many bytes."""
    rows, places = ordered
    step = max(rows.num_rows * size // max(rows.nbytes, 1), 1)
    for start in range(0, rows.num_rows, step):
        yield rows.take(places.slice(start, step))


class _Head:
    """The rows of a run that come next."""

    def __init__(self, run: DiskBatches, schema: pa.Schema, terms: tuple[OrderTerm, ...], block: int) -> None:
        self._run = run
        self._schema = schema
        self._terms = terms
        self._block = block
        self._next = 0
        self._rows = as_batch([], schema)
        self._keys: list[pa.ChunkedArray] = []

    @property
    def count(self) -> int:
        """How many rows are here."""
        count: int = self._rows.num_rows
        return count

    @property
    def has_more(self) -> bool:
        """Whether there are more rows on disk."""
        return self._next < self._run.count

    def fill(self) -> None:
        """Read blocks, so that at least one is here unless the run ends."""
        parts = [self._rows] if self.count else []
        held = self._rows.nbytes
        begun = self._next
        while self.has_more and (not parts or held < self._block):
            parts.append(self._run.read(self._next))
            held += parts[-1].nbytes
            self._next += 1
        if self._next > begun:
            self._rows = as_batch(parts, self._schema)
            self._keys = [term.values(self._rows) for term in self._terms]

    def key(self, place: int) -> RowKey:
        """Return the key of a row."""
        return _row_key(self._terms, self._keys, place)

    def take(self, cut: RowKey | None, *, and_equal: bool) -> pa.RecordBatch:
        """Take the rows before a key, and perhaps those that have it; all rows if there is no key."""
        search = bisect_right if and_equal else bisect_left
        end = self.count if cut is None else search(range(self.count), cut, key=self.key)
        taken, self._rows = self._rows.slice(0, end), self._rows.slice(end)
        self._keys = [values.slice(end) for values in self._keys]
        return taken


def row_keys(rows: pa.RecordBatch, terms: Sequence[OrderTerm]) -> list[RowKey]:
    """Return the keys by which rows are sorted.

    Examples
    --------
    >>> rows = pa.record_batch({"x": [2, None, 1]})
    >>> keys = row_keys(rows, [OrderTerm(("x",))])
    >>> keys[1] < keys[2] < keys[0]
    True
    """
    values = [term.values(rows) for term in terms]
    return [_row_key(terms, values, place) for place in range(rows.num_rows)]


def divided_rows(
    batches: Iterator[pa.RecordBatch], terms: Sequence[OrderTerm], cuts: Sequence[RowKey]
) -> Iterator[Generator[pa.RecordBatch, None, None]]:
    """Divide sorted rows into parts, each of which must be taken before the next one is. A part begins with each cut.

    Examples
    --------
    >>> batches = iter([pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [2, 3]})])
    >>> terms = [OrderTerm(("x",))]
    >>> cuts = row_keys(pa.record_batch({"x": [2, 3]}), terms)
    >>> [[value for batch in part for value in batch["x"].to_pylist()] for part in divided_rows(batches, terms, cuts)]
    [[1], [2, 2], [3]]
    """
    rest: list[pa.RecordBatch] = []

    def until(cut: RowKey | None) -> Generator[pa.RecordBatch, None, None]:
        while True:
            batch = rest.pop() if rest else next(batches, None)
            if batch is None:
                return
            end = count = batch.num_rows
            if cut is not None:
                key = partial(_row_key, terms, [term.values(batch) for term in terms])
                end = bisect_left(range(count), cut, key=key)
            if end:
                yield batch.slice(0, end)
            if end < count:
                rest.append(batch.slice(end))
                return

    for cut in (*cuts, None):
        yield until(cut)


def _row_key(terms: Sequence[OrderTerm], values: Sequence[pa.ChunkedArray], place: int) -> RowKey:
    return tuple(_key(term, column[place]) for term, column in zip(terms, values, strict=True))


def _key(term: OrderTerm, value: pa.Scalar) -> tuple[Any, ...]:
    if not value.is_valid:
        return (0 if term.nulls_first else 2,)
    return 1, _Descending(value.as_py()) if term.descending else value.as_py()


@total_ordering
class _Descending:
    """A value that is less than another one if it is greater."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.value == other.value)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]
