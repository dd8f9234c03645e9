"""Changes of equal rows, which cancel each other.

Tables of changes have the columns ``row`` (a number that equal rows share), ``ordinal`` (that of the snapshot) and
``is_insert``.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.schema.arrow import as_array, count_up

__all__ = ["not_carried_over", "not_undone", "numbers_in_runs"]


def not_carried_over(changes: pa.Table) -> pa.BooleanArray:
    """Return a mask of changes of one snapshot without the pairs of a delete and an insert of equal rows."""
    row, is_insert = as_array(changes.column("row")), as_array(changes.column("is_insert"))
    number = numbers_in_runs(changes, "row")
    others = pc.if_else(is_insert, _counts(row, pc.invert(is_insert)), _counts(row, is_insert))
    return pc.greater_equal(number, others)


def not_undone(changes: pa.Table) -> pa.BooleanArray:
    """Return a mask of changes that no later one undoes, and that undo none. Each undoes the last one that is left."""
    row, is_insert = as_array(changes.column("row")), as_array(changes.column("is_insert"))
    both = [row.filter(is_insert), row.filter(pc.invert(is_insert))]
    mixed = pc.and_(*(pc.is_in(row, value_set=found) for found in both))
    table = changes.select(["row", "ordinal", "is_insert"]).append_column("place", count_up(0, len(changes)))
    keys = [(name, "ascending") for name in ("row", "ordinal", "is_insert", "place")]
    ordered = table.filter(mixed).sort_by(keys).select(["row", "is_insert", "place"])
    left: list[int] = []
    stack: list[int] = []
    current, sign = None, False
    for number, insert, place in zip(*(column.to_pylist() for column in ordered.columns), strict=True):
        if number != current:
            left += stack
            current, stack = number, []
        if stack and insert != sign:
            stack.pop()
        else:
            stack.append(place)
            sign = insert
    kept = pa.array([*left, *stack], pa.int64())
    return pc.or_(pc.invert(mixed), pc.is_in(count_up(0, len(changes)), value_set=kept))


def numbers_in_runs(changes: pa.Table, name: str) -> pa.Int64Array:
    """Return for each change how many others of its kind with the same number in a column come before it."""
    order = pc.sort_indices(changes, [(name, "ascending"), ("is_insert", "ascending")])
    group = pc.add(pc.multiply(changes.column(name), 2), changes.column("is_insert").cast(pa.int64()))
    runs = as_array(group.take(order)).dictionary_encode().indices
    places = count_up(0, len(runs))
    starts = places.filter(pc.not_equal(runs, pa.concat_arrays([pa.array([-1], pa.int32()), runs[:-1]])))
    in_order = pc.subtract(places, starts.take(runs))
    return in_order.take(pc.array_sort_indices(order))


def _counts(row: pa.Int64Array, chosen: pa.BooleanArray) -> pa.Int64Array:
    """Return for each row how many of the chosen ones have its number."""
    counted = row.filter(chosen).value_counts()
    place = pc.index_in(row, value_set=counted.field("values"))
    return counted.field("counts").take(place).fill_null(0)
