"""Compaction of Delta tables while others delete rows of the same files: both commits stand, and no row comes back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import CompactResult, DeltaTable, create_table
from deltaberg.delta.log.commit import put_entry
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.maintain.compact import DeltaRewrite
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentDeleteDeleteError,
    DeltabergError,
    MetadataChangedError,
    ProtocolChangedError,
)
from deltaberg.storage.base import PutResult
from deltaberg.table.maintain.compact import Compaction, compact_table
from deltaberg.table.maintain.packing import Packing
from deltaberg.table.maintain.row_order import RowOrder
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.verbs.table import operations_of
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.log_entries import actions_at
from tests.support.meanwhile import while_files_are_written
from tests.support.rows import ids_of

_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])
_TRACKED = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true",
}


def _table(root: Path, files: int = 3, rows: int = 10, **properties: str) -> DeltaTable:
    """Make a table of a partition ``a``, whose files hold numbers that follow each other, and one of ``b``."""
    table: DeltaTable = create_table(root, _COLUMNS, partition_by="p", properties=_PROPERTIES | properties)
    for number in range(files):
        values = range(number * rows, (number + 1) * rows)
        table.append(pa.table({"id": pa.array(values, pa.int64()), "p": ["a"] * rows}))
    for number in (-1, -2):
        table.append(pa.table({"id": [number], "p": ["b"]}))
    return table


def _before_puts(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let something happen before each attempt of a compaction, so that it is lost, as long as there is something."""
    left = list(others)

    def put(log: LogDirectory, version: int, data: bytes) -> PutResult:
        if left and b'"OPTIMIZE"' in data:
            left.pop(0)()
        return put_entry(log, version, data)

    monkeypatch.setattr("deltaberg.delta.transaction.log_change.put_entry", put)


def _delete(root: Path, where: str, strategy: Any = None) -> Callable[[], object]:
    return lambda: DeltaTable(root).delete(where, strategy=strategy)


def _actions(root: Path, version: int) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for action in actions_at(root, version):
        ((name, body),) = action.items()
        found.setdefault(name, []).append(body)
    return found


def _tracked(table: DeltaTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.refresh().scan(columns=_TRACKED).to_arrow().sort_by("id").to_pylist()
    return found


def _files(root: Path) -> set[str]:
    """Return the names of data files and of files of vectors."""
    return {path.name for kind in ("part-*.parquet", "deletion_vector_*.bin") for path in root.rglob(kind)}


@pytest.mark.req("DL-OPT-04")
@pytest.mark.req("DL-OPT-03")
@pytest.mark.req("DL-RT-23")
def test_rows_that_are_deleted_while_their_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    # One file has deleted rows before: positions in the new file are others.
    table.delete("id IN (0, 5, 12)")
    known = {row["id"]: row for row in _tracked(table)}
    while_files_are_written(monkeypatch, _delete(tmp_path, "id IN (1, 13, 29)"))
    done = table.compact("p = 'a'")
    (commit,) = done.commits
    assert (done.conflicts, commit.retries, commit.copied_rows, commit.added_rows) == ([], 0, 27, 27)
    left = sorted(set(range(30)) - {0, 5, 12, 1, 13, 29})
    assert ids_of(table.refresh()) == [-2, -1, *left]
    assert _tracked(table) == [known[number] for number in (-2, -1, *left)]
    actions = _actions(tmp_path, commit.version)
    (add,) = actions["add"]
    assert add["dataChange"] is False
    assert add["deletionVector"]["cardinality"] == 3
    assert json.loads(add["stats"])["numRecords"] == 27
    assert json.loads(add["stats"])["tightBounds"] is False
    assert add["defaultRowCommitVersion"] == commit.version
    # The removes name the vectors that the deletes have left.
    winner = {one["path"]: one["deletionVector"] for one in _actions(tmp_path, commit.version - 1)["add"]}
    assert {one["path"]: one["deletionVector"] for one in actions["remove"]} == winner
    assert all(one["dataChange"] is False for one in actions["remove"])
    (info,) = actions["commitInfo"]
    assert info["tags"] == {"delta.rowTracking.preserved": "true"}
    assert info["operationMetrics"]["numDeletionVectorsRemoved"] == "3"
    # The feed over both versions shows each deleted row once.
    feed = table.changes(commit.version - 1, commit.version).to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["_change_type"]) for row in feed] == [(number, "delete") for number in (1, 13, 29)]
    assert not table.verify().findings
    # What the vector hides goes with the next compaction.
    assert table.compact("p = 'a'", max_deleted=0).removed_files == 1
    assert _tracked(table) == [known[number] for number in (-2, -1, *left)]


@pytest.mark.req("DL-OPT-04")
@pytest.mark.req("DL-RT-13")
def test_every_attempt_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors grow from attempt to attempt, appends take row ids, and what was written for lost attempts is deleted."""
    rows = 3000
    table = _table(tmp_path, 2, rows)
    generator = random.Random(7)
    gone: set[int] = set()
    known = {row["id"]: row for row in _tracked(table)}
    before = _files(tmp_path)

    def delete() -> None:
        chosen = generator.sample(sorted(set(range(2 * rows)) - gone), 400)
        gone.update(chosen)
        DeltaTable(tmp_path).delete(f"id IN ({', '.join(map(str, chosen))})")

    def append() -> None:
        DeltaTable(tmp_path).append(pa.table({"id": [90_000], "p": ["a"]}))

    written: set[str] = set()

    def remember() -> None:
        written.update(_files(tmp_path))
        delete()

    while_files_are_written(monkeypatch, delete)

    def both() -> None:
        delete()
        append()

    _before_puts(monkeypatch, both, remember, append)
    done = table.compact("p = 'a'")
    assert done.conflicts == []
    (commit,) = done.commits
    assert commit.retries == 3
    left = sorted(set(range(2 * rows)) - gone)
    assert ids_of(table.refresh()) == [-2, -1, *left, 90_000, 90_000]
    assert [row for row in _tracked(table) if 0 <= row["id"] < 90_000] == [known[number] for number in left]
    row_ids = [row["_metadata"]["row_id"] for row in _tracked(table)]
    assert len(set(row_ids)) == len(row_ids)
    (add,) = _actions(tmp_path, commit.version)["add"]
    assert add["deletionVector"]["cardinality"] == len(gone) == 1200
    assert add["baseRowId"] > max(row_ids)
    # Every file of the table is named by its log, and those of lost attempts were there before they were deleted.
    mentioned = {
        name.rpartition("/")[2] for version in range(commit.version + 1) for name in _named(_actions(tmp_path, version))
    }
    assert _files(tmp_path) <= mentioned | before
    assert written - _files(tmp_path)


def _named(actions: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Return the paths that actions name, those of vectors included."""
    from deltaberg.delta.data.deletion_vectors import _relative_path

    for one in (*actions.get("add", ()), *actions.get("remove", ()), *actions.get("cdc", ())):
        yield one["path"]
        vector = one.get("deletionVector")
        if vector is not None and vector["storageType"] == "u":
            yield _relative_path(vector["pathOrInlineDv"])


@pytest.mark.req("DL-OPT-04")
def test_nothing_is_left_of_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not added, and deleted."""
    table = _table(tmp_path, 2, 2)
    table.delete("id = 3")
    # Whole files go by a commit that removes them, so that their rows are deleted one after the other.
    vectors = DeltaBuilder(tmp_path)
    vectors.version = table.version
    adds = {dict(one["partitionValues"])["p"]: one for one in _live(tmp_path)}
    assert adds["a"]
    size = len(_files(tmp_path))

    def hide_all() -> None:
        _replace_vectors(
            tmp_path, {one["path"]: [0, 1] for one in _live(tmp_path) if one["partitionValues"]["p"] == "a"}
        )

    while_files_are_written(monkeypatch, hide_all)
    done = table.compact("p = 'a'")
    assert (done.removed_files, done.added_files, done.conflicts) == (2, 0, [])
    assert ids_of(table.refresh()) == [-2, -1]
    # The new file was deleted; the file of the others' vectors came.
    assert len(_files(tmp_path)) == size + 1


def _live(root: Path) -> list[dict[str, Any]]:
    """Return the live adds of the newest version, as the log has them."""
    live: dict[str, dict[str, Any]] = {}
    for version in range(DeltaTable(root).version + 1):
        actions = _actions(root, version)
        for one in actions.get("remove", ()):
            live.pop(one["path"], None)
        live |= {one["path"]: one for one in actions.get("add", ())}
    return list(live.values())


def _replace_vectors(root: Path, positions: dict[str, Sequence[int] | None], **members: Any) -> None:
    """Commit other vectors of some live files, as another writer may; None stands for no vector."""
    builder = DeltaBuilder(root)
    builder.version = DeltaTable(root).version
    chosen = [one for one in _live(root) if one["path"] in positions]
    several = [positions[one["path"]] for one in chosen]
    hidden = [one for one in several if one is not None]
    made = iter(builder.vectors(hidden) if hidden else [])
    actions: list[Action] = []
    for one, own in zip(chosen, several, strict=True):
        kept = ("path", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion", "size")
        body = {name: one[name] for name in kept if name in one}
        actions.append({"remove": {**body, "dataChange": True, "deletionTimestamp": 0, "extendedFileMetadata": True}})
        add = {name: value for name, value in one.items() if name != "deletionVector"}
        vector = {} if own is None else {"deletionVector": next(made)}
        actions.append({"add": {**add, **vector, "dataChange": True, **members}})
    builder.commit(*actions, info={"operation": "RESTORE"})


def _remove(root: Path, *, back: bool) -> None:
    """Remove the files of partition a in one commit, and add them again in the next."""
    builder = DeltaBuilder(root)
    builder.version = DeltaTable(root).version
    adds = [one for one in _live(root) if one["partitionValues"]["p"] == "a"]
    removes: list[Action] = [
        {"remove": {"path": one["path"], "dataChange": True, "deletionTimestamp": 0, **_vector(one)}} for one in adds
    ]
    builder.commit(*removes)
    if back:
        builder.commit(*({"add": one} for one in adds))


def _vector(add: dict[str, Any]) -> dict[str, Any]:
    return {"deletionVector": add["deletionVector"]} if "deletionVector" in add else {}


def _of_a(root: Path, positions: Sequence[int] | None, **members: Any) -> Callable[[], object]:
    """Delete these rows of each file of the partition a."""

    def replace() -> None:
        paths = [one["path"] for one in _live(root) if one["partitionValues"]["p"] == "a"]
        _replace_vectors(root, dict.fromkeys(paths, positions), **members)

    return replace


_CASES: dict[str, tuple[Callable[[Path], Callable[[], object]], type[CommitConflictError]]] = {
    "rows are written anew": (
        lambda root: _delete(root, "p = 'a' AND id = 4", "copy-on-write"),
        ConcurrentDeleteDeleteError,
    ),
    "a partition is emptied": (lambda root: _delete(root, "p = 'a'"), ConcurrentDeleteDeleteError),
    "all rows are back": (lambda root: _of_a(root, None), ConcurrentDeleteDeleteError),
    "some rows are back": (lambda root: _of_a(root, [0]), ConcurrentDeleteDeleteError),
    "other rows are deleted instead": (lambda root: _of_a(root, [0, 5, 6]), ConcurrentDeleteDeleteError),
    "rows that the file does not have": (lambda root: _of_a(root, [0, 1, 99]), ConcurrentDeleteDeleteError),
    "files are gone": (lambda root: lambda: _remove(root, back=False), ConcurrentDeleteDeleteError),
    "files are gone and back": (lambda root: lambda: _remove(root, back=True), ConcurrentDeleteDeleteError),
    "another partition": (
        lambda root: _of_a(root, [0, 1, 2], partitionValues={"p": "c"}),
        ConcurrentDeleteDeleteError,
    ),
    "other row ids": (lambda root: _of_a(root, [0, 1, 2], baseRowId=10_000), ConcurrentDeleteDeleteError),
    "another property": (lambda root: lambda: DeltaTable(root).alter().set({"x": "1"}).commit(), MetadataChangedError),
    "another column": (
        lambda root: lambda: DeltaTable(root).alter().add("x", pa.int64()).commit(),
        MetadataChangedError,
    ),
    "another protocol": (
        lambda root: lambda: DeltaTable(root).alter().set({"delta.feature.v2Checkpoint": "supported"}).commit(),
        ProtocolChangedError,
    ),
}


@pytest.mark.req("DL-OPT-04")
@pytest.mark.parametrize("case", _CASES)
def test_what_else_happens_to_files_fails_their_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """The other group is committed, and of the failed one nothing is left behind."""
    make, error = _CASES[case]
    table = _table(tmp_path, 2, 10)
    _of_a(tmp_path, [0, 1])()
    table.refresh()
    while_files_are_written(monkeypatch, make(tmp_path))
    done = table.compact(group_size=1)
    assert [type(conflict) for conflict in done.conflicts] == [error]
    assert [group.commit is not None for group in done.groups] == [False, True]
    # The new file of the group that failed is no more: all files are named by the log.
    mentioned = {
        name.rpartition("/")[2]
        for version in range(table.refresh().version + 1)
        for name in _named(_actions(tmp_path, version))
    }
    assert _files(tmp_path) <= mentioned
    after = _rows(table)
    assert table.compact().conflicts == []
    assert _rows(table) == after


def _rows(table: DeltaTable) -> list[tuple[int, str]] | str:
    """Return the rows; or the error, where the table names rows that there are not."""
    try:
        found = table.refresh().scan().to_arrow().to_pylist()
    except DeltabergError as error:
        return type(error).__name__
    return sorted((row["id"], row["p"]) for row in found)


@pytest.mark.req("DL-OPT-04")
def test_a_restore_that_leaves_what_was_deleted_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were deleted and given back while their files were written are in the new file."""
    table = _table(tmp_path, 2, 10)
    _of_a(tmp_path, [0, 1])()
    table.refresh()
    while_files_are_written(monkeypatch, lambda: [_of_a(tmp_path, [0, 1, 2, 3])(), _of_a(tmp_path, [0, 1, 3])()])
    assert table.compact("p = 'a'").conflicts == []
    assert ids_of(table.refresh()) == [-2, -1, 2, *range(4, 10), 12, *range(14, 20)]
    # An attempt that saw more deleted rows than the one that lands.
    table = _table(tmp_path / "t", 2, 10)
    while_files_are_written(monkeypatch, _of_a(tmp_path / "t", [5, 6]))
    _before_puts(monkeypatch, _of_a(tmp_path / "t", None))
    assert [type(found) for found in table.compact("p = 'a'").conflicts] == [ConcurrentDeleteDeleteError]
    assert ids_of(table.refresh()) == [-2, -1, *range(20)]


@pytest.mark.req("DL-OPT-04")
def test_a_table_that_is_to_get_no_deletion_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are deleted by writing their files anew, which is a conflict."""
    table = _table(tmp_path, 2, 10, **{"delta.enableDeletionVectors": "false"})
    while_files_are_written(monkeypatch, _delete(tmp_path, "id = 4"))
    assert [type(found) for found in table.compact("p = 'a'").conflicts] == [ConcurrentDeleteDeleteError]
    assert ids_of(table.refresh()) == [-2, -1, *(number for number in range(20) if number != 4)]


def _compacted(table: DeltaTable, order: RowOrder | None, **options: Any) -> CompactResult:
    compaction = Compaction("p = 'a'", Packing(1), RowOptions(**options), order=order)
    return compact_table(
        lambda: operations_of(table.transaction()).transaction, table.refresh, compaction, DeltaRewrite
    )


@pytest.mark.req("DL-OPT-04")
@pytest.mark.parametrize("order", [None, RowOrder("sort", ("id desc",))], ids=["kept", "sorted"])
def test_rows_are_found_wherever_they_have_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: random.Random, order: RowOrder | None
) -> None:
    """Also in several new files, in another order, and where many rows had been deleted before."""
    rows = 4000
    table = _table(tmp_path, 3, rows)
    everything = set(range(3 * rows))
    table.delete(f"id IN ({', '.join(map(str, rng.sample(sorted(everything), 1500)))})")
    known = {row["id"]: row for row in _tracked(table)}
    here = sorted(number for number in known if number >= 0)
    gone = {*rng.sample(here, 900), *here[1000:1700]}
    while_files_are_written(monkeypatch, _delete(tmp_path, f"id IN ({', '.join(map(str, sorted(gone)))})"))
    done = _compacted(table, order, target_file_size=None if order is None else 12_000)
    assert done.conflicts == []
    assert (done.added_files == 1) == (order is None)
    left = [number for number in known if number not in gone]
    assert _tracked(table) == [known[number] for number in sorted(left)]
    assert not table.verify().findings


def test_the_history_counts_the_files_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = create_table(
        str(tmp_path), pa.schema([("id", pa.int64())]), properties={"delta.enableDeletionVectors": "true"}
    )
    for first in (0, 1):
        table.append(pa.table({"id": range(first, 4000, 2)}))
    while_files_are_written(monkeypatch, _delete(tmp_path, "id < 3000"))
    done = table.compact(sort_by="id", target_file_size=6000)
    (commit,) = done.commits
    sizes = table.live_files.column("size").to_pylist()
    assert 0 < len(sizes) == commit.added_files
    assert commit.metrics["numAddedFiles"] == len(sizes)
    assert commit.metrics["numAddedBytes"] == sum(sizes)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(3000, 4000))
