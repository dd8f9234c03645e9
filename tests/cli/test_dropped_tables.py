"""Delta tables that the command line drops with their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, drop_table, find_commit, load_catalog, open_table, write_table
from deltaberg.delta.after_commit import checkpoints
from deltaberg.delta.log.commit import put_entry
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.maintain.cleaning import dropped_table
from deltaberg.delta.maintain.cleaning.vacuum_candidates import VacuumCandidates
from deltaberg.delta.transaction import log_change
from deltaberg.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidArgumentError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import Fate
from deltaberg.table.maintain.cleanup import DropRequest
from deltaberg.table.removal import delete_files
from tests.support.command_line import call, json_lines
from tests.support.rows import ids, ids_of


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A table with live and removed files, a deletion vector, change files and a checkpoint."""
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    rows = pa.table({"id": [1, 2, 3, 4], "_p": ["a", "a", "b", "b"]})
    dated = create_table(tmp_path / "t", rows.schema, partition_by=["_p"], properties=properties)
    dated.append(rows)
    dated.delete("id = 1")
    dated.update({"id": "5"}, "id = 3")
    dated.checkpoint()
    return dated


def test_dropped_with_all_files(table: DeltaTable, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    write_table(root / "inner", ids(7))
    elsewhere.write_text("of others")
    (root / "link").symlink_to(elsewhere)
    (root / "_hidden").write_text("of others")
    stay = {"_hidden", "link", *(str(one.relative_to(root)) for one in (root / "inner").rglob("*") if one.is_file())}
    words = ("drop-table", str(root), "--purge")
    (planned,) = json_lines(*words, "--dry-run")
    assert {file["kind"] for file in planned["files"]} == {"data file", "deletion vector", "change data", "log"}
    asked = call(*words)
    assert (asked.exit_code, "pass --yes" in asked.stderr, len(DeltaTable(root).live_files)) == (2, True, 3)
    assert call("drop-table", str(root), "--yes").exit_code == 2
    (done,) = json_lines(*words, "--yes")
    assert sorted(file["path"] for file in done["files"]) == sorted(file["path"] for file in planned["files"])
    assert {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()} == stay
    assert (ids_of(DeltaTable(root / "inner")), elsewhere.read_text()) == ([7], "of others")
    assert "there is no" in call(*words, "--yes").stderr


def test_a_commit_meanwhile_keeps_the_table(table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, put = LogDirectory(parse_location(tmp_path / "t"), StoreSpec()), put_entry
    rows = pa.table({"id": [9], "_p": ["c"]})

    def append_first(*arguments: Any) -> PutResult:
        table.append(rows)
        return put(*arguments)

    monkeypatch.setattr(dropped_table, "put_entry", append_first)
    with pytest.raises(CommitConflictError, match="other writers committed first"):
        dropped_table.drop_table(log, DropRequest(purge=True))
    monkeypatch.undo()
    assert sorted(ids_of(DeltaTable(tmp_path / "t"))) == [2, 4, 5, 9]
    dropped_table.drop_table(log, DropRequest(purge=True))
    assert not (tmp_path / "t").exists()
    with pytest.raises(TableNotFoundError, match="there is no Delta table"):
        table.append(rows)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("is_late", [False, True], ids=["before the files", "between files of the log"])
def test_an_interrupted_drop_is_repeated(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    root, rows = tmp_path / "t", pa.table({"id": [9], "_p": ["c"]})

    def stop(*_: Any) -> Any:
        for number in (0, 2) if is_late else ():
            (root / f"_delta_log/{number:020}.json").unlink()
        raise KeyboardInterrupt

    owner, name = (dropped_table, "delete_files") if is_late else (dropped_table._Drop, "run")
    monkeypatch.setattr(owner, name, stop)
    with pytest.raises(KeyboardInterrupt):
        dropped_table.drop_table(LogDirectory(parse_location(root), StoreSpec()), DropRequest(purge=True))
    monkeypatch.undo()
    for act in (lambda: DeltaTable(root), lambda: table.append(rows), lambda: write_table(root, rows)):
        with pytest.raises(UnsupportedFeatureError, match="the table was dropped"):
            act()
    assert call("drop-table", str(root), "--purge", "--yes").exit_code == 0
    assert not root.exists()


@pytest.mark.parametrize("is_late", [False, True], ids=["among the files", "between files of the log"])
def test_a_table_made_anew_meanwhile_stays(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """Two processes drop a table at the same time, and a third one makes another before the second has ended."""
    root = tmp_path / "t"
    name = "_log_files" if is_late else "_delete_some"
    original = getattr(dropped_table._Drop, name)

    def slowly(self: Any, *arguments: Any) -> Any:
        monkeypatch.undo()
        found = original(self, *arguments)
        drop_table(root, purge=True)
        for number in range(table.version + 3):
            write_table(root, ids(number), mode="append")
        return found if is_late else original(self, *arguments)

    monkeypatch.setattr(dropped_table._Drop, name, slowly)
    with pytest.raises(CommitConflictError, match="another process has ended the drop"):
        drop_table(root, purge=True)
    assert ids_of(DeltaTable(root)) == list(range(table.version + 3))
    assert DeltaTable(root, version=0).version == 0


def test_a_commit_after_the_drop_keeps_the_log(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that does not heed the protocol may add one, which the log must not begin with."""
    root, late = tmp_path / "t", f"_delta_log/{table.version + 2:020}.json"
    find_all = VacuumCandidates.find_all

    def commit_first(self: Any) -> pa.Table:
        (root / late).write_text('{"txn":{"appId":"a","version":1}}')
        return find_all(self)

    monkeypatch.setattr(VacuumCandidates, "find_all", commit_first)
    with pytest.raises(CommitConflictError, match=f"{late} came after version {table.version + 1}"):
        drop_table(root, purge=True)
    with pytest.raises(UnsupportedFeatureError, match="the table was dropped"):
        DeltaTable(root)
    (root / late).unlink()
    monkeypatch.undo()
    drop_table(root, purge=True)
    assert not root.exists()


def test_a_directory_that_cannot_go_stays_a_table(table: DeltaTable, tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_table(tmp_path / "other", ids(1), format="iceberg")
    (tmp_path / "other" / "metadata").rename(root / "metadata")
    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match="is metadata of an Iceberg table in the same directory"):
            drop_table(root, purge=True, dry_run=dry_run)
    assert sorted(ids_of(DeltaTable(root))) == [2, 4, 5]


def test_no_property_keeps_files_of_a_dropped_table(tmp_path: Path) -> None:
    """Whatever other writers have set: retentions, versions to keep, and times of commits that are not recorded."""
    root = tmp_path / "t"
    write_table(root, ids(1))
    entry = root / f"_delta_log/{0:020}.json"
    properties = {
        "delta.deletedFileRetentionDuration": "soon",
        "deltaberg.keepVersions": "none",
        "delta.enableInCommitTimestamps": "true",
    }
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = properties
    entry.write_text("\n".join(map(json.dumps, actions)))
    drop_table(root, purge=True)
    assert not root.exists()


def test_a_checkpoint_that_comes_late_goes_too(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the table could be opened at its version once the entry of the drop is gone."""
    late, delete = tmp_path / "t" / f"_delta_log/{1:020}.checkpoint.parquet", delete_files
    calls = iter([late.touch])

    def delete_first(*arguments: Any) -> Any:
        removal = delete(*arguments)
        next(calls, lambda: None)()
        return removal

    monkeypatch.setattr(dropped_table, "delete_files", delete_first)
    done = drop_table(tmp_path / "t", purge=True)
    assert done is not None
    assert f"_delta_log/{late.name}" in done.files["path"].to_pylist()
    assert not (tmp_path / "t").exists()


def test_a_drop_of_which_nobody_knows_can_be_looked_for(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogDirectory(parse_location(tmp_path / "t"), StoreSpec())
    monkeypatch.setattr(dropped_table, "put_entry", lambda *_: PutResult(PutOutcome.UNKNOWN))
    monkeypatch.setattr(dropped_table, "look_for_entry", lambda *_: Fate.HIDDEN)
    with pytest.raises(CommitUnknownError) as told:
        dropped_table.drop_table(log, DropRequest(purge=True))
    assert find_commit(tmp_path / "t", told.value.context["token"]) is None
    assert len(DeltaTable(tmp_path / "t").live_files) == 3


def test_a_checkpoint_of_a_table_that_is_gone_goes(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer who began before the drop must not let the table be there again, without its files."""
    point_to = checkpoints._point_to

    def drop_first(*arguments: Any) -> None:
        drop_table(tmp_path / "t", purge=True)
        (tmp_path / "t" / "_delta_log").mkdir(parents=True)
        (tmp_path / "t" / f"_delta_log/{table.version:020}.checkpoint.parquet").touch()
        point_to(*arguments)

    table.append(pa.table({"id": [9], "_p": ["c"]}))
    monkeypatch.setattr(checkpoints, "_point_to", drop_first)
    with pytest.raises(VersionNotFoundError, match="the log entry of the version does not exist"):
        table.checkpoint()
    assert not (tmp_path / "t").exists()


def test_directories_elsewhere_are_none_of_a_delta_table(table: DeltaTable, tmp_path: Path) -> None:
    ended = call("drop-table", table.location, "--purge", "--yes", "--location", tmp_path)
    assert ended.exit_code == 2
    assert "leave out --location" in ended.stderr
    assert len(DeltaTable(table.location).live_files) == 3


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_dropped_in_python(tmp_path: Path, format: Literal["delta", "iceberg"]) -> None:
    root = tmp_path / "t"
    write_table(root, ids(1), format=format)
    with pytest.raises(InvalidArgumentError, match="a table in a directory is its files"):
        drop_table(root)
    for nonsense in ({"locations": 7}, {"locations": [None]}, {"on_spark": "local"}):
        with pytest.raises(InvalidArgumentError, match=r"is not a (location|Spark session)"):
            drop_table(root, purge=True, **nonsense)
    planned = drop_table(root, purge=True, dry_run=True)
    assert ids_of(open_table(root)) == [1]
    done = drop_table(root, purge=True)
    assert planned is not None
    assert done is not None
    assert planned.dry_run
    assert sorted(done.files["path"].to_pylist()) == sorted(planned.files["path"].to_pylist())
    assert not root.exists()
    with pytest.raises(TableNotFoundError, match="there is no"):
        drop_table(root, purge=True)


def test_dropped_from_a_catalog_in_python(tmp_path: Path) -> None:
    catalog = load_catalog("shop", type="sql", uri=f"sqlite:///{tmp_path}/shop.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    write_table("db.t", ids(1), catalog=catalog)
    assert drop_table("db.t", catalog=catalog) is None
    assert not catalog.table_exists("db.t")


@pytest.mark.parametrize("is_anew", [False, True])
@pytest.mark.parametrize("change", ["append", "delete"])
def test_a_commit_that_comes_after_the_drop_is_none(
    table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_anew: bool, change: str
) -> None:
    """The log is empty when the entry is put, so that nothing is in its way: it would be a table by itself."""
    root = tmp_path / "t"

    def late(log: LogDirectory, version: int, data: bytes) -> Any:
        monkeypatch.setattr(log_change, "put_entry", put_entry)
        drop_table(root, purge=True)
        if is_anew:
            write_table(root, ids(7))
        return put_entry(log, version, data)

    monkeypatch.setattr(log_change, "put_entry", late)
    with pytest.raises((TableNotFoundError, VersionNotFoundError), match=r"holds no commit|it was replaced"):
        table.append(pa.table({"id": [9], "_p": ["c"]})) if change == "append" else table.delete("id = 2")
    if is_anew:
        assert ids_of(DeltaTable(root)) == [7]
        write_table(root, ids(8), mode="append")
        assert ids_of(DeltaTable(root)) == [7, 8]
        assert {path.name for path in root.rglob("*.json")} == {f"{number:020}.json" for number in (0, 1)}
    else:
        assert not [path for path in root.rglob("*") if path.is_file()]
        write_table(root, ids(7))
        assert ids_of(DeltaTable(root)) == [7]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_commit_that_comes_after_the_table_was_made_anew_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """The other table has as many versions, so that the entry follows one. The drop has taken the new file."""
    root = tmp_path / "t"
    write_table(root, ids(1))
    table = DeltaTable(root)
    if not is_known:
        # The writer meets a commit of others, whose time it does not know.
        DeltaTable(root).append(ids(2))

    def late(log: LogDirectory, version: int, data: bytes) -> Any:
        monkeypatch.setattr(log_change, "put_entry", put_entry)
        drop_table(root, purge=True)
        write_table(root, ids(7))
        if not is_known:
            DeltaTable(root).append(ids(8))
        return put_entry(log, version, data)

    monkeypatch.setattr(log_change, "put_entry", late)
    with pytest.raises(VersionNotFoundError, match="it was replaced"):
        table.append(ids(9))
    expected = [7] if is_known else [7, 8]
    assert ids_of(DeltaTable(root)) == expected
    write_table(root, ids(10), mode="append")
    assert ids_of(DeltaTable(root)) == [*expected, 10]
