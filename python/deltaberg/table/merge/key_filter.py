"""A filter that all keys of a source fulfil, so that a merge reads only the files that can hold them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.expressions.build.column import all_of, any_of, col
from deltaberg.expressions.tree.tree import FALSE, TRUE, Value
from deltaberg.schema.arrow import as_array

__all__ = ["filter_of_keys"]

#: Up to so many keys are named one by one.
_MOST_KEYS = 1000
#: Otherwise ranges are named, up to so many: the gaps between them are wider than this part of the whole.
_RANGES = 32

#: The least and the greatest value.
_Range = tuple[pa.Scalar, pa.Scalar]


def filter_of_keys(name: tuple[str, ...], batches: Iterable[pa.Array]) -> Value:
    """Return a filter on a column that all keys fulfil: their values if they are few, and else ranges around them.

    Parameters
    ----------
    name
        The path of the column.
    batches
        The keys, all of one type. Nulls match nothing.

    Examples
    --------
    >>> keys = pa.chunked_array([range(10_000), range(1_000_000, 1_001_000)])
    >>> str(filter_of_keys(("id",), keys.chunks))
    '((id >= 0 AND id <= 9999) OR (id >= 1000000 AND id <= 1000999))'
    """
    distinct: pa.Array | None = pa.array([])
    key_ranges: list[_Range] = []
    first = True
    for values in batches:
        if pt.is_nested(values.type) or pt.is_floating(values.type):
            # NaN and the two zeros are equal to values that bounds of files leave out.
            return TRUE
        if first:
            distinct, first = values.slice(0, 0), False
        if distinct is not None:
            distinct = pc.unique(pa.concat_arrays([distinct, values.drop_null()]))
            distinct = distinct if len(distinct) <= _MOST_KEYS else None
        key_ranges.extend(_ranges(values))
    if not key_ranges:
        return FALSE
    column = col(name)
    try:
        if distinct is not None:
            return column.is_in(as_array(distinct).to_pylist())
        ranges = [(least.as_py(), greatest.as_py()) for least, greatest in _joined(key_ranges)]
    except (ValueError, OverflowError):
        # Python has no dates before the year 1.
        return TRUE
    return any_of(all_of([column >= least, column <= greatest]) for least, greatest in ranges)


def _has_distances(kind: pa.DataType) -> bool:
    return bool(pt.is_signed_integer(kind) or pt.is_date32(kind) or pt.is_timestamp(kind))


def _ranges(values: pa.Array) -> list[_Range]:
    """Return ranges that hold all values: one, if the distances of values are not known."""
    if not _has_distances(values.type):
        bounds = pc.min_max(values)
        return [(bounds["min"], bounds["max"])] if bounds["min"].is_valid else []
    keys = values.drop_null()
    keys = keys.take(pc.sort_indices(keys))
    numbers = _numbers(keys)
    if not len(keys):
        return []
    # Distances beyond 64 bits become negative, and end no range.
    distances = pc.subtract(numbers.slice(1), numbers.slice(0, len(numbers) - 1))
    starts = pc.indices_nonzero(pc.greater(distances, _least_gap(numbers[0].as_py(), numbers[-1].as_py())))
    edges = [0, *(start + 1 for start in starts.to_pylist()), len(keys)]
    return [(keys[start], keys[stop - 1]) for start, stop in pairwise(edges)]


def _joined(ranges: list[_Range]) -> list[_Range]:
    """Return ranges that hold all of these, and between which there are wide gaps."""
    kind = ranges[0][0].type
    lowers, uppers = (pa.array(bounds, kind) for bounds in zip(*ranges, strict=True))
    if not _has_distances(kind):
        return [(pc.min(lowers), pc.max(uppers))]
    numbers = zip(_numbers(lowers).to_pylist(), _numbers(uppers).to_pylist(), ranges, strict=True)
    ordered = sorted(numbers, key=lambda entry: entry[0])
    gap = _least_gap(ordered[0][0], max(end for _, end, _ in ordered))
    joined: list[_Range] = []
    reached = 0
    for start, end, (lower, upper) in ordered:
        if not joined or start - reached > gap:
            joined.append((lower, upper))
            reached = end
        elif end > reached:
            joined[-1] = (joined[-1][0], upper)
            reached = end
    return joined


def _numbers(keys: pa.Array) -> pa.Int64Array:
    return keys.cast(pa.int32()).cast(pa.int64()) if pt.is_date32(keys.type) else keys.cast(pa.int64())


def _least_gap(least: int, greatest: int) -> int:
    """Return the distance of keys that a gap exceeds, which 64 bits hold."""
    return max(min((greatest - least) // _RANGES, (1 << 63) - 1), 1)
