"""Streams of both formats, read to their end without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan import Scan
from deltaberg.table.streaming.limits import ALL, Limits

__all__ = ["batch_rows", "drain", "flat_ids"]


def batch_rows(stream: Any, start: Any, end: Any) -> pa.Table:
    """Read the batch between two positions."""
    return Scan(BoundScan.of(stream.batch(start, end))).to_arrow()


def drain(stream: Any, start: Any = None, limits: Limits = ALL) -> tuple[Any, list[pa.Table]]:
    """Return the end of a stream, and the rows of its batches up to there."""
    at = stream.initial() if start is None else start
    batches = []
    while (end := stream.latest(at, limits)) != at:
        batches.append(batch_rows(stream, at, end))
        at = end
    return at, batches


def flat_ids(batches: Iterable[pa.Table]) -> list[int]:
    """Return the ids of all batches."""
    return [number for rows in batches for number in rows["id"].to_pylist()]
