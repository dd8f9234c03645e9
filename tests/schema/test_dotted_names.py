"""Columns with dots in their names are found without backticks, wherever nothing else has that name, by every door."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import col, create_table
from deltaberg.errors import ColumnNotFoundError
from deltaberg.schema.columns import dotted_path, find_path
from deltaberg.schema.from_arrow import table_schema

_INNER = pa.struct([("x.y", pa.int64()), ("z", pa.int64())])
_COLUMNS = pa.schema([("id", pa.int64()), ("a.b", pa.int64()), ("s", _INNER)])
_ROWS = pa.table({"id": [1, 2], "a.b": [10, 20], "s": [{"x.y": 1, "z": 2}, {"x.y": 3, "z": 4}]}, schema=_COLUMNS)


@pytest.fixture(params=["delta", "iceberg"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Makes tables of two rows."""
    properties = {"delta.columnMapping.mode": "name"} if request.param == "delta" else {}

    def made(name: str = "t", **options: Any) -> Any:
        table = create_table(tmp_path / name, _COLUMNS, format=request.param, properties=properties, **options)
        table.append(_ROWS)
        return table

    return made


def _ids(table: Any) -> list[int]:
    found: list[int] = table.refresh().scan(columns=["id"]).to_arrow()["id"].to_pylist()
    return sorted(found)


def test_reads(make: Callable[..., Any]) -> None:
    table = make()
    assert table.scan(columns=["a.b", "s.x.y"]).to_arrow().to_pylist()[0] == {"a.b": 10, "s": {"x.y": 1}}
    for condition in ("a.b > 10", "`a.b` > 10", col("a.b") > 10, [("a.b", ">", 10)], "a.b % 20 = 0", "A.B > 10"):
        assert table.scan(condition).to_arrow()["id"].to_pylist() == [2], condition
    for condition in ("s.x.y > 1", col("s.x.y") > 1, "s.x.y + 1 > 2"):
        assert table.scan(condition).to_arrow()["id"].to_pylist() == [2], condition
    assert table.scan().max("a.b") == 20


def test_writes(make: Callable[..., Any]) -> None:
    new = pa.table({"id": [9], "a.b": [10], "s": pa.array([None], _INNER)})
    updated = make("updated")
    updated.update({"a.b": "a.b + 1"}, "s.x.y = 1")
    assert sorted(updated.refresh().scan().to_arrow()["a.b"].to_pylist()) == [11, 20]
    deleted = make("deleted")
    deleted.delete("a.b = 10")
    assert _ids(deleted) == [2]
    overwritten = make("overwritten")
    overwritten.overwrite(new, where="a.b = 10")
    assert _ids(overwritten) == [2, 9]
    upserted = make("upserted")
    upserted.upsert(new, "a.b")
    assert _ids(upserted) == [2, 9]
    merged = make("merged", partition_by=["a.b"])
    merge = merged.merge(new, "t.a.b = u.a.b", source_alias="u", target_alias="t")
    merge.when_matched_update({"id": "u.id", "a.b": "u.a.b + 1"}).execute()
    assert sorted(merged.refresh().scan().to_arrow()["a.b"].to_pylist()) == [11, 20]
    assert _ids(merged) == [2, 9]


def test_changes_of_columns(make: Callable[..., Any]) -> None:
    table = make()
    table.alter().comment("a.b", "one").comment("s.x.y", "two").move("id", after="a.b").commit()
    table.alter().add("n", pa.int64(), before="`a.b`").move("s", before="a.b").move("s.z", before="x.y").commit()
    found = table.refresh().scan().to_arrow().schema
    assert found.names == ["n", "s", "a.b", "id"]
    assert [child.name for child in found.field("s").type] == ["z", "x.y"]
    table.alter().rename("s.x.y", "w").rename("a.b", "c").commit()
    assert table.refresh().scan().to_arrow().schema.names == ["n", "s", "c", "id"]
    table.alter().rename("c", "e.f").commit()
    table.alter().drop("e.f").commit()
    assert table.refresh().scan().to_arrow().schema.names == ["n", "s", "id"]


def test_lists_of_names(tmp_path: Path) -> None:
    columns = {"id": pa.int64(), "a.b": pa.int64()}
    table = create_table(tmp_path / "iceberg", columns, format="iceberg")
    table.alter().partition_by(["a.b", "bucket(4, id)"]).sort_by(["a.b desc", "id"]).commit()
    assert [field.name for field in table.refresh().spec.fields] == ["a.b", "id_bucket"]
    delta = create_table(tmp_path / "delta", columns, format="delta")
    delta.alter().cluster_by(["a.b", "id"]).commit()
    assert delta.refresh().clustering_columns == [("a.b",), ("id",)]


def test_names_that_may_be_several(tmp_path: Path) -> None:
    schema = pa.schema([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    table = create_table(tmp_path / "t", schema, format="delta")
    table.append(pa.table({"a.b": [1], "a": [{"b": 2}]}, schema=schema))
    with pytest.raises(ColumnNotFoundError, match="ambiguous") as caught:
        table.scan(columns=["a.b"])
    assert "backticks" in str(caught.value)
    assert table.scan(columns=["`a.b`"]).to_arrow().to_pylist() == [{"a.b": 1}]
    assert table.scan(columns=[("a", "b")]).to_arrow().to_pylist() == [{"a": {"b": 2}}]
    # In SQL a dot leads into the struct, as in Spark.
    assert table.scan("a.b = 2").count() == 1
    assert table.scan("`a.b` = 1").count() == 1
    two = table_schema(pa.schema([("x.y", pa.struct([("z", pa.int64())])), ("x", pa.struct([("y.z", pa.int64())]))]))
    with pytest.raises(ColumnNotFoundError, match=re.escape("ambiguous: it may be `x.y`.z and x.`y.z`")):
        find_path(two, ("x", "y", "z"))
    assert dotted_path(two, ("none", "y")) == ("none", "y")
    many = ("x",) * 20_000
    with pytest.raises(ColumnNotFoundError, match=r"there is no column 'x.x."):
        find_path(two, many)
