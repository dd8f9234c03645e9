"""Columns of all types that partition transforms take, and the transforms of each."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["CASES", "partition_sources"]

_MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2026, 11, 23, 1), dt.datetime(9999, 1, 1)]
_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-(2**31), -1, 34, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), 34, 2**53 + 1]),
    "m": (pa.decimal128(9, 2), [Decimal("14.20"), Decimal("-0.01")]),
    "s": (pa.string(), ["", "iceberg", "日本語😀x", "abcde", "abcdefg"]),
    "b": (pa.binary(), [b"", b"\0\1\2\3\xff"]),
    "d": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2017, 11, 16), dt.date(1, 1, 1)]),
    "t": (pa.timestamp("us", "UTC"), [one.replace(tzinfo=dt.timezone.utc) for one in _MOMENTS]),
    "n": (pa.timestamp("us"), _MOMENTS),
}
#: Each column with each of its transforms, as metadata names them.
CASES: list[tuple[str, str]] = [
    *((name, "bucket[7]") for name in _COLUMNS),
    *((name, "truncate[3]") for name in ("i", "l", "m", "s", "b")),
    *((name, part) for part in ("year", "month", "day") for name in ("d", "t", "n")),
    *((name, "hour") for name in ("t", "n")),
]


def partition_sources() -> pa.Table:
    """Return the columns, with nulls behind their values."""
    longest = max(len(values) for _, values in _COLUMNS.values()) + 1
    return pa.table(
        {name: pa.array(values + [None] * (longest - len(values)), kind) for name, (kind, values) in _COLUMNS.items()}
    )
