"""Upserts leave rows alone that would stay as they are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.schema.rows.equal_rows import changed_rows

_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "x": pa.float64(),
    "text": pa.string(),
    "day": pa.date32(),
    "s": pa.struct({"a": pa.list_(pa.int64()), "b": pa.string()}),
    "m": pa.map_(pa.string(), pa.int64()),
    "deep": pa.list_(pa.map_(pa.string(), pa.struct([("x", pa.float64())]))),
    "void": pa.null(),
}
_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "x": 1.5,
        "text": "a",
        "day": None,
        "s": {"a": [1, None], "b": ""},
        "m": [("k", 1)],
        "deep": [[("k", {"x": math.nan})]],
    },
    {"id": 2, "x": float("nan"), "text": None, "day": None, "s": None, "m": []},
    {"id": 3, "x": None, "text": "", "day": None, "s": {"a": None, "b": None}, "m": None},
    {
        "id": 4,
        "x": -0.0,
        "text": "d",
        "day": None,
        "s": {"a": [], "b": "b"},
        "m": [("k", None)],
        "deep": [[("k", {"x": -0.0})], None],
    },
]
#: A change of one value, by its column and the id of its row.
_CHANGES: list[tuple[int, str, Any]] = [
    (1, "x", None),
    (2, "x", 0.0),
    (3, "x", float("nan")),
    (4, "x", 0.0),
    (2, "text", ""),
    (3, "text", None),
    (1, "s", {"a": [1], "b": ""}),
    (2, "s", {"a": None, "b": None}),
    (4, "s", {"a": None, "b": "b"}),
    (2, "m", None),
    (4, "m", [("k", 0)]),
    (1, "deep", [[("k", {"x": None})]]),
    (4, "deep", [[("k", {"x": 0.0})], None]),
    (4, "deep", [[("k", {"x": -0.0})]]),
]
_BOTH = pytest.mark.parametrize("format", ["delta", "iceberg"])
_PROPERTIES = {"delta": {"delta.enableDeletionVectors": "true"}, "iceberg": {"format-version": "3"}}


def _rows(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=pa.schema(_TYPES.items()))


def _head(table: Any) -> Any:
    table.refresh()
    return table.version if hasattr(table, "version") else table.snapshot.snapshot_id


@_BOTH
@pytest.mark.parametrize("strategy", ["copy-on-write", "merge-on-read"])
def test_nothing_is_committed_if_nothing_changes(tmp_path: Path, format: Any, strategy: Any) -> None:
    table: Any = create_table(tmp_path / "t", pa.schema(_TYPES.items()), format=format, properties=_PROPERTIES[format])
    table.append(_rows(*_ROWS))
    before = _head(table), sorted(tmp_path.rglob("*"))
    result = table.upsert(_rows(*reversed(_ROWS)), "id", strategy=strategy)
    assert "there was nothing to do" in str(result)
    table.upsert(_rows(_ROWS[0]).select(["text", "id"]), "id", strategy=strategy)
    table.upsert(pa.table({"id": [3], "s": pa.array([{"b": None}], pa.struct({"b": pa.string()}))}), "id")
    with table.transaction() as transaction:
        transaction.upsert(_rows(*_ROWS), "id", strategy=strategy)
    assert (_head(table), sorted(tmp_path.rglob("*"))) == before


@_BOTH
def test_only_rows_that_change_are_written(tmp_path: Path, format: Any) -> None:
    table: Any = create_table(tmp_path / "t", pa.schema(_TYPES.items()), format=format, properties=_PROPERTIES[format])
    table.append(_rows(*_ROWS[:2]))
    table.append(_rows(*_ROWS[2:]))
    rest = set(table.scan().files()["file_path"].to_pylist())
    new = {**_ROWS[0], "id": 5}
    result = table.upsert(_rows(*_ROWS[:3], {**_ROWS[3], "text": "new"}, new), "id", strategy="copy-on-write")
    counts = {name: result.metrics[f"numTargetRows{name}"] for name in ("Updated", "Inserted")}
    assert counts == {"Updated": 1, "Inserted": 1}
    assert len(rest & set(table.scan().files()["file_path"].to_pylist())) == 1
    texts = dict(zip(*(table.scan().to_arrow()[name].to_pylist() for name in ("id", "text")), strict=True))
    assert texts == {1: "a", 2: None, 3: "", 4: "new", 5: "a"}


def test_which_rows_change() -> None:
    """Values are compared as they are stored: null and NaN are equal to themselves, and -0.0 is another zero."""
    old = _rows(*_ROWS).combine_chunks().to_batches()[0]
    assert changed_rows(old, _rows(*_ROWS).to_batches()[0]).to_pylist() == [False] * len(_ROWS)
    for number, column, value in _CHANGES:
        rows = [{**row, column: value} if row["id"] == number else row for row in _ROWS]
        found = changed_rows(old, _rows(*rows).to_batches()[0]).to_pylist()
        assert found == [row["id"] == number for row in _ROWS], (number, column)
        assert changed_rows(old.slice(number - 1), _rows(*rows).to_batches()[0].slice(number - 1))[0].as_py()
