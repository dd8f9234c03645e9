"""Rows of Iceberg tables that are deleted by keys, and what compaction makes of delete files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import (
    ColumnNotFoundError,
    ConcurrentAppendError,
    InvalidArgumentError,
    MetadataChangedError,
    SchemaError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg import IcebergTable
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.snapshot_log import faults_of_directory

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("x", pa.float64())])


def _rows(*ids: int) -> pa.Table:
    kinds = [None if number % 5 == 4 else "ab"[number % 2] for number in ids]
    return pa.table({"id": ids, "kind": kinds, "x": [number / 2 for number in ids]})


def _new(root: Path, version: str = "2", properties: dict[str, str] | None = None, **more: Any) -> IcebergTable:
    table: IcebergTable = create_table(
        root / "t", _COLUMNS, format="iceberg", properties={"format-version": version, **(properties or {})}, **more
    )
    return table


def _ids(table: IcebergTable) -> list[int]:
    return sorted(open_table(table.location, "iceberg", validate=True).scan().to_arrow().column("id").to_pylist())


def _deletes(table: IcebergTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.inspect("delete_files").to_pylist()
    return found


@pytest.mark.req("ICE-DEL-01", half="writer")
@pytest.mark.req("ICE-DEL-08", half="writer")
@pytest.mark.req("ICE-DEL-15", half="writer")
@pytest.mark.req("ICE-MAN-21", half="writer")
@pytest.mark.parametrize("form", ["parquet", "avro", "orc"])
def test_rows_are_deleted_by_keys(tmp_path: Path, form: str) -> None:
    """Only the named columns are compared, null equals null, and rows that come later stay."""
    table = _new(tmp_path, properties={"write.delete.format.default": form})
    table.append(_rows(*range(1, 9)))
    done = table.delete_by_keys(pa.table({"id": pa.array([4, 1], pa.int32()), "kind": ["no", None]}), "id")
    assert (done.operation, done.added_files, done.committed) == ("delete", 0, True)
    assert _ids(table) == [2, 3, 5, 6, 7, 8]
    (file,) = _deletes(table)
    assert (file["content"], file["file_format"], file["equality_ids"], file["record_count"]) == (
        2,
        form.upper(),
        [1],
        2,
    )
    lower, upper = (dict(file[name])[1] for name in ("lower_bounds", "upper_bounds"))
    assert (lower, upper) == ((1).to_bytes(8, "little"), (4).to_bytes(8, "little"))
    assert dict(file["value_counts"])[1] == 2
    assert table.snapshot is not None
    summary = table.snapshot.summary or {}
    assert (summary["added-equality-delete-files"], summary["added-equality-deletes"]) == ("1", "2")
    table.append(_rows(1, 9, 14))
    table.delete_by_keys(pa.table({"kind": pa.array([None, "c"])}))
    assert _ids(table) == [1, 2, 3, 5, 6, 7, 8]
    (manifest, *_) = [row for row in table.inspect("manifests").to_pylist() if row["content"] == 1]
    with Path(manifest["path"]).open("rb") as data:
        assert fastavro.reader(data).metadata["content"] == "deletes"
    assert faults_of_directory(Path(table.location)) == []
    table.compact()
    assert (_ids(table), _deletes(table)) == ([1, 2, 3, 5, 6, 7, 8], [])
    assert faults_of_directory(Path(table.location)) == []
    assert not table.delete_by_keys(pa.table({"id": pa.array([], pa.int64())})).committed


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize(
    ("before", "after", "specs"),
    [
        ([], ["bucket(2, id)"], {0}),
        (["bucket(2, id)"], [], {1}),
        (["bucket(2, id)"], ["bucket(3, id)"], {0, 1}),
        (["kind"], ["bucket(3, id)"], {2}),
        (["id", "kind"], ["kind"], {2}),
    ],
    ids=["none", "dropped", "told", "not told", "partly"],
)
def test_files_of_all_specs_are_reached(
    tmp_path: Path, version: str, before: list[str], after: list[str], specs: set[int]
) -> None:
    """Keys that tell the partition go to it; others are compared with the rows of all partitions."""
    table = _new(tmp_path, version, partition_by=before)
    table.append(_rows(*range(6)))
    table.alter().partition_by(*after).commit()
    table.append(_rows(*range(4, 10)))
    with table.transaction() as transaction:
        transaction.delete_by_keys(pa.table({"id": [1, 4, 8, 100]}))
    assert _ids(table) == [0, 2, 3, 5, 5, 6, 7, 9]
    assert {file["spec_id"] for file in _deletes(table)} == specs
    assert faults_of_directory(Path(table.location)) == []


@pytest.mark.req("ICE-DEL-14", half="writer")
def test_what_is_refused(tmp_path: Path) -> None:
    """Numbers with fractions are not compared, and nothing is written anew after keys that it would bring back."""
    table = _new(tmp_path)
    table.append(_rows(1, 2, 3))
    files = sorted(tmp_path.rglob("*"))
    for keys, columns, error, message in (
        (pa.table({"x": [0.5]}), None, InvalidArgumentError, "keys of the type double"),
        (pa.table({"y": [0.5]}), None, ColumnNotFoundError, "no column 'y'"),
        (pa.table({"id": ["a"]}), None, SchemaError, "string cannot be written to a column of the type long"),
        (pa.table({"id": [1]}), ("kind",), ColumnNotFoundError, "no column 'kind'"),
        (pa.table({"id": [1]}), (), InvalidArgumentError, "no columns to compare"),
    ):
        with pytest.raises(error, match=message):
            table.delete_by_keys(keys, columns)
    transaction = table.transaction()
    transaction.delete_by_keys(pa.table({"id": [1]}))
    with pytest.raises(UnsupportedFeatureError, match="by keys"):
        transaction.delete("id > 0")
    transaction.abort()
    transaction = table.transaction()
    transaction.append(_rows(5))
    with pytest.raises(UnsupportedFeatureError, match="added rows"):
        transaction.delete_by_keys(pa.table({"id": [5]}))
    transaction.abort()
    assert sorted(tmp_path.rglob("*")) == files
    old = _new(tmp_path / "1", "1")
    with pytest.raises(UnsupportedFeatureError, match="version 1"):
        old.delete_by_keys(pa.table({"id": [1]}))


def test_keys_are_what_a_merge_takes(tmp_path: Path) -> None:
    """Among it tables of both formats and scans."""
    table = _new(tmp_path)
    table.append(_rows(*range(10)))
    other = create_table(tmp_path / "other", pa.schema([("id", pa.int32())]))
    other.append(pa.table({"id": pa.array([1, 2], pa.int32())}))
    table.delete_by_keys(other)
    assert _ids(table) == [0, 3, 4, 5, 6, 7, 8, 9]
    table.delete_by_keys(table.scan("id > 7", columns=["id"]))
    assert _ids(table) == [0, 3, 4, 5, 6, 7]
    table.delete_by_keys(table, ["id", "kind"])
    assert _ids(table) == []


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("partition_by", [[], ["bucket(4, s.id)"]], ids=["alone", "bucket"])
def test_keys_in_structs(tmp_path: Path, version: str, partition_by: list[str]) -> None:
    """Other fields are none of the keys, even required ones, and a field of a null is null."""
    inner = pa.struct([("id", pa.int64()), pa.field("name", pa.string(), nullable=False)])
    columns = pa.schema([("n", pa.int64()), ("s", inner)])
    table: IcebergTable = create_table(
        tmp_path / "t", columns, format="iceberg", partition_by=partition_by, properties={"format-version": version}
    )
    rows = [{"id": number, "name": "ab"[number % 2]} for number in range(6)]
    table.append(pa.table({"n": range(8), "s": pa.array([*rows, {"id": None, "name": "n"}, None], inner)}))

    def left() -> list[int]:
        found = open_table(table.location, "iceberg", validate=True).scan().to_arrow()
        return sorted(found["n"].to_pylist())

    with pytest.raises(InvalidArgumentError, match="keys of the type struct") as caught:
        table.delete_by_keys(pa.table({"s": [{"id": 1}]}))
    assert caught.value.hint == "name fields of the struct in columns, with dots"
    table.delete_by_keys(pa.table({"s": [{"id": 1, "name": "no"}, {"id": 4, "name": "no"}]}), "s.id")
    assert left() == [0, 2, 3, 5, 6, 7]
    table.delete_by_keys(pa.table({"S": [{"ID": 5}], "n": [0]}), ["s.id"])
    assert left() == [0, 2, 3, 6, 7]
    table.delete_by_keys(pa.table({"n": [0, 1], "s": [{"id": 0}, {"id": 2}]}), ["n", ("s", "id")])
    assert left() == [2, 3, 6, 7]
    table.delete_by_keys(pa.table({"s": pa.array([None], inner)}), ["s.id"])
    assert left() == [2, 3]
    assert faults_of_directory(Path(table.location)) == []


def test_keys_beside_other_commits(tmp_path: Path) -> None:
    """Rows that others append first are deleted, too, and so are those that a compaction moves."""
    table = _new(tmp_path, partition_by="kind")
    table.append(_rows(0, 1, 2, 3))
    table.append(_rows(4, 5, 6))
    stale: IcebergTable = open_table(table.location, "iceberg")
    other: IcebergTable = open_table(table.location, "iceberg")
    table.append(_rows(7, 8, 12))
    stale.delete_by_keys(pa.table({"id": [2, 8, 12], "kind": ["a", "a", "a"]}))
    assert _ids(table.refresh()) == [0, 1, 3, 4, 5, 6, 7]
    assert other.compact(where="kind = 'a'").conflicts == []
    assert _ids(table.refresh()) == [0, 1, 3, 4, 5, 6, 7]
    assert table.compact().conflicts == []
    assert _ids(table) == [0, 1, 3, 4, 5, 6, 7]
    stale_transaction = open_table(table.location, "iceberg").transaction()
    stale_transaction.delete_by_keys(pa.table({"id": [3]}))
    table.alter().partition_by("bucket(2, id)").commit()
    with pytest.raises(MetadataChangedError, match="changed the partitioning"):
        stale_transaction.commit()


@pytest.mark.parametrize("columns", ["id", ["id", "kind"]])
def test_rows_of_another_spec_that_are_added_meanwhile(tmp_path: Path, columns: str | list[str]) -> None:
    """Deletes that belong to partitions do not apply to files of a spec that others have brought meanwhile."""
    table = _new(tmp_path, partition_by="bucket(4, id)")
    table.append(_rows(1, 2))
    late, later = (open_table(table.location, "iceberg") for _ in range(2))
    table.alter().partition_by("bucket(3, id)").commit()
    late.delete_by_keys(_rows(1), columns)
    assert _ids(table) == [2]
    table.refresh().append(_rows(3))
    with pytest.raises(ConcurrentAppendError, match="files of another partition spec"):
        later.delete_by_keys(_rows(2, 3), columns)
    assert _ids(table) == [2, 3]
    later.refresh().delete_by_keys(_rows(2, 3), columns)
    assert _ids(table) == []
    assert faults_of_directory(tmp_path / "t") == []


def test_compaction_leaves_deletes_that_are_needed(tmp_path: Path) -> None:
    """A delete file goes when all data files are newer; one whose data file stays does not."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    first, second = (builder.data([{"id": start + number} for number in range(4)]) for start in (0, 10))
    builder.commit(first, second)
    builder.commit(builder.equality_deletes([1], [{"id": 2}, {"id": 11}]))
    builder.commit(builder.position_deletes([(first, 0), (second, 0)]))
    table: IcebergTable = open_table(tmp_path / "t", "iceberg")
    left = [1, 3, 12, 13]
    table.compact(where="id < 5")
    assert _ids(table) == left
    table.compact()
    assert (_ids(table), _deletes(table)) == (left, [])
    assert table.snapshot is not None
    summary = table.snapshot.summary or {}
    names = ("removed-equality-deletes", "removed-position-deletes", "removed-delete-files")
    assert [summary[name] for name in names] == ["2", "2", "2"]
    gone = [row for row in table.inspect("entries").to_pylist() if row["status"] == 2 and row["data_file"]["content"]]
    assert sorted(row["sequence_number"] for row in gone) == [2, 3]
