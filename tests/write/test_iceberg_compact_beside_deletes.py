"""Compaction of Iceberg tables while others delete rows of the same files: both stand, and no row comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import CommitConflictError, ConcurrentDeleteDeleteError, ConcurrentDeleteReadError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.change import delete_by_keys
from deltaberg.iceberg.location.directory_commit import DirectoryAttempt
from deltaberg.iceberg.maintain.compact import IcebergRewrite
from deltaberg.iceberg.transaction.conflict import Claims
from deltaberg.table.maintain.compact import Compaction, compact_table
from deltaberg.table.maintain.packing import Packing
from deltaberg.table.maintain.row_order import RowOrder
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.verbs.table import operations_of
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.meanwhile import while_files_are_written
from tests.support.snapshot_log import faults_of_directory

_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("x", pa.int64())])
_LINEAGE = ["_row_id", "_last_updated_sequence_number"]


def _rows(ids: Any, p: int = 0) -> pa.Table:
    numbers = pa.array(ids, pa.int64())
    return pa.table({"id": numbers, "p": pa.repeat(p, len(numbers)), "x": pc.bit_wise_xor(numbers, 45)})


def _table(root: Path, version: int, files: int = 3, rows: int = 10, **more: Any) -> IcebergTable:
    """Make a table of a partition 0, whose files hold numbers that follow each other, and one of a partition 1."""
    properties = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    properties |= {"format-version": str(version), **more.pop("properties", {})}
    more.setdefault("partition_by", "p")
    table: IcebergTable = create_table(root / "t", _COLUMNS, format="iceberg", properties=properties, **more)
    for number in range(files):
        table.append(_rows(range(number * rows, (number + 1) * rows)))
    table.append(_rows([-1, -2], 1))
    return table


def _before_puts(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let something happen before each attempt of a compaction, so that it is lost, as long as there is something."""
    left, send = list(others), DirectoryAttempt.send

    def sent(attempt: DirectoryAttempt) -> Any:
        if left and b'"operation":"replace"' in attempt.data.replace(b" ", b""):
            left.pop(0)()
        return send(attempt)

    monkeypatch.setattr(DirectoryAttempt, "send", sent)


def _delete(table: IcebergTable, where: str, **options: Any) -> Callable[[], object]:
    return lambda: open_table(table.location, "iceberg").delete(where, **options)


def _delete_keys(table: IcebergTable, *ids: int, **more: Any) -> Callable[[], object]:
    keys = pa.table({"id": pa.array(ids, pa.int64()), **more})
    return lambda: open_table(table.location, "iceberg").delete_by_keys(keys)


def _known(table: IcebergTable, version: int) -> dict[int, dict[str, Any]]:
    """Return the rows by their ids, with those that the table gives them."""
    columns = ["id", "p", "x", *(_LINEAGE if version == 3 else [])]
    rows = open_table(table.location, "iceberg", validate=True).scan(columns=columns).to_arrow().to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def _data_folder(table: IcebergTable) -> set[str]:
    return {path.name for path in Path(table.location.removeprefix("file://")).rglob("data/**/*") if path.is_file()}


def _named(table: IcebergTable) -> set[str]:
    """Return the names of all files that a snapshot of the table has."""
    names = set()
    for number in table.refresh().inspect("snapshots")["snapshot_id"].to_pylist():
        state: IcebergTable = open_table(table.location, "iceberg", snapshot_id=number)
        for kind in ("data_files", "delete_files"):
            names |= {path.rpartition("/")[2] for path in state.inspect(kind)["file_path"].to_pylist()}
    return names


@pytest.mark.req("ICE-MNT-15")
@pytest.mark.req("ICE-MNT-13")
@pytest.mark.req("ICE-MNT-12")
@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_are_deleted_while_their_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Each attempt looks again, and what was written for lost ones is deleted."""
    table = _table(tmp_path, version)
    # One file has deleted rows before: positions in the new file are others.
    table.delete("id IN (0, 5, 12)")
    known = _known(table, version)
    start = table.snapshot
    assert start is not None
    while_files_are_written(monkeypatch, _delete(table, "id IN (1, 13)"))
    append: Callable[[], object] = lambda: open_table(table.location, "iceberg").append(_rows([99]))  # noqa: E731
    _before_puts(monkeypatch, _delete(table, "id IN (6, 29)"), append, _delete(table, "id = 14"))
    done = table.compact("p = 0")
    assert done.conflicts == []
    (commit,) = done.commits
    assert (commit.retries, commit.removed_files, commit.added_files) == (3, 3, 1)
    left = set(known) - {1, 13, 6, 29, 14}
    found = _known(table, version)
    assert {number: found[number] for number in left} == {number: known[number] for number in left}
    assert set(found) == left | {99}
    deletes = table.inspect("delete_files").to_pylist()
    assert sum(one["record_count"] for one in deletes if one["referenced_data_file"] not in (None, "")) == 5
    assert _data_folder(table) <= _named(table)
    assert faults_of_directory(Path(table.location.removeprefix("file://"))) == []
    # The changes over all of it show each deleted row once.
    feed = table.changes(start.snapshot_id).to_arrow().to_pylist()
    assert sorted((row["id"], row["_change_type"]) for row in feed) == [
        *((number, "DELETE") for number in (1, 6, 13, 14, 29)),
        (99, "INSERT"),
    ]
    # What is hidden goes with the next compaction.
    assert table.compact("p = 0", max_deleted=0).conflicts == []
    assert set(_known(table, version)) == left | {99}
    assert table.inspect("delete_files").num_rows == 0


@pytest.mark.req("ICE-MNT-11")
@pytest.mark.req("ICE-MNT-15")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("whole", [False, True])
def test_keys_that_are_deleted_while_their_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, whole: bool
) -> None:
    """They stay, and apply to the new files, also where no other data file stays."""
    table = _table(tmp_path, version, properties={"write.target-file-size-bytes": "1000000"})
    _delete_keys(table, 3, 4, p=[0, 0])()
    table.refresh()
    known = _known(table, version)
    planned = table.snapshot
    assert planned is not None
    while_files_are_written(monkeypatch, _delete_keys(table, 7, 20, -1, p=[0, 0, 1]))
    done = table.compact(None if whole else "p = 0")
    assert (done.conflicts, done.removed_files) == ([], 3)
    left = {number: row for number, row in known.items() if number not in (7, 20, -1)}
    assert _known(table, version) == left
    moved = [row for row in table.inspect("entries").to_pylist() if row["snapshot_id"] == done.commits[0].snapshot_id]
    numbers = {row["sequence_number"] for row in moved if row["data_file"]["content"] == 0 and row["status"] == 1}
    assert numbers == {planned.sequence_number}
    assert {row["content"] for row in table.inspect("delete_files").to_pylist()} == {2}
    # The next compaction leaves the rows out, and no delete is left.
    assert table.compact().conflicts == []
    assert _known(table, version) == left
    assert table.inspect("delete_files").num_rows == 0
    assert faults_of_directory(Path(table.location.removeprefix("file://"))) == []


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


def _compacted(table: IcebergTable, order: RowOrder | None = None, **options: Any) -> Any:
    compaction = Compaction(None, Packing(1), RowOptions(**options), order=order)
    begin = lambda: operations_of(table.transaction()).transaction  # noqa: E731
    return compact_table(begin, table.refresh, compaction, IcebergRewrite)


@pytest.mark.req("ICE-MNT-15")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["sorted", "sorted by the table", "in other partitions"])
def test_rows_are_found_wherever_they_have_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    rows = 2000
    table = _table(tmp_path, version, 3, rows)
    table.delete("id % 7 = 3")
    if kind == "sorted by the table":
        table.alter().sort_by("x").commit()
    elif kind == "in other partitions":
        table.alter().partition_by("bucket(4, x)").commit()
    known = _known(table, version)
    while_files_are_written(monkeypatch, _delete(table, "id % 11 = 2 OR id BETWEEN 500 AND 900"))
    done = _compacted(table, RowOrder("sort", ("id desc",)) if kind == "sorted" else None, target_file_size=6000)
    assert done.conflicts == []
    assert done.added_files > 1
    left = {number: row for number, row in known.items() if number % 11 != 2 and not 500 <= number <= 900}
    assert _known(table, version) == left
    assert faults_of_directory(Path(table.location.removeprefix("file://"))) == []


def _roll_back(table: IcebergTable) -> Callable[[], object]:
    def roll_back() -> None:
        other: IcebergTable = open_table(table.location, "iceberg")
        oldest = min(other.history(), key=lambda one: one.sequence_number)
        other.alter().rollback_to_snapshot(oldest.snapshot_id).commit()

    return roll_back


_CASES: dict[str, tuple[Callable[[IcebergTable], Callable[[], object]], type[CommitConflictError]]] = {
    "rows are written anew": (
        lambda table: _delete(table, "id = 4", strategy="copy-on-write"),
        ConcurrentDeleteDeleteError,
    ),
    "a partition is emptied": (lambda table: _delete(table, "p = 0"), ConcurrentDeleteDeleteError),
    "the table is rolled back": (_roll_back, CommitConflictError),
}


@pytest.mark.req("ICE-MNT-15")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", _CASES)
def test_what_else_happens_to_files_fails_their_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, case: str
) -> None:
    """The other group is committed, and of the failed one nothing is left behind."""
    make, error = _CASES[case]
    table = _table(tmp_path, version, 2)
    table.append(_rows([-3], 1))
    while_files_are_written(monkeypatch, make(table))
    done = table.compact(group_size=1)
    assert type(done.conflicts[0]) is error
    assert [group.commit is not None for group in done.groups] == [False, case != "the table is rolled back"]
    assert _data_folder(table) <= _named(table)
    after = _known(table, version)
    assert table.compact().conflicts == []
    assert _known(table, version) == after


def _expire(table: IcebergTable, times: list[int]) -> Callable[[], object]:
    """Return what adds and deletes rows, and forgets the snapshots before."""

    def expire() -> None:
        times.append(1)
        other: IcebergTable = open_table(table.location, "iceberg")
        other.append(_rows([100 + len(times)]))
        other.delete(f"id = {len(times)}")
        other.expire_snapshots("9999-12-31", retain_last=1)

    return expire


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("lost", [1, 3])
def test_an_expiry_meanwhile_has_the_group_planned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, lost: int
) -> None:
    """What others have done since the planned snapshot is not known then, but the files may be there all the same."""
    table = _table(tmp_path, version, 2)
    times = list[int]()
    while_files_are_written(monkeypatch, *[_expire(table, times)] * lost)
    done = table.compact()
    assert len(times) == lost
    assert [type(found) for found in done.conflicts] == ([CommitConflictError] if lost == 3 else [])
    assert (done.added_files > 0) is (lost < 3)
    assert sorted(_known(table, version)) == sorted(
        {-1, -2, *range(20), *range(101, 101 + lost)} - {*range(1, 1 + lost)}
    )
    assert _data_folder(table) <= _named(table)


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
    table = _table(tmp_path, 2)
    table.alter().partition_by("bucket(4, x)").commit()
    keys = pa.table({"id": [4], "p": [0], "x": [4 ^ 45]})
    while_files_are_written(monkeypatch, lambda: open_table(table.location, "iceberg").delete_by_keys(keys, ["id"]))
    assert [type(found) for found in table.compact("p = 0").conflicts] == [ConcurrentDeleteReadError]
    assert 4 not in _known(table, 2)
    assert table.compact("p = 0").conflicts == []
    assert 4 not in _known(table, 2)


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
    while_files_are_written(monkeypatch, _delete(table, "id = 11"))
    done = table.compact()
    assert (done.conflicts, [commit.removed_files for commit in done.commits]) == ([], [4])
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 10, 12, 13]
    table.alter().partition_by(["id"]).commit()
    table.append(pa.table({"id": [20], "p": [0], name: ["b"]}))
    table.maintain(dry_run=False)
    assert table.scan(f"`{name}` = 'b'").to_arrow()["id"].to_pylist() == [20]
    assert table.scan().count() == 7
