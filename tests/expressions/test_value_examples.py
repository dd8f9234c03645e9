"""Each function has the result of its example, as a constant and on a column, and Spark has it, too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import EvaluationError, UnsupportedExpressionError
from deltaberg.expressions.bind.bind import bind_value
from deltaberg.expressions.functions.known import FUNCTIONS
from deltaberg.expressions.given.parse import parse_value
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.spark_values import ZONE, compare_with_spark
from tests.support.value_examples import EXAMPLES

_SCHEMA = Struct((Field("x", Primitive("integer")),))
_ROWS = pa.record_batch({"x": pa.array([1, 2], pa.int32())})


def test_every_function_has_an_example() -> None:
    assert {name for name, _, _ in EXAMPLES} == set(FUNCTIONS)


@pytest.mark.one_backend
@pytest.mark.parametrize(("text", "expected"), [pytest.param(text, value, id=text) for _, text, value in EXAMPLES])
def test_functions_have_the_results_of_their_examples(text: str, expected: object) -> None:
    assert bind_value(text, _SCHEMA, timezone=ZONE).evaluate(_ROWS).to_pylist() == [expected, expected]
    again = str(parse_value(text))
    assert bind_value(again, _SCHEMA, timezone=ZONE).evaluate(_ROWS).to_pylist() == [expected, expected]


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "text",
    [
        "2147483647 + x",
        "x / 0",
        "x % 0",
        "CAST('1.5' AS INT)",
        "CAST('abc' AS DATE)",
        "CAST(3000000000 * x AS INT)",
        "CAST(99.9BD * x AS DECIMAL(2,1))",
        "CAST('maybe' AS BOOLEAN)",
        "(array(x))[5]",
        "element_at(array(x), 5)",
        "element_at(array(x), 0)",
        "map(x, 1, x, 2)",
        "make_date(2020, 13, x)",
        "split_part('a', ',', 0)",
        "abs(CAST(-128 AS TINYINT) + CAST(x - x AS TINYINT))",
        "-(-9223372036854775808 + x - x)",
    ],
)
def test_rows_fail_where_spark_raises(text: str) -> None:
    with pytest.raises(EvaluationError):
        bind_value(text, _SCHEMA).evaluate(_ROWS)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "text",
    [
        "exp(x)",
        "uuid()",
        "CAST(0.5D AS STRING)",
        "'a' RLIKE '(?i)A'",
        "'a' RLIKE '(a)\\\\1'",
        "regexp_replace('a', 'x*', '-')",
        "array(x) = array(x)",
        "date_format(now(), 'DDD')",
        "transform(array(x), y -> y)",
        "'a' LIKE upper(string(x))",
        "to_date('1.1.20', 'd.M.yy')",
        "CAST(x AS INTERVAL DAY)",
        "x | 1 & 2",
    ],
)
def test_what_is_not_exact_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedExpressionError):
        bind_value(text, _SCHEMA)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.one_backend
def test_spark_has_the_results_of_the_examples(spark: Any) -> None:
    texts = [text for _, text, _ in EXAMPLES]
    found = compare_with_spark(spark, _ROWS, _SCHEMA, texts)
    assert not found.differences, "\n".join(found.differences)
    assert found.equal == len(texts)
