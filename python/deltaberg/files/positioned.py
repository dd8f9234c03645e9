"""Rows with their physical position, which projection, filters, skipping and batch borders all keep."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

__all__ = ["PositionedBatch", "RowGroup"]


class PositionedBatch(NamedTuple):
    """Rows of a file: ``start`` is the physical position of the first one."""

    start: int
    rows: int
    batch: pa.RecordBatch


class RowGroup(NamedTuple):
    """Neighbouring rows of a file that can be read apart from others: its number, its first row, its rows."""

    number: int
    start: int
    rows: int
