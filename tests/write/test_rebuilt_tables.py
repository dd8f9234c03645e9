"""Changes that write all files of a Delta table anew: another partitioning, and an end of column mapping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import DeltaTable
from deltaberg.errors import (
    ConcurrentAppendError,
    InvalidArgumentError,
    SchemaError,
    UnsupportedFeatureError,
)
from tests.support.roads import by_every_road

_MODE = "delta.columnMapping.mode"
_PROPERTIES = {
    _MODE: "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
}
_HIGHEST = "delta.columnMapping.maxColumnId"
_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("s", pa.struct([("a", pa.int64()), ("b", pa.string())]))])
_IDS = ["key", "p", "s", "_metadata.row_id", "_metadata.row_commit_version"]


def _made(root: Path, **more: Any) -> DeltaTable:
    """Make a mapped table with deleted rows, ids of rows, a renamed column and a dropped one."""
    table: DeltaTable = deltaberg.create_table(str(root), _SCHEMA, properties=_PROPERTIES, **more)
    for first in (0, 10):
        numbers = range(first, first + 10)
        parts = ["a" if number % 2 else None for number in numbers]
        inner = [{"a": number, "b": f"b{number}"} for number in numbers]
        table.append(pa.table({"id": list(numbers), "p": parts, "s": inner}, _SCHEMA))
    table.alter().rename("id", "key").drop("s.a").commit()
    table.delete("key IN (3, 14)", strategy="merge-on-read")
    return table


def _rows(table: DeltaTable, columns: list[str] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(columns=columns).to_arrow().sort_by("key").to_pylist()
    return found


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "no mapping": lambda alter: alter.set({"delta.columnMapping.mode": "none"}),
    "partitioned": lambda alter: alter.partition_by("p"),
    "by a number": lambda alter: alter.partition_by("key"),
    "both": lambda alter: alter.partition_by("p").set({"delta.columnMapping.mode": "none"}),
}


@pytest.mark.req("DL-OPS-13")
@by_every_road
@pytest.mark.parametrize("change", _CHANGES)
def test_one_version_has_the_same_rows_in_other_files(tmp_path: Path, change: str) -> None:
    table = _made(tmp_path)
    rows, old = _rows(table), {version: DeltaTable(tmp_path, version=version).scan().to_arrow() for version in range(5)}
    tracked, highest = _rows(table, _IDS), table.properties[_HIGHEST]
    before = set(table.live_files["path"].to_pylist())
    done = _CHANGES[change](table.alter()).commit()
    assert done.version == table.version == 5
    assert not before & set(table.live_files["path"].to_pylist())
    assert _rows(table) == _rows(DeltaTable(tmp_path, validate=True)) == rows
    assert _rows(table, _IDS) == tracked
    assert len(table.changes(5).to_arrow()) == 0
    for version, expected in old.items():
        assert DeltaTable(tmp_path, version=version).scan().to_arrow().equals(expected)
    partitioned = {"no mapping": [], "by a number": ["key"]}.get(change, ["p"])
    assert table.partition_columns == partitioned
    if change in ("no mapping", "both"):
        assert table.properties[_HIGHEST] == highest
        assert "columnMapping" not in (table.metadata.schema_string or "")
        for path in table.live_files["path"].to_pylist():
            assert {"key", "s"} <= set(pq.read_schema(tmp_path / path).names)
    table.append(pa.table({"key": [99], "p": ["z"], "s": [{"b": "new"}]}))
    assert len(_rows(DeltaTable(tmp_path))) == len(rows) + 1


def test_a_mapping_that_begins_again_gives_other_ids(tmp_path: Path) -> None:
    table = _made(tmp_path)
    rows, highest = _rows(table), int(table.properties[_HIGHEST])
    for mode in ("none", "name"):
        table.alter().set({"delta.columnMapping.mode": mode}).commit()
    assert [field.id for field in table.schema] == [highest + 1, highest + 2, highest + 3]
    assert _rows(DeltaTable(tmp_path, validate=True)) == rows
    # So does a table that takes the place of one without a mapping.
    for mode in ("none", "name"):
        properties = {"delta.columnMapping.mode": mode}
        deltaberg.create_table(tmp_path, pa.schema([("key", pa.int64())]), if_exists="replace", properties=properties)
    (field,) = DeltaTable(tmp_path).schema
    assert field.id is not None
    assert field.id > highest + 4


def test_partitions_go_again(tmp_path: Path) -> None:
    table = _made(tmp_path, partition_by="p")
    rows = _rows(table)
    table.alter().partition_by().commit()
    assert (table.partition_columns, len(table.live_files)) == ([], 1)
    assert _rows(table) == rows
    assert table.history(1)[0].info["operationParameters"]["partitionBy"] == "[]"


def test_clustering_columns_keep_their_columns(tmp_path: Path) -> None:
    table = _made(tmp_path, cluster_by="id")
    with pytest.raises(InvalidArgumentError, match="a clustered table cannot be partitioned"):
        table.alter().partition_by("p")
    table.alter().set({"delta.columnMapping.mode": "none"}).commit()
    assert table.clustering_columns == DeltaTable(tmp_path, validate=True).clustering_columns == [("key",)]
    assert table.compact().added_files == 1


def test_names_that_files_cannot_have_keep_the_mapping(tmp_path: Path) -> None:
    table = _made(tmp_path)
    table.alter().rename("key", "a key, of sorts").commit()
    with pytest.raises(SchemaError, match="the name of a column contains ' '"):
        table.alter().set({"delta.columnMapping.mode": "none"})
    with pytest.raises(UnsupportedFeatureError, match="writes all files anew"):
        table.alter().unset("delta.columnMapping.mode")
    table.alter().drop("s").commit()
    with pytest.raises(SchemaError, match="at least one column"):
        table.alter().partition_by("a key, of sorts", "p")
    assert DeltaTable(tmp_path).version == table.version


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("name", ["a", "s.x", "l.element.x", None])
def test_columns_with_keys_of_features_leave_the_mapping(tmp_path: Path, name: str | None, drops: bool) -> None:
    """Those that were widened, at any depth, and lists and maps whose elements have ids for Iceberg."""
    inner = pa.struct([("x", pa.int32())])
    schema = pa.schema([("a", pa.int32()), ("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    more = {"delta.enableTypeWidening": "true"} if name else {"delta.enableIcebergCompatV2": "true"}
    table: DeltaTable = deltaberg.create_table(str(tmp_path), schema, properties={_MODE: "name", **more})
    table.append(pa.table({"a": [1], "s": [{"x": 1}], "l": [[{"x": 1}]], "m": [[("k", {"x": 1})]]}, schema))
    if name:
        table.alter().widen(name, pa.int64()).commit()
    else:
        table.drop_feature("icebergCompatV2")
    rows = table.scan().to_arrow()
    if drops:
        assert table.drop_feature("columnMapping", dry_run=True).steps
        table.drop_feature("columnMapping")
    else:
        table.alter().set({_MODE: "none"}).commit()
    opened = DeltaTable(tmp_path, validate=True)
    assert opened.scan().to_arrow().equals(rows)
    assert ("delta.typeChanges" in (opened.metadata.schema_string or "")) == bool(name)
    assert "nested.ids" not in (opened.metadata.schema_string or "")
    (path,) = opened.live_files["path"].to_pylist()
    assert pq.read_schema(tmp_path / path).names == ["a", "s", "l", "m"]


def test_rows_that_come_meanwhile_are_a_conflict(tmp_path: Path) -> None:
    table = _made(tmp_path)
    change = table.alter().partition_by("p")
    DeltaTable(tmp_path).delete("key = 5")
    rows, files = _rows(DeltaTable(tmp_path)), {*tmp_path.rglob("*.parquet")}
    with pytest.raises(ConcurrentAppendError, match="version 5 was committed meanwhile, and it added a file"):
        change.commit()
    assert _rows(DeltaTable(tmp_path)) == rows
    left = {*tmp_path.rglob("*.parquet")}
    assert left < files
    assert all(DeltaTable(tmp_path, version=version).scan().to_arrow().num_rows >= 0 for version in range(6))


def test_empty_texts_are_no_partition(tmp_path: Path) -> None:
    """They would become null, and nobody would be told."""
    table: Any = deltaberg.create_table(tmp_path, pa.schema([("id", pa.int64()), ("s", pa.string())]))
    table.append(pa.table({"id": [1, 2], "s": ["", "x"]}))
    with pytest.raises(SchemaError, match="cannot be partitioned by empty texts"):
        table.alter().partition_by("s").commit()
    assert sorted(table.refresh().scan().to_arrow()["s"].to_pylist()) == ["", "x"]
    assert (table.version, len(list(tmp_path.rglob("*.parquet")))) == (1, 1)
