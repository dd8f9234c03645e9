"""Instants and wall clocks of a zone, as Java computes them for all years that 64 bits of microseconds reach."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.nodes import Outcome

__all__ = ["find_zone", "in_bounds", "move_readings", "to_instant", "to_local", "to_micros"]

_LOCAL, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")

_EPOCH = dt.datetime(1970, 1, 1)
#: The calendar, with its days of the week, repeats after 400 years.
_CYCLE = 146_097 * 86_400
#: Seconds between which every build of Arrow knows the rules of all zones: 1902-01-01 and 2037-01-01.
_KNOWN_FROM, _KNOWN_UNTIL = -2_145_916_800, 2_114_380_800
_YEAR_2, _YEAR_9000 = -62_104_060_800, 221_845_392_000


def find_zone(name: str) -> dt.tzinfo:
    """Return a zone by its name or its offset, as Spark reads it.

    Raises
    ------
    ValueError
        If the zone is not known.
    """
    if name in ("Z", "UTC", "GMT", "UT"):
        return dt.timezone.utc
    for prefix in ("UTC", "GMT", "UT"):
        if name.startswith((f"{prefix}+", f"{prefix}-")):
            name = name[len(prefix) :]
    if name[:1] in ("+", "-"):
        return _fixed(name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone") from None


def _fixed(text: str) -> dt.tzinfo:
    digits = text[1:].split(":") if ":" in text else [text[1:3], text[3:5], text[5:7]]
    parts = [part for part in digits if part]
    if not parts or len(parts) > 3 or not all(part.isdecimal() and len(part) <= 2 for part in parts):
        raise ValueError(f"{text!r} is not an offset")
    hours, minutes, seconds = [*map(int, parts), 0, 0][:3]
    if hours > 18 or minutes > 59 or seconds > 59 or hours * 3600 + minutes * 60 + seconds > 18 * 3600:
        raise ValueError(f"{text!r} is not an offset")
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-offset if text[0] == "-" else offset)


@lru_cache(maxsize=4096)
def _offset(zone: dt.tzinfo, seconds: int, is_local: bool) -> int:
    """Return the offset of a zone in seconds, at an instant or at a reading of its clock.

    A reading that occurs twice means the first time; one that is skipped is read with the offset before the gap.
    """
    if seconds > _YEAR_9000:
        seconds -= ((seconds - _YEAR_9000) // _CYCLE + 1) * _CYCLE
    moment = _EPOCH + dt.timedelta(seconds=max(seconds, _YEAR_2))
    aware = moment.replace(tzinfo=zone) if is_local else moment.replace(tzinfo=dt.timezone.utc).astimezone(zone)
    offset = aware.utcoffset() or dt.timedelta(0)
    return offset // dt.timedelta(seconds=1)


def to_micros(zone: dt.tzinfo, micros: int) -> int:
    """Return the instant at which a zone's clock shows a reading, both in microseconds since 1970."""
    return in_bounds(micros - _offset(zone, micros // 1_000_000, is_local=True) * 1_000_000)


def in_bounds(micros: int) -> int:
    """Return microseconds.

    Raises
    ------
    OverflowError
        If they do not fit into 64 bits.
    """
    if not -(1 << 63) <= micros < 1 << 63:
        raise OverflowError("beyond the timestamps")
    return micros


def to_local(values: pa.Array, zone: dt.tzinfo) -> Outcome:
    """Return the readings of a zone's clock at instants."""
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return _moved(values, fixed, _LOCAL)
    if _is_known(values) and isinstance(zone, ZoneInfo):
        try:
            return Outcome(pc.local_timestamp(values.cast(pa.timestamp("us", str(zone)))))
        except pa.ArrowInvalid:
            # There is no database of zones.
            pass

    def local(micros: int) -> int:
        return in_bounds(micros + _offset(zone, micros // 1_000_000, is_local=False) * 1_000_000)

    return _by_distinct(values, local, _LOCAL)


def to_instant(values: pa.Array, zone: dt.tzinfo) -> Outcome:
    """Return the instants at which a zone's clock shows readings."""
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return _moved(values, -fixed, _INSTANT)
    if _is_known(values) and isinstance(zone, ZoneInfo):
        try:
            found = pc.assume_timezone(values, str(zone), ambiguous="earliest", nonexistent="raise")
            return Outcome(found.cast(_INSTANT))
        except pa.ArrowInvalid:
            # A reading is skipped, or there is no database of zones.
            pass
    return _by_distinct(values, lambda micros: to_micros(zone, micros), _INSTANT)


def move_readings(instants: pa.Array, readings: pa.Array, target: pa.Array, zone: dt.tzinfo) -> Outcome:
    """Return the instants of target readings. One that occurs twice keeps the offset that its instant had before."""
    moved = pc.subtract(target.cast(pa.int64()), readings.cast(pa.int64()))
    kept = pc.add(instants.cast(pa.int64()), moved).cast(_INSTANT)
    shown, found = to_local(kept, zone), to_instant(target, zone)
    return Outcome(pc.if_else(pc.equal(shown.values, target), kept, found.values), found.failures)


def _fixed_offset(zone: dt.tzinfo) -> int | None:
    """Return the offset of a zone in microseconds, if it never changes."""
    if isinstance(zone, dt.timezone):
        return zone.utcoffset(None) // dt.timedelta(microseconds=1)
    return 0 if str(zone) in ("UTC", "Etc/UTC") else None


def _moved(values: pa.Array, micros: int, kind: pa.DataType) -> Outcome:
    plain = values.cast(pa.int64())
    try:
        return Outcome((pc.add_checked(plain, pa.scalar(micros)) if micros else plain).cast(kind))
    except pa.ArrowInvalid:
        return _by_distinct(values, lambda moment: in_bounds(moment + micros), kind)


def _is_known(values: pa.Array) -> bool:
    found = pc.min_max(values.cast(pa.int64()))
    first, last = found["min"].as_py(), found["max"].as_py()
    return first is None or (first >= _KNOWN_FROM * 1_000_000 and last < _KNOWN_UNTIL * 1_000_000)


def _by_distinct(values: pa.Array, move: Callable[[int], int], kind: pa.DataType) -> Outcome:
    found = each_distinct(move, pa.int64(), "a timestamp is beyond the timestamps", values.cast(pa.int64()))
    return Outcome(found.values.cast(kind), found.failures)
