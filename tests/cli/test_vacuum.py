"""`deltaberg vacuum`, `expire` and `orphans`: what they print, how they end, and that nothing goes unasked."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner, Result

from deltaberg import DeltaTable, IcebergTable, create_table
from deltaberg.cli import confirm
from deltaberg.cli.app import cli
from deltaberg.errors import AuthenticationError, StorageError
from deltaberg.iceberg.maintain.cleaning.sweep import Sweep
from deltaberg.storage.local import LocalStorage
from tests.support.command_line import call, json_lines, printed
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_OLD = 946_684_800


@pytest.fixture
def root(builder: DeltaBuilder) -> Path:
    """A table of which version 1 has removed a file, in the year 2000."""
    old, new = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, old, new)
    builder.commit(builder.remove(old, deletionTimestamp=_OLD * 1000))
    for path in (*builder.root.glob("*.parquet"), *builder.log.glob("*.json")):
        os.utime(path, (_OLD, _OLD))
    return builder.root


def _answer(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: object) -> Result:
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    return CliRunner().invoke(cli, [str(one) for one in arguments], input=f"{text}\n", prog_name="deltaberg")


def test_nothing_goes_without_a_question(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = call("vacuum", root)
    assert ended.exit_code == 2
    assert "pass --yes to do it" in ended.stderr
    ended = _answer(monkeypatch, "n", "vacuum", root)
    assert ended.exit_code == 1
    assert "1.parquet (data file): the table removed it before the retention" in ended.stderr
    assert "nothing was deleted" in ended.stderr
    assert (root / "1.parquet").exists()
    ended = _answer(monkeypatch, "y", "vacuum", root)
    assert ended.exit_code == 0
    assert not (root / "1.parquet").exists()
    assert ids_of(DeltaTable(root)) == [2]


def test_the_log_is_cleaned_up(root: Path) -> None:
    left = root / "_delta_log" / "_commit_1.json.tmp"
    left.write_text("x")
    os.utime(left, (_OLD, _OLD))
    DeltaTable(root).checkpoint()
    os.utime(root / "_delta_log" / f"{1:020}.checkpoint.parquet", (_OLD, _OLD))
    ended = call("cleanup-metadata", root)
    assert (ended.exit_code, "pass --yes to do it" in ended.stderr) == (2, True)
    assert "a writer that was interrupted left it" in printed("cleanup-metadata", root, "--dry-run")
    assert json_lines("cleanup-metadata", root, "--dry-run", "--at", "2000-01-15")[0]["first_version"] is None
    (done,) = json_lines("cleanup-metadata", root, "--yes")
    names = ["_commit_1.json.tmp", f"{0:020}.json"]
    assert sorted(one["path"] for one in done["files"]) == sorted(f"_delta_log/{name}" for name in names)
    assert (done["first_version"], ids_of(DeltaTable(root))) == (1, [2])
    assert "deleted 0 files" in printed("cleanup-metadata", root, "--yes")


def test_the_question_has_the_warnings(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "deltaberg.delta.maintain.cleaning.vacuum.warnings_of_unnamed"
    with mock.patch(name, return_value=("objects that cannot be named stay",)):
        ended = _answer(monkeypatch, "n", "vacuum", root)
    assert "\nobjects that cannot be named stay\n" in ended.stderr


def test_an_inventory_is_a_file_of_rows(root: Path, tmp_path: Path) -> None:
    for name in ("one.parquet", "two.parquet"):
        (root / name).write_bytes(b"x")
        os.utime(root / name, (_OLD, _OLD))
    listed = tmp_path / "inventory.csv"
    listed.write_text(f"path,length,isDir,modificationTime\none.parquet,1,false,{_OLD}000\nsome,0,true,{_OLD}000\n")
    call("vacuum", root, "--yes", "--inventory", listed, "--no-logging")
    assert not (root / "one.parquet").exists()
    assert (root / "two.parquet").exists()
    assert DeltaTable(root).version == 1
    call("vacuum", root, "--yes", "--logging", "--message", "spring")
    assert not (root / "two.parquet").exists()
    assert [one.info.get("userMetadata") for one in DeltaTable(root).history(2)] == ["spring", "spring"]
    assert DeltaTable(root).version == 3
    ended = call("vacuum", root, "--inventory", tmp_path / "none.csv")
    assert ended.exit_code == 8
    assert "none.csv" in ended.stderr


def test_a_dry_run_changes_nothing(root: Path) -> None:
    (planned,) = json_lines("vacuum", root, "--dry-run")
    assert (planned["dry_run"], planned["deleted_files"], planned["failed"]) == (True, 1, {})
    (file,) = planned["files"]
    assert (file["path"], file["kind"]) == ("1.parquet", "data file")
    assert (root / "1.parquet").exists()
    (done,) = json_lines("vacuum", root, "--yes")
    assert (done["dry_run"], done["files"]) == (False, planned["files"])
    assert "deleted 0 files" in printed("vacuum", root, "--yes")


def test_options_are_those_of_the_library(root: Path) -> None:
    ended = call("vacuum", root, "--dry-run", "--retention-hours", "1")
    assert ended.exit_code != 0
    assert "--no-retention-check" in ended.stderr
    assert "would delete 1 file" in printed(
        "vacuum", root, "--dry-run", "--retention-hours", "1", "--no-retention-check"
    )
    assert "would delete 1 file" in printed("vacuum", root, "--dry-run", "--lite")
    assert "would delete 0 files" in printed("vacuum", root, "--dry-run", "--keep-version", "0")


def test_files_that_cannot_be_deleted_end_with_1(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalStorage.delete

    def delete(self: LocalStorage, path: str) -> bool:
        if path.endswith("/1.parquet"):
            raise AuthenticationError("the store denies it", path=path)
        return real(self, path)

    monkeypatch.setattr(LocalStorage, "delete", delete)
    ended = call("vacuum", root, "--yes")
    assert ended.exit_code == 1
    assert "1.parquet could not be deleted: the store denies it" in ended.stdout


def test_files_that_stay_end_with_1(history: IcebergTable) -> None:
    """The store does not tell what newer metadata needs: snapshots have expired, and their files stay."""
    unread = mock.patch.object(Sweep, "look_at_newer", side_effect=StorageError("the store is busy"))
    with unread:
        ended = call("expire", history.location, "--older-than", "2100-01-01", "--yes")
    assert (ended.exit_code, len(history.refresh().snapshots)) == (1, 1)
    assert "files stay, since what newer metadata reaches could not be found out: the store is busy" in ended.stdout
    history.overwrite(ids(3))
    with unread:
        ended = call("maintain", history.location, "--step", "remove_orphan_files", "--yes")
    assert ended.exit_code != 0
    assert call("orphans", history.location, "--yes").exit_code == 0


@pytest.fixture
def history(tmp_path: Path) -> IcebergTable:
    """An Iceberg table of two snapshots, of which the first is a file alone, with a leftover."""
    table = create_table(tmp_path / "trips", ID, format="iceberg")
    table.append(ids(1))
    table.overwrite(ids(2))
    (Path(table.location) / "data" / "lost.parquet").write_bytes(b"x")
    os.utime(Path(table.location) / "data" / "lost.parquet", (_OLD, _OLD))
    return table


def test_snapshots_expire(history: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    first = history.snapshots[0].snapshot_id
    ended = _answer(monkeypatch, "n", "expire", history.location, "--older-than", "2100-01-01")
    assert ended.exit_code == 1
    assert "would expire 1 snapshot" in ended.stderr
    (planned,) = json_lines("expire", history.location, "--snapshot-id", first, "--dry-run")
    assert (planned["snapshot_ids"], planned["dry_run"]) == ([first], True)
    (done,) = json_lines("expire", history.location, "--older-than", "2100-01-01", "--retain-last", "1", "--yes")
    assert (done["snapshot_ids"], done["refs"]) == ([first], [])
    assert [file["kind"] for file in done["files"]].count("data file") == 1
    assert len(history.refresh().snapshots) == 1
    assert "expired 0 snapshots" in printed("expire", history.location, "--clean-expired-metadata", "--yes")


def test_orphans_go(history: IcebergTable) -> None:
    (planned,) = json_lines("orphans", history.location, "--dry-run", "--location", f"{history.location}/data")
    assert [file["path"] for file in planned["files"]] == ["data/lost.parquet"]
    ended = call("orphans", history.location, "--older-than", "2100-01-01", "--yes")
    assert "--no-retention-check" in ended.stderr
    more = ("--no-retention-check", "--prefix-mismatch", "ignore", "--yes")
    assert "deleted 1 file" in printed("orphans", history.location, "--older-than", "2100-01-01", *more)
    assert ids_of(history.refresh()) == [2]
