"""Purge: what is deleted or dropped is in no file any more, and no other file is touched (requirement DL-OPS-08)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import DeltaTable, IcebergTable
from deltaberg.errors import CorruptDataFileError, DataFileNotFoundError
from deltaberg.schema.name_mapping import field_id
from tests.support.rows import ids, ids_of

_MAPPED = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
}
_INNER = pa.struct([("a", pa.int64()), ("b", pa.string())])
_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", _INNER),
        ("l", pa.list_(_INNER)),
        ("m", pa.map_(pa.string(), _INNER)),
        ("x", pa.string()),
    ]
)
_IDS = ["id", "_metadata.row_id", "_metadata.row_commit_version"]


def _rows(schema: pa.Schema, *numbers: int) -> pa.Table:
    inner = [{"a": number, "b": f"b{number}"} for number in numbers]
    columns = {
        "id": list(numbers),
        "s": inner,
        "l": [[one] for one in inner],
        "m": [[("k", one)] for one in inner],
        "x": [f"x{number}" for number in numbers],
    }
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema)


def _mapped(root: Path, **more: Any) -> Any:
    table = deltaberg.create_table(str(root), _SCHEMA, properties=_MAPPED, **more)
    table.append(_rows(_SCHEMA, 1, 2, 3))
    table.append(_rows(_SCHEMA, 4, 5, 6))
    return table


def _columns(table: Any) -> dict[str, set[str]]:
    """Return the columns of the live files, with those of structs, by path."""
    root = Path(table.location)
    return {path: set(_leaves(pq.read_schema(root / path))) for path in table.live_files.column("path").to_pylist()}


def _leaves(fields: Any) -> Any:
    for field in fields:
        yield field.name
        kind = field.type
        inner = kind.item_type if pa.types.is_map(kind) else kind.value_type if pa.types.is_list(kind) else kind
        if pa.types.is_struct(inner):
            yield from _leaves(inner)


def _physical(table: Any, *path: str) -> str:
    fields: Any = table.schema
    for name in path:
        found = fields.get(name)
        fields = getattr(found.type, "element", getattr(found.type, "value", found)).type
    return str(found.physical_name)


@pytest.mark.req("DL-OPS-08")
@pytest.mark.parametrize("dropped", [("x",), ("s", "a"), ("l", "a"), ("m", "a")], ids=".".join)
def test_no_file_has_a_dropped_column(tmp_path: Path, dropped: tuple[str, ...]) -> None:
    table = _mapped(tmp_path)
    gone = _physical(table, *dropped)
    where = {"l": "l.element.a", "m": "m.value.a"}.get(dropped[0], ".".join(dropped))
    table.alter().drop(where).commit()
    table.append(table.scan("id = 6").to_arrow().set_column(0, "id", pa.array([7])))
    before, rows = _columns(table), table.scan().to_arrow().sort_by("id").to_pylist()
    tracked = table.scan(columns=_IDS).to_arrow().sort_by("id").to_pylist()
    stale = {path for path, columns in before.items() if gone in columns}
    assert len(stale) == 2
    planned = table.reorg(dry_run=True)
    assert (planned.removed_files, len(planned.groups)) == (2, 1)
    result = table.reorg()
    after = _columns(table)
    assert not any(gone in columns for columns in after.values())
    assert before.keys() - after.keys() == stale
    assert (result.removed_files, result.added_files, result.copied_rows) == (2, 1, 6)
    assert table.scan().to_arrow().sort_by("id").to_pylist() == rows
    assert table.scan(columns=_IDS).to_arrow().sort_by("id").to_pylist() == tracked
    assert len(table.changes(table.version).to_arrow()) == 0
    assert table.reorg().groups == ()


@pytest.mark.req("DL-OPS-08")
def test_no_add_has_a_vector(tmp_path: Path) -> None:
    table = deltaberg.create_table(str(tmp_path), ids().schema, properties={"delta.enableDeletionVectors": "true"})
    for first in (0, 100, 200):
        table.append(ids(*range(first, first + 100)))
    table.delete("id = 5 OR id >= 200 AND id < 299", strategy="merge-on-read")
    kept = table.live_files.filter(pa.compute.is_null(table.live_files["deletionVector"]))["path"].to_pylist()
    expected = ids_of(table)
    table.reorg()
    live = table.live_files
    assert live["deletionVector"].null_count == len(live) == 2
    assert set(kept) < set(live["path"].to_pylist())
    assert ids_of(table) == ids_of(DeltaTable(tmp_path)) == expected
    info = table.history(1)[0].info
    assert info["operation"] == "REORG"
    assert info["operationParameters"] == {"predicate": "[]", "applyPurge": "true"}
    assert (info["operationMetrics"]["numRemovedFiles"], info["operationMetrics"]["numDeletionVectorsRemoved"]) == (
        "2",
    ) * 2


def test_a_filter_and_bounds_choose_files_and_commits(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.string()), ("id", pa.int64())])
    properties = {"delta.enableDeletionVectors": "true"}
    table = deltaberg.create_table(str(tmp_path), schema, partition_by=["p"], properties=properties)
    for part in "abc":
        table.append(pa.table({"p": [part] * 9, "id": list(range(9))}, schema))
    table.delete("id = 4", strategy="merge-on-read")
    result = table.reorg("p = 'a'", user_metadata="purge")
    assert (result.removed_files, len(result.commits)) == (1, 1)
    assert table.history(1)[0].info["userMetadata"] == "purge"
    result = table.reorg(group_size=1, max_concurrent=1)
    assert (result.removed_files, len(result.commits)) == (2, 2)
    assert table.scan().count() == 24
    assert table.reorg().groups == ()


def test_files_of_a_clustered_table_are_not_clustered_anew(tmp_path: Path) -> None:
    table = _mapped(tmp_path, cluster_by=["id"])
    table.delete("id = 1", strategy="merge-on-read")
    result = table.reorg()
    assert (result.removed_files, result.added_files) == (1, 1)
    assert table.live_files["deletionVector"].null_count == 2


def test_names_of_row_ids_are_no_dropped_columns(tmp_path: Path) -> None:
    table = deltaberg.create_table(str(tmp_path), ids().schema, properties={"delta.enableRowTracking": "true"})
    table.append(ids(1, 2))
    table.append(ids(3))
    table.compact()
    assert len(pq.read_schema(tmp_path / table.live_files["path"][0].as_py()).names) == 3
    assert table.reorg().groups == ()
    table.alter().set({"delta.enableRowTracking": "false"}).commit()
    assert table.reorg().groups == ()


@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_a_footer_that_cannot_be_read_ends_it(tmp_path: Path, damage: str) -> None:
    table = deltaberg.create_table(str(tmp_path), ids().schema)
    table.append(ids(1))
    path = tmp_path / table.live_files["path"][0].as_py()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-8] + b"x" * 8)
    with pytest.raises(DataFileNotFoundError if damage == "gone" else CorruptDataFileError, match=path.name):
        table.reorg()
    assert DeltaTable(tmp_path).version == 1


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_an_iceberg_table_is_purged_of_deletes_and_of_dropped_fields(tmp_path: Path, version: str) -> None:
    table = deltaberg.create_table(str(tmp_path), _SCHEMA, format="iceberg", properties={"format-version": version})
    assert isinstance(table, IcebergTable)
    for first in (0, 10, 20):
        table.append(_rows(_SCHEMA, first, first + 1))
    if version != "1":
        table.delete("id = 0", strategy="merge-on-read")
        if version == "2":
            table.delete_by_keys(ids(1), "id")
    result = table.reorg()
    # Keys may be in any older file.
    assert result.removed_files == {"1": 0, "2": 3, "3": 1}[version]
    assert not any(table.scan().files()["deleted_record_count"].to_pylist())
    dropped = table.schema.get("x")
    assert dropped is not None
    table.alter().drop("x").commit()
    rows = table.scan().to_arrow().sort_by("id")
    table.append(rows.slice(0, 1))
    assert table.reorg().removed_files == {"1": 3, "2": 1, "3": 3}[version]
    for path in table.scan().files()["file_path"].to_pylist():
        assert dropped.id not in {field_id(child) for child in pq.read_schema(path.removeprefix("file://"))}
    assert table.scan().to_arrow().sort_by("id").slice(1).equals(rows)
    assert table.snapshots[-1].summary["operation"] == "replace"
    assert table.reorg().groups == ()
