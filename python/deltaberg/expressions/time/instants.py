"""Reading and writing dates and timestamps as callers spell them.

What Python's own ``fromisoformat`` accepts depends on the version of Python.
"""

from __future__ import annotations

import datetime as dt
import re

__all__ = ["format_instant", "parse_time", "parse_timestamp"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)

_TIMESTAMP = re.compile(
    r"(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
    r"(?:[T ](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r" ?(?P<zone>Z|UTC|[+-][0-9]{1,2}(?::?[0-9]{2}(?::?[0-9]{2})?)?)?)?)?)?"
)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6}))?)?")
_OFFSET = re.compile(r"([+-])([0-9]{1,2}):?([0-9]{2})?:?([0-9]{2})?")


def parse_timestamp(text: str) -> tuple[dt.datetime, int]:
    """Read a timestamp. Return it, and its nanoseconds beyond the microsecond.

    As in Spark, the time, the day and the month may be left out, and so may leading zeros. The zone is ``Z``, ``UTC``
    or an offset such as ``+01``, ``+0100`` or ``+01:00``. Text without a zone yields a naive datetime.

    Raises
    ------
    ValueError
        If the text is not a timestamp between the years 1 and 9999.

    Examples
    --------
    >>> parse_timestamp("2020-1-3")
    (datetime.datetime(2020, 1, 3, 0, 0), 0)
    >>> parse_timestamp("2020-01-03T12:30:00.5+0100")[0].isoformat()
    '2020-01-03T12:30:00.500000+01:00'
    """
    parts = _TIMESTAMP.fullmatch(text.strip())
    if parts is None:
        raise ValueError(f"{text!r} is not a timestamp")
    digits = (parts["fraction"] or "").ljust(9, "0")
    moment = dt.datetime(
        int(parts["year"]),
        int(parts["month"] or 1),
        int(parts["day"] or 1),
        int(parts["hour"] or 0),
        int(parts["minute"] or 0),
        int(parts["second"] or 0),
        int(digits[:6]),
        None if parts["zone"] is None else _zone(parts["zone"]),
    )
    return moment, int(digits[6:])


def parse_time(text: str) -> dt.time:
    """Read the time of a day, of which the seconds may be left out.

    Raises
    ------
    ValueError
        If the text is not a time, or has digits below the microsecond.

    Examples
    --------
    >>> parse_time("23:59:01.5")
    datetime.time(23, 59, 1, 500000)
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not the time of a day")
    hour, minute, second, fraction = found.groups()
    return dt.time(int(hour), int(minute), int(second or 0), int((fraction or "").ljust(6, "0")))


def format_instant(millis: int) -> str:
    """Format an instant, in milliseconds since 1970, as text in UTC that `parse_timestamp` reads.

    Examples
    --------
    >>> format_instant(1_600_000_000_123)
    '2020-09-13 12:26:40.123+00:00'
    """
    try:
        return (_EPOCH + dt.timedelta(milliseconds=millis)).isoformat(sep=" ", timespec="milliseconds")
    except OverflowError:
        return f"{millis} ms since 1970"


def _zone(text: str) -> dt.timezone:
    parts = _OFFSET.fullmatch(text)
    if parts is None:
        return dt.timezone.utc
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()[1:])
    if minutes > 59 or seconds > 59:
        raise ValueError(f"{text} is not an offset")
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-offset if parts[1] == "-" else offset)
