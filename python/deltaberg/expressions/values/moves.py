"""Dates and timestamps plus or minus intervals."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.intervals import DAY_MICROS
from deltaberg.expressions.values.kinds import DATE, NTZ, TIMESTAMP
from deltaberg.expressions.values.moments import days_of, year_month_day
from deltaberg.expressions.values.nodes import CallNode, LiteralNode, Node, Outcome
from deltaberg.expressions.values.tree import Interval, IntervalType
from deltaberg.expressions.values.zones import to_instant, to_local

if TYPE_CHECKING:
    from deltaberg.expressions.values.functions.function import Context

__all__ = ["add_days", "add_months", "month_length", "shifted"]

_INT64 = (1 << 63) - 1


def shifted(operator: str, left: Node, right: Node, context: Context) -> Node:
    """Return a date or timestamp plus or minus an interval.

    Raises
    ------
    UnsupportedExpressionError
        If the operands are others.
    """
    if operator == "+" and isinstance(left.type, IntervalType):
        left, right = right, left
    interval = right.value if isinstance(right, LiteralNode) else None
    moves = operator in ("+", "-") and left.type in (DATE, NTZ, TIMESTAMP)
    if not moves or not isinstance(interval, Interval) or not isinstance(right.type, IntervalType):
        raise UnsupportedExpressionError(
            f"{operator} of {left.type} and {right.type} cannot be evaluated",
            hint="a literal interval can be added to a date or timestamp, or subtracted from it",
        )
    sign = -1 if operator == "-" else 1
    months, micros = sign * interval.months, sign * interval.micros
    if left.type == DATE and right.type.unit == "second":
        left = context.cast(left, TIMESTAMP)
    if left.type == DATE:
        days = micros // DAY_MICROS
        if right.type.unit == "month":
            return CallNode(DATE, operator, (left,), lambda values: add_months(values, months))
        return CallNode(DATE, operator, (left,), lambda values: add_days(values, pa.scalar(days, pa.int64())))
    zone = context.zone if left.type == TIMESTAMP else dt.timezone.utc
    days, rest = abs(micros) // DAY_MICROS, abs(micros) % DAY_MICROS
    sign = -1 if micros < 0 else 1

    def move(values: pa.Array) -> Outcome:
        return _moved(values, months, sign * days, sign * rest, zone)

    return CallNode(left.type, operator, (left,), move)


def add_days(values: pa.Array, days: pa.Array | pa.Scalar) -> pa.Array:
    """Return dates so many days later. Beyond the last date the count wraps, as it does in Spark."""
    return pc.add(values.cast(pa.int32()), days.cast(pa.int32(), safe=False)).cast(pa.date32())


def month_length(year: int, month: int) -> int:
    """Return the number of days of a month."""
    following = (year + month // 12, month % 12 + 1)
    return days_of(*following, 1) - days_of(year, month, 1)


def _months_later(days: int, months: int) -> int:
    year, month, day = year_month_day(days)
    moved = year * 12 + month - 1 + months
    year, month = moved // 12, moved % 12 + 1
    found = days_of(year, month, min(day, month_length(year, month)))
    if not -(1 << 31) <= found < 1 << 31:
        raise OverflowError("beyond the dates")
    return found


def add_months(values: pa.Array, months: int) -> Outcome:
    """Return dates so many months later, on the last day of the month where it is shorter."""
    found = each_distinct(
        lambda days: _months_later(days, months), pa.int32(), "a date is beyond the dates", values.cast(pa.int32())
    )
    return Outcome(found.values.cast(pa.date32()), found.failures)


def _moved(values: pa.Array, months: int, days: int, micros: int, zone: dt.tzinfo) -> Outcome:
    """Move timestamps: whole months and days by the clock of the zone, the rest by the time that passes."""
    instant = values.cast(pa.timestamp("us", "UTC")) if values.type.tz is None else values
    local = to_local(instant, zone)

    def later(reading: int) -> int:
        day, rest = divmod(reading, DAY_MICROS)
        moved = (_months_later(day, months) if months else day) + days
        return _checked(moved * DAY_MICROS + rest)

    message = "a timestamp is beyond the timestamps"
    if months or days:
        found = each_distinct(later, pa.int64(), message, local.cast(pa.int64()))
        target, failures = found.values.cast(pa.timestamp("us")), found.failures
        kept = pc.add(instant.cast(pa.int64()), pc.subtract(target.cast(pa.int64()), local.cast(pa.int64())))
        kept = kept.cast(pa.timestamp("us", "UTC"))
        # A reading that occurs twice keeps the offset that it had.
        instant = pc.if_else(pc.equal(to_local(kept, zone), target), kept, to_instant(target, zone))
    else:
        failures = ()
    if micros:
        added = each_distinct(lambda moment: _checked(moment + micros), pa.int64(), message, instant.cast(pa.int64()))
        instant, failures = added.values, (*failures, *added.failures)
    return Outcome(instant.cast(values.type) if micros else _as(instant, values.type), failures)


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(pa.int64()).cast(kind)


def _checked(micros: int) -> int:
    if not -_INT64 - 1 <= micros <= _INT64:
        raise OverflowError("beyond the timestamps")
    return micros
