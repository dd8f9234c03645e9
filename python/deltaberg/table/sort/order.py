"""By which columns rows are sorted, and values that sort as tables want it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.schema.arrow import count_up
from deltaberg.schema.columns import ColumnName

__all__ = ["OrderTerm", "TermText", "column_at", "sort_indices", "sortable"]

_TERM = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE)


class TermText(NamedTuple):
    """What a text such as ``day desc nulls last`` says: a column or a transform of one, and in which order.

    Nulls come first where values ascend and last where they descend, unless the text says otherwise.

    Examples
    --------
    >>> TermText.of("day DESC")
    TermText(term='day', descending=True, nulls_first=False)
    """

    term: ColumnName
    descending: bool
    nulls_first: bool

    @classmethod
    def of(cls, name: ColumnName) -> TermText:
        """Return what a name says. A tuple is the path of a column."""
        matched = _TERM.fullmatch(name.strip()) if isinstance(name, str) else None
        if matched is None:
            return cls(name, descending=False, nulls_first=True)
        descending = (matched[2] or "").lower() == "desc"
        return cls(matched[1], descending, not descending if matched[3] is None else matched[3].lower() == "first")


@dataclass(frozen=True)
class OrderTerm:
    """A term of an order of rows; it pickles.

    Parameters
    ----------
    source
        The names from the root of the schema to the column.
    transform
        Makes what is sorted by from an array of the column; None takes the values as they are.
    descending
        Whether the greatest value comes first.
    nulls_first
        Whether nulls come before all values.
    """

    source: tuple[str, ...]
    transform: Callable[[pa.Array], pa.Array] | None = None
    descending: bool = False
    nulls_first: bool = True

    def values(self, rows: pa.RecordBatch | pa.Table) -> pa.ChunkedArray:
        """Return the keys by which rows are sorted, in the order of rows."""
        return self.of(column_at(rows, self.source))

    def of(self, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the keys by which values of the column are sorted."""
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if self.transform is None:
            return sortable(pa.chunked_array(chunks, column.type))
        return sortable(pa.chunked_array([self.transform(chunk) for chunk in chunks or [pa.nulls(0, column.type)]]))


def sort_indices(rows: pa.RecordBatch | pa.Table, terms: Sequence[OrderTerm]) -> pa.UInt64Array:
    """Return the places of rows in the order of some terms. Rows that are equal stay in their order.

    Examples
    --------
    >>> rows = pa.table({"x": [1, None, 2, 1], "y": ["b", "a", "b", "a"]})
    >>> sort_indices(rows, [OrderTerm(("x",), descending=True), OrderTerm(("y",))]).to_pylist()
    [1, 2, 3, 0]
    """
    keys: dict[str, pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for number, term in enumerate(terms):
        values = term.values(rows)
        direction = "descending" if term.descending else "ascending"
        if len(terms) == 1 and values.num_chunks == 1:
            place = "at_start" if term.nulls_first else "at_end"
            return pc.array_sort_indices(values.chunk(0), order=direction, null_placement=place)
        if values.null_count:
            # One place of nulls holds for all keys of a sort, so they get a key of their own.
            keys[f"n{number}"] = pc.is_null(values)
            order.append((f"n{number}", "descending" if term.nulls_first else "ascending"))
        keys[f"v{number}"] = values
        order.append((f"v{number}", direction))
    # The position keeps equal rows in their order.
    keys["at"] = pa.chunked_array([count_up(0, rows.num_rows)])
    return pc.sort_indices(pa.table(keys), [*order, ("at", "ascending")])


def column_at(rows: pa.RecordBatch | pa.Table, source: tuple[str, ...]) -> pa.Array | pa.ChunkedArray:
    """Return the values of a column, null where a struct above it is null."""
    column = rows.column(source[0])
    for name in source[1:]:
        column = pc.struct_field(column, column.type.get_field_index(name))
    return column


def sortable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that sort as the values do: -NaN is the least floating-point number, and NaN the greatest.

    Examples
    --------
    >>> numbers = pa.chunked_array([[0.0, float("nan"), -1.5, -0.0]])
    >>> pc.sort_indices(sortable(numbers)).to_pylist()
    [2, 3, 0, 1]
    """
    kind = values.type
    if pt.is_floating(kind):
        bits, largest = (pa.int32(), 0x7FFFFFFF) if kind.bit_width == 32 else (pa.int64(), 0x7FFFFFFFFFFFFFFF)
        numbers = pa.chunked_array([chunk.view(bits) for chunk in values.chunks], bits)
        # Negative numbers are ordered the other way round.
        flipped = pc.bit_wise_xor(numbers, pa.scalar(largest, bits))
        return pc.if_else(pc.less(numbers, 0), flipped, numbers)
    if pt.is_temporal(kind):
        bits = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.chunked_array([chunk.view(bits) for chunk in values.chunks], bits)
    if pt.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    return values
