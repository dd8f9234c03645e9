"""Sets of keys that rows are looked up in: the twin of ``rust/core/src/keys.rs``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError

__all__ = ["contains_keys", "index_keys"]


class KeyIndex:
    """The distinct keys of some rows, made once and looked up for many batches."""

    def __init__(self, types: list[pa.DataType], keys: frozenset[tuple[Any, ...]]) -> None:
        self.types = types
        self.keys = keys


def index_keys(keys: pa.RecordBatch) -> KeyIndex:
    """Index the rows of a batch as keys; a null equals a null."""
    if not keys.num_columns:
        raise InvalidArgumentError("a key needs at least one column")
    return KeyIndex(keys.schema.types, frozenset(_rows(keys)))


def contains_keys(index: KeyIndex, rows: pa.RecordBatch) -> pa.BooleanArray:
    """Return a mask of the rows that equal a key in all columns."""
    if rows.schema.types != index.types:
        raise InvalidArgumentError("the rows and the keys have columns of different types")
    return pa.array([row in index.keys for row in _rows(rows)], pa.bool_())


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)


def _plain(column: pa.Array) -> pa.Array:
    """Return the stored numbers of types that Python has no exact value for."""
    if pt.is_timestamp(column.type) or pt.is_time64(column.type) or pt.is_float64(column.type):
        return column.view(pa.int64())
    if pt.is_float32(column.type):
        return column.view(pa.int32())
    return column
