"""Rows of Iceberg tables that move to other files: compaction, and partitions replaced in files of older specs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.maintain.compact import IcebergRewrite
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.table.maintain.compact import Compaction, compact_table
from deltaberg.table.maintain.packing import Packing
from tests.support.below_verbs import engine_of
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

pytestmark = pytest.mark.one_backend

_VERSIONS = pytest.mark.parametrize("version", ["1", "2", "3"])
_COLUMNS = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("d", pa.date32())])
_DAYS = [dt.date(2020, 1, 7), dt.date(2020, 2, 2), None]


def _rows(*ids: int) -> pa.Table:
    kinds = [None if number % 5 == 4 else "ab"[number % 2] for number in ids]
    return pa.table({"id": ids, "kind": kinds, "d": pa.array([_DAYS[number % 3] for number in ids], pa.date32())})


def _new(root: Path, version: str, **more: Any) -> IcebergTable:
    table: IcebergTable = create_table(
        root / "t", _COLUMNS, format="iceberg", properties={"format-version": version}, **more
    )
    return table


def _content(table: IcebergTable) -> list[dict[str, Any]]:
    """Return all rows, with their ids where the table has them, as two readers see them."""
    lineage = ["_row_id", "_last_updated_sequence_number"] if table.format_version > 2 else []
    got = table.scan(columns=[*table.schema.names, *lineage]).to_arrow().sort_by("id")
    theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().sort_by("id")
    assert theirs.to_pylist() == got.select(theirs.column_names).to_pylist()
    assert open_table(table.location, "iceberg", validate=True).scan().count() == len(got)
    found: list[dict[str, Any]] = got.to_pylist()
    return found


@_VERSIONS
def test_small_files_are_put_together(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by="kind")
    for start in range(0, 9, 3):
        table.append(_rows(*range(start, start + 3)))
    table.alter().partition_by("month(d)").commit()
    for start in range(9, 18, 3):
        table.append(_rows(*range(start, start + 3)))
    before = _content(table)
    other = open_table(tmp_path / "t", "iceberg")
    done = table.compact(properties={"job": "nightly"})
    assert (done.conflicts, len(done.commits)) == ([], 1)
    assert _content(table) == before
    snapshot = table.snapshot
    assert snapshot is not None
    assert (snapshot.operation, snapshot.summary and snapshot.summary["total-records"]) == ("replace", "18")
    assert done.commits[0].operation == "replace"
    assert done.added_files < done.removed_files
    # The only file of its partition stays.
    assert [row["spec_id"] for row in table.inspect("files").to_pylist()].count(0) == 1
    assert table.changes(other.snapshot_id).count() == 0
    assert table.compact("id > 99").groups == ()
    table.compact()
    assert table.compact().groups == ()
    assert _content(table) == before
    # Rows that were added since do not matter; files that are gone do.
    late = other.compact()
    assert (late.commits, [type(found).__name__ for found in late.conflicts]) == ([], ["ConcurrentDeleteDeleteError"])
    assert _content(table.refresh()) == before


@_VERSIONS
def test_appends_do_not_disturb_a_compaction(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version)
    table.append(_rows(1))
    table.append(_rows(2))
    other = open_table(tmp_path / "t", "iceberg")
    other.append(_rows(3))
    done = table.compact(group_size=1)
    assert [(commit.retries, commit.removed_files) for commit in done.commits] == [(0, 2)]
    assert [row["id"] for row in _content(table)] == [1, 2, 3]
    assert {path.name for path in (tmp_path / "t/data").rglob("*.parquet")} >= {
        Path(row["file_path"]).name for row in table.inspect("files").to_pylist()
    }


@_VERSIONS
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), ("kind",)),
        (("kind",), ("month(d)", "kind")),
        (("kind", "bucket(4, id)"), ("kind",)),
        (("day(d)",), ("truncate(1, kind)", "month(d)")),
        (("bucket(3, id)",), ("bucket(2, id)",)),
    ],
    ids=["none", "more", "fewer", "wider", "other"],
)
def test_partitions_are_replaced_in_files_of_older_specs(
    tmp_path: Path, version: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """What a dynamic overwrite leaves is what the rows say, whatever files they are in."""
    table = _new(tmp_path, version, partition_by=list(before))
    table.append(_rows(*range(12)))
    table.alter().partition_by(*after).commit()
    table.append(_rows(*range(12, 18)))
    old = _content(table)
    by_id = {row["id"]: row for row in old}
    # The new partitioning says which rows go; a table that never had another tells the same.
    model = create_table(tmp_path / "m", _COLUMNS, format="iceberg", partition_by=list(after))
    model.append(_rows(*range(18)))
    new = _rows(100, 103)
    model.overwrite(new, dynamic=True)
    done = table.overwrite(new, dynamic=True)
    assert done.operation == "overwrite"
    got = _content(table)
    expected = model.scan().to_arrow().sort_by("id").to_pylist()
    assert (done.inserted_rows, done.deleted_rows) == (2, len(old) + 2 - len(got))
    assert [row["id"] for row in got] == [row["id"] for row in expected]
    assert [row for row in got if row["id"] < 100] == [by_id[row["id"]] for row in expected if row["id"] < 100]
    if version == "3":
        ids = [row["_row_id"] for row in got]
        assert len(set(ids)) == len(ids)


def test_conflicts_of_partitions_that_are_replaced(tmp_path: Path) -> None:
    table = _new(tmp_path, "2", partition_by="kind")
    table.append(_rows(0, 1, 2, 3))
    table.alter().partition_by("kind", "month(d)").commit()
    other = open_table(tmp_path / "t", "iceberg")
    with other.transaction() as fits:
        fits.overwrite(_rows(6), dynamic=True)
        table.append(_rows(7))
    assert fits.result
    assert (fits.result.inserted_rows, fits.result.deleted_rows, fits.result.copied_rows) == (1, 1, 1)
    assert [row["id"] for row in _content(table.refresh())] == [1, 2, 3, 6, 7]
    late = other.refresh().transaction()
    late.overwrite(_rows(12), dynamic=True)
    table.append(_rows(18))
    with pytest.raises(ConcurrentAppendError, match="added data files that may hold rows to be replaced"):
        late.commit()
    gone = other.refresh().transaction()
    gone.overwrite(_rows(12), dynamic=True)
    table.delete("kind = 'a'")
    with pytest.raises(ConcurrentDeleteDeleteError, match="another commit removed") as raised:
        gone.commit()
    assert raised.value.context["file"].endswith(".parquet")
    with table.refresh().transaction() as mixed:
        mixed.append(_rows(1))
        mixed.alter().partition_by("id")
        with pytest.raises(UnsupportedFeatureError, match="files of another partitioning before"):
            mixed.overwrite(_rows(1), dynamic=True)


@pytest.mark.req("ICE-MNT-12")
@pytest.mark.parametrize("kind", ["position", "equality", "vector"])
@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_are_dropped_and_new_deletes_conflict(tmp_path: Path, kind: str, version: int) -> None:
    if kind == "vector" and version == 2:
        kind = "one file"
    spec = [{"source-id": 2, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "p": "long"}, format_version=version, specs=[spec])

    def rows(*ids: int, p: int) -> IcebergFile:
        return builder.data([{"id": number, "p": p} for number in ids], partition={"p": p})

    def delete(file: IcebergFile, at: int, number: int) -> list[IcebergFile]:
        if kind == "vector":
            return builder.deletion_vectors({file.path: [at]}, file.partition)
        if kind == "equality":
            return [builder.equality_deletes([1], [{"id": number}], partition=file.partition)]
        more = {"referenced_data_file": file.path} if kind == "one file" else {}
        return [builder.position_deletes([(file, at)], **more)]

    first, second, other = rows(1, 2, 3, p=1), rows(4, 5, p=1), rows(6, 7, p=2)
    builder.commit(first, second, other)
    builder.commit(*delete(first, 1, 2))
    table: IcebergTable = open_table(builder.root, "iceberg")
    lineage = ["_row_id", "_last_updated_sequence_number"] if version == 3 else []
    columns = ["id", "p", *lineage]
    before = table.scan(columns=columns).to_arrow().sort_by("id")
    assert before["id"].to_pylist() == [1, 3, 4, 5, 6, 7]
    with table.transaction() as late:
        compaction = Compaction("p = 1", Packing(1 << 20))
        outcomes = []

        def begin() -> Transaction:
            builder.commit(*delete(other, 0, 6))
            return engine_of(late)

        def refresh() -> None:
            outcomes.append(table.refresh())

        # Deletes of another partition do not matter.
        done = compact_table(begin, refresh, compaction, IcebergRewrite)
    assert (len(done.commits), outcomes) == (1, [])
    table.refresh()
    after = table.scan(columns=columns).to_arrow().sort_by("id")
    assert after["id"].to_pylist() == [1, 3, 4, 5, 7]
    assert after.filter(pc.less(after["id"], 6)) == before.filter(pc.less(before["id"], 6))
    # The rest of the deletes is of no use any more.
    left = table.inspect("delete_files").num_rows
    assert left == (1 if kind in ("vector", "one file") else 2)


@pytest.mark.parametrize(("spec_id", "conflicts"), [(0, False), (1, True)])
def test_keys_that_others_delete_everywhere_do_not_move(tmp_path: Path, spec_id: int, conflicts: bool) -> None:
    """Keys of an unpartitioned spec are deleted in every partition, those of a partitioned one in their own."""
    spec = [{"source-id": 2, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "p": "long"}, specs=[spec, ()])
    files = [builder.data([{"id": number, "p": 1}], partition={"p": 1}) for number in (1, 2)]
    builder.commit(*files)
    table: IcebergTable = open_table(builder.root, "iceberg")
    late = table.transaction()

    def begin() -> Transaction:
        place: dict[str, Any] = {"spec_id": 1} if spec_id else {"partition": {"p": 2}}
        builder.commit(builder.equality_deletes([1], [{"id": 1}], **place))
        return engine_of(late)

    done = compact_table(begin, table.refresh, Compaction(None, Packing(1 << 20)), IcebergRewrite)
    assert [type(found) for found in done.conflicts] == ([ConcurrentDeleteReadError] if conflicts else [])
    rows = open_table(builder.root, "iceberg").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == ([2] if conflicts else [1, 2])


@pytest.mark.parametrize("other", ["adds by the older spec", "adds by the newest spec", "removes by the older spec"])
def test_files_that_others_add_by_an_older_spec_are_in_the_way(tmp_path: Path, other: str) -> None:
    """Nobody knows to which of the new partitions their rows belong. Of files that go, nobody says that they came."""
    specs = [[{"source-id": 2, "name": name, "transform": name}] for name in ("identity", "truncate[10]")]
    for number, spec in enumerate(specs):
        spec[0]["field-id"] = 1000 + number
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "p": "long"}, specs=specs)
    old = builder.data([{"id": 0, "p": 35}], partition={"identity": 35})
    builder.commit(old, builder.data([{"id": 1, "p": 3}], partition={"truncate[10]": 0}, spec_id=1))
    table: IcebergTable = open_table(builder.root, "iceberg")
    late = table.transaction()
    late.overwrite(pa.table({"id": [2], "p": [4]}), dynamic=True)
    if other == "removes by the older spec":
        builder.commit(removed=[old], operation="delete")
    else:
        spec_id, place = (0, {"identity": 25}) if "older" in other else (1, {"truncate[10]": 20})
        builder.commit(builder.data([{"id": 9, "p": 25}], partition=place, spec_id=spec_id))
    if other == "adds by the newest spec":
        assert late.commit().committed
        assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 2, 9]
        return
    message = "another commit added" if other == "adds by the older spec" else "another commit removed"
    with pytest.raises(CommitConflictError, match=message):
        late.commit()


def test_what_nobody_counted_is_said_to_be_unknown(tmp_path: Path) -> None:
    """Of a file with position deletes that goes as a whole, nobody knows how many rows it had; an update reads it."""
    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update")}
    columns = {"id": pa.int64(), "p": pa.string()}
    table = create_table(tmp_path / "t", columns, format="iceberg", partition_by="p", properties=modes)
    table.append(pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", "b"]}))
    assert table.delete("id IN (1, 3)").deleted_rows == 2
    updated = table.update({"id": "id + 10"}, "p = 'a'")
    assert (updated.updated_rows, updated.deleted_rows) == (1, 0)
    with table.transaction() as transaction:
        transaction.append(pa.table({"id": [7, 8], "p": ["c", "c"]}))
        transaction.delete("id = 4")
        transaction.overwrite(pa.table({"id": [5, 6], "p": ["b", "b"]}), dynamic=True)
    assert transaction.result is not None
    assert transaction.result.deleted_rows is None
    assert table.delete("id = 5").deleted_rows == 1
    gone = table.delete("p = 'b'")
    assert gone.deleted_rows is None
    assert "deleted an unknown number of rows" in str(gone)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [7, 8, 12]
    assert "; added 1 delete file, " in str(table.delete_by_keys(pa.table({"id": [99]})))
    # Equality deletes may apply to the file, but each of its rows was found.
    assert table.delete("id IN (7, 8)").deleted_rows == 2
