"""Instants and wall clocks of a zone, as Java computes them for all years that 64 bits of microseconds reach."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.by_row import each_distinct, each_row
from deltaberg.expressions.time.intervals import DAY_MICROS
from deltaberg.expressions.tree.nodes import Outcome
from deltaberg.schema.convert import floor_divide

__all__ = ["Clock", "find_zone", "in_bounds", "instants_of", "to_clock", "to_instant", "to_local", "to_micros"]

_LOCAL, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")

_EPOCH = dt.datetime(1970, 1, 1)
#: The calendar, with its days of the week, repeats after 400 years.
_CYCLE = 146_097 * 86_400
#: Seconds between which every build of Arrow knows the rules of all zones: 1902-01-01 and 2037-01-01.
_KNOWN_FROM, _KNOWN_UNTIL = -2_145_916_800, 2_114_380_800
_YEAR_2, _YEAR_9000 = -62_104_060_800, 221_845_392_000
_BEYOND = "a timestamp is beyond the timestamps"
#: Days before and after 1970 between which no sum of a timestamp and an offset leaves 64 bits.
_ROOMY_DAYS = 106_000_000


@dataclass(frozen=True)
class Clock:
    """The local date and time: days since 1970-01-01, and microseconds since midnight, both in 64 bits.

    A zone's clock shows something at every instant, but near the ends of the timestamps that is no ``timestamp_ntz``:
    its microseconds since 1970 would not fit into 64 bits.
    """

    days: pa.Array
    micros: pa.Array

    @property
    def dates(self) -> pa.Array:
        """The days as dates."""
        return self.days.cast(pa.int32()).cast(pa.date32())


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


def to_clock(values: pa.Array, zone: dt.tzinfo | None) -> Clock:
    """Return what a zone's clock shows at instants. Without a zone, the values are readings already."""
    plain = values.cast(pa.int64())
    days = floor_divide(plain, DAY_MICROS)
    # The product may wrap, and the difference then wraps back.
    micros = pc.subtract(plain, pc.multiply(days, pa.scalar(DAY_MICROS)))
    if zone is None:
        return Clock(days, micros)
    shown = pc.add(micros, _offsets(plain, zone))
    carried = floor_divide(shown, DAY_MICROS)
    return Clock(pc.add(days, carried), pc.subtract(shown, pc.multiply(carried, pa.scalar(DAY_MICROS))))


def to_local(values: pa.Array, zone: dt.tzinfo) -> Outcome:
    """Return the readings of a zone's clock at instants."""
    plain = values.cast(pa.int64())
    offsets = _offsets(plain, zone)
    try:
        return Outcome(pc.add_checked(plain, offsets).cast(_LOCAL))
    except pa.ArrowInvalid:
        found = each_row(lambda micros, offset: in_bounds(micros + offset), pa.int64(), _BEYOND, plain, offsets)
        return Outcome(found.values.cast(_LOCAL), found.failures)


def _offsets(plain: pa.Array, zone: dt.tzinfo) -> pa.Array | pa.Scalar:
    """Return the offsets of a zone at instants, all in microseconds."""
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return pa.scalar(fixed, pa.int64())
    if _is_known(plain) and isinstance(zone, ZoneInfo):
        try:
            shown = pc.local_timestamp(plain.cast(pa.timestamp("us", str(zone))))
            return pc.subtract(shown.cast(pa.int64()), plain)
        except pa.ArrowInvalid:
            # There is no database of zones.
            pass
    seconds = floor_divide(plain, 1_000_000)
    return each_distinct(lambda at: _offset(zone, at, is_local=False) * 1_000_000, pa.int64(), "", seconds).values


def to_instant(values: pa.Array, zone: dt.tzinfo) -> Outcome:
    """Return the instants at which a zone's clock shows readings."""
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return _moved(values, -fixed, _INSTANT)
    if _is_known(values.cast(pa.int64())) and isinstance(zone, ZoneInfo):
        try:
            found = pc.assume_timezone(values, str(zone), ambiguous="earliest", nonexistent="raise")
            return Outcome(found.cast(_INSTANT))
        except pa.ArrowInvalid:
            # A reading is skipped, or there is no database of zones.
            pass
    return _by_distinct(values, lambda micros: to_micros(zone, micros), _INSTANT)


def instants_of(shown: Clock, before: pa.Array, zone: dt.tzinfo) -> Outcome:
    """Return the instants at which a zone's clock shows something.

    Parameters
    ----------
    before
        Instants from which the clock was moved: what it shows twice has the offset that it had there, if it can.
    """
    plain = before.cast(pa.int64())
    found = pc.min_max(pa.chunked_array([shown.days, floor_divide(plain, DAY_MICROS)]))
    first, last = found["min"].as_py(), found["max"].as_py()
    if first is None or (first > -_ROOMY_DAYS and last < _ROOMY_DAYS):
        target = pc.add(pc.multiply(shown.days, pa.scalar(DAY_MICROS)), shown.micros)
        kept = pc.subtract(target, _offsets(plain, zone))
        moved = to_instant(target.cast(_LOCAL), zone)
        is_kept = pc.equal(pc.add(kept, _offsets(kept, zone)), target)
        return Outcome(pc.if_else(is_kept, kept.cast(_INSTANT), moved.values), moved.failures)

    def instant(day: int, rest: int, from_micros: int) -> int:
        reading = day * DAY_MICROS + rest
        kept = reading - _offset(zone, from_micros // 1_000_000, is_local=False) * 1_000_000
        if kept + _offset(zone, kept // 1_000_000, is_local=False) * 1_000_000 == reading:
            return in_bounds(kept)
        return to_micros(zone, reading)

    one_by_one = each_row(instant, pa.int64(), _BEYOND, shown.days, shown.micros, plain)
    return Outcome(one_by_one.values.cast(_INSTANT), one_by_one.failures)


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


def _is_known(plain: pa.Array) -> bool:
    found = pc.min_max(plain)
    first, last = found["min"].as_py(), found["max"].as_py()
    return first is None or (first >= _KNOWN_FROM * 1_000_000 and last < _KNOWN_UNTIL * 1_000_000)


def _by_distinct(values: pa.Array, move: Callable[[int], int], kind: pa.DataType) -> Outcome:
    found = each_distinct(move, pa.int64(), _BEYOND, values.cast(pa.int64()))
    return Outcome(found.values.cast(kind), found.failures)
