"""Binding values to columns: scopes, types, errors, and the filters that follow from conditions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pyarrow as pa
import pytest

from deltaberg.errors import (
    ColumnNotFoundError,
    EvaluationError,
    ExpressionError,
    MissingDependencyError,
    SchemaError,
    UnsupportedExpressionError,
)
from deltaberg.expressions.bind.bind import Relation, bind_condition, bind_value
from deltaberg.expressions.build.column import col
from deltaberg.expressions.build.filters import as_value
from deltaberg.expressions.build.parse import parse_value
from deltaberg.expressions.derive.derive import bind, value_filter
from deltaberg.schema.arrow import arrow_schema, arrow_type
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct

pytestmark = pytest.mark.one_backend

_INNER = Struct((Field("z", Primitive("long")),))
_SCHEMA = Struct((Field("x", Primitive("integer")), Field("name", Primitive("string")), Field("s", _INNER)))
_MOMENTS = {"d": "date", "t": "timestamp", "x": "integer"}
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
        ("CASE WHEN x > 0 THEN X'' WHEN x < 0 THEN X'A' END", [b"", None, b"\n"]),
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
    with pytest.raises(ExpressionError, match="on several sides: target, source"):
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
    ("text", "message"),
    [
        ("soundex(name)", r"the function soundex\(\)"),
        ("rand()", r"rand\(\) is not deterministic"),
        ("CAST(1.5D AS STRING)", "a double cannot be cast to a string"),
        ("try_cast(array(name) AS ARRAY<INT>)", "try_cast to array<int>"),
        ("x + 1 || 'a'", "the order of the operators"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match=message):
        bind_value(text, _SCHEMA)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("dateadd(DAY, 1, d)", "INTERVAL"),
        ("date_add(month, 1, d)", "INTERVAL"),
        ("datediff(DAY, d, d)", "number of days"),
        ("d - d", "datediff"),
        ("t - t", "unix_micros"),
        ("t - d", "unix_micros"),
        ("CAST(1.5 AS TIMESTAMP)", "timestamp_seconds"),
        ("CAST(x AS TIMESTAMP)", "timestamp_seconds"),
        ("CAST(t AS DOUBLE)", "unix_seconds"),
    ],
)
def test_valid_sql_of_moments_is_refused_by_name(text: str, hint: str) -> None:
    columns = Struct(tuple(Field(name, Primitive(kind)) for name, kind in _MOMENTS.items()))
    with pytest.raises(UnsupportedExpressionError) as caught:
        bind_value(text, columns)
    assert hint in (caught.value.hint or "")


def test_a_text_of_a_time_alone_is_not_forgiven() -> None:
    """Spark adds the date of today."""
    schema, rows = _table_of(_STRING, "2020-01-01", "12:30", "x")
    bound = bind_value("try_cast(v AS TIMESTAMP)", schema)
    assert bound.evaluate(rows.slice(2)).to_pylist() == [None]
    with pytest.raises(EvaluationError, match="a time without a day means today") as caught:
        bound.evaluate(rows)
    assert caught.value.context["row"] == 1


@pytest.mark.parametrize("text", ["1:9", "T1", " T01:59 ", "23:5:9.1234567", "T1:2:3 Europe/Paris", "1:2:3+01:00"])
def test_no_text_of_a_time_alone_is_a_timestamp_without_a_zone(text: str) -> None:
    schema, rows = _table_of(_STRING, text)
    assert bind_value("try_cast(v AS TIMESTAMP_NTZ)", schema).evaluate(rows).to_pylist() == [None]
    with pytest.raises(EvaluationError, match="a time without a day means today"):
        bind_value("try_cast(v AS TIMESTAMP)", schema).evaluate(rows)


@pytest.mark.parametrize(
    "text", ["T1:99", "24:00", "1:60", "1:2:60", "T", "T24", "T1.5", "1:2Z", "123:4", "1:234", "TX"]
)
def test_what_is_no_time_either_is_forgiven(text: str) -> None:
    schema, rows = _table_of(_STRING, text)
    for kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        assert bind_value(f"try_cast(v AS {kind})", schema).evaluate(rows).to_pylist() == [None]


@pytest.mark.parametrize(
    "text",
    [
        "to_date(v, v)",
        "to_date(v, 'yyyyM')",
        "to_date(v, 'yy')",
        "date_format(d, 'D')",
        "date_format(d, '[')",
        f"date_format(d, '{'y' * 2000}')",
    ],
)
def test_patterns_that_are_not_known_are_refused(text: str) -> None:
    columns = Struct((Field("v", _STRING), Field("d", Primitive("date"))))
    with pytest.raises(UnsupportedExpressionError, match="the pattern"):
        bind_value(text, columns)


@pytest.mark.parametrize("text", ["d * 2", "t + 1", "1 - d", "d + 1L", "CAST(d AS INT)"])
def test_what_no_moment_can_do_is_an_error(text: str) -> None:
    columns = Struct(tuple(Field(name, Primitive(kind)) for name, kind in _MOMENTS.items()))
    with pytest.raises(ExpressionError) as caught:
        bind_value(text, columns)
    assert not isinstance(caught.value, UnsupportedExpressionError)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x +", "is not a SQL expression: something is missing"),
        ("name + s", r"\+ cannot be applied to string, struct"),
        ("upper(x, name)", "upper does not take 2 arguments"),
        ("CAST(s AS INT)", "a value of type struct<z: bigint> cannot be cast to int"),
        ("x AND 1", "and cannot be applied to int"),
    ],
)
def test_what_is_wrong_is_an_error(text: str, error: str) -> None:
    with pytest.raises(ExpressionError, match=error):
        bind_value(text, _SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 5 AND upper(name) = 'A'", "x > 5"),
        ("x > 5 OR x % 2 = 0", "true"),
        ("NOT (x > 5 AND name = 'a')", "(NOT (x > 5 AND name = 'a'))"),
        ("5 < x", "5 < x"),
        ("x = 2.5", "false"),
        ("x IN (1, NULL)", "x IN (1, CAST(NULL AS int))"),
        ("x NOT IN (1, NULL)", "false"),
        ("s.z IS NOT NULL", "s.z IS NOT NULL"),
        ("name <=> NULL", "name <=> CAST(NULL AS string)"),
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


def _as_mapped(kind: DataType, ids: Iterator[int]) -> DataType:
    """Return a type with ids and physical names, as fields of tables with column mapping have them."""

    def mapped(child: Field) -> Field:
        return replace(child, type=_as_mapped(child.type, ids), nullable=False, id=next(ids), physical_name="col-1")

    if isinstance(kind, List):
        return List(mapped(kind.element))
    if isinstance(kind, Map):
        return Map(mapped(kind.key), mapped(kind.value))
    return Struct(tuple(map(mapped, kind))) if isinstance(kind, Struct) else kind


_LONG, _STRING = Primitive("long"), Primitive("string")
_POINT = Struct((Field("x", _LONG), Field("y", _LONG)))
_POINTS = Map(Field("key", _STRING), Field("value", List(Field("element", _POINT))))


def _table_of(kind: DataType, *values: object) -> tuple[Struct, pa.RecordBatch]:
    schema = Struct((Field("v", kind),))
    return schema, pa.RecordBatch.from_pylist([{"v": value} for value in values], schema=arrow_schema(schema))


@pytest.mark.parametrize("by_name", [False, True])
def test_ids_of_fields_make_no_difference_between_types(by_name: bool) -> None:
    schema, rows = _table_of(_POINTS, [("a", [{"x": 1, "y": 2}, None])], None)
    target = _as_mapped(_POINTS, count(1))
    bound = bind_value("v", schema, target=target, by_name=by_name)
    assert (bound.type, bound.evaluate(rows)) == (target, rows.column("v"))
    both = [Relation("t", Struct((Field("v", target),))), Relation("s", schema)]
    scope = pa.RecordBatch.from_arrays([rows.column("v").take([1, 1]), rows.column("v")], names=["a", "b"])
    assert bind_value("coalesce(t.v, s.v)", both, target=target).evaluate(scope) == rows.column("v")


def test_an_assigned_struct_has_its_fields_by_name_at_any_depth_and_a_cast_in_order() -> None:
    given = Struct((Field("Y", Primitive("integer")), Field("x", _LONG)))
    schema, rows = _table_of(
        Map(_POINTS.key, Field("value", List(Field("element", given)))), [("a", [{"Y": 2, "x": 1}])]
    )
    assert bind_value("v", schema, target=_POINTS, by_name=True).evaluate(rows).to_pylist() == [
        [("a", [{"x": 1, "y": 2}])]
    ]
    assert bind_value("v", schema, target=_POINTS).evaluate(rows).to_pylist() == [[("a", [{"x": 2, "y": 1}])]]
    cast = bind_value("CAST(named_struct('y', 2, 'x', 1) AS STRUCT<x: BIGINT, y: BIGINT>)", schema)
    assert cast.evaluate(rows).to_pylist() == [{"x": 2, "y": 1}]


def test_an_assigned_struct_has_all_fields_and_no_other() -> None:
    schema, _ = _table_of(Struct((Field("y", Primitive("byte")),)), {"y": 2}, None)
    with pytest.raises(SchemaError, match="lacks the field x") as missing:
        bind_value("v", schema, target=_POINT, by_name=True, column="at")
    assert missing.value.context["column"] == "at.x"
    required = Struct((replace(_POINT.fields[0], nullable=False), _POINT.fields[1]))
    with pytest.raises(SchemaError, match="lack a column that must not be null") as caught:
        bind_value("v", schema, target=required, by_name=True, column="at")
    assert caught.value.context["column"] == "at.x"
    with pytest.raises(SchemaError, match=r"v\.element\.z"):
        bind_value(
            "array(named_struct('z', 1))", schema, target=List(Field("element", _POINT)), by_name=True, column="v"
        )
    with pytest.raises(SchemaError, match=r"two columns for 'x': 'X' and 'x'"):
        bind_value("named_struct('X', 1, 'x', 2)", schema, target=_POINT, by_name=True)


def test_keys_and_values_of_maps_are_cast() -> None:
    schema, rows = _table_of(
        Map(Field("key", _STRING), Field("value", _LONG)), [("1", 10), ("2", None)], None, [], [("3", 7)]
    )
    target = Map(Field("key", Primitive("integer"), nullable=False), Field("value", _STRING))
    expected = [[(1, "10"), (2, None)], None, [], [(3, "7")]]
    for slice_ in (rows, rows.slice(1), rows.slice(3), rows.slice(0, 0)):
        found = bind_value("v", schema, target=target).evaluate(slice_)
        assert found.type == arrow_type(target)
        assert found.to_pylist() == expected[len(rows) - len(slice_) :] if len(slice_) else not len(found)
    text = bind_value("CAST(map('1', 2) AS MAP<INT, STRING>)", schema)
    assert text.evaluate(rows).to_pylist() == [[(1, "2")]] * 4


@pytest.mark.parametrize(
    ("target", "last", "message"),
    [
        (
            Map(Field("key", Primitive("integer")), Field("value", _LONG)),
            [("b", 1)],
            "is not a value of the type integer",
        ),
        (Map(Field("key", _STRING), Field("value", Primitive("byte"))), [("1", 300)], "does not fit into byte"),
        (Map(Field("key", Primitive("integer")), Field("value", _LONG)), [("1", 1), ("01", 2)], "keys .* become equal"),
        (Map(Field("key", Primitive("double")), Field("value", _LONG)), [("0", 1), ("-0", 2)], "keys .* become equal"),
        (
            Map(Field("key", Primitive("double")), Field("value", _LONG)),
            [("NaN", 1), ("nan", 2)],
            "keys .* become equal",
        ),
    ],
)
def test_a_key_or_value_that_fails_fails_its_row(target: Map, last: object, message: str) -> None:
    schema, rows = _table_of(Map(Field("key", _STRING), Field("value", _LONG)), [("1", 10), ("2", 2)], [("1", 7)], last)
    bound = bind_value("v", schema, target=target, column="m")
    with pytest.raises(EvaluationError, match=message) as caught:
        bound.evaluate(rows)
    assert (caught.value.context["row"], caught.value.context["column"]) == (2, "m")
    assert [[pair[1] for pair in row] for row in bound.evaluate(rows.slice(0, 2)).to_pylist()] == [[10, 2], [7]]


def test_keys_that_are_structs_can_become_equal() -> None:
    key = Struct((Field("k", _STRING),))
    schema, rows = _table_of(Map(Field("key", key), Field("value", _LONG)), [({"k": "1"}, 1), ({"k": "01"}, 2)])
    target = Map(Field("key", Struct((Field("k", _LONG),))), Field("value", _LONG))
    with pytest.raises(EvaluationError, match=r"keys .* become equal"):
        bind_value("v", schema, target=target).evaluate(rows)


def test_plain_conditions_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    columns = Struct((Field("a", Primitive("long")), Field("d", Primitive("date"))))
    bind_value("(a != 1 OR a IN (1, 2)) AND d BETWEEN DATE '2020-01-01' AND '2021-01-01' AND a IS NOT NULL", columns)
    for text in ("a + 1 = 2", "NOT a = 1"):
        with pytest.raises(MissingDependencyError, match="beyond plain comparisons of columns with literals") as caught:
            bind_value(text, columns)
        assert "deltaberg[sql]" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty"),
        (" \n", "the expression is empty"),
        ("a = =", r"'a = =' is not a SQL expression: something is missing at '=' \(line 1, column 5\)"),
        ("a +\n2 3", r"at '3' \(line 2, column 3\)"),
        ("a, a", r"is not a SQL expression: .* at ',' \(line 1, column 2\)"),
        ("'a", "is not a SQL expression"),
    ],
)
def test_what_is_wrong_with_a_text(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        bind_value(text, Struct((Field("a", Primitive("long")),)))
    assert "sqlglot" not in str(caught.value)
