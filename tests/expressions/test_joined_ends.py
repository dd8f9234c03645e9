"""Comparisons of one column with many ends are one comparison, whether AND or OR joins them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import open_table, write_table
from deltaberg.expressions.bind.bind import bind_condition
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.schema.types import Field, Primitive, Struct

pytestmark = pytest.mark.one_backend

_COLUMNS = Struct((Field("n", Primitive("long")), Field("f", Primitive("double")), Field("t", Primitive("string"))))
_ROWS = pa.record_batch(
    {
        "n": pa.array([None, *range(-3, 8)]),
        "f": pa.array([None, float("nan"), *map(float, range(-3, 7))]),
        "t": pa.array([None, "", *"abcdefghij"]),
    }
)


@pytest.mark.parametrize(
    ("condition", "one"),
    [
        ("n < 3 OR n < 5 OR n < 4", "n < 5"),
        ("n < 5 OR n <= 5 OR n < 4", "n <= 5"),
        ("n <= 4 OR n < 5", "n < 5"),
        ("n > 3 OR n >= 3 OR n > 9", "n >= 3"),
        ("n >= 4 OR n > 3", "n > 3"),
        ("n > 3 AND n >= 3 AND n > 1", "n > 3"),
        ("t < 'b' OR t < 'c'", "t < 'c'"),
        ("n < 3 OR n > 7 OR n < 1", "(n < 3 OR n > 7)"),
        # NaN is greater than all other numbers.
        ("f < 3 OR f < 5", "(f < 3.0 OR f < 5.0)"),
        (" OR ".join(f"n < {number}" for number in range(5_000)), "n < 4999"),
    ],
)
def test_the_end_that_decides(condition: str, one: str) -> None:
    assert str(bind(condition, _COLUMNS)) == one


@pytest.mark.parametrize("parts", [3, 300])
def test_files_are_left_out_whose_texts_are_less_than_all_beginnings(parts: int, tmp_path: Path) -> None:
    texts = [f"{number % 4}{number}" for number in range(40)]
    rows = pa.table({"t": texts, "p": [text[0] for text in texts]})
    write_table(tmp_path / "t", rows, partition_by="p")
    table = open_table(tmp_path / "t")
    for first in (0, 2, 9):
        beginnings = tuple(f"{first}{number}" for number in range(parts))
        scan = table.scan(" OR ".join(f"t LIKE '{text}%'" for text in beginnings))
        assert len(scan.files()) <= max(4 - first, 0)
        assert scan.count() == sum(text.startswith(beginnings) for text in texts)


def test_joined_ends_find_the_same_rows(rng: random.Random) -> None:
    for _ in range(300):
        parts = []
        for _ in range(rng.randint(2, 5)):
            name = rng.choice("nnnft")
            literal = f"'{rng.choice('abcdef')}'" if name == "t" else str(rng.randint(-2, 6))
            parts.append(f"{name} {rng.choice(['<', '<=', '>', '>=', '=', '!='])} {literal}")
        condition = parts[0]
        for part in parts[1:]:
            condition = f"({condition} {rng.choice(['AND', 'OR', 'OR'])} {part})"
        condition = f"NOT {condition}" if rng.random() < 0.3 else condition
        joined = evaluate(bind(condition, _COLUMNS), lambda path: _ROWS[path[0].name], _ROWS.num_rows)
        wanted = bind_condition(condition, _COLUMNS).evaluate(_ROWS)
        assert joined.fill_null(False).equals(wanted.fill_null(False)), condition
