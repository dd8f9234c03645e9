"""Compaction of Iceberg tables while others delete rows of the same files: both stand, and no row comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import CommitConflictError, ConcurrentDeleteDeleteError, ConcurrentDeleteReadError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.change import delete_by_keys
from deltaberg.iceberg.transaction.conflict import Claims
from tests.support.compacted_beside import ICEBERG, delete, rows
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.meanwhile import while_files_are_written
from tests.support.snapshot_log import faults_of_directory


def _delete_keys(table: IcebergTable, *ids: int, **more: Any) -> Callable[[], object]:
    keys = pa.table({"id": pa.array(ids, pa.int64()), **more})
    return lambda: open_table(table.location, "iceberg").delete_by_keys(keys)


@pytest.mark.req("ICE-MNT-11")
@pytest.mark.req("ICE-MNT-15")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("whole", [False, True])
def test_keys_that_are_deleted_while_their_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, whole: bool
) -> None:
    """They stay, and apply to the new files, also where no other data file stays."""
    table = ICEBERG[version].create(tmp_path, properties={"write.target-file-size-bytes": "1000000"})
    _delete_keys(table, 3, 4, p=[0, 0])()
    table.refresh()
    expected_rows = ICEBERG[version].known(table)
    planned = table.snapshot
    assert planned is not None
    while_files_are_written(monkeypatch, _delete_keys(table, 7, 20, -1, p=[0, 0, 1]))
    done = table.compact(None if whole else "p = 0")
    assert (done.conflicts, done.removed_files) == ([], 5 if whole else 3)
    left = {number: row for number, row in expected_rows.items() if number not in (7, 20, -1)}
    assert ICEBERG[version].known(table) == left
    moved = [row for row in table.inspect("entries").to_pylist() if row["snapshot_id"] == done.commits[0].snapshot_id]
    numbers = {row["sequence_number"] for row in moved if row["data_file"]["content"] == 0 and row["status"] == 1}
    assert numbers == {planned.sequence_number}
    assert {row["content"] for row in table.inspect("delete_files").to_pylist()} == {2}
    # The next compaction leaves the rows out, and no delete is left.
    assert table.compact().conflicts == []
    assert ICEBERG[version].known(table) == left
    assert table.inspect("delete_files").num_rows == 0
    assert faults_of_directory(tmp_path) == []


@pytest.mark.req("ICE-MNT-11")
def test_keys_outlive_all_data_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole table is written anew while keys are deleted: the delete file is still listed."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}, {"id": 2}]), builder.data([{"id": 3}]))
    table: IcebergTable = open_table(builder.root, "iceberg")
    while_files_are_written(monkeypatch, lambda: builder.commit(builder.equality_deletes([1], [{"id": 2}])))
    done = table.compact()
    assert (done.conflicts, done.removed_files, done.added_files) == ([], 2, 1)
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 3]
    assert table.inspect("delete_files").num_rows == 1
    table.append(pa.table({"id": [2]}))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert table.compact().conflicts == []
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert table.inspect("delete_files").num_rows == 0


def _expire(table: IcebergTable, times: list[int]) -> Callable[[], object]:
    """Return what adds and deletes rows, and forgets the snapshots before."""

    def expire() -> None:
        times.append(1)
        other: IcebergTable = open_table(table.location, "iceberg")
        other.append(rows([100 + len(times)]))
        other.delete(f"id = {len(times)}")
        other.expire_snapshots("9999-12-31", retain_last=1)

    return expire


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("lost", [1, 3])
def test_an_expiry_meanwhile_has_the_group_planned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, lost: int
) -> None:
    """What others have done since the planned snapshot is not known then, but the files may be there all the same."""
    table = ICEBERG[version].create(tmp_path, 2)
    times = list[int]()
    while_files_are_written(monkeypatch, *[_expire(table, times)] * lost)
    done = table.compact()
    assert len(times) == lost
    assert [type(found) for found in done.conflicts] == ([CommitConflictError] if lost == 3 else [])
    assert (done.added_files > 0) is (lost < 3)
    assert sorted(ICEBERG[version].known(table)) == sorted(
        {-1, -2, *range(20), *range(101, 101 + lost)} - {*range(1, 1 + lost)}
    )
    assert ICEBERG[version].stored(tmp_path) <= ICEBERG[version].named(tmp_path)


@pytest.mark.req("ICE-MNT-15")
def test_deletes_that_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose delete files are removed meanwhile would be back, but not in the new files."""
    for kind in ("position", "equality"):
        builder = IcebergBuilder(tmp_path / kind, {"id": "long"})
        first, second = builder.data([{"id": 1}, {"id": 2}]), builder.data([{"id": 3}])
        builder.commit(first, second)
        deletes = (
            builder.position_deletes([(first, 0)]) if kind == "position" else builder.equality_deletes([1], [{"id": 1}])
        )
        builder.commit(deletes)
        table: IcebergTable = open_table(builder.root, "iceberg")

        def take_back(builder: IcebergBuilder = builder, deletes: Any = deletes) -> None:
            builder.commit(removed=[deletes], operation="overwrite")
            builder.commit(builder.equality_deletes([1], [{"id": 9}]))

        while_files_are_written(monkeypatch, take_back)
        assert [type(found) for found in table.compact().conflicts] == [ConcurrentDeleteDeleteError]
        assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.req("ICE-MNT-15")
def test_keys_of_a_partition_that_rows_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would not be deleted from the files of the new partitioning."""
    table = ICEBERG[2].create(tmp_path)
    table.alter().partition_by("bucket(4, x)").commit()
    keys = pa.table({"id": [4], "p": [0], "x": [4 ^ 45]})
    while_files_are_written(monkeypatch, lambda: open_table(table.location, "iceberg").delete_by_keys(keys, ["id"]))
    assert [type(found) for found in table.compact("p = 0").conflicts] == [ConcurrentDeleteReadError]
    assert 4 not in ICEBERG[2].known(table)
    assert table.compact("p = 0").conflicts == []
    assert 4 not in ICEBERG[2].known(table)


@pytest.mark.req("ICE-MNT-15")
def test_keys_of_the_partitioning_that_rows_move_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not reach the old files, and would reach the new ones, where their rows vanished."""
    table: Any = create_table(
        str(tmp_path), pa.schema([("id", pa.int64()), ("p", pa.int64())]), format="iceberg", partition_by="p"
    )
    for first in (0, 1):
        table.append(pa.table({"id": [first, first + 10], "p": [1, 1]}))
    table.alter().partition_by("p", "bucket(1, id)").commit()

    def delete() -> None:
        # Our own deletes of keys reach all partitionings; those of other writers need not.
        other = open_table(table.location, "iceberg")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                delete_by_keys, "_specs", lambda made, _: [made.metadata.specs[made.metadata.default_spec_id]]
            )
            patch.setattr(Claims, "reach_only", lambda *_: None)
            other.delete_by_keys(pa.table({"id": [10], "p": [1]}), ["id", "p"])

    while_files_are_written(monkeypatch, delete)
    assert [type(found) for found in table.compact().conflicts] == [ConcurrentDeleteReadError]
    assert sorted(open_table(table.location).scan().to_arrow()["id"].to_pylist()) == [0, 1, 10, 11]


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("name", ["_spec_id", "_partition", "_file", "_pos"])
def test_columns_may_have_the_names_of_metadata_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_partitioned: bool
) -> None:
    """What is done to the rows of a table does not go by the names of its columns."""
    table: IcebergTable = create_table(
        tmp_path / "t",
        pa.schema([("id", pa.int64()), ("p", pa.int64()), (name, pa.string())]),
        format="iceberg",
        partition_by=name if is_partitioned else None,
        properties={"write.delete.mode": "merge-on-read"},
    )
    for number in range(4):
        table.append(pa.table({"id": [number, number + 10], "p": [0, 0], name: ["a", "a"]}))
    table.delete("id = 0")
    while_files_are_written(monkeypatch, delete(table, [11]))
    done = table.compact()
    assert (done.conflicts, [commit.removed_files for commit in done.commits]) == ([], [4])
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 10, 12, 13]
    table.alter().partition_by(["id"]).commit()
    table.append(pa.table({"id": [20], "p": [0], name: ["b"]}))
    table.maintain(dry_run=False)
    assert table.scan(f"`{name}` = 'b'").to_arrow()["id"].to_pylist() == [20]
    assert table.scan().count() == 7
