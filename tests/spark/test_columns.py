"""PySpark Columns as SQL text: classic ones, which are read in the JVM, and those of Spark Connect."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest

from deltaberg.errors import InvalidArgumentError, UnsupportedExpressionError
from deltaberg.expressions.build.parse import parse_value
from deltaberg.spark.columns.build import of_no_frame
from deltaberg.spark.columns.connect import connect_value
from deltaberg.spark.columns.sql_text import column_text
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.tables.texts import own_text
from tests.spark.doors import needs_connect, needs_native

pytestmark = pytest.mark.spark


def _columns(f: Any) -> list[tuple[Any, str]]:
    """Return Columns, and SQL text of the same value."""
    col, lit = f.col, f.lit
    return [
        (col("id") == 1, "id = 1"),
        (~(col("a.b") != lit("it's \\ \n")), "NOT (NOT (a.b = 'it''s \\\\ \\n'))"),
        ((col("x") + 1) * 2 - col("`a.b`").cast("long"), "(x + 1) * 2 - CAST(`a.b` AS BIGINT)"),
        (5 - col("x") % 3, "5 - (x % 3)"),
        (-col("a b"), "- `a b`"),
        (col("x").cast("decimal(10,2)"), "CAST(x AS DECIMAL(10, 2))"),
        (f.expr("id % 2 == 0"), "id % 2 = 0"),
        (f.expr("id % 2 == 0") & (col("id") > 3) | col("x").isNull(), "(id % 2 = 0 AND id > 3) OR isnull(x)"),
        (f.expr("DEFAULT"), "DEFAULT"),
        (
            f.when(col("a") > 1, "x").when(col("a") < 0, "y").otherwise("z"),
            "CASE WHEN a > 1 THEN 'x' WHEN a < 0 THEN 'y' ELSE 'z' END",
        ),
        (f.when(col("a") >= 1, 1), "CASE WHEN a >= 1 THEN 1 END"),
        (col("s").getField("f"), "s['f']"),
        (col("l")[0], "l[0]"),
        (col("x").isNotNull(), "NOT isnull(x)"),
        (col("x").isin(1, 2, 3), "x IN (1, 2, 3)"),
        (col("x").between(1, 5), "x >= 1 AND x <= 5"),
        (col("x").like("a%") & col("x").startswith("a"), "x LIKE 'a%' AND startswith(x, 'a')"),
        (col("x").substr(1, 2), "substring(x, 1, 2)"),
        (col("x").eqNullSafe(lit(None)), "x <=> NULL"),
        (lit(True), "TRUE"),
        (lit(1.5), "1.5D"),
        (lit(b"ab"), "X'6162'"),
        (lit(dt.date(2020, 1, 2)), "DATE '2020-01-02'"),
        (lit(dt.datetime(2020, 1, 2, 3, tzinfo=dt.timezone.utc)), "TIMESTAMP '2020-01-02 03:00:00+00:00'"),
        (f.coalesce(f.upper(col("a")), lit("-")), "coalesce(upper(a), '-')"),
        (f.round(col("x"), 2).alias("y"), "round(x, 2)"),
        (f.current_timestamp(), "current_timestamp()"),
    ]


def _refused(f: Any) -> list[Any]:
    from pyspark.sql import Window

    window = Window.partitionBy("a") if f.__name__ == "pyspark.sql.functions" else None
    return [
        f.count_distinct(f.col("a")),
        f.transform(f.col("a"), lambda x: x + 1),
        f.col("a").asc(),
        *([] if window is None else [f.sum("a").over(window)]),
    ]


def _check(f: Any, text_of: Any) -> None:
    for column, expected in _columns(f):
        assert str(parse_value(text_of(column))) == str(parse_value(expected)), expected
    for column in _refused(f):
        with pytest.raises(UnsupportedExpressionError, match="cannot be written as SQL text"):
            text_of(column)


@needs_native
def test_columns_of_the_session(spark: Any) -> None:
    import pyspark.sql.functions as f

    facts = SessionFacts.of(spark)
    _check(f, lambda column: column_text(column, facts))
    assert column_text("id > 5", facts) == "id > 5"
    for wrong in (5, None, spark.range(1)):
        with pytest.raises(InvalidArgumentError, match="neither SQL text nor a Column"):
            column_text(wrong, facts)
    # It may be a column of another frame with the same name.
    with pytest.raises(UnsupportedExpressionError, match="the column of a certain DataFrame") as caught:
        column_text(spark.range(1)["id"] + 1, facts)
    assert 'col("id")' in str(caught.value.hint)
    assert "1.50" in column_text(f.lit(Decimal("1.50")), facts)
    if not facts.is_remote:
        with pytest.raises(UnsupportedExpressionError, match="a function of Python in a Column"):
            column_text(f.udf(lambda text: text)(f.col("id")), facts)


@needs_connect
@pytest.mark.one_backend
def test_columns_of_connect_without_a_server() -> None:
    f: Any = import_module("pyspark.sql.connect.functions")
    facts = SessionFacts(object())  # type: ignore[arg-type]
    _check(f, lambda column: column_text(column, facts))
    decimal = connect_value(f.lit(Decimal("1.50")).to_plan(None), of_no_frame)
    assert str(decimal) == "CAST(1.50BD AS decimal(10, 2))"


@pytest.mark.one_backend
def test_the_alias_of_a_table_is_left_out() -> None:
    text = "t.id > 5 AND CASE WHEN T.a.b IN (t.c, u.d) THEN t ELSE upper('t.x') END = 't'"
    expected = "id > 5 AND CASE WHEN a.b IN (c, u.d) THEN t ELSE upper('t.x') END = 't'"
    assert str(parse_value(own_text(text, "t"))) == str(parse_value(expected))
    assert own_text("id  >  5", "t") == "id  >  5"
