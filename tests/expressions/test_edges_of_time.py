"""The first and last dates, times of a day, intervals and fractions, and the next ones, which are none."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import EvaluationError, UnsupportedExpressionError
from deltaberg.expressions.bind.bind import bind_value
from deltaberg.schema.types import Struct

pytestmark = pytest.mark.one_backend

_ROW = pa.record_batch({"": pa.nulls(1)})
_MIDNIGHT = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


def _value(text: str) -> Any:
    return bind_value(text, Struct(())).evaluate(_ROW)[0]


@pytest.mark.parametrize(
    ("text", "unit", "added"),
    [
        ("1 23", "DAY TO HOUR", dt.timedelta(1, hours=23)),
        ("0 23:59", "DAY TO MINUTE", dt.timedelta(hours=23, minutes=59)),
        ("0 23:59:59", "DAY TO SECOND", dt.timedelta(hours=23, minutes=59, seconds=59)),
        ("-0 23:59:59.999999", "DAY TO SECOND", -dt.timedelta(1) + dt.timedelta(microseconds=1)),
        ("0 0:0:0.1", "DAY TO SECOND", dt.timedelta(milliseconds=100)),
    ],
)
def test_the_greatest_parts_of_spans(text: str, unit: str, added: dt.timedelta) -> None:
    assert _value(f"TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '{text}' {unit}").as_py() == _MIDNIGHT + added


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1 24", "DAY TO HOUR"),
        ("0 24:00", "DAY TO MINUTE"),
        ("0 23:60", "DAY TO MINUTE"),
        ("0 24:00:00", "DAY TO SECOND"),
        ("0 23:60:59", "DAY TO SECOND"),
        ("0 23:59:60", "DAY TO SECOND"),
        ("0 23:59", "DAY TO SECOND"),
        ("0 23:59:59", "DAY TO MINUTE"),
        ("0 23:59", "DAY TO HOUR"),
        ("1-12", "YEAR TO MONTH"),
        ("178956971", "YEAR"),
        ("106751992", "DAY"),
    ],
)
def test_parts_of_spans_that_are_too_great(text: str, unit: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match="cannot be evaluated"):
        _value(f"TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '{text}' {unit}")


@pytest.mark.parametrize(("text", "date"), [("1-11", dt.date(2021, 12, 1)), ("-1-11", dt.date(2018, 2, 1))])
def test_the_greatest_months(text: str, date: dt.date) -> None:
    assert _value(f"DATE '2020-01-01' + INTERVAL '{text}' YEAR TO MONTH").as_py() == date


@pytest.mark.parametrize(
    ("text", "days"), [("5881580-07-11", (1 << 31) - 1), ("-5877641-06-23", -(1 << 31)), ("1970-01-01", 0)]
)
def test_the_first_and_the_last_date(text: str, days: int) -> None:
    assert _value(f"CAST('{text}' AS DATE)").cast(pa.int32()).as_py() == days


@pytest.mark.parametrize("text", ["5881580-07-12", "-5877641-06-22", "2020-13-01", "2020-01-32", "2019-02-29"])
def test_dates_that_there_are_not(text: str) -> None:
    with pytest.raises(EvaluationError, match="a text is not a value of the type date"):
        _value(f"CAST('{text}' AS DATE)")


@pytest.mark.parametrize("letters", range(1, 10))
@pytest.mark.parametrize("digits", range(1, 11))
def test_fractions_of_patterns(letters: int, digits: int) -> None:
    """A fraction has at most as many digits as its pattern has letters, of which a timestamp keeps six."""
    text = "1234567891"[:digits]
    value = f"try_to_timestamp('2020-01-01 00:00:00.{text}', 'yyyy-MM-dd HH:mm:ss.{'S' * letters}')"
    micros = int(text[:6].ljust(6, "0"))
    assert _value(value).as_py() == (_MIDNIGHT.replace(microsecond=micros) if digits <= letters else None)


@pytest.mark.parametrize(
    "text",
    ["2020-01-01 24:00:00", "2020-01-01 23:60:00", "2020-01-01 23:59:60", "2020-00-01 00:00:00", "2020-01-00 00:00:00"],
)
def test_times_of_a_day_that_there_are_not(text: str) -> None:
    assert _value(f"try_to_timestamp('{text}', 'yyyy-MM-dd HH:mm:ss')").as_py() is None


def test_the_last_time_of_a_day() -> None:
    last = _value("to_timestamp('2020-01-01 23:59:59', 'yyyy-MM-dd HH:mm:ss')").as_py()
    assert last == dt.datetime(2020, 1, 1, 23, 59, 59, tzinfo=dt.timezone.utc)
