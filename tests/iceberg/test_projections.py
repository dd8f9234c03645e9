"""Projections of filters on rows to filters on partition values, predicate by predicate."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from deltaberg import col
from deltaberg.errors import UnsupportedFeatureError
from deltaberg.expressions.compute.bound import BoundPredicate
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.tree.tree import FALSE, TRUE, Value
from deltaberg.iceberg.metadata.specs import PartitionField, read_spec_fields
from deltaberg.iceberg.partition.projections import project
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field, Primitive, Struct

_MAX = (1 << 63) - 1
_X, _Y = col("x"), col("y")


def _schema(kind: DataType) -> Struct:
    return Struct((Field("x", kind, id=1), Field("y", Primitive("long"), id=2)))


def _part(transform: str, number: int = 1000) -> PartitionField:
    return PartitionField((1,), number, f"x_{number}", transform)


def _projected(condition: Value, kind: str, *transforms: str) -> tuple[str, str]:
    schema = _schema(Primitive(kind))
    parts = [_part(transform, 1000 + number) for number, transform in enumerate(transforms)]
    bound = bind(condition, schema)
    inclusive, strict = (str(project(bound, parts, schema, strict=strict)) for strict in (False, True))
    return inclusive.replace("x_1000", "p"), strict.replace("x_1000", "p")


_TIMES = [dt.datetime(2017, 11, 16), dt.datetime(2018, 1, 1)]


@pytest.mark.parametrize(
    ("condition", "kind", "transform", "inclusive", "strict"),
    [
        (_X < 10, "long", "truncate[8]", "p <= 8", "p < 8"),
        (_X < 8, "long", "truncate[8]", "p < 8", "p < 8"),
        (_X <= 7, "long", "truncate[8]", "p <= 0", "p <= 0"),
        (_X > -1, "long", "truncate[8]", "p > -8", "p > -8"),
        (_X >= -5, "long", "truncate[8]", "p >= -8", "p > -8"),
        (_X == 5, "long", "truncate[10]", "p = 0", "false"),
        (_X != 5, "long", "truncate[10]", "p IS NOT NULL", "p != 0"),
        (_X == 5, "long", "truncate[1]", "p = 5", "p = 5"),
        (_X.is_in([5, 7, 12]), "long", "truncate[10]", "p IN (0, 10)", "false"),
        (~_X.is_in([5, 7, 12]), "long", "truncate[10]", "p IS NOT NULL", "p NOT IN (0, 10)"),
        (_X.is_null(), "long", "truncate[10]", "p IS NULL", "p IS NULL"),
        (_X.is_not_null(), "long", "bucket[4]", "p IS NOT NULL", "p IS NOT NULL"),
        (_X == 34, "long", "bucket[16]", "p = 3", "false"),
        (_X != 34, "long", "bucket[16]", "p IS NOT NULL", "p != 3"),
        (_X.equals_or_both_null(34), "long", "bucket[16]", "p = 3", "false"),
        (~_X.equals_or_both_null(34), "long", "bucket[16]", "true", "p IS DISTINCT FROM 3"),
        (~_X.equals_or_both_null(34), "long", "truncate[1]", "p IS DISTINCT FROM 34", "p IS DISTINCT FROM 34"),
        (_X <= _MAX, "long", "truncate[8]", f"p <= {_MAX - 7}", f"p <= {_MAX - 7}"),
        (_X <= _MAX - 1, "long", "truncate[8]", f"p <= {_MAX - 7}", f"p < {_MAX - 7}"),
        (_X < 34, "long", "bucket[16]", "p IS NOT NULL", "false"),
        (_X > 34, "long", "bucket[16]", "p IS NOT NULL", "false"),
        (_X < 34, "long", "identity", "p < 34", "p < 34"),
        (_X.is_nan(), "double", "identity", "p IS NAN", "p IS NAN"),
        (~_X.is_nan(), "double", "identity", "p IS NOT NAN", "p IS NOT NAN"),
        (~_X.is_in([34, 35]), "long", "bucket[16]", "p IS NOT NULL", "p NOT IN (3, 5)"),
        (~_X.is_in(_TIMES), "timestamp_ntz", "year", "p IS NOT NULL", "p NOT IN (47, 48)"),
        (_X.like("a%b"), "string", "identity", "p LIKE 'a%b'", "p LIKE 'a%b'"),
        (_X.like("a%b"), "string", "truncate[2]", "p IS NOT NULL", "false"),
        (_X.starts_with("a"), "string", "truncate[2]", "p STARTS WITH 'a'", "p STARTS WITH 'a'"),
        (_X.starts_with("日本"), "string", "truncate[2]", "p STARTS WITH '日本'", "p STARTS WITH '日本'"),
        (_X.starts_with("abc"), "string", "truncate[2]", "p = 'ab'", "false"),
        (~_X.starts_with("a"), "string", "truncate[2]", "p NOT STARTS WITH 'a'", "p NOT STARTS WITH 'a'"),
        (~_X.starts_with("abc"), "string", "truncate[2]", "p IS NOT NULL", "p != 'ab'"),
        (_X.starts_with("a"), "string", "bucket[4]", "p IS NOT NULL", "false"),
        (_X == "abc", "string", "truncate[2]", "p = 'ab'", "false"),
        (_X == "a", "string", "truncate[2]", "p = 'a'", "p = 'a'"),
        (_X < "abc", "string", "truncate[2]", "p <= 'ab'", "p < 'ab'"),
        (_X < "ab", "string", "truncate[2]", "p < 'ab'", "p < 'ab'"),
        (_X >= "ab", "string", "truncate[2]", "p >= 'ab'", "p >= 'ab'"),
        (_X > "ab", "string", "truncate[2]", "p >= 'ab'", "p > 'ab'"),
        (dt.date(2017, 11, 16) <= _X, "date", "day", "p >= '2017-11-16'", "p >= '2017-11-16'"),
        (dt.date(2017, 11, 16) <= _X, "date", "month", "p >= 574", "p > 574"),
        (dt.date(2017, 11, 1) <= _X, "date", "month", "p >= 574", "p >= 574"),
        (dt.date(2017, 1, 1) > _X, "date", "year", "p < 47", "p < 47"),
        (dt.date(1969, 12, 31) >= _X, "date", "year", "p <= -1", "p <= -1"),
        (dt.date(2017, 11, 16) == _X, "date", "day", "p = '2017-11-16'", "p = '2017-11-16'"),
        (dt.datetime(2017, 11, 16) > _X, "timestamp_ntz", "day", "p < '2017-11-16'", "p < '2017-11-16'"),
        (dt.datetime(2017, 11, 16) >= _X, "timestamp_ntz", "day", "p <= '2017-11-16'", "p < '2017-11-16'"),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999999) < _X, "timestamp", "hour", "p > -1", "p > -1"),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999998) < _X, "timestamp", "hour", "p >= -1", "p > -1"),
    ],
)  # fmt: skip
def test_a_predicate(condition: Value, kind: str, transform: str, inclusive: str, strict: str) -> None:
    assert _projected(condition, kind, transform) == (inclusive, strict)


def test_how_conditions_join() -> None:
    both = (_X < 11) & (_Y == 1)
    either = (_X < 11) | (_Y == 1)
    assert _projected(both, "long", "truncate[8]") == ("p <= 8", "false")
    assert _projected(either, "long", "truncate[8]") == ("true", "p < 8")
    assert _projected((_X < 11) | (_X == 34), "long", "truncate[8]") == ("(p <= 8 OR p = 32)", "p < 8")
    assert _projected(_X == _Y, "long", "identity") == ("p IS NOT NULL", "false")
    assert _projected(_X.equals_or_both_null(_Y), "long", "identity") == ("true", "false")
    assert _projected(_Y < _X, "long", "bucket[4]") == ("p IS NOT NULL", "false")


def test_several_partition_fields_of_one_column() -> None:
    """A row has to be in the right partition of each field, and any one of them is enough as a proof."""
    found = _projected(_X == 34, "long", "bucket[16]", "truncate[10]", "truncate[1]")
    assert found == ("(p = 3 AND x_1001 = 30 AND x_1002 = 34)", "x_1002 = 34")


def test_columns_inside_structs_are_found_by_their_id() -> None:
    inner = Field("country", Primitive("string"), id=7)
    schema = Struct((Field("loc", Struct((inner,)), id=6),))
    bound = bind(col("loc.country") == "de", schema)
    found = project(bound, [PartitionField((7,), 1000, "c", "identity")], schema, strict=False)
    assert isinstance(found, BoundPredicate)
    assert found.path == (Field("c", Primitive("string"), id=1000),)
    assert str(found) == "c = 'de'"


def test_partition_fields_have_the_type_and_id_of_the_spec() -> None:
    schema = _schema(Primitive("timestamp"))
    found = project(bind(_X.is_null(), schema), [_part("day", 1005)], schema, strict=True)
    assert isinstance(found, BoundPredicate)
    assert found.path == (Field("x_1005", Primitive("date"), id=1005),)


@pytest.mark.req("BEY-41", half="reader")
def test_void_is_null_and_prunes_nothing() -> None:
    schema = _schema(Primitive("timestamp"))
    part = PartitionField((1,), 1000, "ts_day", "void")
    for condition in (dt.datetime(2017, 1, 1) < _X, _X.is_null(), _X.is_not_null()):
        bound = bind(condition, schema)
        assert project(bound, [part], schema, strict=False) == TRUE
        assert project(bound, [part], schema, strict=True) == FALSE
    rows = pa.array([dt.datetime(2017, 1, 1), None], arrow_type(Primitive("timestamp")))
    assert parse_transform("void").apply(rows, Primitive("timestamp")).to_pylist() == [None, None]


@pytest.mark.parametrize("part", [
    PartitionField((1,), 1000, "z", "zorder"),
    PartitionField((1, 2), 1000, "z", "bucketV2[4]"),
    PartitionField((1, 2), 1000, "z", "bucket[4]"),
    PartitionField((99,), 1000, "dropped", "identity"),
    PartitionField((1,), 1000, "refused", "hour"),
])  # fmt: skip
def test_what_is_not_known_answers_nothing(part: PartitionField) -> None:
    schema = _schema(Primitive("long"))
    for condition in (_X == 1, _X.is_null(), (_X == 1) | (_X == 2)):
        bound = bind(condition, schema)
        assert project(bound, [part], schema, strict=False) == TRUE
        assert project(bound, [part], schema, strict=True) == FALSE


@pytest.mark.req("BEY-42", half="reader")
def test_transforms_of_several_columns_are_read() -> None:
    fields = [{"source-ids": [1, 2], "field-id": 1000, "name": "b", "transform": "bucketV2[4]"}]
    (part,) = read_spec_fields(fields)
    assert part.source_ids == (1, 2)
    schema = _schema(Primitive("long"))
    assert project(bind((_X == 1) & (_Y == 2), schema), [part], schema, strict=False) == TRUE
    with pytest.raises(UnsupportedFeatureError, match=r"bucketV2\[4\]"):
        parse_transform(part.transform).apply(pa.array([1]), Primitive("long"))


def test_the_least_integers_overflow() -> None:
    """The overflowed partition value is large: `x < 0` must not miss its rows, and `x > 0` must not be proven by it."""
    assert _projected(_X < 0, "integer", "truncate[10]") == ("(p < 0 OR p = 2147483646)", "p < 0")
    assert _projected(_X > 0, "integer", "truncate[10]") == ("p >= 0", "(p > 0 AND p != 2147483646)")
    assert _projected(_X > -2147483648, "integer", "truncate[10]") == ("p IS NOT NULL", "false")
    assert _projected(_X < 0, "integer", "truncate[8]") == ("p < 0", "p < 0")
