"""Rows with a column of every type that Delta and Arrow share, with their extreme values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

__all__ = ["HOSTILE_TEXTS", "every_type", "partitioned_rows"]

#: Texts that break what takes them for a part of a path, a URL, JSON or SQL.
HOSTILE_TEXTS = [
    "a b",
    "a/b",
    "../up",
    "50%",
    "%20",
    "a=b&c=d",
    "?x#y",
    'it\'s "quoted" \\ back',
    "ü日本🙂",
    "x:y",
    "tab\tnew\nline",
    "__HIVE_DEFAULT_PARTITION__",
    "null",
    ".",
    "..",
    " ",
    "+",
    "[*]{}",
    "<b>",
    "~",
]


def every_type(*, with_ntz: bool = True) -> pa.Table:
    """Return rows with ``id`` and a column of each type: extreme values, plain values and nulls.

    Parameters
    ----------
    with_ntz
        Whether there is a column of timestamps without a zone, which needs a table feature.
    """
    zone = dt.timezone.utc
    columns: dict[str, pa.Array] = {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "flag": pa.array([True, False, None, True]),
        "byte": pa.array([-128, 127, None, 0], pa.int8()),
        "short": pa.array([-32768, 32767, None, 0], pa.int16()),
        "integer": pa.array([-(1 << 31), (1 << 31) - 1, None, 0], pa.int32()),
        "long": pa.array([-(1 << 63), (1 << 63) - 1, None, 0], pa.int64()),
        "float": pa.array([float("nan"), float("-inf"), None, -0.0], pa.float32()),
        "double": pa.array([1e-300, float("inf"), None, float("nan")], pa.float64()),
        "text": pa.array(["", "ü日本🙂" * 20, None, 'it\'s\n"x"'], pa.string()),
        "data": pa.array([b"", b"\x00\xff", None, b"abc"], pa.binary()),
        "day": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1970, 1, 1)], pa.date32()),
        "at": pa.array(
            [
                dt.datetime(1900, 1, 1, 0, 0, 0, 1, zone),
                dt.datetime(9999, 12, 31, 23, 59, 59, 999999, zone),
                None,
                dt.datetime(2020, 6, 1, 12, 30, 15, 123456, zone),
            ],
            pa.timestamp("us", "UTC"),
        ),
        "small_decimal": pa.array([Decimal("-99.99"), Decimal("99.99"), None, Decimal("0.00")], pa.decimal128(4, 2)),
        "decimal": pa.array(
            [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), None, Decimal(1)], pa.decimal128(38, 10)
        ),
        "struct": pa.array(
            [{"x": 1, "s": {"y": "a"}}, {"x": None, "s": None}, None, {"x": 2, "s": {"y": None}}],
            pa.struct([("x", pa.int32()), ("s", pa.struct([("y", pa.string())]))]),
        ),
        "list": pa.array([[1, None], [], None, [3]], pa.list_(pa.int64())),
        "structs": pa.array([[{"k": "a"}, None], [], None, [{"k": None}]], pa.list_(pa.struct([("k", pa.string())]))),
        "map": pa.array([[("a", 1), ("b", None)], [], None, [("c", 3)]], pa.map_(pa.string(), pa.int64())),
    }
    if with_ntz:
        columns["local"] = pa.array(
            [
                dt.datetime(1900, 1, 1),
                dt.datetime(9999, 12, 31, 23, 59, 59),
                None,
                dt.datetime(2020, 6, 1, 1, 2, 3, 456789),
            ],
            pa.timestamp("us"),
        )
    return pa.table(columns)


def partitioned_rows(kind: pa.DataType) -> pa.Table:
    """Return rows ``id`` and ``p`` in which ``p`` has values of a type that are hard to record, and null."""
    zone = dt.timezone.utc
    values: dict[pa.DataType, list[object]] = {
        pa.string(): [*HOSTILE_TEXTS, None],
        pa.bool_(): [True, False, None],
        pa.int8(): [-128, 127, None],
        pa.int64(): [-(1 << 63), (1 << 63) - 1, 0, None],
        pa.float64(): [1e10, -0.5, 1e-7, None],
        pa.date32(): [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 2, 29), None],
        pa.timestamp("us", "UTC"): [
            dt.datetime(2020, 1, 1, 0, 0, 0, 0, zone),
            dt.datetime(2020, 1, 1, 0, 0, 0, 1, zone),
            dt.datetime(1999, 12, 31, 23, 59, 59, 999999, zone),
            None,
        ],
        pa.timestamp("us"): [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 120000), None],
        pa.decimal128(10, 2): [Decimal("1.50"), Decimal("-0.01"), Decimal("99999999.99"), None],
    }
    found = values[kind]
    return pa.table({"id": pa.array(range(len(found)), pa.int64()), "p": pa.array(found, kind)})
