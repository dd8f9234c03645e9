"""Reading dates and timestamps as Spark's casts do, and writing them, in all years that the types reach."""

from __future__ import annotations

import datetime as dt
import re

from deltaberg.expressions.time.zones import find_zone, to_micros

__all__ = ["days_of", "format_date", "parse_date", "parse_moment", "parse_nanos", "trimmed", "year_month_day"]

_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_MOMENT = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T]"
    r"(?:(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?)?)?"
    r"(?P<zone>.*))?)?)?)?",
    re.DOTALL,
)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097
#: What Spark takes off both ends of text: white space, and the control characters.
_BLANK = "".join(map(chr, range(0x21))) + "\x7f"


def trimmed(text: str) -> str:
    """Return text without the blanks and control characters at its ends."""
    return text.strip(_BLANK)


def days_of(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date, in the calendar that Gregory's rules yield for all years.

    Raises
    ------
    ValueError
        If there is no such date.
    """
    cycles, inside = divmod(year - 1, 400)
    return dt.date(inside + 1, month, day).toordinal() - _EPOCH_DAY + cycles * _CYCLE_DAYS


def year_month_day(days: int) -> tuple[int, int, int]:
    """Return the date that lies so many days after 1970-01-01."""
    cycles, inside = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    date = dt.date.fromordinal(inside + 1)
    return date.year + cycles * 400, date.month, date.day


def parse_date(text: str) -> int:
    """Return the days since 1970 of a date in text. A time after it is not read.

    Raises
    ------
    ValueError
        If the text is not a date.
    """
    found = _DATE.fullmatch(trimmed(text))
    if found is None:
        raise ValueError(f"{text!r} is not a date")
    days = days_of(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    if not -(1 << 31) <= days < 1 << 31:
        raise ValueError(f"{text!r} is beyond the dates")
    return days


def parse_nanos(text: str, zone: dt.tzinfo | None) -> int:
    """Return the nanoseconds since 1970 of a timestamp in text; otherwise as `parse_moment`."""
    micros, fraction = _parsed(text, zone)
    return micros * 1000 + int(fraction[6:9].ljust(3, "0"))


def parse_moment(text: str, zone: dt.tzinfo | None) -> int:
    """Return the microseconds since 1970 of a timestamp in text.

    Parameters
    ----------
    zone
        The zone of text that names none. With None, the result is the reading of a clock, and a zone in the text is
        not heeded.

    Raises
    ------
    ValueError
        If the text is not a timestamp.
    """
    return _parsed(text, zone)[0]


def _parsed(text: str, zone: dt.tzinfo | None) -> tuple[int, str]:
    """Return the microseconds since 1970 of a timestamp in text, and all digits of the fraction of its second."""
    parts = _MOMENT.fullmatch(trimmed(text))
    if parts is None:
        raise ValueError(f"{text!r} is not a timestamp")
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} has no time of a day")
    days = days_of(int(parts["year"]), int(parts["month"] or 1), int(parts["day"] or 1))
    fraction = parts["fraction"] or ""
    micros = ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    named = trimmed(parts["zone"] or "")
    if named:
        own = find_zone(named)
        zone = None if zone is None else own
    if zone is not None:
        micros = to_micros(zone, micros)
    if not -(1 << 63) <= micros < 1 << 63:
        raise ValueError(f"{text!r} is beyond the timestamps")
    return micros, fraction


def _year(year: int) -> str:
    if year > 9999:
        return f"+{year}"
    return f"{year:04}" if year >= 0 else f"-{-year:04}"


def format_date(days: int) -> str:
    """Write a date, with a sign before years beyond four digits."""
    year, month, day = year_month_day(days)
    return f"{_year(year)}-{month:02}-{day:02}"
