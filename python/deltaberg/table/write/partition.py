"""Splitting batches by partition, in the order of their rows."""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import SchemaError
from deltaberg.table.sort.order import column_at
from deltaberg.table.write.spec import PartitionField

__all__ = ["PartitionRows", "PartitionedBatch", "split_by_partition"]


class PartitionRows(NamedTuple):
    """Rows of one partition. ``key`` is equal for equal partition values; ``values`` holds them by name."""

    key: Hashable
    values: Mapping[str, pa.Scalar]
    rows: pa.RecordBatch


class PartitionedBatch(NamedTuple):
    """The rows of a batch by partition, and whether the rows of each partition were next to each other.

    They are slices of the batch or of one copy of it, each of which keeps the whole in memory.
    """

    parts: list[PartitionRows]
    is_ordered: bool


def split_by_partition(batch: pa.RecordBatch, fields: Sequence[PartitionField]) -> PartitionedBatch:
    """Return the rows of each partition of a batch, in the order in which they are in the batch.

    Nulls, and all NaN, are one value; 0.0 and -0.0 are two.

    Raises
    ------
    SchemaError
        If a transform does not give the type of its partition field.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> batch = pa.record_batch({"p": ["a", "b", "a"], "x": [1, 2, 3]})
    >>> parts, is_ordered = split_by_partition(batch, [PartitionField(Field("p", Primitive("string")), ("p",))])
    >>> [(part.values["p"].as_py(), part.rows["x"].to_pylist()) for part in parts], is_ordered
    ([('a', [1, 3]), ('b', [2])], False)
    """
    columns = [_values(batch, part) for part in fields]
    codes = _codes(columns, batch.num_rows)
    following, before = codes.slice(1), codes.slice(0, max(len(codes) - 1, 0))
    is_ordered = bool(pc.all(pc.greater_equal(following, before), min_count=0).as_py())
    # The sort is stable, so rows of a partition stay in their order.
    order = None if is_ordered else pc.sort_indices(codes)
    codes, sorted_rows = (codes, batch) if order is None else (codes.take(order), batch.take(order))
    parts = []
    start = 0
    for stop in pc.run_end_encode(codes).run_ends.to_pylist():
        first = start if order is None else order[start].as_py()
        values = {part.field.name: column[first] for part, column in zip(fields, columns, strict=True)}
        key = tuple(_hashable(value) for value in values.values())
        parts.append(PartitionRows(key, values, sorted_rows.slice(start, stop - start)))
        start = stop
    return PartitionedBatch(parts, is_ordered)


def _values(batch: pa.RecordBatch, part: PartitionField) -> pa.Array:
    array = column_at(batch, part.source)
    if part.transform is None:
        return array
    made = part.transform(array)
    if len(made) != batch.num_rows:
        raise SchemaError("a transform gives another number of values than it takes", column=part.field.name)
    return made


def _codes(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return a number for each row, equal for equal values, that counts up by first appearance."""
    codes: pa.Array | None = None
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        indices = encoded.indices.cast(pa.int64())
        if codes is None:
            codes = indices
            continue
        size = pa.scalar(len(encoded.dictionary), pa.int64())
        # Numbering anew keeps the numbers below the number of rows.
        codes = pc.add(pc.multiply(codes, size), indices).dictionary_encode().indices.cast(pa.int64())
    return pa.nulls(rows, pa.int64()).fill_null(0) if codes is None else codes


def _hashable(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    kind = value.type
    if pt.is_temporal(kind):
        # Python has no dates before the year 1.
        return value.value
    found = value.as_py()
    if not isinstance(found, float):
        return found
    return "NaN" if math.isnan(found) else struct.pack("<d", found)
