"""Dates and timestamps from callers are read alike on every version of Python and by every interface."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import ExpressionError, InvalidArgumentError
from deltaberg.expressions.build.filters import Filter
from deltaberg.expressions.time.instants import format_instant, parse_timestamp
from tests.support.delta_builder import DeltaBuilder

_HOUR = dt.timezone(dt.timedelta(hours=1))
_DAY = (2020, 1, 3)
_TAKEN: dict[str, dt.datetime] = {
    "2020": dt.datetime(2020, 1, 1),
    "2020-2": dt.datetime(2020, 2, 1),
    "2020-1-3": dt.datetime(*_DAY),
    "2020-01-03": dt.datetime(*_DAY),
    "2020-01-03 1:2": dt.datetime(*_DAY, 1, 2),
    "2020-01-03T01:02:03": dt.datetime(*_DAY, 1, 2, 3),
    "2020-01-03 01:02:03.4": dt.datetime(*_DAY, 1, 2, 3, 400_000),
    "2020-01-03 01:02:03.45": dt.datetime(*_DAY, 1, 2, 3, 450_000),
    "2020-01-03 01:02:03.4567": dt.datetime(*_DAY, 1, 2, 3, 456_700),
    "2020-01-03 01:02:03.45678": dt.datetime(*_DAY, 1, 2, 3, 456_780),
    "2020-01-03 01:02:03.456789": dt.datetime(*_DAY, 1, 2, 3, 456_789),
    "2020-01-03 01:02:03Z": dt.datetime(*_DAY, 1, 2, 3, tzinfo=dt.timezone.utc),
    "2020-01-03 01:02:03 UTC": dt.datetime(*_DAY, 1, 2, 3, tzinfo=dt.timezone.utc),
    "2020-01-03 01:02+01": dt.datetime(*_DAY, 1, 2, tzinfo=_HOUR),
    "2020-01-03 01:02:03+0100": dt.datetime(*_DAY, 1, 2, 3, tzinfo=_HOUR),
    "2020-01-03T01:02:03.5+01:00": dt.datetime(*_DAY, 1, 2, 3, 500_000, tzinfo=_HOUR),
    "2020-01-03 01:02:03-01:30": dt.datetime(*_DAY, 1, 2, 3, tzinfo=dt.timezone(-dt.timedelta(minutes=90))),
    " 2020-01-03\n": dt.datetime(*_DAY),
}
_REFUSED = [
    "",
    "soon",
    "20200103",
    "2020-W01-5",
    "2020-13-01",
    "2020-02-30",
    "0000-01-01",
    "2020-01-03x01:02:03",
    "2020-01-03 24:00",
    "2020-01-03 01:02:60",
    "2020-01-03 01:02:03,5",
    "2020-01-03 01:02:03.",
    "2020-01-03 01:02:03.1234567890",
    "2020-01-03 01:02+24:00",
    "2020-01-03 01:02+01:60",
    "2020-01-03 01",
    "2020-01-03Z",
    "\u0662020-01-03",
]


@pytest.mark.parametrize("text", _TAKEN)
def test_what_is_taken(builder: DeltaBuilder, text: str) -> None:
    """As an instant of the table, as text that is compared with a timestamp or a date, as a literal of SQL."""
    expected = _TAKEN[text]
    moment, beyond = parse_timestamp(text)
    assert (moment, moment.tzinfo is None, beyond) == (expected, expected.tzinfo is None, 0)
    instant = expected if expected.tzinfo is not None else expected.replace(tzinfo=dt.timezone.utc)
    at = pa.array([instant], pa.timestamp("us", "UTC"))
    rows = pa.table({"at": at, "day": pa.array([expected.date()], pa.date32())})
    builder.create(rows.schema, builder.add(rows), millis=int(instant.timestamp() * 1000))
    table = open_table(builder.root, timestamp=text)
    assert table.scan([("at", "=", text)]).count() == 1
    assert table.scan(f"at = TIMESTAMP '{text}'").count() == 1
    assert table.scan(f"day = DATE '{text}'").count() == 1
    with pytest.raises(LookupError, match="is before the first commit that can be read"):
        open_table(builder.root, timestamp=instant - dt.timedelta(seconds=1))


_TAKEN_BY_SPARK = ("0000-01-01", "2020-01-03 01", "2020-01-03 01:02:03.", "2020-01-03 01:02:03.1234567890")


@pytest.mark.parametrize("text", _REFUSED)
def test_what_is_not(builder: DeltaBuilder, text: str) -> None:
    builder.create(pa.schema([("at", pa.timestamp("us", "UTC")), ("day", pa.date32())]))
    table = open_table(builder.root)
    with pytest.raises(InvalidArgumentError, match="is not a timestamp"):
        open_table(builder.root, timestamp=text)
    conditions: tuple[Filter, ...] = (
        [("at", "=", text)],
        [("day", "=", text)],
        f"at = TIMESTAMP '{text}'",
        f"day = DATE '{text}'",
    )
    for condition in conditions:
        # Spark takes more texts than what names a version, and of a date what stands before a time.
        if text in _TAKEN_BY_SPARK or ("day" in str(condition) and text.startswith("2020-01-03 ")):
            assert table.scan(condition).count() == 0
            continue
        with pytest.raises(ExpressionError, match="cannot be compared"):
            table.scan(condition)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("day = '2020-01-03 00:00:00.000000001'", [3]),
        ("day < '2020-01-03 10:00:00'", [2]),
        ("day < '2020-01-03 10:00:00' AND id % 1 = 0", [2]),
        ("day < TIMESTAMP '2020-01-03 10:00:00'", [2, 3]),
        ("day < TIMESTAMP '2020-01-03 10:00:00' AND id % 1 = 0", [2, 3]),
        ("day <= '2020-01-02'", [2]),
        ("at > '0001-01-01 00:00:00+14:00'", [2, 3]),
        ("at < '9999-12-31 23:59:59-14:00'", [2, 3]),
    ],
)
def test_edges(builder: DeltaBuilder, condition: str, kept: list[int]) -> None:
    """Text beside a date is read as a date, as in Spark, and the first and last years have every offset."""
    days = [dt.date(2020, 1, 2), dt.date(2020, 1, 3)]
    instants = [dt.datetime(one.year, one.month, one.day, tzinfo=dt.timezone.utc) for one in days]
    at, day = pa.array(instants, pa.timestamp("us", "UTC")), pa.array(days, pa.date32())
    rows = pa.table({"at": at, "day": day, "id": [1, 2]})
    builder.create(rows.schema, builder.add(rows))
    found = open_table(builder.root).scan(condition).to_arrow()["day"].to_pylist()
    assert [one.day for one in found] == kept


def test_a_zone_leads_out_of_the_years_of_python(builder: DeltaBuilder) -> None:
    rows = pa.table({"day": pa.array([dt.date(1, 1, 1), None], pa.date32())})
    builder.create(rows.schema, builder.add(rows))
    scan = open_table(builder.root).scan("day > TIMESTAMP '0001-01-01 00:00:00+14:00'")
    assert scan.to_arrow()["day"].to_pylist() == [dt.date(1, 1, 1)]
    assert "'0001-01-01'" in repr(scan)


@pytest.mark.parametrize("millis", [-62_135_596_800_000, -1, 0, 1_600_000_000_123, 253_402_300_799_999])
def test_instants_are_written_as_they_are_read(millis: int) -> None:
    moment, _ = parse_timestamp(format_instant(millis))
    assert (moment - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(milliseconds=1) == millis


@pytest.mark.parametrize("millis", [-(1 << 63), (1 << 63) - 1])
def test_instants_that_are_no_date_are_numbers(millis: int) -> None:
    assert format_instant(millis) == f"{millis} ms since 1970"
