"""Which rows are equal, whatever types their columns have."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.schema.arrow import as_array
from deltaberg.schema.convert import list_with_values, struct_of

__all__ = ["changed_rows", "equal_rows"]


def equal_rows(columns: pa.Table) -> pa.Int64Array:
    """Return a number for each row, which rows share if all of their values are stored alike. Null equals null."""
    arrays = [_without_maps(as_array(column)) for column in columns.columns]
    if not arrays or not len(columns):
        return pa.repeat(pa.scalar(0, pa.int64()), len(columns))
    batch = pa.RecordBatch.from_arrays(arrays, [str(number) for number in range(len(arrays))])
    return kernels.find_keys(kernels.index_keys(batch), batch)


def changed_rows(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.BooleanArray:
    """Return for each of some rows whether any value of it is stored otherwise in the second batch.

    Examples
    --------
    >>> old = pa.record_batch({"x": pa.array([1, None, 3]), "y": pa.array([[1], [2], None])})
    >>> new = pa.record_batch({"x": pa.array([1, 2, 3]), "y": pa.array([[1], [2], []])})
    >>> changed_rows(old, new).to_pylist()
    [False, True, True]
    """
    found = pa.repeat(pa.scalar(value=False), old.num_rows)
    for before, after in zip(old.columns, new.columns, strict=True):
        found = pc.or_(found, _differ(before, after))
    return found


def _differ(before: pa.Array, after: pa.Array) -> pa.BooleanArray:
    if pt.is_null(before.type):
        return pa.repeat(pa.scalar(value=False), len(before))
    if isinstance(before, pa.ExtensionArray) or pt.is_nested(before.type):
        numbers = equal_rows(pa.table({"": pa.chunked_array([before, after])}))
        return pc.not_equal(numbers.slice(0, len(before)), numbers.slice(len(before)))
    if pt.is_floating(before.type):
        # NaN is stored as NaN, and -0.0 otherwise than 0.0.
        bits = pa.int32() if pt.is_float32(before.type) else pa.int64()
        before, after = before.view(bits), after.view(bits)
    has_null = pc.xor(before.is_null(), after.is_null())
    return pc.or_(has_null, pc.not_equal(before, after).fill_null(False))


def _without_maps(array: pa.Array) -> pa.Array:
    """Return an array with lists of entries in place of maps, which cannot be compared as keys."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _without_maps(array.storage)
    if pt.is_struct(kind):
        children = [_without_maps(child) for child in array.flatten()]
        fields = [pa.field(child.name, part.type) for child, part in zip(kind, children, strict=True)]
        return struct_of(array, children, fields)
    if pt.is_map(kind) or pt.is_list(kind):
        values = array.values
        if pt.is_map(kind):
            parts = [_without_maps(array.keys), _without_maps(array.items)]
            values = pa.StructArray.from_arrays(parts, names=["key", "value"])
        else:
            values = _without_maps(values)
        return list_with_values(array, values, pa.list_(values.type), 0)
    return array
