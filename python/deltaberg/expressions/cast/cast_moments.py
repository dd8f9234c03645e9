"""Casts between dates and timestamps, in microseconds and in nanoseconds."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.time.moments import parse_moment, parse_nanos
from deltaberg.expressions.time.zones import to_clock, to_instant, to_local
from deltaberg.expressions.tree.nodes import Kernel, Outcome, failed_where, then
from deltaberg.expressions.tree.types import DATE, MICROS_OF, NTZ, TIMESTAMP
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.convert import floor_divide
from deltaberg.schema.types import DataType

__all__ = ["midnight", "moment_cast", "moment_of_text"]

#: Dates whose midnights are timestamps.
_FIRST_DAY, _LAST_DAY = -106_751_991, 106_751_991
#: Microseconds that are timestamps of nanoseconds, from 1677 to 2262.
_FIRST_MICRO, _LAST_MICRO = -9_223_372_036_854_775, 9_223_372_036_854_775


def moment_of_text(to: DataType, zone: dt.tzinfo) -> Kernel:
    """Return the kernel of a cast from text to a type of timestamps. Text without a zone has the given one."""
    own = zone if MICROS_OF.get(to, to) == TIMESTAMP else None
    read = parse_nanos if to in MICROS_OF else parse_moment

    def parse(values: pa.Array) -> Outcome:
        message = f"a text is not a value of the type {to}"
        found = each_distinct(lambda text: read(text, own), pa.int64(), message, values)
        return Outcome(found.values.view(arrow_type(to)), found.failures)

    return parse


def moment_cast(source: DataType, to: DataType, zone: dt.tzinfo) -> Kernel:
    """Return the kernel of a cast from one type of dates and timestamps to another.

    Digits below the microsecond are lost in a date only: a timestamp that cannot have them fails.
    """
    if source not in MICROS_OF and to not in MICROS_OF:
        return _micros_cast(source, to, zone)
    coarse = MICROS_OF.get(source, source), MICROS_OF.get(to, to)
    move = _micros_cast(*coarse, zone) if coarse[0] != coarse[1] else None

    def convert(values: pa.Array) -> Outcome:
        micros, beyond = (values, None) if source not in MICROS_OF else _divided(values, coarse[0])
        moved = Outcome(micros) if move is None else then(Outcome(micros), move)
        if to in MICROS_OF:
            return then(moved, lambda coarse_values: _in_nanos(coarse_values, beyond, to))
        if beyond is None or to == DATE:
            return moved
        lost = failed_where(moved.values, pc.not_equal(beyond, 0), "a timestamp has digits below the microsecond")
        return Outcome(moved.values, (*moved.failures, *lost.failures))

    return convert


def _divided(values: pa.Array, micros: DataType) -> tuple[pa.Array, pa.Array]:
    """Return timestamps of nanoseconds as those of microseconds before them, and how many nanoseconds are left."""
    nanos = values.cast(pa.int64())
    whole = floor_divide(nanos, 1000)
    return whole.cast(arrow_type(micros)), pc.subtract(nanos, pc.multiply(whole, pa.scalar(1000, pa.int64())))


def _in_nanos(values: pa.Array, beyond: pa.Array | None, to: DataType) -> Outcome:
    """Return timestamps of microseconds, and the nanoseconds after them, as timestamps of nanoseconds."""
    micros = values.cast(pa.int64())
    # The last microsecond is cut short, so that not all nanoseconds fit behind it.
    last = pc.less_equal(micros, _LAST_MICRO) if beyond is None else pc.less(micros, _LAST_MICRO)
    fits = pc.and_(pc.greater_equal(micros, _FIRST_MICRO), last)
    nanos = pc.multiply(pc.if_else(fits, micros, pa.scalar(None, pa.int64())), pa.scalar(1000, pa.int64()))
    if beyond is not None:
        nanos = pc.add(nanos, beyond)
    return failed_where(
        nanos.cast(arrow_type(to)), pc.invert(fits), "a timestamp is beyond those of nanoseconds, from 1677 to 2262"
    )


def _micros_cast(given: DataType, to: DataType, zone: dt.tzinfo) -> Kernel:
    if given == DATE:
        return lambda values: midnight(values, None if to == NTZ else zone)
    if to == DATE:
        own = zone if given == TIMESTAMP else None
        return lambda values: to_clock(values, own).dates
    if to == NTZ:
        return lambda values: to_local(values, zone)
    return lambda values: to_instant(values, zone)


def midnight(values: pa.Array, zone: dt.tzinfo | None) -> Outcome:
    """Return the timestamps at which dates begin, by the clock of a zone, or without a zone."""
    days = values.cast(pa.int32())
    beyond = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    if pc.any(beyond).as_py():
        values = pc.if_else(beyond, pa.scalar(None, pa.date32()), values)
    found = values.cast(pa.timestamp("us"))
    midnights = failed_where(found, beyond, "a date is beyond the timestamps")
    return midnights if zone is None else then(midnights, lambda readings: to_instant(readings, zone))
