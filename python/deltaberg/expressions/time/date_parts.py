"""Parts of dates and of readings of a clock, and what they are cut to, in all years that the types reach."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.time.moments import days_of, year_month_day
from deltaberg.expressions.tree.nodes import Outcome
from deltaberg.schema.convert import floor_divide

__all__ = ["DATE_PARTS", "TIME_PARTS", "UNITS", "cut_days", "last_days", "month_length", "wrapped_days"]

#: Days of years that Arrow's calendar knows, which counts years in 16 bits.
_FIRST, _LAST = -11_000_000, 11_000_000


def wrapped_days(days: pa.Array) -> pa.Array:
    """Return numbers of days as dates. Beyond the last date they begin with the first one again, as in Spark."""
    return days.cast(pa.int32(), safe=False).cast(pa.date32())


def _by_calendar(compute: Callable[[pa.Array], pa.Array], find: Callable[[int], int]) -> Callable[[pa.Array], pa.Array]:
    def part(days: pa.Array) -> pa.Array:
        counted = days.cast(pa.int32())
        found = pc.min_max(counted)
        first, last = found["min"].as_py(), found["max"].as_py()
        if first is None or (first > _FIRST and last < _LAST):
            return compute(days).cast(pa.int32())
        return each_distinct(find, pa.int32(), "", counted).values

    return part


def _by_weekday(first: int) -> Callable[[pa.Array], pa.Array]:
    """Return the number of the day of the week, of which 1970-01-01, a Thursday, has the one given, counted from 0."""

    def part(days: pa.Array) -> pa.Array:
        counted = pc.add(days.cast(pa.int32()).cast(pa.int64()), pa.scalar(first, pa.int64()))
        week = pc.multiply(floor_divide(counted, 7), pa.scalar(7))
        return pc.subtract(counted, week).cast(pa.int32())

    return part


def _day_of_year(days: int) -> int:
    return days - days_of(year_month_day(days)[0], 1, 1) + 1


def _iso(days: int) -> tuple[int, int]:
    cycles, inside = divmod(days, 146_097)
    year, week, _ = (dt.date(1970, 1, 1) + dt.timedelta(days=inside)).isocalendar()
    return year + cycles * 400, week


def _iso_year(values: pa.Array) -> pa.Array:
    return pc.iso_year(values)


def _plus_one(part: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    return lambda days: pc.add(part(days), pa.scalar(1, pa.int32()))


#: Parts of dates, by the names of the functions. Each takes dates.
DATE_PARTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "year": _by_calendar(pc.year, lambda days: year_month_day(days)[0]),
    "quarter": _by_calendar(pc.quarter, lambda days: (year_month_day(days)[1] + 2) // 3),
    "month": _by_calendar(pc.month, lambda days: year_month_day(days)[1]),
    "day": _by_calendar(pc.day, lambda days: year_month_day(days)[2]),
    "dayofyear": _by_calendar(pc.day_of_year, _day_of_year),
    "weekofyear": _by_calendar(pc.iso_week, lambda days: _iso(days)[1]),
    "yearofweek": _by_calendar(_iso_year, lambda days: _iso(days)[0]),
    "dayofweek": _plus_one(_by_weekday(4)),
    "weekday": _by_weekday(3),
    "dayofweek_iso": _plus_one(_by_weekday(3)),
}
#: Parts of readings of a clock: the microseconds of a unit, and how many of them make the next one.
TIME_PARTS = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}
#: Units to which dates and timestamps are cut, by their names in Spark.
UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mm", "mon"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}


def cut_days(days: pa.Array, unit: str) -> Outcome:
    """Return the first day of the year, quarter, month or week of dates."""
    counted = days.cast(pa.int32()).cast(pa.int64())
    if unit == "quarter":
        found = each_distinct(_first_of_quarter, pa.int32(), "a quarter begins before the dates", counted)
        return Outcome(found.values.cast(pa.date32()), found.failures)
    if unit == "week":
        # Spark counts from the week before, so that the wrap changes which day of the first days is a Monday.
        before = wrapped_days(pc.subtract(counted, pa.scalar(7))).cast(pa.int32()).cast(pa.int64())
        rest = pc.subtract(pa.scalar(3), before).cast(pa.int32(), safe=False).cast(pa.int64())
        days_left = pc.subtract(rest, pc.multiply(floor_divide(rest, 7), pa.scalar(7)))
        return Outcome(wrapped_days(pc.add(pc.add(before, pa.scalar(1)), days_left)))
    since = DATE_PARTS["day" if unit == "month" else "dayofyear"](days)
    return Outcome(wrapped_days(pc.add(pc.subtract(counted, since), pa.scalar(1))))


def _first_of_quarter(days: int) -> int:
    year, month, _ = year_month_day(days)
    return days_of(year, (month - 1) // 3 * 3 + 1, 1)


def last_days(days: pa.Array) -> pa.Array:
    """Return the last day of the month of dates."""
    found = each_distinct(_last_of_month, pa.int64(), "", days.cast(pa.int32()))
    return wrapped_days(found.values)


def _last_of_month(days: int) -> int:
    year, month, _ = year_month_day(days)
    return days_of(year, month, month_length(year, month))


def month_length(year: int, month: int) -> int:
    """Return the number of days of a month."""
    following = (year + month // 12, month % 12 + 1)
    return days_of(*following, 1) - days_of(year, month, 1)
