"""Conditions of many parts, which people make by programs."""

from __future__ import annotations

import copy
import functools
import operator
import pickle
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import And, EqualTo, Or

from deltaberg import col, open_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import EvaluationError, ExpressionError
from deltaberg.expressions.bind.bind import bind_condition
from deltaberg.expressions.build.filters import FilterTuple, as_filter
from deltaberg.expressions.compute.bound import Bound, BoundOr, BoundPredicate
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.pruning.evaluate import may_match
from deltaberg.pruning.stats import FileStats
from deltaberg.schema.types import Field, Primitive, Struct

pytestmark = pytest.mark.one_backend

_MANY = 3000
_COLUMNS = Struct((Field("id", Primitive("long")), Field("v", Primitive("long"))))


def _conditions() -> dict[str, Any]:
    pairs = [(col("id") == number) & (col("v") == number) for number in range(_MANY)]
    equal: Any = EqualTo
    theirs: list[Any] = [And(equal("id", number), equal("v", number)) for number in range(_MANY)]
    return {
        "text": " OR ".join(f"id = {number} AND v = {number}" for number in range(_MANY)),
        "expressions": functools.reduce(operator.or_, pairs),
        "from the right": functools.reduce(lambda found, one: one | found, pairs),
        "pyiceberg": functools.reduce(Or, theirs),
        "tuples": [[("id", "=", number), ("v", "=", number)] for number in range(_MANY)],
    }


@pytest.mark.parametrize("form", ["text", "expressions", "from the right", "pyiceberg", "tuples"])
def test_conditions_may_be_long(form: Format) -> None:
    """None of them recurses once for each part: neither binding nor the text that a history records."""
    condition = _conditions()[form]
    found = as_filter(condition)
    batch = pa.record_batch({"id": [0, _MANY - 1, _MANY, 7], "v": [0, _MANY - 1, _MANY, 8]})
    kept = evaluate(bind(found, _COLUMNS), lambda path: batch[path[0].name], batch.num_rows)
    assert kept.to_pylist() == [True, True, False, False]
    assert str(found).count(" OR ") == _MANY - 1


def test_rows_are_changed_by_long_conditions(tmp_path: Path) -> None:
    condition = " OR ".join(f"id = {number}" for number in range(5, 500))
    for form in ("iceberg", "delta"):
        write_table(tmp_path / form, pa.table({"id": [1, 5, 7], "v": [0, 0, 0]}), format=form)
        table: Any = open_table(tmp_path / form)
        table.update({"v": f"CASE WHEN {condition} THEN v + 1 ELSE v END"}, condition)
        table.delete(functools.reduce(operator.or_, [col("id") == number for number in range(7, 800)]))
        assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": 0}, {"id": 5, "v": 1}]


_JOINED: dict[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_}


@pytest.mark.parametrize("join", _JOINED)
@pytest.mark.parametrize("side", ["left", "right"])
def test_long_conditions_are_shown_copied_and_compared(join: str, side: str) -> None:
    """As other objects are, and without a call for each part: history, logs, tests and processes do so."""

    def made() -> Any:
        parts = [col("v") == number for number in range(_MANY)]
        joined = _JOINED[join]
        return functools.reduce(joined if side == "left" else lambda found, one: joined(one, found), parts)

    condition = made()
    assert condition == made()
    assert hash(condition) == hash(made())
    assert condition != ~condition
    assert ~~condition == condition
    for copied in (
        pickle.loads(pickle.dumps(condition)),
        copy.copy(condition),
        ~pickle.loads(pickle.dumps(~condition)),
    ):
        assert copied == condition
    assert str(condition).count(f" {join.upper()} ") == repr(condition).count(f" {join.upper()} ") == _MANY - 1


def test_conditions_of_columns_are_equal_if_their_columns_are() -> None:
    assert (col("a") == col("b")) == (col("a") == col("b"))
    assert (col("a") == col("b")) != (col("a") == col("c"))
    assert copy.deepcopy(_deep(3000)["from the left"]) == _deep(3000)["from the left"]


def test_equalities_are_one_look_up() -> None:
    """Also in values, where they must follow each other: what stands between them may have to fail first."""
    numbers = range(300)
    found = bind(as_filter(" OR ".join(f"id = {number} OR v = {number}" for number in numbers)), _COLUMNS)
    assert isinstance(found, BoundOr)
    assert [(part.operator, len(part.values)) for part in found.parts if isinstance(part, BoundPredicate)] == [
        ("in", 300),
        ("in", 300),
    ]
    none_of = bind(as_filter(" AND ".join(f"id != {number}" for number in numbers)), _COLUMNS)
    assert isinstance(none_of, BoundPredicate)
    assert (none_of.operator, len(none_of.values)) == ("not in", 300)
    assert pickle.loads(pickle.dumps(none_of)) == none_of
    value: Any = bind_condition(" OR ".join(f"id + 1 = {number}" for number in numbers), _COLUMNS)
    assert (value.node.name, len(value.node.items)) == ("in", 300)
    mixed = bind_condition("id = 1 OR 1 / v > 0 OR id = 2", _COLUMNS)
    with pytest.raises(EvaluationError, match="division"):
        mixed.evaluate(pa.record_batch({"id": [2], "v": [0]}))


@pytest.mark.parametrize(
    ("part", "join", "whole"),
    [
        (lambda number: col("id") == number, operator.and_, "false"),
        (lambda number: col("id").is_in(range(number, 5000)), operator.and_, "id = 4999"),
        (lambda number: col("id") > number, operator.and_, "id > 4999"),
        (
            lambda number: (col("id") >= number) & (col("id") < 9000 - number),
            operator.and_,
            "(id >= 4999 AND id < 4001)",
        ),
        (lambda number: ~(col("id") <= number), operator.and_, "id > 4999"),
    ],
)
def test_comparisons_of_a_column_on_one_side_are_one(part: Any, join: Any, whole: str) -> None:
    """Neither metadata nor rows are asked once for each of thousands."""
    count = 60 if whole == "id = 4999" else 5000
    numbers = [*range(count - 1), 4999]
    found = bind(functools.reduce(join, map(part, numbers)), _COLUMNS)
    assert str(found) == whole


def test_equal_ends_demand_what_leaves_the_end_out() -> None:
    for text in ("id > 5 AND id >= 5", "id >= 5 AND id > 5 AND id > 4"):
        assert str(bind(as_filter(text), _COLUMNS)) == "id > 5"
    assert str(bind(as_filter("id >= 5 AND id > 4"), _COLUMNS)) == "id >= 5"


def test_lists_of_literals_are_bound_together() -> None:
    """Whatever is looked up in them, and beside nulls and texts."""
    for items, found in ((f"{list(range(20_000))}"[1:-1], [True, None]), ("1, NULL, '8'", [True, None])):
        value = bind_condition(f"id + 1 IN ({items})", _COLUMNS)
        assert value.evaluate(pa.record_batch({"id": [7, None], "v": [0, 0]})).to_pylist() == found


def _part(rng: random.Random) -> str:
    one, other, text = rng.randrange(40), rng.randrange(40), rng.choice("abcd")
    return rng.choice(
        [
            f"id = {one}",
            f"(id = {one} AND t = '{text}')",
            f"id BETWEEN {one} AND {other}",
            f"(f = {rng.choice(['0.0D', '2.0D'])} AND id > {one})",
            f"(t LIKE 'a%' AND id IN (1, 2, {one}))",
            f"(id < {one} AND t = '{text}')",
            f"f IN (-0.0D, CAST('NaN' AS DOUBLE), {one}.5D)",
        ]
    )


def _matches(bound: Bound, batch: pa.RecordBatch) -> pa.BooleanArray:
    return evaluate(bound, lambda path: batch[path[0].name], batch.num_rows).fill_null(False)


@pytest.mark.parametrize("of_rows", [False, True])
def test_many_alternatives_match_what_each_of_them_matches(of_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    fields = {"id": "long", "f": "double", "t": "string"}
    columns = Struct(tuple(Field(name, Primitive(kind)) for name, kind in fields.items()))
    values = {"id": [None, *range(40)], "f": [None, float("nan"), -0.0, 1.5, 2.0], "t": [None, *"abc"]}
    for _ in range(60):
        parts = [
            f"(id = {rng.randrange(9)} AND t = '{rng.choice('abcd')}')" if of_rows else _part(rng) for _ in range(6)
        ]
        bound = bind(as_filter(" OR ".join(parts)), columns)
        arrays = {name: pa.array(rng.choices(known, k=40)) for name, known in values.items()}
        batch = pa.record_batch({name: arrays[name] for name in fields})
        few = _matches(bound, batch)
        stats = FileStats(40, pa.array([1] * 40), {}, {(name,): batch[name] for name in fields})
        with monkeypatch.context() as patch:
            patch.setattr("deltaberg.expressions.compute.bound._MANY", 1)
            for one in (bound, pickle.loads(pickle.dumps(bound))):
                many = _matches(one, batch)
                assert many == few
            if isinstance(bound, BoundOr):
                # What all parts demand is true wherever a part is.
                outline = _matches(bound.outline, batch)
                assert pc.all(pc.or_(outline, pc.invert(few))).as_py()
                assert may_match(bound, stats) == few


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_tables_are_read_by_long_conditions(tmp_path: Path, form: Format) -> None:
    rows = pa.table({"id": range(3000), "v": [number % 7 for number in range(3000)]})
    write_table(tmp_path / "t", rows, format=form, partition_by=["v"])
    table: Any = open_table(tmp_path / "t")
    odd = [number for number in range(8000) if number % 2]
    for condition in (
        col("id").is_in(odd),
        functools.reduce(operator.or_, [col("id") == number for number in odd]),
        [[("id", "=", number), ("v", "=", number % 7)] for number in odd],
        f"id + 0 IN ({', '.join(map(str, odd[:1500]))})",
        f"id IN ({', '.join(map(str, odd))})",
    ):
        assert table.scan(condition).count() == 1500
    assert table.scan(col("v").is_in(odd)).to_arrow()["v"].unique().sort().to_pylist() == [1, 3, 5]


def _deep(depth: int) -> dict[str, Any]:
    from_left, from_right = col("id") == 1, col("id") == 1
    for number in range(depth):
        one = col("v") == number
        from_left = ~(from_left | one)
        from_right = (one & from_right) if number % 2 else (one | from_right)
    return {"from the left": from_left, "from the right": from_right}


@pytest.mark.parametrize("side", ["from the left", "from the right"])
def test_conditions_that_are_too_deep_are_refused(tmp_path: Path, side: str) -> None:
    """Parts that differ from level to level are no chain. How deep is too deep depends on the stack of the caller."""
    write_table(tmp_path / "t", pa.table({"id": [1, 5], "v": [0, 0]}), format="iceberg")
    table: Any = open_table(tmp_path / "t")
    for depth in (300, 450, 700, 950):
        with suppress(ExpressionError):
            table.scan(_deep(depth)[side]).count()
        with suppress(ExpressionError):
            table.delete(_deep(depth)[side])
    condition = _deep(5000)[side]
    rows = table.scan().count()
    with pytest.raises(ExpressionError, match="nested too deeply"):
        table.scan(condition).count()
    with pytest.raises(ExpressionError, match="nested too deeply"):
        table.delete(condition)
    assert table.scan().count() == rows


@pytest.mark.parametrize(("width", "is_counted"), [(2, True), (61, True), (62, False), (64, False)])
def test_rows_of_values_are_looked_up_by_a_number_that_64_bits_hold(width: int, is_counted: bool) -> None:
    """Each column has two values, so that they have 2 to the power of ``width`` combinations."""
    columns = Struct(tuple(Field(f"c{number}", Primitive("long")) for number in range(width)))
    rows: list[list[FilterTuple]] = [[(f"c{number}", "=", value) for number in range(width)] for value in (3, 5)]
    bound = bind(as_filter(rows), columns)
    assert isinstance(bound, BoundOr)
    assert (bound.rows is not None) == is_counted
    values = [3, 4, 5, None]
    batch = pa.record_batch([pa.array(values, pa.int64())] * width, names=[f"c{number}" for number in range(width)])
    assert batch.filter(_matches(bound, batch))["c0"].to_pylist() == [3, 5]
