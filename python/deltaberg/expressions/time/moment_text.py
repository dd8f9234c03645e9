"""Dates and times as text, by the parts of a pattern of Spark, with the names of days and months in English."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.time.moments import format_date, year_month_day
from deltaberg.expressions.time.zones import Clock
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.convert import floor_divide

__all__ = ["FRACTION", "is_written", "moment_text", "moments_as_text"]

#: The part that writes the fraction of the second with its point, without zeros at the end; nothing if it is zero.
FRACTION = "fraction"
_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def _month(days: int) -> str:
    return _MONTHS[year_month_day(days)[1] - 1]


def _day(days: int) -> str:
    return _DAYS[(days + 3) % 7]


_DATES: dict[str, Callable[[int], str]] = {
    "yyyy": lambda days: format_date(days)[:-6],
    "yy": lambda days: f"{abs(year_month_day(days)[0]) % 100:02}",
    "MMMM": _month,
    "MMM": lambda days: _month(days)[:3],
    "MM": lambda days: format_date(days)[-5:-3],
    "M": lambda days: str(year_month_day(days)[1]),
    "dd": lambda days: format_date(days)[-2:],
    "d": lambda days: str(year_month_day(days)[2]),
    "EEEE": _day,
    **dict.fromkeys(("E", "EE", "EEE"), lambda days: _day(days)[:3]),
}
_UNITS = {"H": (3_600_000_000, 24), "m": (60_000_000, 60), "s": (1_000_000, 60)}
_ONE_DIGIT = pv.array([str(number) for number in range(60)], pa.string())
_TWO_DIGITS = pv.array([f"{number:02}" for number in range(60)], pa.string())
#: Text for each hour of the day.
_HOURS = {
    "a": pv.array(["AM"] * 12 + ["PM"] * 12, pa.string()),
    "h": pv.array([str((hour - 1) % 12 + 1) for hour in range(24)], pa.string()),
    "hh": pv.array([f"{(hour - 1) % 12 + 1:02}" for hour in range(24)], pa.string()),
}
_PLAIN = ("yyyy", "-", "MM", "-", "dd", " ", "HH", ":", "mm", ":", "ss", FRACTION)


def moment_text(clock: Clock, parts: Sequence[str]) -> pa.Array:
    """Return what a clock shows as text.

    Parameters
    ----------
    parts
        Letters as `is_written` knows them, marks, and other text after a quote.
    """
    texts = (_written(part, clock.days, clock.micros) for part in parts)
    return pc.binary_join_element_wise(*texts, pv.scalar(""), null_handling="emit_null")


def is_written(letters: str) -> bool:
    """Return whether a run of a letter in a pattern can be written."""
    is_clock = letters[0] in _UNITS and len(letters) <= 2
    return letters in _DATES or letters in _HOURS or is_clock or (letters[0] == "S" and len(letters) <= 9)


def moments_as_text(clock: Clock) -> pa.Array:
    """Return what a clock shows as text, as CAST does."""
    return moment_text(clock, _PLAIN)


def _written(part: str, days: pa.Array, time: pa.Array) -> pa.Array | pa.Scalar:
    if part == FRACTION:
        return _fraction(_rest(time, 1_000_000))
    if part[0] == "'" or not part.isalpha():
        return pv.scalar(part.removeprefix("'"))
    if part in _DATES:
        return each_distinct(_DATES[part], pa.string(), "", days).values
    if part in _HOURS:
        return _HOURS[part].take(floor_divide(time, _UNITS["H"][0]))
    if part[0] == "S":
        digits = pc.utf8_rpad(pc.utf8_lpad(_rest(time, 1_000_000).cast(pa.string()), 6, "0"), 9, "0")
        return pc.utf8_slice_codeunits(digits, 0, len(part))
    unit, count = _UNITS[part[0]]
    return (_TWO_DIGITS if len(part) == 2 else _ONE_DIGIT).take(_rest(floor_divide(time, unit), count))


def _rest(values: pa.Array, divisor: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(floor_divide(values, divisor), pv.scalar(divisor)))


def _fraction(micros: pa.Array) -> pa.Array:
    digits = pc.utf8_rtrim(pc.utf8_lpad(micros.cast(pa.string()), 6, "0"), "0")
    return pc.if_else(
        pc.equal(digits, pv.scalar("")),
        pv.scalar(""),
        pc.binary_join_element_wise(pv.scalar(""), digits, pv.scalar(".")),
    )
