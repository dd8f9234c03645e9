"""Metadata tables: their contents for tables that tests build, and that tables of other engines have them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.errors import CorruptDeletionVectorError, CorruptMetadataError, DeltabergError, InvalidArgumentError
from deltaberg.iceberg.inspect.tables import METADATA_TABLES
from tests.support.iceberg_builder import IcebergBuilder


def _builder(root: Path) -> IcebergBuilder:
    spec = [{"source-id": 2, "name": "s", "transform": "identity"}]
    builder = IcebergBuilder(root, {"id": "long", "s": "string"}, specs=[spec])
    x = builder.data([{"id": 1, "s": "x"}, {"id": 2, "s": "x"}], partition={"s": "x"})
    y = builder.data([{"id": 3, "s": "y"}], partition={"s": "y"})
    builder.commit(x, y)
    deletes = builder.equality_deletes([1], [{"id": 9}], partition={"s": "x"})
    builder.commit(builder.position_deletes([(x, 0)]), deletes, operation="delete")
    builder.commit(removed=[y], operation="delete")
    return builder


def _rows(table: Any, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.inspect(name).to_pylist()
    return found


def test_snapshots_and_history(tmp_path: Path) -> None:
    table = open_table(_builder(tmp_path / "t").root, "iceberg")
    snapshots = _rows(table, "snapshots")
    assert [(row["snapshot_id"], row["parent_id"], row["operation"]) for row in snapshots] == [
        (1000, None, "append"),
        (1001, 1000, "delete"),
        (1002, 1001, "delete"),
    ]
    assert [row["is_current_ancestor"] for row in _rows(table, "history")] == [True] * 3
    assert _rows(table, "refs") == [
        {
            "name": "main",
            "type": "BRANCH",
            "snapshot_id": 1002,
            "max_reference_age_in_ms": None,
            "min_snapshots_to_keep": None,
            "max_snapshot_age_in_ms": None,
        }
    ]
    (log,) = _rows(table, "metadata_log_entries")
    assert log["file"] == table.metadata_location


def test_files_of_each_kind(tmp_path: Path) -> None:
    table = open_table(_builder(tmp_path / "t").root)
    assert [(row["content"], row["record_count"], row["partition"]) for row in _rows(table, "files")] == [
        (0, 2, {"s": "x"}),
        (1, 1, {"s": "x"}),
        (2, 1, {"s": "x"}),
    ]
    assert [row["content"] for row in _rows(table, "data_files")] == [0]
    assert [row["equality_ids"] for row in _rows(table, "delete_files")] == [None, [1]]
    entries = _rows(table, "entries")
    assert sorted((row["status"], row["data_file"]["content"]) for row in entries) == [(0, 0), (1, 1), (1, 2), (2, 0)]


def test_position_deletes(tmp_path: Path) -> None:
    """Rows that delete files keep are there in the columns of the table; time travel shows those of then."""
    builder = _builder(tmp_path / "t")
    now = _rows(open_table(builder.root), "position_deletes")
    (deleted,) = [row["file_path"] for row in _rows(open_table(builder.root), "delete_files") if row["content"] == 1]
    (file,) = {row["file_path"] for row in _rows(open_table(builder.root), "data_files")}
    entry = {"partition": {"s": "x"}, "spec_id": 0, "delete_file_path": deleted}
    assert now == [{"file_path": file, "pos": 0, "row": None, **entry}]
    then: Any = open_table(builder.root, snapshot_id=1000)
    newest: Any = open_table(builder.root)
    assert then.inspect("position_deletes").schema == newest.inspect("position_deletes").schema
    assert _rows(then, "position_deletes") == []
    row = {"id": 2147483544, "name": "row", "required": False, "type": {"type": "struct", "fields": builder.fields}}
    kept = builder.data(
        [{"file_path": file, "pos": 1, "row": {"id": 2, "s": "x"}}],
        fields=[
            {"id": 2147483546, "name": "file_path", "required": True, "type": "string"},
            {"id": 2147483545, "name": "pos", "required": True, "type": "long"},
            row,
        ],
        partition={"s": "x"},
    )
    kept.content = 1
    builder.commit(kept, operation="delete")
    found = {one["pos"]: one["row"] for one in _rows(open_table(builder.root), "position_deletes")}
    assert found == {0: None, 1: {"id": 2, "s": "x"}}


def test_vectors_are_position_deletes(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg", properties={"format-version": "3"})
    assert len(table.inspect("position_deletes")) == 0
    table.append(pa.table({"id": list(range(10))}))
    table.delete("id IN (3, 7)", strategy="merge-on-read")
    (vector,), (file,) = _rows(table, "delete_files"), _rows(table, "data_files")
    entry = {"spec_id": 0, "delete_file_path": vector["file_path"]}
    entry |= {name: vector[name] for name in ("content_offset", "content_size_in_bytes")}
    assert _rows(table, "position_deletes") == [
        {"file_path": file["file_path"], "pos": pos, "row": None, **entry} for pos in (3, 7)
    ]


def test_a_vector_of_many_rows_with_a_long_path(tmp_path: Path) -> None:
    """The path of its data file is not held anew for each row, of which all together would overflow an array."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    path, rows = "x" * 100_000, 30_000
    builder.commit(*builder.deletion_vectors({path: range(rows)}))
    before = pa.total_allocated_bytes()
    table = IcebergTable(builder.root).inspect("position_deletes")
    assert pa.total_allocated_bytes() - before < 64 << 20
    assert table.column("pos").to_pylist() == list(range(rows))
    column = table.column("file_path")
    assert (len(column), {chunk[0].as_py() for chunk in column.chunks if len(chunk)}, column[rows - 1].as_py()) == (
        rows,
        {path},
        path,
    )


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ("content_size_in_bytes", CorruptDeletionVectorError, "at offset 4 and have -1 bytes"),
        ("referenced_data_file", CorruptMetadataError, "does not name its data file"),
    ],
)
def test_vectors_whose_entries_lack_a_member(
    tmp_path: Path, wrong: str, error: type[DeltabergError], message: str
) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    (vector,) = builder.deletion_vectors({"x": [1]})
    vector.more[wrong] = None
    builder.commit(vector)
    with pytest.raises(error, match=message):
        IcebergTable(builder.root).inspect("position_deletes")


def test_manifests(tmp_path: Path) -> None:
    table = open_table(_builder(tmp_path / "t").root)
    rows = _rows(table, "manifests")
    counts = [(row["content"], row["existing_data_files_count"], row["deleted_data_files_count"]) for row in rows]
    assert counts == [(0, 1, 1), (1, 0, 0)]
    assert [row["added_delete_files_count"] for row in rows] == [0, 2]
    assert [row["reference_snapshot_id"] for row in _rows(table, "all_manifests")] == [1000, 1001, 1001, 1002, 1002]


def test_files_of_all_snapshots(tmp_path: Path) -> None:
    """Each manifest counts once, however many snapshots list it, and whichever of them is open."""
    builder = _builder(tmp_path / "t")
    for moment in (None, 1000):
        table: Any = open_table(builder.root, snapshot_id=moment)
        files = _rows(table, "all_files")
        paths = [Path(row["file_path"]).name for row in files]
        manifests = {row["path"] for row in _rows(table, "all_manifests")}
        assert len(manifests) == 3
        # The file that stays is in the manifest that added it, and in the one that the last commit wrote.
        assert sorted(paths.count(path) for path in set(paths)) == [1, 1, 1, 2]
        assert sorted(row["content"] for row in files) == [0, 0, 0, 1, 2]
        assert [row["content"] for row in _rows(table, "all_data_files")] == [0, 0, 0]
        assert sorted(row["content"] for row in _rows(table, "all_delete_files")) == [1, 2]
        entries = _rows(table, "all_entries")
        assert sorted((row["status"], row["data_file"]["content"]) for row in entries) == [
            *((0, 0), (1, 0), (1, 0), (1, 1), (1, 2), (2, 0))
        ]
        for all_of_them, one in (("all_files", "files"), ("all_entries", "entries")):
            assert table.inspect(all_of_them).schema == table.inspect(one).schema


def test_partitions(tmp_path: Path) -> None:
    builder = _builder(tmp_path / "t")
    (row,) = _rows(open_table(builder.root), "partitions")
    assert row["partition"] == {"s": "x"}
    assert (row["record_count"], row["file_count"]) == (2, 1)
    assert (row["position_delete_record_count"], row["equality_delete_file_count"]) == (1, 1)
    assert row["last_updated_snapshot_id"] == 1001
    before = _rows(open_table(builder.root, snapshot_id=1000), "partitions")
    assert [row["partition"]["s"] for row in before] == ["x", "y"]


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.write()
    table = open_table(builder.root, "iceberg")
    sizes = {name: table.inspect(name).num_rows for name in METADATA_TABLES}
    assert sizes == {**dict.fromkeys(METADATA_TABLES, 0), "metadata_log_entries": 1}


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no metadata table 'file'"):
        open_table(_builder(tmp_path / "t").root, "iceberg").inspect("file")  # type: ignore[arg-type]


def test_foreign_tables_have_all_of_them(conformance: Path) -> None:
    index = json.loads((conformance / "index.json").read_text(encoding="utf-8"))
    for entry in index.values():
        if entry["format"] != "iceberg":
            continue
        table = open_table(conformance / entry["dir"], "iceberg", location_map="auto")
        for name in METADATA_TABLES:
            table.inspect(name).validate(full=True)
        assert table.inspect("files").num_rows == sum(entry["live_files"].values())
        assert {str(number) for number in table.inspect("snapshots").column("snapshot_id").to_pylist()} >= set(
            entry.get("snapshots", {})
        )
