"""The rows of the model in plain Python: columns, their values, and what tells rows apart."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["PARTS", "TYPES", "Columns", "Row", "as_arrow", "counted", "rows_of"]

Row = dict[str, Any]
#: The type of each column by its name, as a key of `TYPES`, in the order of the table.
Columns = dict[str, str]

_TEXTS = ["", "a", "B c", "ü%2F/=", "x" * 40, "\u0000\n'\"", "😀"]
#: The types of columns: for Arrow, and some values.
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [0, 1, 2, -1, 7, 2**63 - 1, -(2**63)]),
    "text": (pa.string(), _TEXTS),
    "double": (pa.float64(), [0.0, -0.0, 1.5, float("nan"), float("inf"), -1e300]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "price": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("-1.25"), Decimal("99999999.99")]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", b"a" * 40]),
    "list": (pa.list_(pa.int64()), [[], [1, None, 3]]),
}
#: The values of the partition column. An empty text would be null there, as the protocol says.
PARTS = [None, "a", "B c", "ü%2F/=", "__HIVE_DEFAULT_PARTITION__", "x:y'z"]


def values(kind: str) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a column."""
    return st.sampled_from([None, *TYPES[kind][1]])


def rows_of(columns: Columns, part: str, most: int = 5, parts: Sequence[Any] = PARTS) -> st.SearchStrategy[list[Row]]:
    """Return a strategy for rows: an ``id``, a partition value, and the other columns."""
    fields: dict[str, st.SearchStrategy[Any]] = {
        name: st.sampled_from(parts) if name == part else values(kind) for name, kind in columns.items()
    }
    return st.lists(st.fixed_dictionaries({**fields, "id": st.integers(0, 9)}), max_size=most)


def as_arrow(rows: Sequence[Row], columns: Columns) -> pa.Table:
    """Return rows as an Arrow table."""
    schema = pa.schema([(name, TYPES[kind][0]) for name, kind in columns.items()])
    return pa.Table.from_pylist(list(rows), schema)


def counted(rows: Sequence[Row]) -> Counter[str]:
    """Return how often each row is there: texts tell NaN from null, and -0.0 from 0.0."""
    return Counter(repr(sorted((name, repr(value)) for name, value in row.items())) for row in rows)
