"""Comparisons of a column of each type with literals of each kind, and which rows they are true for."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa

from deltaberg.errors import EvaluationError, ExpressionError
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct
from tests.support.spark_values import ZONE, settings_of_values

__all__ = ["ROWS", "comparisons", "here", "in_spark"]

_NOON = dt.datetime(2020, 1, 1, 10)
_COLUMNS: dict[str, tuple[DataType, list[Any]]] = {
    "bo": (Primitive("boolean"), [True, False, True]),
    "by": (Primitive("byte"), [1, -128, 127]),
    "sh": (Primitive("short"), [1, -300, 300]),
    "i": (Primitive("integer"), [1, 2, -2147483648]),
    "l": (Primitive("long"), [1, 3000000000, 9007199254740993]),
    "f": (Primitive("float"), [1.0, 0.1, float("nan")]),
    "d": (Primitive("double"), [1.0, -0.0, float("nan")]),
    "m": (Decimal(10, 2), [PyDecimal("1.00"), PyDecimal("2.50"), PyDecimal("-0.10")]),
    "q": (Decimal(38, 0), [PyDecimal(1), PyDecimal(10**37), PyDecimal(-3)]),
    "s": (Primitive("string"), ["1", "true", "2020-01-01"]),
    "n": (Primitive("string"), ["1", "2", "10"]),
    "bi": (Primitive("binary"), [b"1", b"\xff", b""]),
    "da": (Primitive("date"), [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(1900, 1, 1)]),
    "ts": (
        Primitive("timestamp"),
        [
            moment.replace(tzinfo=dt.timezone.utc)
            for moment in (_NOON, dt.datetime(2020, 1, 1, 15), dt.datetime(2020, 1, 1, 5))
        ],
    ),
    "tn": (Primitive("timestamp_ntz"), [_NOON, dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]),
}
SCHEMA = Struct(tuple(Field(name, kind) for name, (kind, _) in _COLUMNS.items()))
ROWS = pa.RecordBatch.from_arrays(
    [
        pa.array([*values, None], child.type)
        for (_, values), child in zip(_COLUMNS.values(), arrow_schema(SCHEMA), strict=True)
    ],
    schema=arrow_schema(SCHEMA),
)
_LITERALS = (
    "true",
    "1",
    "1Y",
    "3000000000L",
    "9007199254740992D",
    "2.5",
    "0.1",
    "1e0",
    "0.1F",
    "CAST('NaN' AS DOUBLE)",
    "99999999999999999999",
    "'1'",
    "'1.0'",
    "'true'",
    "'abc'",
    "'2020-01-01'",
    "'2020-01-01 10:00:00'",
    "X'31'",
    "DATE '2020-01-01'",
    "TIMESTAMP '2020-01-01 10:00:00'",
    "TIMESTAMP_NTZ '2020-01-01 10:00:00'",
    "NULL",
)
_FORMS = ("{} = {}", "{} < {}", "NOT {} >= {}", "{} <=> {}", "{} IN ({}, NULL)")


def comparisons() -> list[str]:
    """Return the conditions."""
    return [form.format(name, literal) for name in _COLUMNS for literal in _LITERALS for form in _FORMS]


def here(text: str) -> str:
    """Return the numbers of the rows that a condition keeps, or that it fails or is refused."""

    def column(path: tuple[Field, ...]) -> pa.Array:
        return ROWS.column(path[0].name)

    try:
        found = evaluate(bind(as_filter(text), SCHEMA, ZONE), column, ROWS.num_rows)
    except (EvaluationError, ExpressionError):
        return "!"
    return _kept(found)


def _kept(values: pa.Array) -> str:
    return "".join(str(row) for row, value in enumerate(values.to_pylist()) if value)


def in_spark(spark: Any, texts: list[str]) -> dict[str, str]:
    """Return the same by Spark for each of some conditions."""
    answers = {}
    with settings_of_values(spark):
        spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
        frame = spark.createDataFrame(pa.Table.from_batches([ROWS]))
        spark.conf.unset("spark.sql.timestampType")
        known = [text for text in texts if _analyses(frame, text)]
        answers = dict.fromkeys(texts, "!")
        waiting = [known[first : first + 60] for first in range(0, len(known), 60)]
        while waiting:
            some = waiting.pop()
            try:
                table = frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(some))).toArrow()
            except Exception:  # noqa: BLE001 - some row of some condition fails
                if len(some) > 1:
                    waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
                continue
            answers |= {text: _kept(column) for text, column in zip(some, table.columns, strict=True)}
    return answers


def _analyses(frame: Any, text: str) -> bool:
    try:
        frame.selectExpr(text).schema  # noqa: B018
    except Exception:  # noqa: BLE001 - Spark refuses the types
        return False
    return True
