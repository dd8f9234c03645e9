"""Compaction while others delete rows of the same files: both commits stand, and no row comes back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, open_table
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentDeleteDeleteError,
    DeltabergError,
    MetadataChangedError,
    ProtocolChangedError,
)
from deltaberg.table.maintain.row_order import RowOrder
from tests.support.compacted_beside import DELTA, ICEBERG, KINDS, Kind, before_puts, compacted, delete, rows
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.log_entries import named_actions
from tests.support.meanwhile import while_files_are_written
from tests.support.rows import ids_of


def _marked(*rows: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.req(row) for row in rows]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind,
            id=kind.name,
            marks=_marked("DL-OPT-04", "DL-OPT-03", "DL-RT-23")
            if kind is DELTA
            else _marked("ICE-MNT-15", "ICE-MNT-13", "ICE-MNT-12"),
        )
        for kind in KINDS
    ],
)
def test_rows_that_are_deleted_while_their_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Each attempt looks again, and what was written for lost ones is deleted."""
    table = kind.create(tmp_path)
    # One file has deleted rows before: positions in the new file are others.
    table.delete("id IN (0, 5, 12)")
    before, start = kind.known(table), table.version if kind is DELTA else table.snapshot_id
    while_files_are_written(monkeypatch, delete(table, [1, 13]))
    before_puts(monkeypatch, delete(table, [6, 29]), _append(table, 99), delete(table, [14]))
    done = table.compact("p = 0")
    assert done.conflicts == []
    (commit,) = done.commits
    assert (commit.retries, commit.removed_files, commit.added_files) == (3, 3, 1)
    assert (commit.copied_rows, commit.added_rows) == (27, 27)
    left = set(before) - {1, 13, 6, 29, 14}
    after = kind.known(table)
    assert {number: after[number] for number in left} == {number: before[number] for number in left}
    assert set(after) == left | {99}
    if kind is DELTA:
        _look_at_log(tmp_path, commit)
    else:
        deletes = table.inspect("delete_files").to_pylist()
        assert sum(one["record_count"] for one in deletes if one["referenced_data_file"] not in (None, "")) == 5
    assert kind.stored(tmp_path) <= kind.named(tmp_path)
    assert kind.faults(table, tmp_path) == []
    # The changes over all of it show each deleted row once.
    assert kind.feed(table, start) == [*((number, "delete") for number in (1, 6, 13, 14, 29)), (99, "insert")]
    # What is hidden goes with the next compaction.
    assert table.compact("p = 0", max_deleted=0).conflicts == []
    assert kind.known(table) == after
    assert kind is DELTA or table.inspect("delete_files").num_rows == 0


def _append(table: Any, number: int) -> Callable[[], object]:
    return lambda: open_table(table.location).append(rows([number]))


def _look_at_log(root: Path, commit: Any) -> None:
    (add,) = named_actions(root, commit.version, "add")
    assert add["dataChange"] is False
    assert add["deletionVector"]["cardinality"] == 5
    assert json.loads(add["stats"])["numRecords"] == 27
    assert json.loads(add["stats"])["tightBounds"] is False
    assert add["defaultRowCommitVersion"] == commit.version
    # The removes name the vectors that the deletes have left.
    removes = named_actions(root, commit.version, "remove")
    winners = {one["path"]: one.get("deletionVector") for one in _live(root, commit.version - 1)}
    assert all(one["deletionVector"] == winners[one["path"]] for one in removes)
    assert all(one["dataChange"] is False for one in removes)
    (info,) = named_actions(root, commit.version, "commitInfo")
    assert info["tags"] == {"delta.rowTracking.preserved": "true"}
    assert info["operationMetrics"]["numDeletionVectorsRemoved"] == "3"


@pytest.mark.req("DL-OPT-04")
@pytest.mark.req("DL-RT-13")
def test_every_attempt_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors grow from attempt to attempt, appends take row ids, and what was written for lost attempts is deleted."""
    size = 3000
    table = DELTA.create(tmp_path, 2, size)
    generator = random.Random(7)
    gone: set[int] = set()
    expected_rows, before = DELTA.known(table), DELTA.stored(tmp_path)
    written: set[str] = set()

    def delete_some() -> None:
        chosen = generator.sample(sorted(set(range(2 * size)) - gone), 400)
        gone.update(chosen)
        delete(table, chosen)()

    def remember() -> None:
        written.update(DELTA.stored(tmp_path))
        delete_some()

    def both() -> None:
        delete_some()
        _append(table, 90_000)()

    while_files_are_written(monkeypatch, delete_some)
    before_puts(monkeypatch, both, remember, _append(table, 90_001))
    done = table.compact("p = 0")
    assert done.conflicts == []
    (commit,) = done.commits
    assert commit.retries == 3
    found = DELTA.known(table)
    new = {90_000: found.pop(90_000), 90_001: found.pop(90_001)}
    assert found == {number: row for number, row in expected_rows.items() if number not in gone}
    row_ids = [row["_metadata"]["row_id"] for row in [*found.values(), *new.values()]]
    assert len(set(row_ids)) == len(row_ids)
    (add,) = named_actions(tmp_path, commit.version, "add")
    assert add["deletionVector"]["cardinality"] == len(gone) == 1200
    assert add["baseRowId"] > max(row_ids)
    # Every file of the table is named by its log, and those of lost attempts were there before they were deleted.
    assert DELTA.stored(tmp_path) <= DELTA.named(tmp_path) | before
    assert written - DELTA.stored(tmp_path)


@pytest.mark.req("DL-OPT-04")
def test_nothing_is_left_of_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not added, and deleted."""
    table = DELTA.create(tmp_path, 2, 2)
    table.delete("id = 3")
    size = len(DELTA.stored(tmp_path))
    # A delete of whole files would remove them.
    while_files_are_written(monkeypatch, _of_first(table, [0, 1]))
    done = table.compact("p = 0")
    assert (done.removed_files, done.added_files, done.conflicts) == (2, 0, [])
    assert ids_of(table.refresh()) == [-2, -1]
    # The new file was deleted; the file of the others' vectors came.
    assert len(DELTA.stored(tmp_path)) == size + 1


def _root(table: DeltaTable) -> Path:
    return Path(table.location.removeprefix("file://"))


def _live(root: Path, version: int | None = None) -> list[dict[str, Any]]:
    """Return the live adds of a version, by default of the newest, as the log has them."""
    live: dict[str, dict[str, Any]] = {}
    for number in range((DeltaTable(root).version if version is None else version) + 1):
        for one in named_actions(root, number, "remove"):
            live.pop(one["path"], None)
        live |= {one["path"]: one for one in named_actions(root, number, "add")}
    return list(live.values())


def _replace_vectors(root: Path, positions: dict[str, Sequence[int] | None], **members: Any) -> None:
    """Commit other vectors of some live files, as another writer may; None stands for no vector."""
    builder = DeltaBuilder(root)
    builder.version = DeltaTable(root).version
    chosen = [one for one in _live(root) if one["path"] in positions]
    several = [positions[one["path"]] for one in chosen]
    hidden = [one for one in several if one is not None]
    vectors = iter(builder.vectors(hidden) if hidden else [])
    actions: list[Action] = []
    for one, own in zip(chosen, several, strict=True):
        kept = ("path", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion", "size")
        body = {name: one[name] for name in kept if name in one}
        actions.append({"remove": {**body, "dataChange": True, "deletionTimestamp": 0, "extendedFileMetadata": True}})
        add = {name: value for name, value in one.items() if name != "deletionVector"}
        vector = {} if own is None else {"deletionVector": next(vectors)}
        actions.append({"add": {**add, **vector, "dataChange": True, **members}})
    builder.commit(*actions, info={"operation": "RESTORE"})


def _remove(table: DeltaTable, *, back: bool) -> None:
    """Remove the files of partition 0 in one commit, and add them again in the next."""
    root = _root(table)
    builder = DeltaBuilder(root)
    builder.version = DeltaTable(root).version
    adds = [one for one in _live(root) if one["partitionValues"]["p"] == "0"]
    removes: list[Action] = [
        {"remove": {"path": one["path"], "dataChange": True, "deletionTimestamp": 0, **_vector(one)}} for one in adds
    ]
    builder.commit(*removes)
    if back:
        builder.commit(*({"add": one} for one in adds))


def _vector(add: dict[str, Any]) -> dict[str, Any]:
    return {"deletionVector": add["deletionVector"]} if "deletionVector" in add else {}


def _of_first(table: DeltaTable, positions: Sequence[int] | None, **members: Any) -> Callable[[], object]:
    """Delete these rows of each file of the partition 0."""

    def replace() -> None:
        root = _root(table)
        paths = [one["path"] for one in _live(root) if one["partitionValues"]["p"] == "0"]
        _replace_vectors(root, dict.fromkeys(paths, positions), **members)

    return replace


def _roll_back(table: Any) -> Callable[[], object]:
    def roll_back() -> None:
        other: Any = open_table(table.location)
        oldest = min(other.history(), key=lambda one: one.sequence_number)
        other.alter().rollback_to_snapshot(oldest.snapshot_id).commit()

    return roll_back


_Others = Callable[[Any], Callable[[], object]]
#: What others do, in either format and in one.
_CASES: dict[str, _Others] = {
    "rows are written anew": lambda table: delete(table, [4], "copy-on-write"),
    "a partition is emptied": lambda table: delete(table, "p = 0"),
}
_CASES_OF_ICEBERG: dict[str, _Others] = {"the table is rolled back": _roll_back}
_CASES_OF_DELTA: dict[str, _Others] = {
    "all rows are back": lambda table: _of_first(table, None),
    "some rows are back": lambda table: _of_first(table, [0]),
    "other rows are deleted instead": lambda table: _of_first(table, [0, 5, 6]),
    "rows that the file does not have": lambda table: _of_first(table, [0, 1, 99]),
    "files are gone": lambda table: lambda: _remove(table, back=False),
    "files are gone and back": lambda table: lambda: _remove(table, back=True),
    "another partition": lambda table: _of_first(table, [0, 1, 2], partitionValues={"p": "7"}),
    "other row ids": lambda table: _of_first(table, [0, 1, 2], baseRowId=10_000),
    "another property": lambda table: lambda: _altered(table).set({"x": "1"}).commit(),
    "another column": lambda table: lambda: _altered(table).add("y", pa.int64()).commit(),
    "another protocol": lambda table: lambda: _altered(table).set({"delta.feature.v2Checkpoint": "supported"}).commit(),
}
_OTHER_ERRORS: dict[str, type[CommitConflictError]] = {
    "the table is rolled back": CommitConflictError,
    "another property": MetadataChangedError,
    "another column": MetadataChangedError,
    "another protocol": ProtocolChangedError,
}


def _altered(table: Any) -> Any:
    return open_table(table.location).alter()


@pytest.mark.parametrize(
    ("kind", "case", "others"),
    [
        pytest.param(kind, case, cases[case], id=f"{kind.name}-{case}", marks=_marked(row))
        for kinds, row, cases in (
            ([DELTA], "DL-OPT-04", {**_CASES, **_CASES_OF_DELTA}),
            (ICEBERG.values(), "ICE-MNT-15", {**_CASES, **_CASES_OF_ICEBERG}),
        )
        for kind in kinds
        for case in cases
    ],
)
def test_what_else_happens_to_files_fails_their_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, case: str, others: _Others
) -> None:
    """The other group is committed, and of the failed one nothing is left behind."""
    table = kind.create(tmp_path, 2)
    table.delete("id IN (0, 1, 10, 11)")
    while_files_are_written(monkeypatch, others(table))
    done = table.compact(group_size=1)
    assert type(done.conflicts[0]) is _OTHER_ERRORS.get(case, ConcurrentDeleteDeleteError)
    assert [group.commit is not None for group in done.groups] == [False, others is not _roll_back]
    assert kind.stored(tmp_path) <= kind.named(tmp_path)
    after = _outcome(table)
    assert table.compact().conflicts == []
    assert _outcome(table) == after


def _outcome(table: Any) -> list[tuple[int, int]] | str:
    """Return the rows; or the error, where the table names rows that there are not."""
    try:
        found = table.refresh().scan().to_arrow().to_pylist()
    except DeltabergError as error:
        return type(error).__name__
    return sorted((row["id"], row["p"]) for row in found)


@pytest.mark.req("DL-OPT-04")
def test_a_restore_that_leaves_what_was_deleted_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were deleted and given back while their files were written are in the new file."""
    table = DELTA.create(tmp_path, 2)
    _of_first(table, [0, 1])()
    table.refresh()
    while_files_are_written(monkeypatch, lambda: [_of_first(table, [0, 1, 2, 3])(), _of_first(table, [0, 1, 3])()])
    assert table.compact("p = 0").conflicts == []
    assert ids_of(table.refresh()) == [-2, -1, 2, *range(4, 10), 12, *range(14, 20)]
    # An attempt that saw more deleted rows than the one that lands.
    table = DELTA.create(tmp_path / "t", 2)
    while_files_are_written(monkeypatch, _of_first(table, [5, 6]))
    before_puts(monkeypatch, _of_first(table, None))
    assert [type(found) for found in table.compact("p = 0").conflicts] == [ConcurrentDeleteDeleteError]
    assert ids_of(table.refresh()) == [-2, -1, *range(20)]


@pytest.mark.req("DL-OPT-04")
def test_a_table_that_is_to_get_no_deletion_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are deleted by writing their files anew, which is a conflict."""
    table = DELTA.create(tmp_path, 2, properties={"delta.enableDeletionVectors": "false"})
    while_files_are_written(monkeypatch, delete(table, [4]))
    assert [type(found) for found in table.compact("p = 0").conflicts] == [ConcurrentDeleteDeleteError]
    assert ids_of(table.refresh()) == [-2, -1, *(number for number in range(20) if number != 4)]


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        pytest.param(kind, order, id=f"{kind.name}-{order}", marks=_marked(row))
        for kinds, row, orders in (
            ([DELTA], "DL-OPT-04", ["kept", "sorted"]),
            (ICEBERG.values(), "ICE-MNT-15", ["sorted", "sorted by the table", "in other partitions"]),
        )
        for kind in kinds
        for order in orders
    ],
)
def test_rows_are_found_wherever_they_have_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: random.Random, kind: Kind, order: str
) -> None:
    """Also in several new files, in another order, and where many rows had been deleted before."""
    size = 2000
    table = kind.create(tmp_path, 3, size)
    table.delete(f"id IN ({', '.join(map(str, rng.sample(range(3 * size), 800)))})")
    if order == "sorted by the table":
        table.alter().sort_by("x").commit()
    elif order == "in other partitions":
        table.alter().partition_by("bucket(4, x)").commit()
    expected_rows = kind.known(table)
    here = sorted(number for number in expected_rows if number >= 0)
    gone = {*rng.sample(here, 500), *here[500:900]}
    while_files_are_written(monkeypatch, delete(table, sorted(gone)))
    row_order = RowOrder("sort", ("id desc",)) if order == "sorted" else None
    done = compacted(
        kind, table, row_order, "p = 0" if kind is DELTA else None, target_file_size=None if order == "kept" else 6000
    )
    assert done.conflicts == []
    assert (done.added_files == 1) == (order == "kept")
    assert kind.known(table) == {number: row for number, row in expected_rows.items() if number not in gone}
    assert kind.faults(table, tmp_path) == []


def test_the_history_counts_the_files_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = create_table(
        str(tmp_path), pa.schema([("id", pa.int64())]), properties={"delta.enableDeletionVectors": "true"}
    )
    for first in (0, 1):
        table.append(pa.table({"id": range(first, 4000, 2)}))
    while_files_are_written(monkeypatch, delete(table, "id < 3000"))
    done = table.compact(sort_by="id", target_file_size=6000)
    (commit,) = done.commits
    sizes = table.live_files.column("size").to_pylist()
    assert 0 < len(sizes) == commit.added_files
    assert commit.metrics["numAddedFiles"] == len(sizes)
    assert commit.metrics["numAddedBytes"] == sum(sizes)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(3000, 4000))
