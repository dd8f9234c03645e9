"""Literals with a type in filters: as the same comparison inside of a value, which tests compare with Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import col, open_table, write_table
from deltaberg.errors import ExpressionError

pytestmark = pytest.mark.one_backend

_ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "f": pa.array([0.1, 0.5, None], pa.float32()),
        "g": [0.1, 0.5, None],
        "d": pa.array([Decimal("1.24"), Decimal("2.00"), None], pa.decimal128(10, 2)),
        "s": ["a\\b", "a\\\\b", "50%"],
        "day": [dt.date(2026, 1, 31), dt.date(2026, 2, 1), None],
    }
)


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        ("f = 0.1F", [1]),
        ("f = CAST(0.1 AS FLOAT)", [1]),
        ("f > 0.1F", [2]),
        ("f >= -0.1F", [1, 2]),
        ("f = 0.1", []),
        ("g = 0.1F", []),
        ("g = 0.1D", [1]),
        ("d = CAST(1.239 AS DECIMAL(10,2))", [1]),
        ("d = CAST('1.24' AS DECIMAL(4,2))", [1]),
        ("d = 1.24BD", [1]),
        ("d = CAST(2.4 AS DECIMAL)", [2]),
        ("d <=> CAST(2e0 AS DECIMAL(38,37))", [2]),
        ("id = TRY_CAST('1000' AS TINYINT)", []),
        ("id <=> TRY_CAST('x' AS INT)", []),
        ("id = TRY_CAST('2' AS INT)", [2]),
        ("id = CAST(2.9 AS INT)", [2]),
        ("id = 2Y", [2]),
        ("id = 3000000000L", []),
        ("f IN (0.1F, 0.5F)", [1, 2]),
        (r"s LIKE '%\\\\b'", [1, 2]),
        (r"s LIKE 'a\\\\%'", [1, 2]),
        (r"s LIKE '%\\\\\\\\%'", [2]),
        (r"s NOT LIKE '%\\\\b'", [3]),
        (r"s LIKE '50\\%'", [3]),
        ("day >= '2026-01-31 10:00:00'", [1, 2]),
        ("day < '2026-01-31 10:00:00'", []),
        ("day < TIMESTAMP '2026-01-31 10:00:00'", [1]),
    ],
)
def test_filters_find_what_values_find(tmp_path: Path, condition: str, matching: list[int]) -> None:
    for form in ("delta", "iceberg"):
        write_table(tmp_path / form, _ROWS, format=form)
        table = open_table(tmp_path / form)
        # Arithmetic beside a comparison has all of it evaluated as a value.
        for text in (condition, f"({condition}) AND id % 1 = 0"):
            assert table.scan(text, ["id"]).to_arrow()["id"].to_pylist() == matching, text


@pytest.mark.parametrize("text", ["id = CAST('x' AS INT)", "f = CAST('x' AS FLOAT)", "day = CAST('x' AS DATE)"])
def test_what_is_no_literal_is_refused(tmp_path: Path, text: str) -> None:
    write_table(tmp_path / "t", _ROWS)
    with pytest.raises(ExpressionError, match=r"'x' cannot be compared with a column of .* not a value of the type"):
        open_table(tmp_path / "t").scan(text)


def test_patterns_that_escape_other_characters_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "t", _ROWS)
    with pytest.raises(ExpressionError, match="escapes what is neither"):
        open_table(tmp_path / "t").scan(col("s").like("a\\b"))


@pytest.mark.parametrize("text", ["1e999999999", "-1e999999999", "1e-999999999"])
def test_numbers_of_a_billion_digits_are_compared_at_once(tmp_path: Path, text: str) -> None:
    write_table(tmp_path / "t", _ROWS)
    table = open_table(tmp_path / "t")
    for name in ("id", "d", "g"):
        less = table.scan(col(name) < Decimal(text), ["id"]).to_arrow()["id"].to_pylist()
        wanted = [] if text != "1e999999999" else [1, 2, 3] if name == "id" else [1, 2]
        assert less == wanted, name
        if name == "id":
            with pytest.raises(ExpressionError, match="is not a value of the type bigint"):
                table.scan([(name, "=", text)])
        else:
            assert table.scan([(name, "=", text)]).count() == 0
