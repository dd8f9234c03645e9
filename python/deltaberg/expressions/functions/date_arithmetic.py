"""Dates and timestamps plus or minus intervals."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.time.date_parts import month_length
from deltaberg.expressions.time.intervals import DAY_MICROS
from deltaberg.expressions.time.moments import days_of, year_month_day
from deltaberg.expressions.time.zones import Clock, in_bounds, instants_of, to_clock
from deltaberg.expressions.tree.nodes import CallNode, LiteralNode, Node, Outcome, then
from deltaberg.expressions.tree.tree import Interval, IntervalType
from deltaberg.expressions.tree.types import DATE, INTEGER, LONG, NTZ, TIMESTAMP, is_integral

if TYPE_CHECKING:
    from deltaberg.expressions.functions.function import Context

__all__ = [
    "add_days",
    "add_months",
    "days_earlier",
    "days_later",
    "months_later",
    "refuse_moments",
    "shifted",
]

_BEYOND = "a timestamp is beyond the timestamps"


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


def days_later(operator: str, left: Node, right: Node, context: Context) -> Node | None:
    """Return a date plus or minus a whole number, which is of days; None if the operands are others."""
    if operator == "+" and right.type == DATE:
        left, right = right, left
    if operator not in ("+", "-") or left.type != DATE or not is_integral(right.type) or right.type == LONG:
        return None
    move = add_days if operator == "+" else days_earlier
    return CallNode(DATE, operator, (left, context.cast(right, INTEGER)), move)


def refuse_moments(operator: str, left: Node, right: Node) -> None:
    """Refuse what Spark computes of dates and timestamps without an interval or a number of days: differences.

    Raises
    ------
    UnsupportedExpressionError
        The operands are such.
    """
    kinds = (left.type, right.type)
    if operator == "-" and all(kind in (DATE, NTZ, TIMESTAMP) for kind in kinds):
        raise UnsupportedExpressionError(
            f"{operator} of {left.type} and {right.type} cannot be evaluated",
            hint="write datediff(end, start) for days, or subtract unix_micros of timestamps",
        )


def add_days(values: pa.Array, days: pa.Array | pa.Scalar) -> pa.Array:
    """Return dates so many days later. Beyond the last date the count wraps, as it does in Spark."""
    return pc.add(values.cast(pa.int32()), days.cast(pa.int32(), safe=False)).cast(pa.date32())


def days_earlier(values: pa.Array, days: pa.Array | pa.Scalar) -> pa.Array:
    """Return dates so many days earlier."""
    return add_days(values, pc.negate(days))


def months_later(days: int, months: int) -> int:
    """Return a date, in days since 1970, some months later, on the last day of the month where it is shorter."""
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
        lambda days: months_later(days, months), pa.int32(), "a date is beyond the dates", values.cast(pa.int32())
    )
    return Outcome(found.values.cast(pa.date32()), found.failures)


def _moved(values: pa.Array, months: int, days: int, micros: int, zone: dt.tzinfo) -> Outcome:
    """Move timestamps: whole months and days by the clock of the zone, the rest by the time that passes."""
    moved = Outcome(values.cast(pa.int64()).cast(pa.timestamp("us", "UTC")))
    if months or days:
        moved = _by_calendar(moved.values, months, days, zone)
    if micros:
        moved = then(
            moved,
            lambda moments: each_distinct(
                lambda moment: in_bounds(moment + micros), pa.int64(), _BEYOND, moments.cast(pa.int64())
            ),
        )
    return Outcome(moved.values.cast(pa.int64()).cast(values.type), moved.failures)


def _by_calendar(instants: pa.Array, months: int, days: int, zone: dt.tzinfo) -> Outcome:
    clock = to_clock(instants, zone)
    dates = Outcome(clock.days)
    if months:
        dates = each_distinct(lambda day: months_later(day, months), pa.int64(), _BEYOND, clock.days)
    moved = pc.add(dates.values, pa.scalar(days, pa.int64()))
    found = instants_of(Clock(moved, clock.micros), instants, zone)
    return Outcome(found.values, (*dates.failures, *found.failures))
