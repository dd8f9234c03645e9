"""Filters as columns of Spark, where Spark's operators have the same meaning."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from deltaberg.expressions.compute.bound import Bound, BoundAnd, BoundComputed, BoundPredicate
from deltaberg.expressions.tree.tree import Literal
from deltaberg.schema.types import Field

__all__ = ["ColumnOf", "spark_condition", "why_not_in_spark"]

#: Returns the Spark column for a path of fields.
ColumnOf = Callable[[Sequence[Field]], Column]

_COMPARISONS: dict[str, Callable[[Column, Column], Column]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": lambda left, right: left.eqNullSafe(right),
    "is distinct from": lambda left, right: ~left.eqNullSafe(right),
}
_LIKE = frozenset({"like", "not like"})
#: Comparisons that NaN never satisfies, unless the other side is NaN.
_BELOW = frozenset({"=", "<", "<=", "<=>", "in"})
#: Limits for a filter: each part and each value of it becomes an object in the JVM.
_MOST_PARTS = 200
_MOST_VALUES = 1000
#: The matcher of Java goes back and forth: its time is the length of the text, raised to the number of `%`.
_MOST_GAPS = 4
_EPOCH = dt.datetime(1970, 1, 1)
#: The first and the last timestamp whose year has four digits, as SQL text and `datetime` both write it.
_FIRST_INSTANT, _LAST_INSTANT = dt.timedelta(days=-719_162), dt.timedelta(days=2_932_897, microseconds=-1)
_MICROSECOND = dt.timedelta(microseconds=1)


def why_not_in_spark(bound: Bound) -> str | None:
    """Return why a filter cannot be applied by Spark's operators; None if it can."""
    if isinstance(bound, Literal):
        return None
    if isinstance(bound, BoundComputed):
        return "the filter calls functions"
    if not isinstance(bound, BoundPredicate):
        if len(bound.parts) > _MOST_PARTS:
            return "the filter is long"
        return next((why for part in bound.parts if (why := why_not_in_spark(part)) is not None), None)
    if len(bound.values) > _MOST_VALUES:
        return "the filter is long"
    if bound.operator in _LIKE:
        pattern = bound.values[0].as_py()
        if "\\" in pattern:
            return "Spark treats a backslash in a LIKE pattern differently"
        if pattern.count("%") > _MOST_GAPS:
            return "Spark's time for a LIKE pattern grows with each % in it"
    return next((why for value in bound.values if (why := _why_not_literal(value)) is not None), None)


def _why_not_literal(value: pa.Scalar) -> str | None:
    kind = value.type
    known = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind) or pt.is_decimal(kind)
    known = known or pt.is_string(kind) or pt.is_binary(kind) or pt.is_date32(kind)
    if known:
        return None
    if pt.is_timestamp(kind) and kind.unit == "us" and (kind.tz is not None or _is_in_text(value.value)):
        return None
    return f"the filter has a literal of type {kind}"


def spark_condition(bound: Bound, column_of: ColumnOf) -> Column:
    """Return a filter as a boolean column; `why_not_in_spark` must have found no reason against it."""
    if isinstance(bound, Literal):
        return sf.lit(bound.value)
    if isinstance(bound, BoundPredicate):
        return _predicate(bound, column_of)
    if isinstance(bound, BoundComputed):
        raise AssertionError("why_not_in_spark has refused it")  # noqa: TRY004 - the caller is wrong, not the type
    join = operator.and_ if isinstance(bound, BoundAnd) else operator.or_
    return _joined([spark_condition(part, column_of) for part in bound.parts], join)


def _joined(parts: Sequence[Column], join: Callable[[Column, Column], Column]) -> Column:
    """Join columns in a tree that is as flat as possible, since Spark and its protocol limit the depth."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_joined(parts[:middle], join), _joined(parts[middle:], join))


def _predicate(bound: BoundPredicate, column_of: ColumnOf) -> Column:
    column, name = column_of(bound.path), bound.operator
    if bound.is_floating and not _is_pushed(bound):
        column = column + sf.lit(0.0)
    if name == "is null":
        return column.isNull()
    if name == "is not null":
        return column.isNotNull()
    if name == "is nan":
        return sf.isnan(column)
    if name == "is not nan":
        return ~sf.isnan(column)
    if bound.other is not None:
        return _COMPARISONS[name](column, column_of(bound.other))
    if name in ("in", "not in"):
        found = column.isin(*map(_literal, bound.values))
        return found if name == "in" else ~found
    value = bound.values[0]
    if name in ("starts with", "not starts with"):
        starts = column.startswith(_literal(value))
        return starts if name == "starts with" else ~starts
    if name in _LIKE:
        like = column.like(value.as_py())
        return like if name == "like" else ~like
    return _COMPARISONS[name](column, _literal(value))


def _is_pushed(bound: BoundPredicate) -> bool:
    """Return whether Parquet's reader may skip row groups by a comparison of floating numbers.

    Its statistics leave out NaN and distinguish -0.0 from 0.0, so that a filter which matches either must not be pushed
    down. The sum of a column and zero has the same values and is not pushed down.
    """
    values = [value.as_py() for value in bound.values]
    return bound.operator in _BELOW and all(value not in (None, 0) and value == value for value in values)  # noqa: PLR0124 - NaN


def _is_in_text(micros: int | None) -> bool:
    return micros is None or _FIRST_INSTANT <= micros * _MICROSECOND <= _LAST_INSTANT


def _literal(value: pa.Scalar) -> Column:
    kind = value.type
    if pt.is_date32(kind):
        return sf.date_from_unix_date(sf.lit(value.value))
    if pt.is_timestamp(kind) and kind.tz is None:
        # Every other way to make one goes through the session's zone, which skips hours in spring.
        written = None if value.value is None else (_EPOCH + value.value * _MICROSECOND).isoformat(" ")
        return sf.expr("CAST(NULL AS TIMESTAMP_NTZ)" if written is None else f"TIMESTAMP_NTZ '{written}'")
    if pt.is_timestamp(kind):
        return sf.timestamp_micros(sf.lit(value.value).cast("long"))
    if pt.is_decimal(kind):
        return sf.lit(value.as_py()).cast(st.DecimalType(kind.precision, kind.scale))
    if pt.is_binary(kind):
        return sf.lit(bytearray(value.as_py()))
    return sf.lit(value.as_py())
