"""Empty texts and bytes in partition columns: the log records null for them, so they are null in every respect."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.table.rows.row_rules import RowRules

_LONG, _STRING, _BINARY = Primitive("long"), Primitive("string"), Primitive("binary")
_ID, _REQUIRED = Field("id", _LONG), Field("p", _STRING, nullable=False)

_ways = pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copy", "vectors"])


def _rows(*rows: tuple[int, Any]) -> pa.Table:
    return pa.table({"id": [number for number, _ in rows], "p": [value for _, value in rows]})


def _table(root: Path, *columns: Field, **more: Any) -> DeltaTable:
    """Return a table by p with the row (1, a)."""
    table: DeltaTable = create_table(root, Struct(columns), partition_by="p", **more)
    table.append(_rows((1, b"a" if table.schema.get("p").type == _BINARY else "a")))  # type: ignore[union-attr]
    return table


def _writes(table: DeltaTable, empty: Any = "") -> dict[str, Callable[[], Any]]:
    """Return every way to write an empty value to p in the row 1, or in a row 2."""
    new, old = _rows((2, empty)), _rows((1, empty))
    merge = table.merge(_rows((1, empty), (2, empty)), "target.id = source.id")
    value = "''" if empty == "" else "X''"
    return {
        "append": lambda: table.append(new),
        "overwrite": lambda: table.overwrite(new),
        "where": lambda: table.overwrite(new, where="id = 2"),
        "dynamic": lambda: table.overwrite(new, dynamic=True),
        "update": lambda: table.update({"p": value}),
        "merge update": merge.when_matched_update_all().execute,
        "merge insert": merge.when_not_matched_insert_all().execute,
        "merge by source": lambda: (
            table.merge(new, "target.id = source.id").when_not_matched_by_source_update({"p": value}).execute()
        ),
        "upsert update": lambda: table.upsert(old, "id"),
        "upsert insert": lambda: table.upsert(new, "id"),
    }


_WAYS = [
    "append", "overwrite", "where", "dynamic", "update", "merge update", "merge insert", "merge by source",
    "upsert update", "upsert insert",
]  # fmt: skip


@_ways
@pytest.mark.parametrize("way", _WAYS)
def test_they_are_null_before_nulls_are_refused(tmp_path: Path, way: str, properties: dict[str, str]) -> None:
    table = _table(tmp_path / "t", _ID, _REQUIRED, properties=properties)
    with pytest.raises(ConstraintViolationError, match="must not be null") as caught:
        _writes(table)[way]()
    assert caught.value.context["column"] == "p"
    assert table.refresh().version == 1
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "p": "a"}]


@pytest.mark.parametrize("way", _WAYS)
def test_they_are_null_before_conditions_are_checked(tmp_path: Path, way: str) -> None:
    table = _table(tmp_path / "t", _ID, Field("p", _STRING), properties={"delta.constraints.some": "p IS NOT NULL"})
    with pytest.raises(ConstraintViolationError, match="the CHECK constraint some: p=null"):
        _writes(table)[way]()


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("kind", [_STRING, _BINARY], ids=str)
def test_they_are_read_as_null(tmp_path: Path, way: str, kind: Primitive) -> None:
    is_null = Field("is_null", Primitive("boolean"), metadata={"delta.generationExpression": "p IS NULL"})
    table = _table(tmp_path / "t", _ID, Field("p", kind), is_null)
    _writes(table, "" if kind == _STRING else b"")[way]()
    rows = DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist()
    found = [(row["p"], row["is_null"]) for row in rows]
    first = b"a" if kind == _BINARY else "a"
    assert (None, True) in found
    assert set(found) <= {(first, False), (None, True)}
    assert table.scan("p IS NULL").to_arrow().num_rows == found.count((None, True))


def test_keys_are_null(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _ID, Field("p", _STRING))
    with pytest.raises(ConstraintViolationError, match="the key p is null"):
        table.upsert(_rows((2, "")), "p")
    table.upsert(_rows((2, "a")), "p")
    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "p": "a"}]


def test_values_that_are_filled_in(tmp_path: Path) -> None:
    nowhere = Field("p", _STRING, nullable=False, metadata={"CURRENT_DEFAULT": "''"})
    table = create_table(tmp_path / "t", Struct((_ID, nowhere)), partition_by="p")
    with pytest.raises(ConstraintViolationError, match="must not be null is filled with 1 nulls"):
        table.append(pa.table({"id": [1]}))


def test_other_columns_keep_them(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", Struct((_ID, _REQUIRED)))
    table.append(_rows((1, "")))
    table.upsert(_rows((1, ""), (2, "")), "id")
    table.upsert(_rows((3, "")).slice(0, 1), "p", when_matched="ignore")
    assert table.scan().to_arrow()["p"].to_pylist() == ["", ""]
    text = (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").read_text("utf-8")
    assert any(json.loads(line).get("add", {}).get("partitionValues") == {} for line in text.splitlines())


def test_rules_that_do_not_ask_for_it_keep_them() -> None:
    batch = pa.record_batch({"p": ["", "a"]})
    schema = Struct((Field("p", _STRING),))
    assert RowRules(schema).apply(batch, {"p"}).equals(batch)
    ruled = RowRules(schema, empty_as_null=frozenset({"p"}))
    assert ruled.apply(batch, {"p"})["p"].to_pylist() == [None, "a"]
