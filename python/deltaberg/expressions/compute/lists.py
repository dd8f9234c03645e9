"""Kernels of arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.evaluate import compare_values
from deltaberg.expressions.tree.nodes import Datum, Outcome, failed_where, spread
from deltaberg.expressions.tree.types import is_floating
from deltaberg.schema.arrow import arrow_type, count_up
from deltaberg.schema.types import DataType, List

__all__ = ["element_at", "entries_of", "list_lengths", "list_of", "list_offsets", "lookup", "member_of"]


def list_lengths(lists: pa.Array) -> pa.Array:
    """Return the number of elements of lists, or of entries of maps."""
    return pc.list_value_length(entries_of(lists)).cast(pa.int32())


def entries_of(values: pa.Array) -> pa.Array:
    """Return maps as lists of structs (key, value). Lists stay as they are."""
    if not pa.types.is_map(values.type):
        return values
    entry = pa.struct([pa.field("key", values.type.key_type), pa.field("value", values.type.item_type)])
    return values.cast(pa.list_(entry))


def list_offsets(lists: pa.Array) -> pa.Array:
    """Return offsets into the flattened elements, null for lists that are null."""
    ends = pc.cumulative_sum(pc.list_value_length(lists).fill_null(0).cast(pa.int32()))
    starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    valid = pa.concat_arrays([pc.is_valid(lists), pa.array([True])])
    return pc.if_else(valid, starts, pa.scalar(None, pa.int32()))


def list_of(values: Sequence[Datum], kind: List) -> pa.Array:
    """Return lists of the values of each row."""
    rows = next(len(value) for value in values if isinstance(value, pa.Array))
    count = len(values)
    places = count_up(0, rows * count)
    row = pc.divide(places, pa.scalar(count, pa.int64()))
    column = pc.subtract(places, pc.multiply(row, pa.scalar(count, pa.int64())))
    order = pc.add(pc.multiply(column, pa.scalar(rows, pa.int64())), row)
    elements = pa.concat_arrays([spread(value, rows) for value in values]).take(order)
    offsets = pc.multiply(count_up(0, rows + 1), pa.scalar(count, pa.int64())).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, elements).cast(arrow_type(kind))


def element_at(lists: Datum, numbers: Datum, first: int, *, fails: bool) -> Outcome:
    """Return the elements with numbers that count from ``first``. From 1 on, negative ones count from the end."""
    rows = next(len(value) for value in (lists, numbers) if isinstance(value, pa.Array))
    lists, positions = spread(lists, rows), spread(numbers, rows).cast(pa.int64())
    lengths = pc.list_value_length(lists).cast(pa.int64())
    place = pc.subtract(positions, pa.scalar(first, pa.int64()))
    if first:
        place = pc.if_else(pc.less(positions, 0), pc.add(lengths, positions), place)
    inside = pc.and_(pc.greater_equal(place, 0), pc.less(place, lengths))
    if first:
        inside = pc.and_(inside, pc.not_equal(positions, 0))
    starts = list_offsets(lists).slice(0, rows).cast(pa.int64())
    flat = pc.list_flatten(lists)
    elements = flat.take(pc.if_else(inside, pc.add(starts, place), pa.scalar(None, pa.int64())))
    return failed_where(elements, pc.invert(inside), "an array has no such element") if fails else Outcome(elements)


def lookup(maps: Datum, keys: Datum, kind: DataType) -> pa.Array:
    """Return the values of keys, null where a map does not have the key."""
    rows = next(len(value) for value in (maps, keys) if isinstance(value, pa.Array))
    entries = entries_of(spread(maps, rows))
    flat, parents = pc.list_flatten(entries), pc.list_parent_indices(entries)
    wanted = spread(keys, rows).take(parents)
    hit = compare_values("=", pc.struct_field(flat, [0]), wanted, is_floating(kind)).fill_null(False)
    place = pc.index_in(count_up(0, rows), value_set=parents.filter(hit).cast(pa.int64()))
    return pc.struct_field(flat, [1]).filter(hit).take(place)


def member_of(lists: Datum, values: Datum, kind: DataType) -> pa.Array:
    """Return whether lists contain values; null if not, but an element is null."""
    rows = next(len(value) for value in (lists, values) if isinstance(value, pa.Array))
    lists, values = spread(lists, rows), spread(values, rows)
    flat, parents = pc.list_flatten(lists), pc.list_parent_indices(lists).cast(pa.int64())
    equal = compare_values("=", flat, values.take(parents), is_floating(kind))
    places = count_up(0, rows)
    found = pc.is_in(places, value_set=parents.filter(equal.fill_null(False)))
    unclear = pc.is_in(places, value_set=parents.filter(pc.is_null(flat)))
    answer = pc.if_else(found, pa.scalar(True), pc.if_else(unclear, pa.scalar(None, pa.bool_()), pa.scalar(False)))
    known = pc.and_(pc.is_valid(lists), pc.is_valid(values))
    return pc.if_else(known, answer, pa.scalar(None, pa.bool_()))
