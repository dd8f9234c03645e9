"""Keys that rows are looked up by: the twin of ``rust/core/src/keys.rs``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError

__all__ = ["contains_keys", "find_keys", "index_keys"]

_Key = tuple[Any, ...]


class KeyIndex:
    """The distinct keys of some rows, made once and looked up for many batches."""

    def __init__(self, types: list[pa.DataType], null_safe: list[bool] | None, keys: dict[_Key, int]) -> None:
        self.types = types
        self.null_safe = null_safe
        self.keys = keys


def index_keys(keys: pa.RecordBatch, null_safe: Sequence[bool] | None = None) -> KeyIndex:
    """Index the rows of a batch as keys.

    Without ``null_safe``, values are compared as they are stored, and a null equals a null. With it, they are compared
    as in Spark SQL: NaN equals NaN, and 0.0 equals -0.0, at every depth. A null then equals a null only in the columns
    for which ``null_safe`` is true; a row with a null in any other column has no key. Inside of lists and structs, a
    null equals a null.
    """
    if not keys.num_columns:
        raise InvalidArgumentError("a key needs at least one column")
    if null_safe is not None and len(null_safe) != keys.num_columns:
        raise InvalidArgumentError("null_safe needs one value for each column of the keys")
    if any(_has_map(kind) for kind in keys.schema.types):
        raise InvalidArgumentError("a map cannot be part of a key")
    flags = None if null_safe is None else list(null_safe)
    places: dict[_Key, int] = {}
    for place, key in enumerate(_rows(keys, flags)):
        if key is not None:
            places.setdefault(key, place)
    return KeyIndex(keys.schema.types, flags, places)


def contains_keys(index: KeyIndex, rows: pa.RecordBatch) -> pa.BooleanArray:
    """Return a mask of the rows that equal a key in all columns."""
    return find_keys(index, rows).is_valid()


def find_keys(index: KeyIndex, rows: pa.RecordBatch, threads: int = 0) -> pa.Int64Array:
    """Return the number of the first row of the keys that each row equals in all columns; null if there is none."""
    if rows.schema.types != index.types:
        raise InvalidArgumentError("the rows and the keys have columns of different types")
    found = (None if key is None else index.keys.get(key) for key in _rows(rows, index.null_safe))
    return pa.array(found, pa.int64(), size=rows.num_rows)


def _rows(batch: pa.RecordBatch, null_safe: list[bool] | None) -> Iterator[_Key | None]:
    """Return the key of each row; None if it has none."""
    cells = [_cells(column, as_sql=null_safe is not None) for column in batch.columns]
    strict = [number for number, safe in enumerate(null_safe or ()) if not safe]
    for row in zip(*cells, strict=True):
        yield None if any(row[number] is None for number in strict) else row


def _cells(array: pa.Array, *, as_sql: bool) -> list[Any]:
    """Return the values of a column as Python compares them exactly."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _cells(array.storage, as_sql=as_sql)
    if pt.is_struct(kind):
        fields = [_cells(child, as_sql=as_sql) for child in array.flatten()]
        rows: Iterator[_Key] = zip(*fields, strict=True) if fields else iter([()] * len(array))
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pt.is_fixed_size_list(kind):
        return _cells(array.cast(pa.list_(kind.value_field)), as_sql=as_sql)
    if pt.is_list(kind) or pt.is_large_list(kind):
        values = _cells(array.values, as_sql=as_sql)
        bounds = zip(array.offsets.to_pylist(), array.offsets.to_pylist()[1:], strict=False)
        valid = array.is_valid().to_pylist()
        return [tuple(values[start:stop]) if ok else None for (start, stop), ok in zip(bounds, valid, strict=True)]
    return list(_plain(array, as_sql=as_sql).to_pylist())


def _plain(column: pa.Array, *, as_sql: bool) -> pa.Array:
    """Return the stored numbers of types that Python has no exact value for."""
    kind = column.type
    if pt.is_floating(kind) and as_sql:
        # The sum of -0.0 and 0.0 is 0.0.
        nan = pa.scalar(math.nan, kind)
        column = pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, kind)))
    if pt.is_timestamp(kind) or pt.is_time64(kind) or pt.is_float64(kind) or pt.is_date64(kind):
        return column.view(pa.int64())
    if pt.is_float32(kind) or pt.is_date32(kind) or pt.is_time32(kind):
        return column.view(pa.int32())
    return column


def _has_map(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return any(_has_map(child.type) for child in kind)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return _has_map(kind.value_type)
    return bool(pt.is_map(kind))
