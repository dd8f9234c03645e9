"""Sets of rows: the twin of ``rust/core/src/keys.rs``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError

__all__ = ["contains_keys", "index_keys"]


class KeyIndex:
    """Keys that can be looked up."""

    def __init__(self, types: list[pa.DataType], keys: frozenset[tuple[Any, ...]]) -> None:
        self.types = types
        self.keys = keys


def index_keys(keys: pa.RecordBatch) -> KeyIndex:
    """Make an index of the rows of a batch; null is a value like others."""
    if not keys.num_columns:
        raise InvalidArgumentError("keys have at least one column")
    return KeyIndex(keys.schema.types, frozenset(_rows(keys)))


def contains_keys(index: KeyIndex, rows: pa.RecordBatch) -> pa.BooleanArray:
    """Say of each row of a batch whether it equals a key in all columns."""
    if rows.schema.types != index.types:
        raise InvalidArgumentError("the columns are not of the types of the keys")
    return pa.array([row in index.keys for row in _rows(rows)], pa.bool_())


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)


def _plain(column: pa.Array) -> pa.Array:
    """Give numbers for what Python has no exact value for."""
    if pt.is_timestamp(column.type) or pt.is_time64(column.type) or pt.is_float64(column.type):
        return column.view(pa.int64())
    if pt.is_float32(column.type):
        return column.view(pa.int32())
    return column
