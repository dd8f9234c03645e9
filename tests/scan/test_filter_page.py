"""The tables of filters in docs/scan.md are complete, and each of their examples keeps the rows that they say."""

from __future__ import annotations

import datetime as dt
import math
import re
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyiceberg.expressions
import pytest

from deltaberg import col, open_table, write_table
from deltaberg.choices import Operator
from deltaberg.expressions.build import pyiceberg as classes
from deltaberg.expressions.build.column import Column
from tests.support.pages import ROOT

_PAGE = (ROOT / "docs" / "scan.md").read_text("utf-8")
_WAYS = ["SQL text", "`col`", "Tuples", "Expressions of pyiceberg"]
_NAMES: dict[str, Any] = {**vars(pyiceberg.expressions), "col": col}
_CELLS = re.compile(r"(?<!\\)\|")
_VALUES: dict[str, Any] = {"null": None, "true": True, "false": False, "NaN": math.nan}


def _rows(section: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its first two lines."""
    lines = [line for line in _PAGE.partition(f"{section}\n\n")[2].partition("\n#")[0].splitlines() if line[:1] == "|"]
    return [[cell.strip().replace("\\|", "|") for cell in _CELLS.split(line)[1:-1]] for line in lines[2:]]


def _examples() -> list[Any]:
    cases = []
    for way in _WAYS:
        for _, examples, keeps in _rows(f"### {way}"):
            wanted = [] if keeps == "none" else [int(one) for one in keeps.split(",")]
            texts = re.findall(r"`([^`]+)`", examples)
            assert texts
            given = [text if way == "SQL text" else eval(text, _NAMES) for text in texts]
            cases += [pytest.param(one, wanted, id=text) for one, text in zip(given, texts, strict=True)]
    return cases


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The table of the page, with a file for each row, so that statistics decide, too."""
    folder: Path = tmp_path_factory.mktemp("page") / "orders"
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("region", pa.string()),
            ("price", pa.float64()),
            ("stock", pa.int64()),
            ("day", pa.date32()),
            ("paid", pa.bool_()),
            ("address", pa.struct([("city", pa.string())])),
        ]
    )
    rows = _rows("which rows of this table they keep, by `id`:")
    assert len(rows) == 4
    for cells in rows:
        number, region, price, stock, day, paid, city = [_VALUES.get(cell, cell) for cell in cells]
        row = {
            "id": int(number),
            "region": region,
            "price": price and float(price),
            "stock": stock and int(stock),
            "day": day and dt.date.fromisoformat(day),
            "paid": paid,
            "address": {"city": city},
        }
        write_table(folder, pa.Table.from_pylist([row], schema), format=request.param, mode="append")
    return open_table(folder)


@pytest.mark.parametrize(("given", "wanted"), _examples())
def test_each_example_keeps_what_the_page_says(given: Any, wanted: list[int], table: Any) -> None:
    assert sorted(table.scan(given, ["id"]).to_arrow()["id"].to_pylist()) == wanted
    assert table.scan(given).count() == len(wanted)


@pytest.mark.one_backend
def test_the_tables_are_complete() -> None:
    forms = {way: " ".join(form for form, _, _ in _rows(f"### {way}")) for way in _WAYS}
    methods = {name for name in vars(Column) if not name.startswith("_") and callable(getattr(Column, name))}
    assert methods
    assert not [name for name in methods if f"`{name}`" not in forms["`col`"]]
    assert not [operator for operator in get_args(Operator) if f"`{operator.lower()}`" not in forms["Tuples"]]
    known = {**classes._COMPARISONS, **classes._CONSTANTS}
    assert not [name for name in known if f"`{name}`" not in forms["Expressions of pyiceberg"]]
