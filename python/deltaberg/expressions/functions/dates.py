"""Functions of dates and timestamps. The clock is that of the zone in which a value is bound."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.cast.cast_moments import midnight
from deltaberg.expressions.cast.casts import forgiving_cast
from deltaberg.expressions.compute.arithmetic import fit_integer
from deltaberg.expressions.compute.by_row import each_distinct, each_row
from deltaberg.expressions.functions.date_arithmetic import add_days, days_earlier, months_later
from deltaberg.expressions.functions.function import Context, Function, simple, wrong_types
from deltaberg.expressions.time.date_parts import DATE_PARTS, TIME_PARTS, UNITS, cut_days, last_days
from deltaberg.expressions.time.intervals import DAY_MICROS
from deltaberg.expressions.time.moment_patterns import moment_reader, pattern_parts, refused
from deltaberg.expressions.time.moment_text import is_written, moment_text
from deltaberg.expressions.time.moments import days_of
from deltaberg.expressions.time.zones import Clock, instants_of, to_clock
from deltaberg.expressions.tree.nodes import CallNode, Datum, LiteralNode, Node, Outcome, null_where_failed, then
from deltaberg.expressions.tree.types import DATE, INTEGER, LONG, NTZ, STRING, TIMESTAMP, VOID, is_integral
from deltaberg.schema.convert import floor_divide
from deltaberg.schema.types import DataType, Decimal

__all__ = ["DATES"]


def _by_clock(
    context: Context, node: Node, function: str, kind: DataType, compute: Callable[[Clock], pa.Array]
) -> Node:
    """Return a function of what the clock shows at a timestamp or at the start of a date."""
    if node.type in (STRING, VOID, DATE):
        node = context.convert(node, TIMESTAMP, function)
    if node.type not in (NTZ, TIMESTAMP):
        raise wrong_types(function, (node,))
    zone = context.zone if node.type == TIMESTAMP else None
    return CallNode(kind, function, (node,), lambda values: compute(to_clock(values, zone)))


def _date_part(name: str, summary: str, part: str | None = None) -> Function:
    compute = DATE_PARTS[part or name]
    return simple(name, "date", summary, [DATE], INTEGER, compute)


def _time_part(name: str, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        return _by_clock(context, nodes[0], name, INTEGER, lambda clock: _part_of_day(clock, name))

    return Function(name, "timestamp", summary, (1, 1), bind)


def _part_of_day(clock: Clock, name: str) -> pa.Array:
    unit, count = TIME_PARTS[name]
    found = floor_divide(clock.micros, unit)
    return pc.subtract(found, pc.multiply(floor_divide(found, count), pa.scalar(count))).cast(pa.int32())


_EXTRACTED = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("yearofweek",), "yearofweek"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "dayofweek_iso"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "second"),
}


def _extract(context: Context, nodes: Sequence[Node]) -> Node:
    field, source = nodes
    name = field.scalar.as_py() if isinstance(field, LiteralNode) and field.type == STRING else None
    part = _EXTRACTED.get(str(name).lower())
    if part is None:
        raise UnsupportedExpressionError(f"date_part of {name!r} cannot be evaluated")
    if part == "second":
        return _by_clock(context, source, "date_part", Decimal(8, 6), _seconds_with_fraction)
    if part in TIME_PARTS:
        return DATES[part].bind(context, (source,))
    date = context.convert(source, DATE, "date_part")
    return CallNode(INTEGER, part, (date,), DATE_PARTS[part])


def _seconds_with_fraction(clock: Clock) -> pa.Array:
    minutes = pc.multiply(floor_divide(clock.micros, 60_000_000), pa.scalar(60_000_000))
    rest = pc.subtract(clock.micros, minutes)
    whole = rest.cast(pa.decimal128(19, 0)).cast(pa.decimal128(25, 6))
    scaled = pc.multiply(whole.cast(pa.decimal256(25, 6)), pa.scalar("0.000001").cast(pa.decimal256(7, 6)))
    return scaled.cast(pa.decimal128(8, 6))


def _date_add(name: str, move: Callable[[Datum, Datum], pa.Array], summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        date = context.convert(nodes[0], DATE, name)
        days = nodes[1]
        if is_integral(days.type) and days.type == LONG:
            raise wrong_types(name, nodes)
        return CallNode(DATE, name, (date, context.convert(days, INTEGER, name)), move)

    return Function(name, "date, days", summary, (2, 2), bind)


def _difference(end: Datum, start: Datum) -> pa.Array:
    return pc.subtract(end.cast(pa.int32()), start.cast(pa.int32()))


def _months_added(dates: Datum, months: Datum) -> Outcome:
    found = each_row(months_later, pa.int32(), "a date is beyond the dates", dates.cast(pa.int32()), months)
    return Outcome(found.values.cast(pa.date32()), found.failures)


def _unit(node: Node, function: str) -> str | None:
    if not isinstance(node, LiteralNode) or node.type != STRING:
        raise UnsupportedExpressionError(f"{function} to a unit that is not a literal cannot be evaluated")
    return UNITS.get(str(node.scalar.as_py()).lower())


def _trunc(context: Context, nodes: Sequence[Node]) -> Node:
    date, unit = context.convert(nodes[0], DATE, "trunc"), _unit(nodes[1], "trunc")
    if unit not in ("year", "quarter", "month", "week"):
        return LiteralNode(DATE, pa.scalar(None, pa.date32()))
    return CallNode(DATE, "trunc", (date,), lambda values: cut_days(values, unit))


def _date_trunc(context: Context, nodes: Sequence[Node]) -> Node:
    unit, moment = _unit(nodes[0], "date_trunc"), nodes[1]
    if moment.type in (STRING, VOID, DATE, NTZ):
        moment = context.cast(moment, TIMESTAMP)
    if moment.type != TIMESTAMP:
        raise wrong_types("date_trunc", nodes)
    if unit is None:
        return LiteralNode(TIMESTAMP, pa.scalar(None, pa.timestamp("us", "UTC")))
    return CallNode(TIMESTAMP, "date_trunc", (moment,), lambda values: _cut(values, unit, context.zone))


#: Units of which a zone's clock tells nothing else than any other, and those that a day has, in microseconds.
_STEPS = {"microsecond": 1, "millisecond": 1000, "second": 1_000_000}
_SPANS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": DAY_MICROS}


def _cut(values: pa.Array, unit: str, zone: dt.tzinfo) -> pa.Array | Outcome:
    if unit in _STEPS:
        step = _STEPS[unit]
        return pc.multiply(floor_divide(values.cast(pa.int64()), step), pa.scalar(step)).cast(values.type)
    clock = to_clock(values, zone)
    if unit not in _SPANS:
        return then(cut_days(clock.dates, unit), lambda dates: midnight(dates, zone))
    span = _SPANS[unit]
    begun = pc.multiply(floor_divide(clock.micros, span), pa.scalar(span))
    return instants_of(Clock(clock.days, begun), values, zone)


def _read_as(kind: DataType, name: str, forgives: bool = False) -> Callable[[Context, Sequence[Node]], Node]:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        if len(nodes) == 1:
            node = context.cast(nodes[0], kind)
            # Only texts are forgiven: a date beyond the timestamps also fails in Spark.
            node = forgiving_cast(node, nodes[0], name) if forgives and nodes[0].type == STRING else node
        elif nodes[0].type in (STRING, VOID):
            read = moment_reader(_literal_text(nodes[1]), name, context.zone)
            text = context.cast(nodes[0], STRING)
            read_all = CallNode(TIMESTAMP, name, (text,), lambda values: _moments(read, values, name))
            node = null_where_failed(read_all, name) if forgives else read_all
        else:
            raise UnsupportedExpressionError(
                f"{name} of a value of type {nodes[0].type} with a pattern cannot be evaluated", hint="use CAST"
            )
        return context.cast(node, kind)

    return bind


def _moments(read: Callable[[str], int], values: pa.Array, name: str) -> Outcome:
    found = each_distinct(read, pa.int64(), f"a text does not fit the pattern of {name}", values)
    return Outcome(found.values.cast(pa.timestamp("us", "UTC")), found.failures)


def _make_date(year: Datum, month: Datum, day: Datum) -> Outcome:
    found = each_row(days_of, pa.int32(), "there is no such date", year, month, day)
    return Outcome(found.values.cast(pa.date32()), found.failures)


def _date_format(context: Context, nodes: Sequence[Node]) -> Node:
    pattern = _literal_text(nodes[1])
    parts = pattern_parts(pattern, "date_format")
    if not all(is_written(part) for part in parts if part.isascii() and part.isalpha()):
        raise refused(pattern, "date_format")
    shown = [part.removesuffix("'") for part in parts]
    moment = context.convert(nodes[0], TIMESTAMP, "date_format")
    return _by_clock(context, moment, "date_format", STRING, lambda clock: moment_text(clock, shown))


def _literal_text(node: Node) -> str | None:
    """Return the text of a literal; None for any other node."""
    found = node.scalar.as_py() if isinstance(node, LiteralNode) and node.type == STRING else None
    return found if isinstance(found, str) else None


def _current(name: str) -> Function:
    def bind(context: Context, _: Sequence[Node]) -> Node:
        now = LiteralNode(TIMESTAMP, pa.scalar(context.now, pa.timestamp("us", "UTC")))
        kind = {"current_date": DATE, "curdate": DATE, "localtimestamp": NTZ}.get(name, TIMESTAMP)
        return context.cast(now, kind)

    what = {"current_date": "date", "curdate": "date", "localtimestamp": "reading of the clock"}.get(name, "time")
    return Function(name, "", f"the {what} at which the value was bound", (0, 0), bind)


def _unix_date(context: Context, nodes: Sequence[Node]) -> Node:
    if nodes[0].type not in (DATE, VOID):
        raise wrong_types("unix_date", nodes)
    date = context.cast(nodes[0], DATE)
    return CallNode(INTEGER, "unix_date", (date,), lambda dates: dates.cast(pa.int32()))


def _unix(name: str, step: int, summary: str) -> Function:
    def count(values: pa.Array) -> pa.Array:
        return floor_divide(values.cast(pa.int64()), step)

    return simple(name, "timestamp", summary, [TIMESTAMP], LONG, count)


def _of_unix(name: str, step: int, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        if not is_integral(nodes[0].type):
            raise UnsupportedExpressionError(f"{name} of a {nodes[0].type} cannot be evaluated")

        def instant(values: pa.Array) -> Outcome:
            wide = pc.multiply(values.cast(pa.decimal256(20, 0)), pa.scalar(step).cast(pa.decimal256(20, 0)))
            found = fit_integer(wide, LONG, "a timestamp is beyond the timestamps")
            return Outcome(found.values.cast(pa.timestamp("us", "UTC")), found.failures)

        return CallNode(TIMESTAMP, name, (context.cast(nodes[0], LONG),), instant)

    return Function(name, "n", summary, (1, 1), bind)


_LIST = [
    _date_part("year", "year"),
    _date_part("quarter", "quarter, from 1 to 4"),
    _date_part("month", "month, from 1 to 12"),
    _date_part("day", "day of the month"),
    _date_part("dayofmonth", "day of the month", "day"),
    _date_part("dayofweek", "day of the week, from 1 for Sunday to 7"),
    _date_part("weekday", "day of the week, from 0 for Monday to 6"),
    _date_part("dayofyear", "day of the year"),
    _date_part("weekofyear", "week of the year by ISO 8601"),
    _time_part("hour", "hour"),
    _time_part("minute", "minute"),
    _time_part("second", "second, without its fraction"),
    *(
        Function(name, "part, x", "a part of a date or timestamp, also written EXTRACT(part FROM x)", (2, 2), _extract)
        for name in ("date_part", "datepart")
    ),
    _date_add("date_add", add_days, "the date some days later"),
    _date_add("dateadd", add_days, "the date some days later"),
    _date_add("date_sub", days_earlier, "the date some days earlier"),
    *(
        simple(name, "end, start", "the number of days from start to end", [DATE, DATE], INTEGER, _difference)
        for name in ("datediff", "date_diff")
    ),
    simple("add_months", "date, months", "the date some months later", [DATE, INTEGER], DATE, _months_added),
    simple("last_day", "date", "the last day of the month", [DATE], DATE, last_days),
    Function("trunc", "date, unit", "the first day of the YEAR, QUARTER, MONTH or WEEK", (2, 2), _trunc),
    Function("date_trunc", "unit, timestamp", "the start of the unit, from YEAR to MICROSECOND", (2, 2), _date_trunc),
    Function("date_format", "x, pattern", "text by a [pattern](#patterns-of-dates)", (2, 2), _date_format),
    Function(
        "to_date",
        "x, pattern",
        "CAST(x AS DATE), or the date that a text has by a [pattern](#patterns-of-dates)",
        (1, 2),
        _read_as(DATE, "to_date"),
    ),
    Function(
        "to_timestamp",
        "x, pattern",
        "CAST(x AS TIMESTAMP), or the timestamp that a text has by a [pattern](#patterns-of-dates)",
        (1, 2),
        _read_as(TIMESTAMP, "to_timestamp"),
    ),
    Function(
        "try_to_timestamp",
        "x, pattern",
        "as to_timestamp, but null for a text that does not fit",
        (1, 2),
        _read_as(TIMESTAMP, "try_to_timestamp", forgives=True),
    ),
    Function("unix_date", "date", "days since 1970-01-01", (1, 1), _unix_date),
    simple(
        "date_from_unix_date",
        "n",
        "the date so many days after 1970-01-01",
        [INTEGER],
        DATE,
        lambda days: days.cast(pa.date32()),
    ),
    simple("make_date", "year, month, day", "the date; fails if there is none", [INTEGER] * 3, DATE, _make_date),
    _unix("unix_seconds", 1_000_000, "whole seconds since 1970, rounded down"),
    _unix("unix_millis", 1000, "whole milliseconds since 1970, rounded down"),
    _unix("unix_micros", 1, "microseconds since 1970"),
    _of_unix("timestamp_seconds", 1_000_000, "the timestamp so many seconds after 1970"),
    _of_unix("timestamp_millis", 1000, "the timestamp so many milliseconds after 1970"),
    _of_unix("timestamp_micros", 1, "the timestamp so many microseconds after 1970"),
    *map(_current, ("current_date", "curdate", "current_timestamp", "now", "localtimestamp")),
]
DATES = {function.name: function for function in _LIST}
