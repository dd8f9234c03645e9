"""Parts of dates and of readings of a clock, and what they are cut to, in all years that the types reach."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.intervals import DAY_MICROS
from deltaberg.expressions.values.moments import days_of, year_month_day

__all__ = ["DATE_PARTS", "TIME_PARTS", "UNITS", "cut_days", "day_of", "floor_divide", "time_of_day"]

#: Days of years that Arrow's calendar knows, which counts years in 16 bits.
_FIRST, _LAST = -11_000_000, 11_000_000


def floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    """Divide 64-bit numbers, and round down."""
    by = pa.scalar(divisor, pa.int64())
    quotient = pc.divide(values, by)
    rest = pc.subtract(values, pc.multiply(quotient, by))
    return pc.subtract(quotient, pc.if_else(pc.less(rest, 0), pa.scalar(1), pa.scalar(0)))


def day_of(readings: pa.Array) -> pa.Array:
    """Return the dates of readings of a clock."""
    return floor_divide(readings.cast(pa.int64()), DAY_MICROS).cast(pa.int32()).cast(pa.date32())


def time_of_day(readings: pa.Array) -> pa.Array:
    """Return the microseconds since midnight of readings of a clock."""
    micros = readings.cast(pa.int64())
    return pc.subtract(micros, pc.multiply(floor_divide(micros, DAY_MICROS), pa.scalar(DAY_MICROS)))


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


def cut_days(days: pa.Array, unit: str) -> pa.Array:
    """Return the first day of the year, quarter, month or week of dates."""
    if unit == "week":
        return pc.subtract(days.cast(pa.int32()), DATE_PARTS["weekday"](days)).cast(pa.date32())
    return each_distinct(lambda day: _first_day(day, unit), pa.int32(), "", days.cast(pa.int32())).values.cast(
        pa.date32()
    )


def _first_day(days: int, unit: str) -> int:
    year, month, _ = year_month_day(days)
    first = {"year": 1, "quarter": (month - 1) // 3 * 3 + 1}.get(unit, month)
    return days_of(year, first, 1)
