"""Repair of Delta tables: only what is certainly lost leaves a table, by a commit of its own (DL-OPS-12)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, Finding, RepairResult, create_table, open_table
from deltaberg.errors import (
    AuthenticationError,
    CommitConflictError,
    ConcurrentDeleteDeleteError,
    ConstraintViolationError,
    DataFileNotFoundError,
    InvalidArgumentError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.storage.local import LocalStorage
from tests.storage.conftest import Bucket
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import actions_at, named_actions
from tests.support.rows import ID, ids, ids_of


@pytest.fixture
def lost(builder: DeltaBuilder) -> Path:
    """A table of three files and a vector, of which one data file is lost."""
    builder.create(
        ID,
        builder.add(ids(1, 2), path="a.parquet", stats="count"),
        builder.add(ids(3), path="b.parquet", stats="count"),
        builder.add(ids(4, 5, 6), path="c.parquet", stats="count", vector=builder.vector([0])),
        protocol=builder.features("deletionVectors"),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    (builder.root / "a.parquet").unlink()
    return builder.root


def _paths(result: RepairResult) -> list[str]:
    return sorted(file.path for file in result.files)


@pytest.mark.req("DL-OPS-12")
def test_a_lost_file_leaves_by_a_commit_of_its_own(lost: Path) -> None:
    table = DeltaTable(lost)
    with pytest.raises(DataFileNotFoundError, match="a live data file is gone"):
        table.scan().to_arrow()
    done = table.repair()
    assert (done.rows, _paths(done), done.warnings) == (2, ["a.parquet"], ())
    assert (table.version, ids_of(table)) == (1, [3, 5, 6])
    (file,) = done.files
    assert (file.lost, file.what) == (str(lost / "a.parquet"), "data file")
    commit = done.commit
    assert commit is not None
    assert (commit.version, commit.deleted_rows, commit.removed_files, commit.removed_bytes) == (1, 2, 1, file.size)
    (info,) = table.history(1)
    assert info.operation == "FSCK"
    assert info.info["operationMetrics"] == {
        "numAddedFiles": "0",
        "numRemovedFiles": "1",
        "numRemovedBytes": str(file.size),
        "numDeletedRows": "2",
    }
    assert [name for action in actions_at(lost, 1) for name in action] == ["commitInfo", "remove"]
    (remove,) = named_actions(lost, 1, "remove")
    assert (remove["path"], remove["dataChange"]) == ("a.parquet", True)
    assert table.verify(depth="footers").is_clean
    assert ids_of(DeltaTable(lost)) == [3, 5, 6]


@pytest.mark.req("DL-OPS-12")
def test_a_lost_vector_removes_its_file(lost: Path) -> None:
    """Without it, the row that it hides would come back."""
    for path in lost.glob("*.bin"):
        path.unlink()
    table = DeltaTable(lost)
    done = table.repair()
    assert (done.rows, _paths(done)) == (4, ["a.parquet", "c.parquet"])
    assert {file.path: file.what for file in done.files} == {
        "a.parquet": "data file",
        "c.parquet": "deletion vector",
    }
    assert ids_of(table) == [3]
    removed = {one["path"]: "deletionVector" in one for one in named_actions(lost, 1, "remove")}
    assert removed == {"a.parquet": False, "c.parquet": True}
    assert (lost / "c.parquet").exists()


@pytest.mark.req("DL-OPS-12")
def test_one_vector_file_of_several_data_files(builder: DeltaBuilder) -> None:
    one, two = builder.vectors([[0], [1]])
    builder.create(
        ID,
        builder.add(ids(1, 2), path="a.parquet", stats="count", vector=one),
        builder.add(ids(3, 4), path="b.parquet", stats="count", vector=two),
        builder.add(ids(5), path="c.parquet", stats="count"),
        protocol=builder.features("deletionVectors"),
    )
    next(builder.root.glob("*.bin")).unlink()
    table = DeltaTable(builder.root)
    assert table.repair(table.verify()).rows == 2
    assert ids_of(table) == [5]


def test_a_dry_run_changes_nothing(lost: Path) -> None:
    table, before = DeltaTable(lost), sorted(path.name for path in lost.rglob("*"))
    result = table.repair(dry_run=True)
    assert (result.dry_run, result.commit, result.rows) == (True, None, 2)
    assert repr(result) == "RepairResult(dry run: 1 file with 2 rows would leave the table)"
    assert str(result).splitlines()[1] == "  a.parquet, 2 rows: it is lost"
    assert (table.version, sorted(path.name for path in lost.rglob("*"))) == (0, before)


def test_nothing_is_lost(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="a.parquet"))
    table = DeltaTable(builder.root)
    result = table.repair()
    assert (result.files, result.commit, repr(result)) == ((), None, "RepairResult(no file is lost)")
    assert (table.version, DeltaTable(builder.root).version) == (0, 0)


def test_only_some_findings(lost: Path) -> None:
    (lost / "b.parquet").unlink()
    table = DeltaTable(lost)
    findings = [one for one in table.verify().findings if one.path.endswith("b.parquet")]
    assert _paths(table.repair(findings)) == ["b.parquet"]
    assert _paths(table.repair(dry_run=True)) == ["a.parquet"]


@pytest.mark.req("DL-OPS-12")
def test_findings_do_not_decide(lost: Path) -> None:
    """The store does. Findings of other kinds, and of what is no file of the table, remove nothing."""
    table = DeltaTable(lost)
    claimed = [
        Finding("missing", "data file", str(lost / "b.parquet"), "version 0"),
        Finding("size", "data file", str(lost / "a.parquet"), "version 0"),
        Finding("unchecked", "data file", str(lost / "a.parquet"), "version 0"),
        Finding("missing", "change data file", str(lost / "a.parquet"), "version 0"),
        Finding("missing", "data file", "/elsewhere/z.parquet", "version 0"),
    ]
    assert table.repair(claimed).files == ()
    assert table.version == 0


def test_rows_that_nobody_counted(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="a.parquet"), builder.add(ids(2), path="b.parquet", stats="count"))
    for path in builder.root.glob("*.parquet"):
        path.unlink()
    result = DeltaTable(builder.root).repair()
    assert (result.rows, len(result.files), result.commit and result.commit.deleted_rows) == (None, 2, None)
    assert "2 files with rows that nobody counted left the table by version 1" in repr(result)


def _commits(root: Path) -> int:
    return len(list((root / "_delta_log").glob("*.json")))


@pytest.mark.req("DL-OPS-12")
def test_a_file_that_cannot_be_checked_stays(lost: Path) -> None:
    """Others, which are certainly lost, go. A directory in the place of a file is no loss, and no failure."""
    (lost / "b.parquet").unlink()
    (lost / "b.parquet").symlink_to("/nowhere/b.parquet")
    table = DeltaTable(lost)
    result = table.repair()
    assert _paths(result) == ["a.parquet"]
    assert result.warnings[0].startswith("1 file could not be checked, and stays: a link")
    with pytest.raises(StorageError, match="a link"):
        table.repair()
    (lost / "b.parquet").unlink()
    (lost / "b.parquet").mkdir()
    assert (table.repair().files, _commits(lost)) == ((), 2)


@pytest.mark.req("DL-OPS-12")
@pytest.mark.parametrize("error", [AuthenticationError("403: no"), StorageError("503: busy")])
def test_an_error_before_the_commit(lost: Path, monkeypatch: pytest.MonkeyPatch, error: StorageError) -> None:
    """The second look fails, so that nothing is known."""
    table, asked, original = DeltaTable(lost), [], LocalStorage.head

    def head(store: LocalStorage, path: str) -> Any:
        if path.endswith("a.parquet"):
            asked.append(path)
            if len(asked) == 2:
                raise error
        return original(store, path)

    monkeypatch.setattr(LocalStorage, "head", head)
    with pytest.raises(type(error), match=error.message):
        table.repair()
    assert (len(asked), _commits(lost)) == (2, 1)


def _on_second_look(monkeypatch: pytest.MonkeyPatch, name: str, then: Callable[[], object]) -> None:
    """Let something happen before a file is asked for a second time."""
    asked, original = [], LocalStorage.head

    def head(store: LocalStorage, path: str) -> Any:
        if path.endswith(name):
            asked.append(path)
            if len(asked) == 2:
                then()
        return original(store, path)

    monkeypatch.setattr(LocalStorage, "head", head)


@pytest.mark.req("DL-OPS-12")
def test_a_file_that_is_put_back_meanwhile_stays(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put_back() -> None:
        (lost / "a.parquet").write_bytes((lost / "b.parquet").read_bytes())

    _on_second_look(monkeypatch, "a.parquet", put_back)
    with pytest.raises(CommitConflictError, match="is there again"):
        DeltaTable(lost).repair()
    assert _commits(lost) == 1


@pytest.mark.req("DL-OPS-12")
def test_a_commit_that_lands_first(lost: Path, monkeypatch: pytest.MonkeyPatch, builder: DeltaBuilder) -> None:
    """Its files are looked for again before the next attempt. A file that came back by it stays."""
    calls = []

    def append() -> None:
        calls.append(open_table(lost, "delta").append(ids(7)).version)

    _on_second_look(monkeypatch, "a.parquet", append)
    table = DeltaTable(lost)
    done = table.repair()
    assert done.commit is not None
    assert (done.commit.version, done.commit.retries, calls) == (2, 1, [1])
    assert ids_of(table) == [3, 5, 6, 7]


def test_another_commit_removes_the_file(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = DeltaTable(lost)
    _on_second_look(monkeypatch, "a.parquet", lambda: DeltaTable(lost).repair())
    with pytest.raises(ConcurrentDeleteDeleteError, match=r"version 1 .* removed a file that this change removes, too"):
        table.repair()
    assert (_commits(lost), ids_of(DeltaTable(lost))) == (2, [3, 5, 6])


@pytest.mark.req("DL-OPS-12")
def test_a_stale_table_is_repaired_at_its_newest_version(lost: Path, builder: DeltaBuilder) -> None:
    """What another commit has removed is not lost."""
    stale = DeltaTable(lost)
    builder.commit({"remove": {"path": "a.parquet", "deletionTimestamp": 1, "dataChange": True}})
    (lost / "b.parquet").unlink()
    assert _paths(stale.repair(dry_run=True)) == ["b.parquet"]
    assert _paths(stale.repair()) == ["b.parquet"]
    assert ids_of(stale) == [5, 6]


@pytest.mark.req("DL-OPS-12")
def test_append_only_tables_are_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="a.parquet"), configuration={"delta.appendOnly": "true"})
    table = DeltaTable(builder.root)
    assert table.repair().files == ()
    (builder.root / "a.parquet").unlink()
    for dry_run in (True, False):
        with pytest.raises(ConstraintViolationError, match="only grows") as caught:
            table.repair(dry_run=dry_run)
        assert "set delta.appendOnly to false" in str(caught.value)
    assert _commits(builder.root) == 1


@pytest.mark.req("DL-OPS-12")
def test_unknown_writer_features_are_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="a.parquet"), protocol=builder.protocol(1, 7, None, ["someday"]))
    (builder.root / "a.parquet").unlink()
    table = DeltaTable(builder.root)
    assert len(table.verify().findings) == 1
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match="someday"):
            table.repair(dry_run=dry_run)


@pytest.mark.req("DL-OPS-12")
def test_readers_of_the_change_feed_are_told(tmp_path: Path) -> None:
    """A read of that version fails: it does not leave out the rows in silence."""
    table = create_table(tmp_path / "t", ID, properties={"delta.enableChangeDataFeed": "true"})
    table.append(ids(1, 2))
    table.append(ids(3))
    path = table.live_files["path"][0].as_py()
    (tmp_path / "t" / path).unlink()
    (planned,) = table.repair(dry_run=True).warnings
    assert "cannot be listed in the change feed" in planned
    (told,) = table.repair().warnings
    assert told == planned
    with pytest.raises(DataFileNotFoundError, match="a live data file is gone"):
        table.changes(3).to_arrow()
    assert len(actions_at(tmp_path / "t", 3)) == 2


def test_row_ids_are_kept(tmp_path: Path) -> None:
    """The mark of row ids does not fall, so that no id is given twice."""
    properties = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    table = create_table(tmp_path / "t", ID, properties=properties)
    table.append(ids(1, 2, 3))
    table.append(ids(4, 5, 6))
    table.delete("id = 5")
    mark = table.row_id_high_water_mark
    for path in (tmp_path / "t").glob("*.bin"):
        path.unlink()
    assert table.repair().rows == 2
    assert (ids_of(table), table.row_id_high_water_mark) == ([1, 2, 3], mark)
    table.append(ids(7))
    assert table.scan(columns=["_metadata.row_id"], filter="id = 7").to_arrow().column(0)[0].as_py() is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [(3, "findings must be"), (["a.parquet"], "findings must be"), ("a.parquet", "findings must be")],
)
def test_wrong_findings(lost: Path, given: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DeltaTable(lost).repair(given)


def test_tables_in_past_states_are_refused(lost: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="opened with version"):
        DeltaTable(lost, version=0).repair(dry_run=True)


def test_what_is_said_of_the_commit(lost: Path) -> None:
    table = DeltaTable(lost)
    table.repair(user_metadata="the disk of Monday", txn=("repair", 1))
    assert table.history(1)[0].info["userMetadata"] == "the disk of Monday"
    assert table.transactions["repair"].version == 1
    (lost / "b.parquet").unlink()
    again = table.repair(txn=("repair", 1))
    assert (again.files, again.commit and again.commit.committed, table.version) == ((), False, 1)


@pytest.mark.one_backend
@pytest.mark.req("DL-OPS-12")
def test_a_bucket(s3: Bucket) -> None:
    """There, too, deltalake reads the rest."""
    url = f"{s3.url}/a table"
    table = create_table(url, ID, storage_options=s3.options)
    for number in range(3):
        table.append(ids(number))
    path = table.live_files["path"].to_pylist()[0]
    (lost_id,) = table.scan().to_arrow()["id"].to_pylist()[:1]
    s3.store().delete(f"a table/{path}")
    (found,) = table.verify(depth="footers").findings
    assert (found.kind, found.path) == ("missing", f"{url}/{path}")
    assert table.repair(table.verify()).rows == 1
    theirs = deltalake.DeltaTable(url, storage_options={**s3.options, "AWS_ALLOW_HTTP": "true"})
    left = sorted({0, 1, 2} - {lost_id})
    assert (sorted(pa.table(theirs.to_pyarrow_table())["id"].to_pylist()), ids_of(table)) == (left, left)
    assert table.verify().is_clean


@pytest.mark.req("DL-OPS-12")
def test_deltalake_reads_the_rest_and_repairs_no_more(lost: Path) -> None:
    for path in lost.glob("*.bin"):
        path.unlink()
    DeltaTable(lost).repair()
    theirs = deltalake.DeltaTable(lost)
    rows = deltalake.QueryBuilder().register("t", theirs).execute("SELECT id FROM t").read_all()
    assert pa.table(rows)["id"].to_pylist() == [3]
    assert theirs.repair(dry_run=True)["files_removed"] == []
    assert theirs.history(1)[0]["operation"] == "FSCK"
    assert os.path.exists(lost / "c.parquet")
