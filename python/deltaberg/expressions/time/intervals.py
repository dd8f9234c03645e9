"""Intervals as literals, such as ``INTERVAL 1 DAY`` and ``INTERVAL '1 02:03:04' DAY TO SECOND``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.tree.tree import Interval, IntervalType, Literal

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["DAY_MICROS", "interval_of"]

DAY_MICROS = 86_400_000_000
_MONTHS = {"year": 12, "month": 1}
_MICROS = {
    "week": 7 * DAY_MICROS,
    "day": DAY_MICROS,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,19})(?:\.([0-9]{1,6}))?")
_YEARS = re.compile(r"([+-]?)([0-9]{1,9})-([0-9]{1,2})")
_DAYS = re.compile(r"([+-]?)([0-9]{1,9}) ([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?)?")
_SPANS = {"year to month", "day to hour", "day to minute", "day to second"}


def interval_of(node: exp.Interval) -> Literal:
    """Return the literal that an interval in SQL text describes.

    Raises
    ------
    UnsupportedExpressionError
        If its length is not a literal, or its units are mixed.
    """
    from sqlglot import exp

    unit, length = node.args.get("unit"), node.this
    negative = isinstance(length, exp.Neg)
    if negative:
        length = length.this
    shown = node.sql(dialect="spark")
    if not isinstance(length, exp.Literal) or unit is None:
        raise _refused(shown)
    text = length.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        interval = _of_span(text, f"{unit.this.name} to {unit.expression.name}".lower(), shown)
    else:
        interval = _of_unit(text, unit.name.lower().removesuffix("s"), shown)
    if negative:
        interval = Interval(-interval.months, -interval.micros)
    if not -(1 << 31) <= interval.months < 1 << 31 or not -(1 << 63) <= interval.micros < 1 << 63:
        raise _refused(shown)
    return Literal(interval, IntervalType(_unit(node, interval)))


def _unit(node: exp.Interval, found: Interval) -> str:
    unit = node.args["unit"]
    # A span is as fine as its last unit: a date plus one from days to seconds is a timestamp.
    name = getattr(unit.args.get("expression") or unit, "name", "").lower().removesuffix("s")
    if name in _MONTHS or found.months or "MONTH" in node.sql().upper():
        return "month"
    return "day" if name in ("week", "day") else "second"


def _of_unit(text: str, unit: str, shown: str) -> Interval:
    match = _NUMBER.fullmatch(text)
    if match is None or (match[3] and unit != "second"):
        raise _refused(shown)
    sign = -1 if match[1] == "-" else 1
    if unit in _MONTHS:
        return Interval(months=sign * int(match[2]) * _MONTHS[unit])
    if unit not in _MICROS:
        raise _refused(shown)
    return Interval(micros=sign * (int(match[2]) * _MICROS[unit] + int((match[3] or "").ljust(6, "0"))))


def _of_span(text: str, span: str, shown: str) -> Interval:
    match = (_YEARS if span == "year to month" else _DAYS).fullmatch(text)
    if match is None or span not in _SPANS:
        raise _refused(shown)
    sign = -1 if match[1] == "-" else 1
    if span == "year to month":
        if int(match[3]) > 11:
            raise _refused(shown)
        return Interval(months=sign * (int(match[2]) * 12 + int(match[3])))
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:5])
    parts = {"day to hour": match[4] is None, "day to minute": match[4] is not None and match[5] is None}
    if hours > 23 or minutes > 59 or seconds > 59 or not parts.get(span, match[5] is not None):
        raise _refused(shown)
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((match[6] or "").ljust(6, "0"))
    return Interval(micros=sign * (days * DAY_MICROS + micros))


def _refused(shown: str) -> UnsupportedExpressionError:
    return UnsupportedExpressionError(
        f"{shown:.200} cannot be evaluated", hint="write one number and one unit, or a span such as DAY TO SECOND"
    )
