"""Rows along space-filling curves: the ranges of their values, and their places on a curve through these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import verbatim
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import Field, List, Map, Struct
from deltaberg.table.sort.order import OrderTerm, column_at, sortable
from deltaberg.table.sort.row_sample import RowSample, shortened

__all__ = ["RANGES", "Curve", "RangeSample", "check_ordered", "has_ranges"]

#: Into how many ranges the values of a column are divided at most.
RANGES = 1000
#: Bits of a range id: nulls are a range of their own, before all others.
_BITS = RANGES.bit_length()
#: A part of a curve may begin so much of its length before or after the place that would make all parts equal.
_TOLERANCE = 0.1
_LONG = pa.int64()


def check_ordered(*paths: Sequence[Field]) -> None:
    """Refuse to order rows by columns, named by the paths of their fields, whose values have no order.

    Raises
    ------
    InvalidArgumentError
        One of them is a list, for instance, or has no type, and is null in all rows.
    """
    for path in paths:
        kind = path[-1].type
        if isinstance(kind, (Struct, List, Map)) or not has_ranges(arrow_type(kind)):
            raise InvalidArgumentError(
                f"values of the type {verbatim(str(kind))} have no order",
                hint="name a field of the struct" if isinstance(kind, Struct) else "name another column",
                column=".".join(field.name for field in path),
            )


def has_ranges(kind: pa.DataType) -> bool:
    """Return whether values of a type have ranges.

    Examples
    --------
    >>> [has_ranges(kind) for kind in (pa.string(), pa.decimal128(9, 2), pa.list_(pa.int8()))]
    [True, True, False]
    """
    return _is_bytes(kind) or pt.is_primitive(kind) or pt.is_decimal(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)
    )


def _ranked(values: pa.Array) -> pa.Array:
    """Return what values are ranged by: 64-bit integers, decimals or bytes.

    As in Spark, all NaN are one value, the greatest, and so are 0.0 and -0.0 one.
    """
    kind = values.type
    if pt.is_decimal(kind):
        return values
    if _is_bytes(kind):
        is_large = pt.is_large_string(kind) or pt.is_large_binary(kind)
        return values.cast(pa.large_binary() if is_large else pa.binary())
    if pt.is_floating(kind):
        # The sum of -0 and 0 is 0.
        doubles = pc.add(values.cast(pa.float64()), pa.scalar(0.0))
        values = pc.if_else(pc.is_nan(doubles), pa.scalar(float("nan")), doubles)
    return as_array(sortable(pa.chunked_array([values]))).cast(_LONG)


def _values(rows: pa.RecordBatch, term: OrderTerm) -> pa.Array:
    """Return what the values of a term are ranged by."""
    column = column_at(rows, term.source)
    return _ranked(column if term.transform is None else term.transform(column))


class RangeSample(RowSample):
    """A sample of rows, from which the ranges of their columns are made.

    Parameters
    ----------
    terms
        The columns, or transforms of them. Values have no direction on a curve.
    **arguments
        As for `RowSample`.

    Examples
    --------
    >>> sample = RangeSample([OrderTerm(("x",))])
    >>> sample.add(pa.record_batch({"x": [30, 10, None, 20, 10]}))
    >>> keys = sample.curve("hilbert").keys(pa.record_batch({"x": [5, 10, 15, 25, 99, None]}))
    >>> [int.from_bytes(key, "big") for key in keys.to_pylist()]
    [341, 341, 341, 682, 1023, 0]
    """

    def __init__(self, terms: Sequence[OrderTerm], **arguments: int) -> None:
        super().__init__(**arguments)
        self._terms = tuple(terms)

    def values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return what the values of each column are ranged by."""
        return [shortened(_values(rows, term)) for term in self._terms]

    def curve(self, kind: str, ranges: int = RANGES) -> Curve | None:
        """Return a curve through ranges that have about equally many rows each; None if there are no rows."""
        columns = self.columns
        if not columns:
            return None
        return Curve(kind, self._terms, tuple(_boundaries(values, ranges) for values in columns))

    def cuts(self, curve: Curve, count: int) -> list[bytes]:
        """Return places at which a curve is cut into so many parts, of about equally many rows, or fewer.

        Within a tolerance, that is where the curve enters a cell of the grid that is as large as possible.
        """
        keys = _keys(curve.kind, self.columns, curve.boundaries)
        ordered = keys.take(pc.array_sort_indices(keys))
        last, step = len(ordered) - 1, len(ordered) / count
        cuts: set[int] = set()
        for number in range(1, count):
            low, high = (min(max(round((number + off) * step), 0), last) for off in (-_TOLERANCE, _TOLERANCE))
            before, after = (int.from_bytes(ordered[place].as_py(), "big") for place in (low, high))
            bits = (before ^ after).bit_length()
            # The only number after the one and up to the other that ends with so many zeros.
            cuts.add(after >> max(bits - 1, 0) << max(bits - 1, 0))
        return [cut.to_bytes(keys.type.byte_width, "big") for cut in sorted(cuts)]


def _boundaries(values: pa.Array, ranges: int) -> pa.Array:
    """Return the least value of each range but the first one."""
    values = values.drop_null()
    ordered = values.take(pc.array_sort_indices(values))
    distinct = ordered.unique()
    if len(distinct) <= ranges:
        return distinct.slice(1)
    places = sorted({number * len(ordered) // ranges for number in range(1, ranges)})
    return ordered.take(pa.array(places, _LONG)).unique()


@dataclass(frozen=True)
class Curve:
    """A curve through the ranges of some columns; it pickles.

    Parameters
    ----------
    kind
        ``z-order`` or ``hilbert``.
    terms
        The columns, or transforms of them.
    boundaries
        For each term, the least value of each range but the first one.
    """

    kind: str
    terms: tuple[OrderTerm, ...]
    boundaries: tuple[pa.Array, ...]

    @property
    def key_type(self) -> pa.DataType:
        """The type of keys."""
        return pa.binary(-(-_BITS * len(self.terms) // 8))

    def keys(self, rows: pa.RecordBatch) -> pa.FixedSizeBinaryArray:
        """Return the place of each row on the curve, as bytes that sort."""
        columns = [_values(rows, term) for term in self.terms]
        return _keys(self.kind, columns, self.boundaries)


def _keys(kind: str, columns: Sequence[pa.Array], boundaries: Sequence[pa.Array]) -> pa.FixedSizeBinaryArray:
    ids = [_cells(values, limits) for values, limits in zip(columns, boundaries, strict=True)]
    return kernels.curve_keys(pa.record_batch(ids, [str(at) for at in range(len(ids))]), _BITS, kind)


def _cells(values: pa.Array, boundaries: pa.Array) -> pa.UInt32Array:
    """Return the coordinates of values: the ids of their ranges, spread so that every column fills all bits.

    Else a column with few values would have a say in the last bits alone.
    """
    ids = kernels.range_ids(values, boundaries)
    last = len(boundaries) + 1
    spread = [number * ((1 << _BITS) - 1) // last for number in range(last + 1)]
    return pa.array(spread, pa.uint32()).take(ids)
