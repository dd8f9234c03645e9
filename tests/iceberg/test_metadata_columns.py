"""Metadata columns: where a row is from, and whether it was deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import ColumnNotFoundError
from deltaberg.table.read.scan import bound_scan
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import Road

_COLUMNS = {"id": "long", "a": "string"}
_BY_A = [{"source-id": 2, "name": "a", "transform": "identity"}]
_BY_BUCKET = [{"source-id": 1, "name": "id_bucket", "transform": "bucket[4]", "field-id": 1001}]


def _table(tmp_path: Path, format: str = "parquet") -> tuple[IcebergBuilder, list[str]]:
    """Return a table with a file of one spec and a file of another, and the paths of the files."""
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, specs=[_BY_A, _BY_BUCKET])
    files = [
        builder.data([{"id": n, "a": "x"} for n in range(3)], partition={"a": "x"}, format=format),
        builder.data([{"id": 10, "a": None}], partition={"id_bucket": 2}, spec_id=1, format=format),
    ]
    builder.commit(*files)
    return builder, [file.path for file in files]


@pytest.mark.req("ICE-SCH-19", half="reader")
@pytest.mark.req("BEY-46")
def test_reserved_ids(tmp_path: Path) -> None:
    builder, _ = _table(tmp_path)
    source = bound_scan(open_table(builder.root, "iceberg").scan()).source
    assert {child.name: child.id for child in source.hidden} == {
        "_file": 2147483646,
        "_pos": 2147483645,
        "_deleted": 2147483644,
        "_spec_id": 2147483643,
        "_partition": 2147483642,
    }
    changes = bound_scan(open_table(builder.root, "iceberg").changes(None)).output
    assert {child.name: child.id for child in changes if child.name.startswith("_c") and child.id is not None} == {
        "_change_type": 2147483543,
        "_change_ordinal": 2147483542,
        "_commit_snapshot_id": 2147483541,
    }


@pytest.mark.req("BEY-46")
@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_where_rows_are_from(tmp_path: Path, road: Road, format: str) -> None:
    builder, paths = _table(tmp_path, format)
    names = ["id", "_file", "_pos", "_spec_id", "_partition"]
    expected: list[dict[str, Any]] = [
        {"id": n, "_file": paths[0], "_pos": n, "_spec_id": 0, "_partition": {"a": "x", "id_bucket": None}}
        for n in range(3)
    ]
    expected.append({"id": 10, "_file": paths[1], "_pos": 0, "_spec_id": 1, "_partition": {"a": None, "id_bucket": 2}})
    found = road.rows(open_table(builder.root).scan(columns=names))
    assert found == sorted(expected, key=repr)


@pytest.mark.req("BEY-46")
def test_deleted_rows_are_given_with_deleted(tmp_path: Path, road: Road) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    file = builder.data([{"id": n, "a": "x"} for n in range(5)], row_group_size=2)
    builder.commit(file)
    builder.commit(builder.position_deletes([(file, 1)]), builder.equality_deletes([1], [{"id": 3}]))
    table = open_table(builder.root)
    found = road.rows(table.scan(columns=["id", "_deleted"]))
    assert [(row["id"], row["_deleted"]) for row in found] == [
        (0, False),
        (1, True),
        (2, False),
        (3, True),
        (4, False),
    ]
    assert road.column(table.scan(columns=["id"]), "id") == [0, 2, 4]
    assert road.column(table.scan("_deleted", ["id"]), "id") == [1, 3]
    assert road.column(table.scan("not _deleted", ["id"]), "id") == [0, 2, 4]


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_that_are_asked_for_count(tmp_path: Path, road: Road, version: int) -> None:
    """A scan with deleted rows does not use what metadata says about live rows, to count, to limit or to compare."""
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, format_version=version)
    file, other = (builder.data([{"id": n + start, "a": "x"} for n in range(5)]) for start in (0, 5))
    deletes = builder.deletion_vectors({file.path: [0, 1]}) if version == 3 else [builder.position_deletes([(file, 0)])]
    builder.commit(file, other, *deletes)
    live = 8 if version == 3 else 9
    table = open_table(builder.root)
    assert table.scan(columns=["id"]).count() == live
    assert table.scan(columns=["id", "_deleted"]).count() == 10
    assert table.scan("_deleted IS NOT NULL").count() == 10
    assert table.scan("_deleted IS NOT NULL AND id < 5").count() == 5
    assert table.scan("NOT _deleted").count() == live
    assert len(road.rows(table.scan(columns=["id", "_deleted"], limit=9))) == 9
    assert len(road.rows(table.scan(columns=["id"], limit=9))) == live
    assert table.scan().min("id") == 10 - live
    assert table.scan(columns=["id", "_deleted"]).min("id") == 0
    assert table.scan("_deleted").max("id") == 9 - live


@pytest.mark.req("BEY-46")
def test_deleted_rows_of_a_deletion_vector(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS, format_version=3)
    file = builder.data([{"id": n, "a": "x"} for n in range(4)])
    builder.commit(file, *builder.deletion_vectors({file.path: [2]}))
    scan = open_table(builder.root).scan("id >= 1", ["_deleted", "_pos", "id"])
    assert [tuple(row.values()) for row in scan.to_arrow().to_pylist()] == [
        (False, 1, 1),
        (True, 2, 2),
        (False, 3, 3),
    ]


@pytest.mark.req("ICE-DEL-16")
def test_positions_stay_physical(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    file = builder.data([{"id": n, "a": "x"} for n in range(20)], row_group_size=4)
    builder.commit(file, builder.position_deletes([(file, 0)]))
    table = open_table(builder.root, "iceberg")
    first = next(table.scan(columns=["_pos"], batch_size=3).to_batches())
    assert first.column("_pos")[0].as_py() == 1
    choices: list[dict[str, Any]] = [{}, {"split_size": 1}, {"batch_size": 1}]
    for options in choices:
        found = table.scan("id > 9", ["_pos", "id"], **options).to_arrow().to_pylist()
        assert sorted((row["_pos"], row["id"]) for row in found) == [(n, n) for n in range(10, 20)]


def test_filters_on_metadata_columns(tmp_path: Path, road: Road) -> None:
    builder, paths = _table(tmp_path)
    table = open_table(builder.root)
    assert road.column(table.scan("_pos = 0"), "id") == [0, 10]
    assert road.column(table.scan("_spec_id = 1"), "id") == [10]
    assert road.column(table.scan(f"_file = '{paths[0]}'"), "id") == [0, 1, 2]
    assert road.column(table.scan("_partition.a = 'x'", ["id"]), "id") == [0, 1, 2]
    assert table.scan("_spec_id = 1").files().num_rows == 1


def test_they_are_read_where_they_are_named(tmp_path: Path) -> None:
    builder, _ = _table(tmp_path)
    table = open_table(builder.root)
    assert table.scan().schema.names == ["id", "a"]
    assert table.scan(columns=["_pos"]).schema.names == ["_pos"]
    with pytest.raises(ColumnNotFoundError, match="no column '_row_id'"):
        table.scan(columns=["_row_id"])


@pytest.mark.req("BEY-46")
def test_columns_of_the_same_name_are_the_users(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "_pos": "string", "_partition": "long", "_file": "long"})
    rows = [{"id": 1, "_pos": "here", "_partition": 5, "_file": 6}]
    builder.commit(builder.data(rows))
    table = open_table(builder.root)
    assert table.scan().to_arrow().to_pylist() == rows
    assert table.scan("_pos = 'here' and _file = 6", ["_pos", "_partition"]).to_arrow().to_pylist() == [
        {"_pos": "here", "_partition": 5}
    ]


def test_an_unpartitioned_table_has_no_partition_column(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", _COLUMNS)
    builder.commit(builder.data([{"id": 1, "a": "x"}]))
    table = open_table(builder.root)
    assert table.scan(columns=["_spec_id", "_pos"]).to_arrow().to_pylist() == [{"_spec_id": 0, "_pos": 0}]
    with pytest.raises(ColumnNotFoundError, match="no column '_partition'"):
        table.scan(columns=["_partition"])


@pytest.mark.req("BEY-31")
@pytest.mark.parametrize("mapped", [False, True])
def test_identity_partition_values_of_columns_that_files_lack(tmp_path: Path, road: Road, mapped: bool) -> None:
    """Partition values take precedence over name mapping, defaults and null, as in files that were added from Hive."""
    properties = {"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'} if mapped else {}
    spec = [{"source-id": 2, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "p": "string"}, specs=[spec], properties=properties)
    rows = [{"id": n} for n in range(3)]
    hive = builder.data(rows, fields=builder.fields[:1], partition={"p": "EU"}, ids=not mapped)
    builder.commit(hive, builder.data([{"id": 9, "p": "US"}], partition={"p": "US"}))
    table = open_table(builder.root)
    assert road.rows(table.scan("id > 1")) == [{"id": 2, "p": "EU"}, {"id": 9, "p": "US"}]
    assert road.column(table.scan("p = 'EU'"), "id") == [0, 1, 2]
    assert table.scan("p = 'EU' and id >= 0").count() == 3


@pytest.mark.req("BEY-31")
def test_other_transforms_give_no_values(tmp_path: Path) -> None:
    builder = IcebergBuilder(
        tmp_path / "t",
        {"id": "long", "p": "string"},
        specs=[[{"source-id": 2, "name": "p_truncated", "transform": "truncate[2]"}]],
    )
    builder.commit(builder.data([{"id": 1}], fields=builder.fields[:1], partition={"p_truncated": "EU"}))
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [{"id": 1, "p": None}]


@pytest.mark.req("BEY-31")
def test_a_partition_value_comes_before_a_default(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "p", "required": False, "type": "string", "initial-default": "none"},
    ]
    spec = [{"source-id": 2, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", fields, format_version=3, specs=[spec, ()])
    files = [
        builder.data([{"id": 1}], fields=fields[:1], partition={"p": "EU"}),
        builder.data([{"id": 2}], fields=fields[:1], spec_id=1),
    ]
    builder.commit(*files)
    found = open_table(builder.root).scan().to_arrow().to_pylist()
    assert sorted(found, key=repr) == [{"id": 1, "p": "EU"}, {"id": 2, "p": "none"}]
