"""Conditions of many parts, which people make by programs."""

from __future__ import annotations

import functools
import operator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo, Or

from deltaberg import col, open_table, write_table
from deltaberg.errors import ExpressionError
from deltaberg.expressions import as_expression, bind, evaluate
from deltaberg.expressions.values.parse import as_value
from deltaberg.schema import Field, Primitive, Struct

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
def test_conditions_may_be_long(form: str) -> None:
    """None of them recurses once for each part: neither binding nor the text that a history records."""
    condition = _conditions()[form]
    found = as_expression(condition)
    batch = pa.record_batch({"id": [0, _MANY - 1, _MANY, 7], "v": [0, _MANY - 1, _MANY, 8]})
    kept = evaluate(bind(found, _COLUMNS), lambda path: batch[path[0].name], batch.num_rows)
    assert kept.to_pylist() == [True, True, False, False]
    assert str(found).count(" OR ") == _MANY - 1
    if form not in ("pyiceberg", "tuples"):
        assert str(as_value(condition)).count(" OR ") == _MANY - 1


def test_rows_are_changed_by_long_conditions(tmp_path: Path) -> None:
    condition = " OR ".join(f"id = {number}" for number in range(5, 500))
    for form in ("iceberg", "delta"):
        write_table(tmp_path / form, pa.table({"id": [1, 5, 7], "v": [0, 0, 0]}), format=form)
        table: Any = open_table(tmp_path / form)
        table.update({"v": f"CASE WHEN {condition} THEN v + 1 ELSE v END"}, condition)
        table.delete(functools.reduce(operator.or_, [col("id") == number for number in range(7, 800)]))
        assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": 0}, {"id": 5, "v": 1}]


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
