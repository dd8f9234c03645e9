"""Binding values to columns: scopes, types, errors, and the filters that follow from conditions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg.errors import ColumnNotFoundError, EvaluationError, ExpressionError, UnsupportedExpressionError
from deltaberg.expressions import Relation, as_value, bind, bind_condition, bind_value, col, parse_value, value_filter
from deltaberg.schema import Field, Primitive, Struct, arrow_schema

pytestmark = pytest.mark.one_backend

_INNER = Struct((Field("z", Primitive("long")),))
_SCHEMA = Struct((Field("x", Primitive("integer")), Field("name", Primitive("string")), Field("s", _INNER)))
_ROWS = pa.RecordBatch.from_pylist(
    [
        {"x": 5, "name": "a", "s": {"z": 1}},
        {"x": None, "name": None, "s": None},
        {"x": -7, "name": "b", "s": {"z": None}},
    ],
    schema=arrow_schema(_SCHEMA),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 1", [6, None, -6]),
        ("s.z", [1, None, None]),
        ("`S`.Z + X", [6, None, None]),
        ("CASE WHEN x > 0 THEN 'up' WHEN x < 0 THEN 'down' END", ["up", None, "down"]),
        ("coalesce(x, 0)", [5, 0, -7]),
        ("name LIKE 'a%' OR x IS NULL", [True, True, False]),
        ("x IN (5, NULL)", [True, None, None]),
    ],
)
def test_values_are_computed_from_columns(text: str, expected: list[object]) -> None:
    assert bind_value(text, _SCHEMA).evaluate(_ROWS).to_pylist() == expected


def test_two_relations_are_told_apart_by_their_aliases() -> None:
    columns = Struct((Field("x", Primitive("long")),))
    relations = [Relation("target", _SCHEMA), Relation("source", columns)]
    bound = bind_value("Target.x + source.x", relations)
    assert [(number, path[-1].name) for number, path in bound.paths] == [(0, "x"), (1, "x")]
    batch = pa.RecordBatch.from_arrays([*_ROWS.columns, pa.array([1, 2, 3])], names=["a", "b", "c", "d"])
    assert bound.evaluate(batch).to_pylist() == [6, None, -4]
    with pytest.raises(ExpressionError, match="several relations: target, source"):
        bind_value("x", relations)
    with pytest.raises(ColumnNotFoundError, match="no column"):
        bind_value("source.name", relations)


def test_what_a_row_never_reaches_does_not_fail() -> None:
    assert bind_value("CASE WHEN x > 0 THEN 10 DIV x ELSE 0 END", _SCHEMA).evaluate(_ROWS).to_pylist() == [2, 0, 0]
    assert bind_value("s.z = 1 AND 10 DIV (x - 5) = 0", _SCHEMA).evaluate(_ROWS.slice(1)).to_pylist() == [None, None]
    with pytest.raises(EvaluationError, match="division by zero") as caught:
        bind_value("10 DIV (x - 5)", _SCHEMA).evaluate(_ROWS)
    assert caught.value.context["row"] == 0


def test_a_result_is_assigned_to_a_column_of_another_type() -> None:
    byte = Primitive("byte")
    bound = bind_value("x * 20", _SCHEMA, target=byte, column="small")
    assert bound.type == byte
    with pytest.raises(EvaluationError, match="does not fit into byte") as caught:
        bound.evaluate(_ROWS)
    assert caught.value.context["column"] == "small"


@pytest.mark.parametrize(
    "text", ["soundex(name)", "rand()", "CAST(1.5D AS STRING)", "try_cast(name AS INT)", "x + 1 || 'a'"]
)
def test_what_cannot_be_evaluated_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedExpressionError):
        bind_value(text, _SCHEMA)


@pytest.mark.parametrize("text", ["x +", "name + s", "upper(x, name)", "CAST(s AS INT)", "x AND 1"])
def test_what_is_wrong_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        bind_value(text, _SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 5 AND upper(name) = 'A'", "x > 5"),
        ("x > 5 OR x % 2 = 0", "true"),
        ("NOT (x > 5 AND name = 'a')", "(x <= 5 OR name != 'a')"),
        ("5 < x", "x > 5"),
        ("x = 2.5", "x = 2.5"),
        ("x IN (1, NULL)", "x IN (1)"),
        ("x NOT IN (1, NULL)", "false"),
        ("s.z IS NOT NULL", "s.z IS NOT NULL"),
        ("name <=> NULL", "name IS NULL"),
        ("x = NULL", "false"),
        ("x", None),
    ],
)
def test_filters_follow_from_conditions(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ExpressionError, match="a condition is a boolean"):
            bind_condition(text, _SCHEMA)
        return
    found = value_filter(bind_condition(text, _SCHEMA))
    assert str(found) == expected
    bind(found, _SCHEMA)


def test_filters_of_col_are_values() -> None:
    condition = ~((col("x") > 5) | col("name").is_in(["a", "b"]) | col("s.z").is_null())
    assert str(parse_value(str(as_value(condition)))) == str(as_value(condition))
    assert bind_condition(condition, _SCHEMA).evaluate(_ROWS).to_pylist() == [False, False, False]
