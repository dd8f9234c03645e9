"""Rows that are replaced: all of them, those of a filter on partitions, or those of the partitions of the new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, col, create_table, write_table
from deltaberg.errors import (
    ConcurrentAppendError,
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaError,
)
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of
from tests.support.typed_rows import HOSTILE_TEXTS


def _files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.parquet"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of three partitions, the last of them null, with two rows each."""
    rows = pa.table({"id": [1, 2, 3, 4, 5, 6], "p": ["a", "a", "b", "b", None, None]})
    write_table(tmp_path / "t", rows, partition_by="p")
    return tmp_path / "t"


@pytest.mark.req("DL-ACT-18", "DL-ACT-19", half="writer")
def test_all_rows(root: Path) -> None:
    table = DeltaTable(root)
    result = table.overwrite(pa.table({"id": [7], "p": ["c"]}))
    assert (result.version, result.added_files, result.removed_files) == (1, 1, 3)
    assert ids_of(table) == ids_of(DeltaTable(root)) == [7]
    assert ids_of(DeltaTable(root, version=0)) == [1, 2, 3, 4, 5, 6]
    removes = named_actions(root, 1, "remove")
    assert len(removes) == 3
    for remove in removes:
        assert remove["dataChange"] is True
        assert remove["extendedFileMetadata"] is True
        assert {"partitionValues", "size", "deletionTimestamp"} <= set(remove)
    assert len(_files(root)) == 4
    assert table.history()[0].info["operationParameters"] == {"mode": "Overwrite", "partitionBy": '["p"]'}


def _pairs(rows: list[tuple[int, str | None]]) -> pa.Table:
    return pa.table(
        {"id": pa.array([one for one, _ in rows], pa.int64()), "p": pa.array([p for _, p in rows], "string")}
    )


@pytest.mark.parametrize(
    ("replaced", "new", "left"),
    [
        ({"where": "p = 'a'"}, [(7, "a")], [3, 4, 5, 6, 7]),
        ({"where": col("p").is_null()}, [(7, None)], [1, 2, 3, 4, 7]),
        ({"where": [("p", "in", ["a", "b"])]}, [(7, "b"), (8, "b")], [5, 6, 7, 8]),
        ({"where": "p = 'nowhere'"}, [], [1, 2, 3, 4, 5, 6]),
        ({"where": "p IS NOT NULL"}, [], [5, 6]),
        ({"where": "P >= 'b'"}, [(7, "z")], [1, 2, 5, 6, 7]),
        ({"dynamic": True}, [(7, "a")], [3, 4, 5, 6, 7]),
        ({"dynamic": True}, [(7, None), (8, "z")], [1, 2, 3, 4, 7, 8]),
        ({"dynamic": True}, [(7, "")], [1, 2, 3, 4, 7]),
        ({"dynamic": True}, [], [1, 2, 3, 4, 5, 6]),
    ],
)
def test_the_rows_of_a_filter_or_of_the_partitions_of_the_new_rows(
    root: Path, replaced: Any, new: list[tuple[int, str | None]], left: list[int]
) -> None:
    DeltaTable(root).overwrite(_pairs(new), **replaced)
    assert ids_of(DeltaTable(root)) == left


def test_new_rows_must_match_the_filter(root: Path) -> None:
    table = DeltaTable(root)
    wrong = pa.table({"id": [7, 8], "p": ["a", "b"]})
    before = _files(root)
    with pytest.raises(ConstraintViolationError, match=r"rows to be replaced: p='b' .*p = 'a'"):
        table.overwrite(wrong, where="p = 'a'")
    assert _files(root) == before
    assert DeltaTable(root).version == 0
    table.overwrite(wrong, where="p = 'a'", check=False)
    assert ids_of(table) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["rewritten", "vectors"])
@pytest.mark.parametrize(
    ("where", "new", "left"),
    [
        ("id = 1", [(1, "z")], [1, 2, 3, 4, 5, 6]),
        ("p = 'a' AND id > 1", [(7, "a")], [1, 3, 4, 5, 6, 7]),
        ("id % 2 = 0", [(8, "a"), (10, None)], [1, 3, 5, 8, 10]),
        ("id > 100", [(101, "a")], [1, 2, 3, 4, 5, 6, 101]),
        ("id >= 1", [(3, "q")], [3]),
        ("id > 3", [], [1, 2, 3]),
    ],
)
def test_the_rows_of_any_condition(
    tmp_path: Path, where: str, new: list[tuple[int, str | None]], left: list[int], properties: dict[str, str]
) -> None:
    rows = pa.table({"id": [1, 2, 3, 4, 5, 6], "p": ["a", "a", "b", "b", None, None]})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_table(tmp_path / "t", rows, partition_by="p", configuration={**properties, **feed})
    table = DeltaTable(tmp_path / "t")
    before = {row["id"]: row["p"] for row in rows.to_pylist()}
    result = table.overwrite(_pairs(new), where=where)
    assert ids_of(DeltaTable(tmp_path / "t")) == left
    changes = table.changes(1, 1).to_arrow().to_pylist()
    inserted = {row["id"]: row["p"] for row in changes if row["_change_type"] == "insert"}
    deleted = {row["id"]: row["p"] for row in changes if row["_change_type"] == "delete"}
    assert inserted == dict(new)
    assert len(inserted) + len(deleted) == len(changes)
    assert deleted.items() <= before.items()
    assert sorted([*(before.keys() - deleted.keys()), *inserted]) == left
    assert result.metrics["numDeletedRows"] == len(deleted)


def test_new_rows_must_match_any_condition(tmp_path: Path) -> None:
    write_table(tmp_path / "t", ids(1, 2, 3))
    table = DeltaTable(tmp_path / "t")
    before = _files(tmp_path / "t")
    for where, wrong in (("id > 1", [5, 1]), ("id % 2 = 0", [4, 5, None]), ("id > 1", [None])):
        rows = pa.table({"id": pa.array(wrong, pa.int64())})
        with pytest.raises(ConstraintViolationError, match="violates the filter of the rows to be replaced: id="):
            table.overwrite(rows, where=where)
        assert _files(tmp_path / "t") == before
    assert DeltaTable(tmp_path / "t").version == 0
    table.overwrite(ids(5, 1), where="id > 2", check=False)
    assert ids_of(table) == [1, 1, 2, 5]
    table.overwrite(pa.table({"id": [7], "more": ["x"]}), where="id > 1", schema_mode="merge")
    assert table.scan("id = 7").to_arrow().to_pylist() == [{"id": 7, "more": "x"}]
    assert ids_of(table) == [1, 1, 7]


def test_partitions_with_hostile_values(tmp_path: Path) -> None:
    """Each partition is replaced alone, whatever its value looks like."""
    rows = pa.table({"id": list(range(len(HOSTILE_TEXTS))), "p": HOSTILE_TEXTS})
    write_table(tmp_path / "t", rows, partition_by="p")
    table = DeltaTable(tmp_path / "t")
    for number, text in enumerate(HOSTILE_TEXTS):
        one = pa.table({"id": [100 + number], "p": [text]})
        if number % 2:
            table.overwrite(one, dynamic=True)
        else:
            table.overwrite(one, where=[("p", "=", text)])
    found = table.scan().to_arrow()
    assert dict(zip(found["p"].to_pylist(), found["id"].to_pylist(), strict=True)) == {
        text: 100 + number for number, text in enumerate(HOSTILE_TEXTS)
    }


def test_more_partitions_than_a_commit_names(tmp_path: Path) -> None:
    rows = pa.table({"id": list(range(300)), "p": list(range(300))})
    write_table(tmp_path / "t", rows, partition_by="p")
    table = DeltaTable(tmp_path / "t")
    result = table.overwrite(rows.slice(10), dynamic=True)
    assert (result.added_files, result.removed_files) == (290, 290)
    assert table.scan().count() == 300


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"where": "p = 'a'", "dynamic": True}, "exclude each other"),
        ({"where": "p = 'a'", "schema_mode": "overwrite"}, "some rows of the table stay"),
        ({"dynamic": True, "schema_mode": "overwrite"}, "some rows of the table stay"),
        ({"partition_by": ["id"]}, "partitioned by p, but id"),
        ({"partition_by": []}, "partitioned by p, but no column is asked for"),
    ],
)
def test_arguments_that_contradict(root: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DeltaTable(root).overwrite(pa.table({"id": [1], "p": ["a"]}), **arguments)


@pytest.mark.req("DL-FEAT-16", half="writer")
def test_rows_that_must_stay(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.appendOnly": "true"})
    table.append(ids(1))
    with pytest.raises(ConstraintViolationError, match=r"delta\.appendOnly"):
        table.overwrite(ids(2))
    assert len(_files(tmp_path / "t")) == 1
    listed = create_table(tmp_path / "u", ID, properties={"delta.feature.appendOnly": "supported"})
    listed.append(ids(1))
    listed.overwrite(ids(2))
    assert ids_of(listed) == [2]


# Other columns


@pytest.mark.parametrize("mode", ["none", "name"])
def test_columns_are_added(tmp_path: Path, mode: str) -> None:
    inner = pa.struct([("x", pa.int64())])
    columns = pa.schema([("id", pa.int64()), ("s", inner), ("l", pa.list_(inner))])
    table = create_table(tmp_path / "t", columns, properties={"delta.columnMapping.mode": mode})
    table.append(pa.table({"id": [1], "s": [{"x": 1}], "l": [[{"x": 1}]]}, schema=columns))
    wider = pa.table(
        {"id": [2], "s": [{"x": 2, "y": "b"}], "l": [[{"z": 1.5}]], "new": pa.array([dt_us()], pa.timestamp("us"))}
    )
    table.append(wider, schema_mode="merge")
    found = sorted(DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "s": {"x": 1, "y": None}, "l": [{"x": 1, "z": None}], "new": None},
        {"id": 2, "s": {"x": 2, "y": "b"}, "l": [{"x": None, "z": 1.5}], "new": dt_us()},
    ]
    assert "timestampNtz" in table.features
    assert all(field.nullable for field in table.schema)
    if mode == "name":
        assert table.properties["delta.columnMapping.maxColumnId"] == "8"
        assert all(field.physical_name.startswith("col-") for field in table.schema)


def dt_us() -> Any:
    import datetime as dt

    return dt.datetime(2026, 1, 1, 0, 0, 0, 1)


def test_nothing_new_leaves_the_metadata(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    table.append(ids(1), schema_mode="merge")
    assert "metaData" not in (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").read_text("utf-8")


def test_new_columns_of_required_rows_may_be_null(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    table.append(ids(1))
    required = pa.schema([("id", pa.int64()), pa.field("x", pa.int64(), nullable=False)])
    table.append(pa.table({"id": [2], "x": [2]}, schema=required), schema_mode="merge")
    assert table.schema.fields[1].nullable


@pytest.mark.parametrize("mode", ["none", "name"])
def test_columns_are_replaced(root: Path, tmp_path: Path, mode: str) -> None:
    mapping = {"delta.columnMapping.mode": mode, "owner": "ada"}
    table = create_table(tmp_path / "u", pa.schema([("id", pa.int64()), ("p", pa.string())]), properties=mapping)
    table.append(pa.table({"id": [1], "p": ["a"]}))
    table.overwrite(pa.table({"id": ["one"], "q": [1.5]}), schema_mode="overwrite")
    assert table.scan().to_arrow().to_pylist() == [{"id": "one", "q": 1.5}]
    assert table.properties["owner"] == "ada"
    assert DeltaTable(tmp_path / "u", version=1).scan().to_arrow().to_pylist() == [{"id": 1, "p": "a"}]
    if mode == "name":
        assert {field.id for field in table.schema} == {3, 4}


def test_the_partitioning_changes_with_the_columns(root: Path) -> None:
    table = DeltaTable(root)
    with pytest.raises(SchemaError, match="no column 'p'"):
        table.overwrite(pa.table({"id": [1], "q": ["x"]}), schema_mode="overwrite")
    table.overwrite(pa.table({"id": [1], "q": ["x"]}), schema_mode="overwrite", partition_by="q")
    assert (table.partition_columns, ids_of(table)) == (["q"], [1])
    table.overwrite(pa.table({"id": [2], "q": ["x"]}), schema_mode="overwrite", partition_by=[])
    assert (table.partition_columns, ids_of(table)) == ([], [2])


@pytest.mark.parametrize("mode", ["none", "name"])
def test_clustering_columns_keep_their_names(tmp_path: Path, mode: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
    table = create_table(tmp_path / "t", columns, cluster_by="s.x", properties={"delta.columnMapping.mode": mode})
    table.overwrite(pa.table({"s": [{"y": 1, "x": "a"}]}), schema_mode="overwrite")
    (s,) = table.schema
    assert table.clustering_columns == [(s.physical_name, s.type.get("x").physical_name)]  # type: ignore[attr-defined]
    with pytest.raises(SchemaError, match="lack the column x, by which the table is clustered"):
        table.overwrite(pa.table({"s": [{"y": 1}]}), schema_mode="overwrite")


def test_appends_do_not_replace_columns(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    with pytest.raises(InvalidArgumentError, match="would leave the rows"):
        table.append(pa.table({"x": [1]}), schema_mode="overwrite")


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_conditions_that_name_no_column(tmp_path: Path, partition_by: str | None) -> None:
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    write_table(tmp_path / "t", rows, partition_by=partition_by)
    table, new = DeltaTable(tmp_path / "t"), pa.table({"id": [3], "p": ["a"]})
    assert table.overwrite(new, where="true").committed
    assert ids_of(table) == [3]
    with pytest.raises(ConstraintViolationError, match="violates the filter of the rows to be replaced"):
        table.overwrite(rows, where="false")
    assert table.version == 1
    table.overwrite(rows, where="false", check=False)
    assert ids_of(table) == [1, 2, 3]
    table.overwrite(new.slice(0, 0), where="true")
    assert ids_of(table) == []
    table.overwrite(new, where="true")
    assert ids_of(DeltaTable(tmp_path / "t")) == [3]


# Others at the same time


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_an_overwrite_does_not_wipe_what_it_has_not_seen(tmp_path: Path, level: str) -> None:
    one = create_table(tmp_path / "t", ID, properties={"delta.isolationLevel": level})
    one.append(ids(1))
    other = DeltaTable(tmp_path / "t")
    one.overwrite(ids(2))
    with pytest.raises(ConcurrentAppendError, match="the whole table was read"):
        other.overwrite(ids(3))
    assert ids_of(DeltaTable(tmp_path / "t")) == [2]
    assert len(_files(tmp_path / "t")) == 2
    other.refresh().overwrite(ids(3))
    assert ids_of(other) == [3]


def test_overwrites_of_different_partitions_both_land(root: Path) -> None:
    one, other, third = DeltaTable(root), DeltaTable(root), DeltaTable(root)
    one.overwrite(pa.table({"id": [7], "p": ["a"]}), where="p = 'a'")
    other.overwrite(pa.table({"id": [8], "p": ["b"]}), dynamic=True)
    assert ids_of(DeltaTable(root)) == [5, 6, 7, 8]
    with pytest.raises(ConcurrentAppendError, match="the filter p = 'a' was read"):
        third.overwrite(pa.table({"id": [9], "p": ["a"]}), dynamic=True)
    assert ids_of(DeltaTable(root)) == [5, 6, 7, 8]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_both_zeros_are_one_partition_to_a_dynamic_overwrite(tmp_path: Path, kind: pa.DataType) -> None:
    """They are equal, as they are to a condition."""

    def rows(first: int, *values: float) -> pa.Table:
        return pa.table({"id": range(first, first + len(values)), "p": pa.array(values, kind)})

    write_table(tmp_path / "t", rows(0, 0.0, -0.0, 1.5, float("nan")), partition_by="p")
    table = DeltaTable(tmp_path / "t")
    table.overwrite(rows(4, -0.0, float("nan")), dynamic=True)
    assert ids_of(table) == [2, 4, 5]
    table.overwrite(rows(6, 0.0), dynamic=True)
    assert ids_of(table) == [2, 5, 6]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_dynamic_overwrite_of_a_table_without_partitions_replaces_all_rows(tmp_path: Path, table_format: Any) -> None:
    table: Any = create_table(tmp_path / "t", ID, format=table_format)
    for number in (1, 2):
        table.append(ids(number))
    table.delete("id = 2")
    table.overwrite(ids(3, 4), dynamic=True)
    assert ids_of(table) == [3, 4]
    with table.transaction() as transaction:
        transaction.append(ids(5))
        transaction.overwrite(ids(6), dynamic=True)
    assert ids_of(table.refresh()) == [6]
    if table_format == "iceberg":
        # As in iceberg-spark, no rows replace none.
        table.overwrite(ids(), dynamic=True)
        assert ids_of(table) == [6]
        # Files of an earlier partitioning are also replaced.
        table.alter().partition_by("id").commit()
        table.append(ids(7, 8))
        table.alter().partition_by().commit()
        table.overwrite(ids(9), dynamic=True)
        assert ids_of(table) == [9]
