"""Readings of a clock as text, by the parts of a pattern of Spark: yyyy, MM, dd, HH, mm and ss."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.date_parts import floor_divide, time_of_day
from deltaberg.expressions.values.intervals import DAY_MICROS
from deltaberg.expressions.values.moments import format_date

__all__ = ["FRACTION", "moment_text", "moments_as_text"]

#: The part that writes the fraction of the second with its point, without zeros at the end; nothing if it is zero.
FRACTION = "fraction"
_DATES: dict[str, Callable[[str], str]] = {
    "yyyy": lambda date: date[:-6],
    "MM": lambda date: date[-5:-3],
    "dd": lambda date: date[-2:],
}
_TIMES = {"HH": (3_600_000_000, 24), "mm": (60_000_000, 60), "ss": (1_000_000, 60)}
_TWO_DIGITS = pa.array([f"{number:02}" for number in range(60)])
_PLAIN = ("yyyy", "-", "MM", "-", "dd", " ", "HH", ":", "mm", ":", "ss", FRACTION)


def moment_text(readings: pa.Array, parts: Sequence[str]) -> pa.Array:
    """Return readings as text. Text that is not part of the pattern is written as it is."""
    micros = readings.cast(pa.int64())
    days, time = floor_divide(micros, DAY_MICROS), time_of_day(readings)
    return pc.binary_join_element_wise(*(_written(part, days, time) for part in parts), "", null_handling="emit_null")


def moments_as_text(readings: pa.Array) -> pa.Array:
    """Return readings as text, as CAST does."""
    return moment_text(readings, _PLAIN)


def _written(part: str, days: pa.Array, time: pa.Array) -> pa.Array | pa.Scalar:
    if part in _DATES:
        cut = _DATES[part]
        return each_distinct(lambda day: cut(format_date(day)), pa.string(), "", days).values
    if part in _TIMES:
        unit, count = _TIMES[part]
        return _TWO_DIGITS.take(_rest(floor_divide(time, unit), count))
    if part == FRACTION:
        return _fraction(_rest(time, 1_000_000))
    return pa.scalar(part)


def _rest(values: pa.Array, divisor: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(floor_divide(values, divisor), pa.scalar(divisor)))


def _fraction(micros: pa.Array) -> pa.Array:
    digits = pc.utf8_rtrim(pc.utf8_lpad(micros.cast(pa.string()), 6, "0"), "0")
    return pc.if_else(pc.equal(digits, ""), "", pc.binary_join_element_wise("", digits, "."))
