"""Each function has the result of its example, as a constant and on a column, and Spark has it, too."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import EvaluationError, ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.bind.bind import bind_value
from deltaberg.expressions.build.parse import parse_value
from deltaberg.expressions.functions.function import Context
from deltaberg.expressions.functions.function_table import FUNCTIONS
from deltaberg.expressions.tree.nodes import LiteralNode
from deltaberg.expressions.tree.tree import Call, ColumnValue, IntervalType, Literal, Value
from deltaberg.schema.arrow import arrow_type
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


def _literals(value: Value) -> Iterator[Literal]:
    if isinstance(value, Literal) and not isinstance(value.type, IntervalType) and value.value is not None:
        yield value
    for child in value.arguments if isinstance(value, Call) else ():
        yield from _literals(child)


def _with_columns(value: Value, names: dict[int, str]) -> Value:
    if id(value) in names:
        return ColumnValue((names[id(value)],))
    if isinstance(value, Call):
        return Call(value.name, tuple(_with_columns(child, names) for child in value.arguments))
    return value


@pytest.mark.one_backend
def test_arguments_from_columns_give_the_same_results() -> None:
    """Each literal of an example as a column, and all of them: constants have ways of their own."""
    tried, refused = 0, list[str]()
    for _, text, expected in EXAMPLES:
        parsed = parse_value(text)
        literals = list({id(literal): literal for literal in _literals(parsed)}.values())
        for chosen in [*([literal] for literal in literals), *([literals] if len(literals) > 1 else [])]:
            names = {id(literal): f"c{number}" for number, literal in enumerate(chosen)}
            schema = Struct(tuple(map(Field, names.values(), (literal.type for literal in chosen))))
            columns = [pa.array([literal.value] * 2, arrow_type(literal.type)) for literal in chosen]
            value = _with_columns(parsed, names)
            try:
                bound = bind_value(value, schema, timezone=ZONE)
            except ExpressionError as error:
                refused.append(error.message)
                continue
            tried += 1
            found = bound.evaluate(pa.record_batch(columns, names=list(names.values()))).to_pylist()
            assert found == [expected, expected], value
    assert tried > len(EXAMPLES)
    # Patterns, units, paths, numbers of digits and names of fields.
    constants = re.compile("literal|pattern None|of None|cannot be applied to struct")
    assert not [message for message in refused if not constants.search(message)]


@pytest.mark.one_backend
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_other_numbers_of_arguments_are_refused(name: str) -> None:
    context = Context(dt.timezone.utc, dt.datetime.now(dt.timezone.utc))
    least, most = FUNCTIONS[name].counts
    one = LiteralNode(Primitive("integer"), pa.scalar(1, pa.int32()))
    for count in {least - 1, least if most is None else most + 1} - {-1, least}:
        with pytest.raises(ExpressionError, match=rf"does not take {count} argument{'s' * (count != 1)}\b") as raised:
            FUNCTIONS[name].bind(context, [one] * count)
        assert f"{name}({FUNCTIONS[name].arguments})" in str(raised.value.hint)


@pytest.mark.one_backend
def test_examples_have_the_least_and_the_greatest_numbers_of_arguments() -> None:
    tried: dict[str, set[int]] = {name: set() for name in FUNCTIONS}

    def count(value: Value) -> None:
        if isinstance(value, Call):
            tried[value.name].add(len(value.arguments))
            for child in value.arguments:
                count(child)

    for _, text, _ in EXAMPLES:
        count(parse_value(text))
    # What is read as another function has no call of its own, and no text says IN of no value.
    untried = {name for name, counts in tried.items() if counts and not set(FUNCTIONS[name].counts) <= {*counts, None}}
    assert untried == {"in"}


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2147483647 + x", "integer overflow"),
        ("x / 0", "division by zero"),
        ("x % 0", "division by zero"),
        ("CAST('1.5' AS INT)", "not a value of the type integer"),
        ("CAST('abc' AS DATE)", "not a value of the type date"),
        ("CAST(3000000000 * x AS INT)", "does not fit into integer"),
        ("CAST(99.9BD * x AS DECIMAL(2,1))", r"does not fit into decimal\(2,1\)"),
        ("CAST('maybe' AS BOOLEAN)", "not a value of the type boolean"),
        ("(array(x))[5]", "no such element"),
        ("element_at(array(x), 5)", "no such element"),
        ("element_at(array(x), 0)", "no such element"),
        ("map(x, 1, x, 2)", "is there twice"),
        ("make_date(2020, 13, x)", "no such date"),
        ("split_part('a', ',', 0)", "counts from 1, not from 0"),
        ("abs(CAST(-128 AS TINYINT) + CAST(x - x AS TINYINT))", "byte overflow"),
        ("-(-9223372036854775808 + x - x)", "long overflow"),
    ],
)
def test_rows_fail_where_spark_raises(text: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        bind_value(text, _SCHEMA).evaluate(_ROWS)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exp(x)", r"the function exp\(\)"),
        ("uuid()", "not deterministic"),
        ("CAST(0.5D AS STRING)", "a double cannot be cast to a string"),
        ("'a' RLIKE '(?i)A'", "a group with a question mark"),
        ("'a' RLIKE '(a)\\\\1'", "in the regular expression"),
        ("regexp_replace('a', 'x*', '-')", "a pattern that matches nothing at all"),
        ("array(x) = array(x)", "values of the type array<int> cannot be compared"),
        ("date_format(now(), 'DDD')", "the pattern 'DDD'"),
        ("transform(array(x), y -> y)", "'y -> y'"),
        ("'a' LIKE upper(string(x))", "a pattern that is not a literal"),
        ("to_date('1.1.20', 'd.M.yy')", "the pattern 'd.M.yy'"),
        ("CAST(x AS INTERVAL DAY)", "the type INTERVAL DAY"),
        ("x | 1 & 2", "the order of the operators"),
    ],
)
def test_what_is_not_exact_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match=message):
        bind_value(text, _SCHEMA)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.one_backend
def test_spark_has_the_results_of_the_examples(spark: Any) -> None:
    texts = [text for _, text, _ in EXAMPLES]
    found = compare_with_spark(spark, _ROWS, _SCHEMA, texts)
    assert not found.differences, "\n".join(found.differences)
    assert found.equal == len(texts)
