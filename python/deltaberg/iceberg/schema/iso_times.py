"""Dates and times as text, in the spellings of single values (Iceberg spec, Appendix D)."""

from __future__ import annotations

import datetime as dt
import re

__all__ = [
    "date_of_text",
    "nanos_of",
    "nanos_of_text",
    "text_of_nanos",
    "text_of_timestamp",
    "time_of_text",
    "timestamp_of_text",
]

_EPOCH = dt.datetime(1970, 1, 1)
_SECOND = dt.timedelta(seconds=1)
_NANOS = 1_000_000_000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?")


def date_of_text(found: str) -> dt.date:
    """Return a date; raise ValueError if the text is not one."""
    if not _DATE.fullmatch(found):
        raise ValueError(found)
    return dt.date.fromisoformat(found)


def time_of_text(found: str) -> dt.time:
    """Return a time of day, exact to the microsecond; raise ValueError if the text is not one."""
    seconds, nanos, zone = _clock(found)
    if zone:
        raise ValueError(found)
    return (_EPOCH + seconds + _micros(nanos)).time()


def timestamp_of_text(found: str, zoned: bool) -> dt.datetime:
    """Return a timestamp, exact to the microsecond, in UTC if ``zoned``; raise ValueError if the text is not one."""
    moment, nanos = _moment(found, zoned)
    return (moment + _micros(nanos)).replace(tzinfo=dt.timezone.utc if zoned else None)


def nanos_of_text(found: str, zoned: bool) -> int:
    """Return a timestamp in nanoseconds since 1970, since Python's own end at microseconds."""
    moment, nanos = _moment(found, zoned)
    return (moment - _EPOCH) // _SECOND * _NANOS + nanos


def text_of_timestamp(value: dt.datetime, zoned: bool) -> str:
    """Return the text of a timestamp; a ``zoned`` one is written in UTC.

    Raises
    ------
    ValueError
        If the timestamp has a zone and should not have one, or the other way round, or has nanoseconds, as those of
        pandas do.
    """
    if _nanoseconds(value):
        raise ValueError(value)
    return _text_of_micros(value, zoned)


def nanos_of(value: int | dt.datetime, zoned: bool) -> int:
    """Return the nanoseconds since 1970 of a timestamp, or a number of them as it is.

    Raises
    ------
    ValueError
        If the timestamp has a zone and should not have one, or the other way round.
    """
    if isinstance(value, int):
        return value
    return nanos_of_text(_text_of_micros(value, zoned), zoned) + _nanoseconds(value)


def _nanoseconds(value: dt.datetime) -> int:
    """Return the nanoseconds beyond the microseconds, which only the timestamps of pandas have."""
    return int(getattr(value, "nanosecond", 0))


def _text_of_micros(value: dt.datetime, zoned: bool) -> str:
    if (value.tzinfo is not None) != zoned:
        raise ValueError(value)
    return (value.astimezone(dt.timezone.utc) if zoned else value).isoformat("T", "microseconds")


def text_of_nanos(value: int, zoned: bool) -> str:
    """Return the text of a timestamp in nanoseconds since 1970."""
    seconds, nanos = divmod(value, _NANOS)
    return f"{(_EPOCH + seconds * _SECOND).isoformat()}.{nanos:09d}{'+00:00' if zoned else ''}"


def _clock(found: str) -> tuple[dt.timedelta, int, str]:
    """Return the whole seconds of a time of day, the nanoseconds beyond them, and the zone as it is written."""
    match = _CLOCK.fullmatch(found)
    if match is None:
        raise ValueError(found)
    time = dt.time.fromisoformat(match[1])
    seconds = dt.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second)
    return seconds, int((match[2] or "").ljust(9, "0")), match[3] or ""


def _moment(moment_text: str, zoned: bool) -> tuple[dt.datetime, int]:
    """Return the whole seconds of a timestamp, in UTC if it is zoned, and the nanoseconds beyond them."""
    date, _, clock = moment_text.partition("T")
    seconds, nanos, zone = _clock(clock)
    if bool(zone) != zoned:
        raise ValueError(moment_text)
    moment = dt.datetime.combine(date_of_text(date), dt.time()) + seconds
    if len(zone) > 1:
        offset = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
        moment += offset if zone[0] == "-" else -offset
    return moment, nanos


def _micros(nanos: int) -> dt.timedelta:
    micros, lost = divmod(nanos, 1000)
    if lost:
        raise ValueError(nanos)
    return dt.timedelta(microseconds=micros)
