"""Columns with defaults, rows with an identity, branches, tags and staged snapshots of Iceberg tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table, find_commit, open_table
from deltaberg.errors import CommitConflictError, InvalidArgumentError, SchemaError
from deltaberg.iceberg import IcebergTable

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])


def _new(root: Path, version: str = "3", **more: Any) -> IcebergTable:
    table: IcebergTable = create_table(
        root / "t", _COLUMNS, format="iceberg", properties={"format-version": version}, **more
    )
    return table


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "name": [f"n{number}" for number in ids]})


def _ids(table: Any) -> list[int]:
    found: list[int] = sorted(table.scan().to_arrow()["id"].to_pylist())
    return found


def _as_pyiceberg_reads(table: IcebergTable, **more: Any) -> list[dict[str, Any]]:
    rows = StaticTable.from_metadata(table.metadata_location).scan(**more).to_arrow()
    found: list[dict[str, Any]] = rows.sort_by("id").to_pylist()
    return found


def test_new_columns_have_defaults(tmp_path: Path) -> None:
    table = _new(tmp_path)
    table.append(_rows(1))
    change = table.alter().add("n", pa.int64(), default=7, required=True).add("kind", pa.string(), default="a")
    change.add("plain", pa.float64()).commit()
    table.append(pa.table({"id": pa.array([2], pa.int32()), "kind": pa.array([None], pa.string())}))
    table.alter().set_default("n", 8).set_default("kind", None).commit()
    table.append(_rows(3))
    got = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["n"], row["kind"], row["plain"]) for row in got] == [(7, "a", None), (7, None, None), (8, None, None)]
    assert _as_pyiceberg_reads(table) == got
    fields = [dict(found) for found in table.metadata.raw["schemas"][-1]["fields"]]
    assert [(found.get("initial-default"), found.get("write-default")) for found in fields[2:]] == [
        (7, 8),
        ("a", None),
        (None, None),
    ]
    with pytest.raises(SchemaError, match="would have no value"):
        table.alter().add("r", pa.int64(), required=True)
    with pytest.raises(InvalidArgumentError, match="cannot be written as a value"):
        table.alter().add("r", pa.int64(), default="x")
    with pytest.raises(SchemaError, match="have no default values"):
        table.alter().add("r", pa.list_(pa.int64()), default=[1])
    with pytest.raises(SchemaError, match="format version 2 has no default values"):
        _new(tmp_path / "old", "2").alter().add("r", pa.int64(), default=1)


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_identity_and_wider_types(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by="bucket(4, id)")
    table.append(_rows(1))
    table.alter().identify_by("id").commit()
    assert table.metadata.current_schema.identifier_field_ids == (1,)
    with pytest.raises(SchemaError, match="may be null"):
        table.alter().identify_by("name")
    wide = pa.table({"id": pa.array([1 << 40], pa.int64()), "name": ["b"], "s": [{"x": pa.scalar(1, pa.int32())}]})
    with pytest.raises(SchemaError):
        table.append(wide)
    table.append(wide.set_column(2, "s", pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))), schema_mode="merge")
    table.append(pa.table({"id": pa.array([3], pa.int32()), "s": pa.array([{"x": 1, "y": 0.5}])}), schema_mode="merge")
    assert str(table.schema) == "struct<id: long, name: string, s: struct<x: long, y: double>>"
    got = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [row["id"] for row in got] == [1, 3, 1 << 40]
    assert _as_pyiceberg_reads(table) == got
    assert table.scan("id = 3").plan.files.num_rows == 1
    table.alter().identify_by().commit()
    assert not table.metadata.current_schema.identifier_field_ids


def test_dates_widen_only_where_partitions_stay(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("d", pa.date32())])
    table = create_table(
        tmp_path / "t",
        columns,
        format="iceberg",
        partition_by=["month(d)"],
        properties={"format-version": "3"},
    )
    table.alter().widen("d", pa.timestamp("us")).commit()
    other = create_table(
        tmp_path / "u", columns, format="iceberg", partition_by="d", properties={"format-version": "3"}
    )
    with pytest.raises(SchemaError, match="would have other values"):
        other.alter().widen("d", pa.timestamp("us"))


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_branches_and_tags(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version)
    with pytest.raises(InvalidArgumentError, match="no snapshot yet"):
        table.alter().create_branch("b")
    first = table.append(_rows(1)).snapshot_id
    table.alter().create_branch("b", min_snapshots_to_keep=2).create_tag("v1", first, max_ref_age_ms=9).commit()
    done = table.append(_rows(2), branch="b")
    assert _ids(table) == [1]
    branch = open_table(tmp_path / "t", "iceberg", ref="b")
    assert _ids(branch) == [1, 2]
    branch.append(_rows(3))
    assert _ids(branch) == [1, 2, 3]
    table.refresh()
    assert [row["id"] for row in _as_pyiceberg_reads(table, snapshot_id=branch.snapshot_id)] == [1, 2, 3]
    with pytest.raises(CommitConflictError, match="'b' has snapshots that 'v1' does not have"):
        table.alter().fast_forward("b", "v1")
    table.alter().fast_forward("main", "b").commit()
    assert _ids(table) == [1, 2, 3]
    assert _ids(open_table(tmp_path / "t", "iceberg", ref="v1")) == [1]
    with pytest.raises(InvalidArgumentError, match="no branch 'v1'"):
        table.append(_rows(4), branch="v1")
    with pytest.raises(InvalidArgumentError, match="that of another branch or tag"):
        table.alter().create_tag("b")
    table.alter().drop_branch("b").drop_tag("v1").commit()
    assert set(table.metadata.all_refs) == {"main"}
    with pytest.raises(InvalidArgumentError, match="no tag 'v1'"):
        table.alter().drop_tag("v1")
    found = find_commit(tmp_path / "t", done.token)
    assert found is not None
    assert (found.snapshot_id, found.added_rows, found.operation) == (done.snapshot_id, 1, "append")
    assert find_commit(tmp_path / "t", "12") is None


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_snapshots_are_staged_and_published(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by="id")
    table.append(_rows(1))
    staged = table.append(_rows(2), properties={"wap.id": "w"})
    assert staged.committed
    assert table.metadata.current_snapshot_id != staged.snapshot_id
    assert _ids(table) == [1]
    assert _ids(open_table(tmp_path / "t", "iceberg", snapshot_id=staged.snapshot_id)) == [1, 2]
    late = table.append(_rows(5), properties={"wap.id": "late"})
    gone = table.delete("id = 1", properties={"wap.id": "gone"})
    assert table.publish("w").snapshot_id == staged.snapshot_id
    assert _ids(table) == [1, 2]
    with pytest.raises(CommitConflictError, match="published already"):
        table.publish("w")
    with pytest.raises(CommitConflictError, match="of the operation delete"):
        table.publish("gone")
    with pytest.raises(InvalidArgumentError, match="no snapshot is staged"):
        table.publish("other")
    published = table.publish("late")
    assert published.snapshot_id not in (late.snapshot_id, gone.snapshot_id)
    assert [row["id"] for row in _as_pyiceberg_reads(table)] == [1, 2, 5] == _ids(table)
    summary = table.snapshot.summary if table.snapshot else {}
    assert summary is not None
    assert (summary["published-wap-id"], summary["source-snapshot-id"]) == ("late", str(late.snapshot_id))
    with pytest.raises(CommitConflictError, match="published already"):
        table.publish("late")
    table.append(_rows(8), properties={"wap.branch": "audit"})
    table.append(_rows(9), properties={"wap.branch": "audit"})
    assert _ids(table) == [1, 2, 5]
    assert _ids(open_table(tmp_path / "t", "iceberg", ref="audit")) == [1, 2, 5, 8, 9]
    if version == "3":
        ids = table.scan(columns=["_row_id"]).to_arrow()["_row_id"].to_pylist()
        assert len(set(ids)) == 3
    with pytest.raises(InvalidArgumentError, match=r"wap.branch is 'x', which is empty, or named beside wap.id"):
        table.append(_rows(1), properties={"wap.branch": "x", "wap.id": "y"})
