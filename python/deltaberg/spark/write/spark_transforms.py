"""Partition transforms as Spark's own expressions, where these are exact.

Spark computes them in the JVM, so that rows need not go through Python workers to be brought together. Their values are
those of the kernels, in every time zone of the session and in its ANSI mode.
"""

from __future__ import annotations

from deltaberg.iceberg.partition.transforms import DatePart, Identity, Transform, Truncate
from deltaberg.schema.types import DataType, Primitive

__all__ = ["spark_expression"]

_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000}
_WHOLE_NUMBERS = {"integer": ("-2147483648", "2147483647"), "long": ("-9223372036854775808L", "9223372036854775807L")}


def spark_expression(transform: Transform, kind: DataType, name: str) -> str | None:
    """Return a transform of a column as SQL of Spark; None if the kernels have to compute it.

    Parameters
    ----------
    transform
        The transform. Spark has no bucket, whose hash is not Spark's own.
    kind
        The type of the column, in the table as in the rows.
    name
        The name of the column in the rows, which needs no quotes.

    Examples
    --------
    >>> from deltaberg.iceberg.partition.transforms import parse_transform
    >>> spark_expression(parse_transform("truncate[3]"), Primitive("string"), "c0")
    'substring(c0, 1, 3)'
    """
    if not isinstance(kind, Primitive):
        return None
    if isinstance(transform, Identity):
        return name
    if isinstance(transform, Truncate):
        return _truncated(transform.width, kind.name, name)
    return _date_part(transform.unit, kind.name, name) if isinstance(transform, DatePart) else None


def _truncated(width: int, kind: str, name: str) -> str | None:
    if kind in ("string", "binary"):
        # Of strings, this counts code points.
        return f"substring({name}, 1, {width})"
    if kind not in _WHOLE_NUMBERS:
        # Decimals that are rounded down may need more digits than their type has.
        return None
    least, most = _WHOLE_NUMBERS[kind]
    rest = f"pmod({name}, {width})"
    # Below the least number, the kernels wrap around, and Spark would raise.
    return f"if({name} < {least} + {rest}, ({name} - {least}) + ({most} - {rest}) + 1, {name} - {rest})"


def _date_part(unit: str, kind: str, name: str) -> str | None:
    if kind == "timestamp":
        micros = f"unix_micros({name})"
        if unit == "hour":
            return _floor(micros, _MICROS["hour"])
        # Spark's own cast to a date looks at the zone of the session.
        date = f"date_from_unix_date(int({_floor(micros, _MICROS['day'])}))"
    elif kind == "timestamp_ntz":
        date = f"cast({name} as date)"
        if unit == "hour":
            return f"bigint(unix_date({date})) * 24 + hour({name})"
    elif kind == "date":
        date = name
    else:
        return None
    if unit == "day":
        return date
    years = f"year({date}) - 1970"
    return years if unit == "year" else f"({years}) * 12 + month({date}) - 1"


def _floor(number: str, divisor: int) -> str:
    """Return a quotient of integers, rounded down: ``div`` rounds towards zero."""
    return f"({number} div {divisor}L - if({number} % {divisor}L < 0, 1L, 0L))"
