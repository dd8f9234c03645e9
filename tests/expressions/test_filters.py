"""Filters as SQL text keep the rows that DuckDB keeps."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import random
import re
from collections.abc import Callable
from decimal import Decimal
from operator import and_, or_
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from deltaberg import col, open_table
from deltaberg.errors import ExpressionError
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.compute.bound import BoundPredicate
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road

_CONDITIONS = [
    "i = 3",
    "i <> 3",
    "NOT i = 3",
    "i IN (1, 2, NULL)",
    "i NOT IN (1, 2)",
    "i NOT IN (1, NULL)",
    "i BETWEEN -1 AND 2",
    "i NOT BETWEEN -1 AND 2",
    "i = 3.0",
    "i > 2.5",
    "i = '3'",
    "i = NULL",
    "i > 1 AND i < 1",
    "-1 <= i",
    "5 > i",
    "i IS DISTINCT FROM 3",
    "i IS NOT DISTINCT FROM NULL",
    "(i > 0 OR s = 'a') AND NOT (d IS NULL)",
    "s LIKE 'a%'",
    "s LIKE 'a_b'",
    "s NOT LIKE '%b'",
    "s LIKE '%line%'",
    "s LIKE 'line_break'",
    "s = 'q''uote'",
    "s = ''",
    "s > 'a'",
    "s >= 'A' AND s < 'b'",
    "s IN ('a', 'A', 'q''uote')",
    "s IS NULL OR b",
    "b",
    "NOT b",
    "b = true",
    "b IS TRUE",
    "b IS NOT TRUE",
    "b IS FALSE",
    "d >= DATE '2020-01-01'",
    "d = '2020-01-01'",
    "CAST('2020-01-01' AS DATE) = d",
    "d IN (DATE '2020-01-01')",
    "d BETWEEN '2019-01-01' AND '2021-01-01'",
    "p > 1",
    "p = 1.1",
    "p < -2.2",
    "p >= 0.00",
    "p IN (1.10, 0)",
    "f > 0",
    "f = 3",
    "f IN (0.5)",
    "x.y = 1",
    "x.y = i",
    "i < x.y",
    "NOT i <= id",
    "i IS DISTINCT FROM x.y",
    "i IS NOT DISTINCT FROM x.y",
    "i != x.y",
    "x.z IS NULL",
    "x IS NULL",
    "x IS NOT NULL AND x.y > 1",
    "TRUE",
    "false",
]


@pytest.fixture
def rows(rng: random.Random) -> pa.Table:
    """200 rows of few values, nulls among them."""
    choices = {
        "i": (pa.int64(), [None, *range(-5, 6)]),
        "s": (pa.string(), [None, "", "a", "ab", "a%b", "a_b", "A", "line\nbreak", "ü", "q'uote", "\\x"]),
        "d": (pa.date32(), [None, dt.date(2020, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
        "p": (pa.decimal128(9, 2), [None, Decimal("1.10"), Decimal("-2.25"), Decimal(0)]),
        "f": (pa.float64(), [None, 0.5, -1.5, 3.0]),
        "b": (pa.bool_(), [None, True, False]),
        "x": (pa.struct([("y", pa.int32()), ("z", pa.string())]), [None, {"y": 1, "z": "k"}, {"y": 2, "z": None}]),
    }
    columns = {name: pa.array(rng.choices(values, k=200), kind) for name, (kind, values) in choices.items()}
    return pa.table({"id": pa.array(range(200), pa.int64()), **columns})


def test_conditions_mean_what_they_mean_to_duckdb(builder: DeltaBuilder, rows: pa.Table) -> None:
    builder.create(rows.schema, *(builder.add(rows.slice(first, 20), stats="full") for first in range(0, 200, 20)))
    table = open_table(builder.root)
    with duckdb.connect() as judge:
        judge.register("judged", rows)
        for condition in _CONDITIONS:
            wanted = sorted(row[0] for row in judge.execute(f"SELECT id FROM judged WHERE {condition}").fetchall())
            found = sorted(table.scan(condition, ["id"]).to_arrow()["id"].to_pylist())
            assert found == wanted, condition
            assert table.scan(condition).count() == len(wanted), condition


def test_null_is_not_nan(builder: DeltaBuilder, road: Road) -> None:
    """As in Spark, where isnan(NULL) is false, so that its negation keeps nulls."""
    parts = [[1.0, None], [math.nan, math.nan], [math.nan, None], [None, None]]
    rows = [pa.table({"id": [10 * number, 10 * number + 1], "x": part}) for number, part in enumerate(parts)]
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    builder.create(schema, *(builder.add(part.cast(schema), stats="full") for part in rows))
    table = open_table(builder.root)
    assert sorted(road.column(table.scan("isnan(x)", ["id"]), "id")) == [10, 11, 20]
    for negated in ("NOT isnan(x)", ~col("x").is_nan(), "NOT isnan(x + 0)"):
        assert sorted(road.column(table.scan(negated, ["id"]), "id")) == [0, 1, 21, 30, 31]


def test_quotes_and_escapes_in_texts(builder: DeltaBuilder) -> None:
    values = ["it's", 'say "so"', "back\\slash", "100%", "a`b"]
    rows = pa.table({"s": values})
    builder.create(rows.schema, builder.add(rows))
    table = open_table(builder.root)
    for text, value in (
        ("s = 'it''s'", "it's"),
        ('s = "it\'s"', "it's"),
        (r"s = 'it\'s'", "it's"),
        ("s = 'say \"so\"'", 'say "so"'),
        (r"s = 'back\\slash'", "back\\slash"),
        (r"s LIKE '100\\%'", "100%"),
        ("s = 'a`b'", "a`b"),
    ):
        assert table.scan(text).to_arrow()["s"].to_pylist() == [value], text
    assert table.scan(r"s LIKE '100\%'").count() == 1
    assert table.scan(r"s LIKE '100\_'").count() == 0
    for value in values:
        assert table.scan(str(col("s") == value)).to_arrow()["s"].to_pylist() == [value]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"\n", "\n"),
        (r"\t", "\t"),
        (r"\u0041", "A"),
        (r"\'", "'"),
        ("''", "'"),
        (r"\\", "\\"),
        (r"\q", "q"),
        (r"\%", r"\%"),
    ],
)
def test_escapes_of_literals(literal: str, value: str) -> None:
    """As docs/scan.md says."""
    assert str(as_filter(f"s = '{literal}'")) == str(col("s") == value)
    assert str(as_filter([("s", "=", literal)])) == str(col("s") == literal)


_SOME, _FLAG = col("x") > 1, col("flag")


@pytest.mark.parametrize(
    ("joined", "text"),
    [
        (_SOME & _FLAG, "(x > 1 AND flag)"),
        (_FLAG & _SOME, "(flag AND x > 1)"),
        (_SOME | ~_FLAG, "(x > 1 OR (NOT flag))"),
        (_FLAG | col("s.flag"), "(flag OR s.flag)"),
        (~(_FLAG & _FLAG), "(NOT (flag AND flag))"),
    ],
)
def test_boolean_columns_are_conditions(joined: Value, text: str) -> None:
    assert str(joined) == text
    assert as_filter(text) == joined


@pytest.mark.parametrize("left", [_SOME, _FLAG])
@pytest.mark.parametrize("right", [1, "flag", None, [_SOME]])
def test_what_is_no_condition_is_not_joined(left: Any, right: object) -> None:
    for join in (and_, or_):
        with pytest.raises(ExpressionError, match="a condition was expected, not "):
            join(left, right)


@pytest.mark.parametrize("condition", ["x = x", "id = d", "x = 1", "b = id"])
def test_columns_that_cannot_be_compared(builder: DeltaBuilder, rows: pa.Table, condition: str) -> None:
    builder.create(rows.schema)
    with pytest.raises(ExpressionError, match="cannot be compared"):
        open_table(builder.root).scan(condition)


@pytest.mark.parametrize("condition", ["id IN (id, 'x')", "id NOT IN (1, 'x')", "b IN (b, 'x')", "b <=> 'x'"])
def test_a_literal_that_no_row_could_be_compared_with(builder: DeltaBuilder, rows: pa.Table, condition: str) -> None:
    builder.create(rows.schema)
    with pytest.raises(ExpressionError, match="'x' cannot be compared with a column of type"):
        open_table(builder.root).scan(condition)


@pytest.mark.parametrize("condition", ["coalesce(b, 'x')", "if(b, b, 'x')"])
def test_a_literal_that_only_some_rows_would_take(builder: DeltaBuilder, condition: str) -> None:
    """They fail where they take it, as on Spark."""
    table = pa.table({"b": [True, True]})
    builder.create(table.schema, builder.add(table))
    assert open_table(builder.root).scan(condition).count() == 2


@pytest.mark.parametrize(
    "text", ["id % rand() = 0", "soundex(s) = 'a'", "id IN (SELECT 1)", "id = 1; SELECT 2", "", "id =", "*"]
)
def test_what_is_not_supported_is_named(builder: DeltaBuilder, text: str) -> None:
    builder.create(pa.schema([("id", pa.int64()), ("s", pa.string())]))
    with pytest.raises(ExpressionError) as caught:
        open_table(builder.root).scan(text)
    assert text[:10] in str(caught.value)


def test_a_long_list_becomes_an_array_once() -> None:
    """A filter is evaluated for every file, and sent to every task."""
    bound = bind(col("x").is_in(range(9, 0, -1)), Struct((Field("x", Primitive("double")),)))
    assert isinstance(bound, BoundPredicate)
    text = pickle.dumps(bound)
    assert bound.literals is bound.literals
    assert bound.sorted_literals is bound.sorted_literals
    assert bound.sorted_literals.to_pylist() == sorted(bound.literals.to_pylist())
    assert not bound.has_nan
    assert pickle.dumps(bound) == text
    assert pickle.loads(text) == bound


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 10 > 12,
        lambda x: 10 - x < 3,
        lambda x: x * x == 4,
        lambda x: 1 / x == 1,
        lambda x: x % 2 == 0,
        lambda x: -x < 0,
    ],
)
def test_arithmetic_is_written_as_text(compute: Callable[[Any], object]) -> None:
    with pytest.raises(ExpressionError, match=re.escape("there is no arithmetic with col() (column: s.x)")) as raised:
        compute(col("s.x"))
    assert raised.value.hint == 'write the whole condition as SQL text, such as "s.x + 1 > 5"'
