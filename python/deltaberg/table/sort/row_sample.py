"""Samples of the rows of a table, which tell how its values are distributed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.schema.arrow import as_array, as_batch, count_up
from deltaberg.table.sort.external_sort import RowKey, row_keys
from deltaberg.table.sort.order import OrderTerm, sort_indices

__all__ = ["OrderSample", "RowSample", "shortened"]

#: Rows of a sample, and characters or bytes of a value that are worth keeping there.
_SAMPLED = 100_000
_SAMPLED_LENGTH = 64
_LONG = pa.int64()


class RowSample(ABC):
    """A sample of rows. Its memory does not depend on their number, and it pickles.

    Equal rows in equal order give the same sample: which rows are in it is decided by a hash of their numbers.

    Parameters
    ----------
    most
        How many rows there are in the sample at most; half of them at least, if there are so many.
    first
        The number of the first row, where other samples are merged that have other rows.
    """

    def __init__(self, most: int = _SAMPLED, first: int = 0) -> None:
        self._most = most
        self._seen = first
        #: Rows whose hash is below it are in the sample.
        self._limit = 1 << 31
        self._kept: list[pa.RecordBatch] = []
        self._count = 0

    @abstractmethod
    def values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return what is kept of rows."""

    @property
    def columns(self) -> list[pa.Array]:
        """What is kept of the rows of the sample, column by column; nothing if there are no rows."""
        if not self._count:
            return []
        columns: list[pa.Array] = as_batch(self._kept, self._kept[0].schema).columns[1:]
        return columns

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, in the order in which they are."""
        hashes = kernels.hash32(count_up(self._seen, rows.num_rows))
        hashes = pc.bit_wise_and(hashes, pa.scalar((1 << 31) - 1, pa.int32()))
        self._seen += rows.num_rows
        chosen = self._below(hashes)
        kept = [hashes.filter(chosen), *self.values(rows.filter(chosen))]
        self._keep([pa.record_batch(kept, [str(number) for number in range(len(kept))])])

    def merge(self, other: RowSample) -> None:
        """Add the rows of a sample of other rows, of which as large a share is kept as of those that are here."""
        self._limit = min(self._limit, other._limit)
        self._thin()
        self._keep([batch.filter(self._below(batch.column(0))) for batch in other._kept])

    def _keep(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._kept += batches
        self._count += sum(batch.num_rows for batch in batches)
        while self._count > self._most:
            self._limit //= 2
            self._thin()

    def _thin(self) -> None:
        if self._kept:
            whole = as_batch(self._kept, self._kept[0].schema)
            self._kept = [whole.filter(self._below(whole.column(0)))]
            self._count = self._kept[0].num_rows

    def _below(self, hashes: pa.Array) -> pa.BooleanArray:
        return pc.less(hashes.cast(_LONG), pa.scalar(self._limit, _LONG))


class OrderSample(RowSample):
    """A sample of rows, from which it is known where rows that are sorted can be cut into parts of equal size.

    Parameters
    ----------
    terms
        What rows are sorted by.
    **arguments
        As for `RowSample`.

    Examples
    --------
    >>> sample = OrderSample([OrderTerm(("x",), descending=True)])
    >>> sample.add(pa.record_batch({"x": [3, 1, 4, 2]}))
    >>> sample.cuts(2) == row_keys(pa.record_batch({"x": [2]}), [OrderTerm(("x",), descending=True)])
    True
    """

    def __init__(self, terms: Sequence[OrderTerm], **arguments: int) -> None:
        super().__init__(**arguments)
        self._terms = tuple(terms)

    def values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the keys by which rows are sorted."""
        return [shortened(as_array(term.values(rows))) for term in self._terms]

    def cuts(self, count: int) -> list[RowKey]:
        """Return keys of rows at which sorted rows are cut into so many parts, or fewer."""
        columns = self.columns
        if not columns:
            return []
        rows = pa.record_batch(columns, [str(number) for number in range(len(columns))])
        terms = [
            OrderTerm((str(number),), descending=term.descending, nulls_first=term.nulls_first)
            for number, term in enumerate(self._terms)
        ]
        places = sort_indices(rows, terms)
        chosen = pa.array([number * len(places) // count for number in range(1, count)], _LONG)
        keys = row_keys(rows.take(places.take(chosen)), terms)
        return [key for key, before in zip(keys, [None, *keys], strict=False) if key != before]


def shortened(values: pa.Array) -> pa.Array:
    """Return values as a sample keeps them: long ones are as good where they are cut."""
    kind = values.type
    if pt.is_string(kind) or pt.is_large_string(kind):
        return pc.utf8_slice_codeunits(values, 0, _SAMPLED_LENGTH)
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return pc.binary_slice(values, 0, _SAMPLED_LENGTH)
    return values
