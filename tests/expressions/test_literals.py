"""Placing literals of types that only Iceberg has, and timestamps with nanoseconds."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest

from deltaberg import col
from deltaberg.errors import ExpressionError
from deltaberg.expressions import as_expression, bind, evaluate
from deltaberg.expressions.predicates.literals import place_literal
from deltaberg.schema import DataType, Field, Fixed, Primitive, Struct, arrow_type

pytestmark = pytest.mark.one_backend

_ZONE = ZoneInfo("America/New_York")
_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
_UTC = dt.timezone.utc


def _placed(literal: Any, kind: DataType) -> tuple[Any, bool]:
    found = place_literal(literal, kind, _ZONE)
    if isinstance(found.value, (pa.TimestampScalar, pa.Time64Scalar)):
        return found.value.cast(pa.int64()).as_py(), found.exact
    return None if found.value is None else found.value.as_py(), found.exact


@pytest.mark.parametrize("literal", [_UUID, str(_UUID), f" {_UUID.hex}", _UUID.bytes, pa.scalar(_UUID.bytes)])
def test_uuids(literal: Any) -> None:
    assert _placed(literal, Primitive("uuid")) == (_UUID.bytes, True)


@pytest.mark.parametrize(
    ("literal", "micros"),
    [
        (dt.time(1, 2, 3, 4), 3_723_000_004),
        ("01:02:03.000004", 3_723_000_004),
        ("01:02", 3_720_000_000),
        ("01:02:03.5", 3_723_500_000),
        (pa.scalar(5, pa.time64("us")), 5),
    ],
)
def test_times(literal: Any, micros: int) -> None:
    assert _placed(literal, Primitive("time")) == (micros, True)


@pytest.mark.parametrize(
    ("literal", "kind", "value"),
    [
        ("1970-01-01 00:00:01.000000001", "timestamp_ntz_ns", (1_000_000_001, True)),
        ("1970-01-01T00:00:01.000000001Z", "timestamp_ns", (1_000_000_001, True)),
        ("1970-01-01 00:00:01.5+01:00", "timestamp_ns", (1_500_000_000 - 3600 * 10**9, True)),
        ("1969-12-31 19:00:00.123456789", "timestamp_ns", (123_456_789, True)),
        (dt.datetime(1970, 1, 1, 0, 0, 1, 2), "timestamp_ntz_ns", (1_000_002_000, True)),
        (pd.Timestamp("1969-12-31 23:59:59.999999999"), "timestamp_ntz_ns", (-1, True)),
        (pd.Timestamp(7, unit="ns", tz="UTC"), "timestamp_ns", (7, True)),
        (pa.scalar(-7, pa.timestamp("ns", "UTC")), "timestamp_ns", (-7, True)),
        (pa.scalar(-7, pa.timestamp("ns")), "timestamp_ntz", (-1, False)),
        ("1970-01-01 00:00:00.000001", "timestamp_ntz", (1, True)),
        ("1970-01-01 00:00:00.0000019", "timestamp_ntz", (1, False)),
        (dt.date(1970, 1, 2), "timestamp_ntz_ns", (86_400 * 10**9, True)),
        (dt.datetime(9999, 1, 1), "timestamp_ntz_ns", (None, False)),
        (dt.datetime(1, 1, 1), "timestamp_ntz_ns", (None, False)),
    ],
)
def test_timestamps(literal: Any, kind: str, value: tuple[int | None, bool]) -> None:
    assert _placed(literal, Primitive(kind)) == value


def test_timestamps_past_the_last_nanosecond() -> None:
    assert place_literal(dt.datetime(9999, 1, 1), Primitive("timestamp_ntz_ns"), _ZONE).above_all
    assert not place_literal(dt.datetime(1, 1, 1), Primitive("timestamp_ntz_ns"), _ZONE).above_all


@pytest.mark.parametrize(
    ("literal", "kind"),
    [
        (b"abc", Fixed(2)),
        ("ab", Fixed(2)),
        (b"short", Primitive("uuid")),
        ("no uuid", Primitive("uuid")),
        (5, Primitive("uuid")),
        ("25:00", Primitive("time")),
        ("12", Primitive("time")),
        ("12:00:00.1234567", Primitive("time")),
        (dt.time(1, tzinfo=_UTC), Primitive("time")),
        (dt.datetime(2020, 1, 1, tzinfo=_UTC), Primitive("timestamp_ntz_ns")),
        ("2020-01-01 00:00:00.1234567891", Primitive("timestamp_ns")),
        ("2020-01-01 25:00:00.1", Primitive("timestamp_ns")),
        (1, Primitive("timestamp_ns")),
    ],
)
def test_literals_that_do_not_fit(literal: Any, kind: DataType) -> None:
    with pytest.raises(ExpressionError):
        place_literal(literal, kind, _ZONE)


@pytest.mark.parametrize(
    ("kind", "values", "kept"),
    [
        (Primitive("uuid"), [b"\0" * 16, _UUID.bytes, b"\xff" * 16], [False, True, True]),
        (Fixed(2), [b"\0\0", b"ab", b"\xffa"], [False, True, True]),
        (Primitive("time"), [dt.time(0), dt.time(1), dt.time(23)], [False, True, True]),
        (Primitive("timestamp_ns"), [pa.scalar(n, pa.int64()).as_py() for n in (-1, 0, 1)], [False, True, True]),
    ],
)
def test_rows_of_these_types(kind: DataType, values: list[Any], kept: list[bool]) -> None:
    rows = pa.array([*values, None], arrow_type(kind))
    bound = bind(col("x") >= rows[1], Struct((Field("x", kind),)))
    assert evaluate(bound, lambda _: rows, len(rows)).to_pylist() == [*kept, None]
    bound = bind(col("x").is_in([rows[0], rows[2]]), Struct((Field("x", kind),)))
    assert evaluate(bound, lambda _: rows, len(rows)).to_pylist() == [True, False, True, None]


def test_the_text_of_bound_literals() -> None:
    columns = Struct((Field("t", Primitive("time")), Field("n", Primitive("timestamp_ns"))))
    assert str(bind(col("t") < "01:02", columns)) == "t < '01:02:00'"
    assert (
        str(bind(col("n") < "1970-01-01 00:00:00.000000001Z", columns)) == "n < '1970-01-01 00:00:00.000000001+00:00'"
    )


def test_nanoseconds_in_sql() -> None:
    columns = Struct((Field("n", Primitive("timestamp_ntz_ns")),))
    bound = bind(as_expression("n = TIMESTAMP_NTZ '1970-01-01 00:00:00.000000001'"), columns)
    rows = pa.array([0, 1], pa.timestamp("ns"))
    assert evaluate(bound, lambda _: rows, 2).to_pylist() == [False, True]
