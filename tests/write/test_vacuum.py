"""Vacuum: what no retained version needs goes, and nothing else (Part 4 of the requirements, DL-VAC)."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltaberg
from deltaberg import CleanupResult, DeltaTable
from deltaberg.delta.maintain import vacuum as vacuum_module
from deltaberg.errors import (
    AuthenticationError,
    CommitUnknownError,
    DataFileNotFoundError,
    InvalidArgumentError,
    SchemaError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaberg.storage.base import ObjectMeta, PutOutcome, PutResult
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.remote import RemoteStorage
from deltaberg.table.maintain.listed_files import earlier_clock
from tests.storage.conftest import Bucket
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

_HOUR = 3600.0
_DAY = 24 * _HOUR
_VECTORS = {"delta.enableDeletionVectors": "true"}
#: So many rows that the vector of every second one is in a file of its own.
_MANY = ids(*range(3000))
_FEED = {"delta.enableChangeDataFeed": "true"}


class Clock:
    """The clock by which a vacuum counts ages."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self, *_: object) -> int:
        return int((time.time() + self.ahead) * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that can be set ahead."""
    made = Clock()
    monkeypatch.setattr(vacuum_module, "earlier_clock", made)
    return made


def _table(root: Path, **properties: str) -> DeltaTable:
    made: DeltaTable = deltaberg.create_table(str(root), ids().schema, properties=properties)
    return made


def _paths(result: CleanupResult) -> set[str]:
    return set(result.files.column("path").to_pylist())


def _files(root: Path) -> set[str]:
    """Return all files of a table beside those of its log."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("_delta_log/")}


def _age(path: Path, days: float) -> None:
    then = time.time() - days * _DAY
    os.utime(path, (then, then))


@pytest.mark.req("DL-GEN-08")
def test_removed_files_go_after_the_retention(tmp_path: Path, clock: Clock) -> None:
    table = _table(tmp_path)
    table.append(ids(1, 2))
    before = _files(tmp_path)
    table.delete("true")
    assert table.vacuum(dry_run=False).deleted_files == 0
    assert _files(tmp_path) == before
    clock.ahead = 7 * _DAY + 1
    result = table.vacuum(dry_run=False)
    assert _paths(result) == before
    assert _files(tmp_path) == set()
    assert ids_of(DeltaTable(tmp_path)) == []


@pytest.mark.req("DL-CLEAN-09")
def test_what_is_named_or_young_stays(builder: DeltaBuilder) -> None:
    """Live f with a vector, tombstones of one and of eight days, orphans of eight days and of one hour."""
    now = int(time.time() * 1000)
    f = builder.add(ids(1, 2), path="f.parquet", vector=builder.vector([0]))
    g, h = (builder.add(ids(3), path=f"{name}.parquet") for name in "gh")
    builder.create(ID, f, g, h, protocol=builder.features("deletionVectors"), configuration=_VECTORS)
    builder.commit(
        builder.remove(g, deletionTimestamp=now - int(_DAY * 1000)),
        builder.remove(h, deletionTimestamp=now - int(8 * _DAY * 1000)),
    )
    for name in ("o", "p"):
        (builder.root / f"{name}.parquet").write_bytes(b"")
    for path in builder.root.glob("*.*"):
        _age(path, 8)
    _age(builder.root / "p.parquet", 1 / 24)
    result = DeltaTable(builder.root).vacuum(dry_run=False)
    assert _paths(result) == {"h.parquet", "o.parquet"}
    assert len([name for name in _files(builder.root) if name.endswith(".bin")]) == 1
    assert ids_of(DeltaTable(builder.root)) == [2]


@pytest.mark.req("DL-VAC-01")
@pytest.mark.req("BEY-05", half="writer")
def test_the_protocol_is_checked_before_anything_is_listed(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.create(
        ID, builder.add(ids(1)), protocol=builder.features("vacuumProtocolCheck", writer_only=["somethingNew"])
    )
    table = DeltaTable(builder.root)
    assert ids_of(table) == [1]
    listed: list[str] = []
    monkeypatch.setattr(LocalStorage, "walk", lambda _, prefix: listed.append(prefix))
    monkeypatch.setattr(LocalStorage, "put", lambda _, path, *__, **___: listed.append(path))
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        table.vacuum()
    assert listed == []


@pytest.mark.req("DL-VAC-02")
def test_vectors_stay_as_long_as_removed_files(tmp_path: Path, clock: Clock) -> None:
    table = _table(tmp_path, **_VECTORS, **_FEED)
    table.append(_MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.delete("true")
    before = _files(tmp_path)
    assert {Path(name).suffix for name in before} == {".parquet", ".bin"}
    clock.ahead = _DAY
    assert table.vacuum(dry_run=False).deleted_files == 0
    clock.ahead = 8 * _DAY
    assert _paths(table.vacuum(dry_run=False)) == before


@pytest.mark.req("DL-VAC-02")
def test_change_data_files_stay_as_long_as_their_commits_are_young(tmp_path: Path, clock: Clock) -> None:
    """Also where a copy of the table made them look old: the time of the commit decides, not that of the file."""
    table = _table(tmp_path, **_FEED)
    table.append(ids(1, 2))
    table.update({"id": "id + 10"}, "id = 1")
    (change,) = (tmp_path / "_change_data").iterdir()
    _age(change, 30)
    assert change.name not in {Path(path).name for path in _paths(table.vacuum())}
    assert table.changes(2).to_arrow().num_rows == 2
    clock.ahead = 8 * _DAY
    assert f"_change_data/{change.name}" in _paths(table.vacuum(dry_run=False))


@pytest.mark.req("DL-VAC-03")
def test_a_clock_that_is_ahead_makes_no_file_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    table.append(ids(1))
    table.delete("true")
    (tmp_path / "running.parquet").write_bytes(b"")
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + int(8 * _DAY * 1e9))
    assert table.vacuum(dry_run=False).deleted_files == 0
    assert (tmp_path / "running.parquet").exists()


@pytest.mark.req("DL-VAC-03")
@pytest.mark.parametrize(("ahead", "earlier"), [(8 * _DAY, "store"), (-8 * _DAY, "own")])
def test_the_earlier_of_two_clocks_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, earlier: str
) -> None:
    real = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: real + int(ahead * 1e9))
    found = earlier_clock(LocalStorage(), str(tmp_path))
    assert (
        abs(found - real // 1_000_000) < 60_000 if earlier == "store" else found == (real + int(ahead * 1e9)) // 10**6
    )
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_needs_no_permission_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)

    def denied(*_: object, **__: object) -> PutResult:
        raise AuthenticationError("no")

    monkeypatch.setattr(LocalStorage, "put", denied)
    assert table.vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-04")
def test_hidden_files_stay(tmp_path: Path, clock: Clock) -> None:
    schema = pa.schema([("_p", pa.int64()), ("id", pa.int64())])
    table: Any = deltaberg.create_table(str(tmp_path), schema, partition_by=["_p"])
    table.append(pa.table({"_p": [1], "id": [1]}))
    stay = ["_x/f", "a/.tmp", "a/_b/c/d.parquet", ".hidden", "_p/_q", "_change_data/_x", "metadata/v1.metadata.json"]
    stay += ["metadata/snap.avro", "_delta_log/stray.parquet", "_delta_log/_x/f.parquet", "_delta_logs/f", "_P=1/f"]
    go = ["_p=1/old.parquet", "_p=1/_p=2/old.parquet", "_change_data/old", "_delta_index/old", "a/x_.parquet"]
    go += ["_delta_index/_p=3/old", "line\nbreak/a b+%20#?.parquet", "ünïcode/😀.parquet", "metadata.json"]
    for name in (*stay, *go):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    clock.ahead = 8 * _DAY
    assert _paths(table.vacuum(dry_run=False)) == set(go)
    assert all((tmp_path / name).exists() for name in stay)
    assert ids_of(DeltaTable(tmp_path)) == [1]


@pytest.mark.req("DL-VAC-04")
@pytest.mark.parametrize("name", ["x.metadata.json", "version-hint.text", "f.parquet"])
def test_metadata_of_an_iceberg_table_stays(tmp_path: Path, clock: Clock, name: str) -> None:
    table = _table(tmp_path)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / name).write_bytes(b"")
    clock.ahead = 8 * _DAY
    assert _paths(table.vacuum()) == ({"metadata/f.parquet"} if name == "f.parquet" else set())


@pytest.mark.req("DL-VAC-05")
@pytest.mark.parametrize(
    "name", ["a b.parquet", "a%20b.parquet", "a+b.parquet", "a#b.parquet", "ü😀.parquet", "a?b:c=d"]
)
def test_names_are_decoded_once(builder: DeltaBuilder, clock: Clock, name: str) -> None:
    from urllib.parse import quote

    live = builder.add(ids(1), path=name)
    live["add"]["path"] = quote(name)
    builder.create(ID, live)
    (builder.root / quote(name)).with_suffix(".other").write_bytes(b"")
    clock.ahead = 8 * _DAY
    assert name not in _paths(DeltaTable(builder.root).vacuum(dry_run=False))
    assert (builder.root / name).exists()


@pytest.mark.req("DL-VAC-05")
def test_files_elsewhere_are_never_the_own(tmp_path: Path, clock: Clock) -> None:
    """A clone reads files of its source, by absolute paths; and a table may be opened by a link to it."""
    source = DeltaBuilder(tmp_path / "source")
    there = source.add(ids(1), path="f.parquet")
    source.create(ID, there)
    clone = DeltaBuilder(tmp_path / "clone")
    elsewhere = {"add": {**there["add"], "path": (source.root / "f.parquet").as_uri()}}
    own = clone.add(ids(2), path="own.parquet")
    own["add"]["path"] = (clone.root / "own.parquet").as_uri()
    other_store = {"add": {**there["add"], "path": "s3://bucket/f.parquet"}}
    clone.create(ID, elsewhere, own)
    (tmp_path / "link").symlink_to(clone.root)
    clock.ahead = 8 * _DAY
    for root in (clone.root, tmp_path / "link"):
        assert DeltaTable(root).vacuum(dry_run=False).deleted_files == 0
    assert ids_of(DeltaTable(clone.root)) == [1, 2]
    clone.commit(other_store)
    assert DeltaTable(clone.root).vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-06")
def test_a_short_retention_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.append(ids(1))
    table.delete("true")
    (tmp_path / "running.parquet").write_bytes(b"")
    _age(tmp_path / "running.parquet", 1 / 24)
    with pytest.raises(InvalidArgumentError, match="168 hours") as caught:
        table.vacuum(0)
    assert "enforce_retention_duration" in str(caught.value.hint)
    for hours in (-1, float("nan"), float("inf"), True, "7"):
        with pytest.raises(InvalidArgumentError, match="retention_hours"):
            table.vacuum(hours, enforce_retention_duration=False)  # type: ignore[arg-type]
    kept = _files(tmp_path)
    result = table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert _paths(result) == kept - {"running.parquet"}
    assert result.kept == {"not named by the log, and too young to be a leftover": 1}
    result = table.vacuum(0, dry_run=False, enforce_retention_duration=False, untracked_hours=0.5)
    assert _paths(result) == {"running.parquet"}


def _every_kind(root: Path) -> DeltaTable:
    table = _table(root, **_VECTORS, **_FEED)
    table.append(_MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.update({"id": "id + 10"}, "id = 2", strategy="copy-on-write")
    table.overwrite(ids(7))
    (root / "orphan.parquet").write_bytes(b"xyz")
    (root / "_hidden").write_bytes(b"")
    return table


@pytest.mark.req("DL-VAC-07", "DL-OPS-14")
def test_a_dry_run_lists_what_a_run_deletes(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    table = _every_kind(tmp_path)
    clock.ahead = 8 * _DAY
    before, version = _files(tmp_path), table.version
    told: list[Any] = []
    planned = table.vacuum(progress=told.append)
    assert (_files(tmp_path), table.version) == (before, version)
    assert (told[-1].listed >= len(before), told[-1].chosen, told[-1].deleted) == (True, planned.deleted_files, 0)
    with caplog.at_level(logging.INFO, "deltaberg.removal"):
        done = table.vacuum(dry_run=False, progress=told.append)
    assert done.files.sort_by("path").equals(planned.files.sort_by("path"))
    assert (planned.dry_run, done.dry_run, told[-1].deleted) == (True, False, done.deleted_files)
    assert _files(tmp_path) == before - _paths(done)
    rows = {row["path"]: row for row in done.files.to_pylist()}
    assert {row["kind"] for row in rows.values()} == {"data file", "deletion vector", "change data"}
    assert (rows["orphan.parquet"]["bytes"], rows["orphan.parquet"]["reason"]) == (3, "no retained version names it")
    assert done.deleted_bytes == sum(row["bytes"] for row in rows.values())
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert all(f"deleting {tmp_path}/{path}: {row['reason']}" in said for path, row in rows.items())
    assert ids_of(DeltaTable(tmp_path)) == [7]


@pytest.mark.req("DL-VAC-08", "DL-VAC-09")
def test_a_lite_run_goes_by_the_log(tmp_path: Path, clock: Clock) -> None:
    table = _every_kind(tmp_path)
    before = _files(tmp_path)
    mark = tmp_path / "_delta_log" / "_last_vacuum_info"
    clock.ahead = 8 * _DAY
    planned = table.vacuum(full=False)
    assert _paths(planned) == _paths(table.vacuum()) - {"orphan.parquet"}
    version = table.version
    done = table.vacuum(full=False, dry_run=False)
    assert _paths(done) == _paths(planned)
    assert json.loads(mark.read_bytes()) == {"latestCommitVersionOutsideOfRetentionWindow": version}
    assert _files(tmp_path) == before - _paths(done)
    assert table.vacuum(full=False).deleted_files == 0
    assert _paths(table.vacuum(dry_run=False)) == {"orphan.parquet"}


@pytest.mark.req("DL-VAC-08")
def test_a_lite_run_keeps_a_file_that_is_live_again(builder: DeltaBuilder, clock: Clock) -> None:
    a, b = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, a, b)
    builder.commit(builder.remove(a), builder.remove(b))
    builder.commit(a)
    clock.ahead = 8 * _DAY
    assert _paths(DeltaTable(builder.root).vacuum(full=False, dry_run=False)) == {"2.parquet"}
    assert ids_of(DeltaTable(builder.root)) == [1]


@pytest.mark.req("DL-VAC-08", "DL-VAC-09")
@pytest.mark.parametrize("mark", [None, b"", b"{}", b'{"latestCommitVersionOutsideOfRetentionWindow": 0}'])
def test_a_lite_run_needs_the_log_back_to_the_mark(builder: DeltaBuilder, clock: Clock, mark: bytes | None) -> None:
    builder.create(ID, builder.add(ids(1)))
    for number in (2, 3, 4):
        builder.commit(builder.add(ids(number)))
    builder.checkpoint(3)
    for version in (0, 1):
        (builder.log / f"{version:020d}.json").unlink()
    if mark is not None:
        (builder.log / "_last_vacuum_info").write_bytes(mark)
    clock.ahead = 8 * _DAY
    table = DeltaTable(builder.root)
    with pytest.raises(VersionNotFoundError) as caught:
        table.vacuum(full=False)
    assert "full" in str(caught.value.hint)
    (builder.log / "_last_vacuum_info").write_bytes(b'{"latestCommitVersionOutsideOfRetentionWindow": 1}')
    assert table.vacuum(full=False).deleted_files == 0
    assert table.vacuum(dry_run=False).deleted_files == 0
    assert table.vacuum(full=False).deleted_files == 0


@pytest.mark.req("DL-VAC-09")
@pytest.mark.parametrize("how", ["versions", "inventory", "failed", "untracked"])
def test_the_mark_advances_only_after_a_whole_run(
    tmp_path: Path, clock: Clock, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _every_kind(tmp_path)
    clock.ahead = 8 * _DAY
    arguments: dict[str, Any] = {}
    if how == "versions":
        arguments["keep_versions"] = [table.version]
    elif how == "inventory":
        arguments["inventory"] = pa.table({"path": ["x"], "length": [1], "isDir": [False], "modificationTime": [0]})
    elif how == "failed":
        monkeypatch.setattr(LocalStorage, "delete", _denying(".bin"))
    else:
        arguments["untracked_hours"] = 24 * 365
    result = table.vacuum(dry_run=False, **arguments)
    assert bool(result.failed) == (how == "failed")
    assert not (tmp_path / "_delta_log" / "_last_vacuum_info").exists()


def _denying(suffix: str) -> Callable[[LocalStorage, str], None]:
    real = LocalStorage.delete

    def delete(self: LocalStorage, path: str) -> None:
        if path.endswith(suffix):
            raise AuthenticationError("the store denies it", path=path)
        real(self, path)

    return delete


def _statuses(table: DeltaTable) -> list[tuple[str | None, Any, Any]]:
    return [
        (commit.operation, commit.info["operationParameters"].get("status"), commit.info.get("operationMetrics"))
        for commit in table.history(2)
    ]


@pytest.mark.req("DL-VAC-10")
def test_the_history_shows_both_ends(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _every_kind(tmp_path)
    clock.ahead = 8 * _DAY
    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete", _denying(".bin"))
        done = table.vacuum(dry_run=False)
    assert {Path(path).suffix for path in done.failed} == {".bin"}
    end, start = _statuses(table)
    assert end == ("VACUUM END", "FAILED", {"numDeletedFiles": str(done.deleted_files)})
    assert start[0] == "VACUUM START"
    assert start[2]["numFilesToDelete"] == str(done.deleted_files + len(done.failed))
    again = table.vacuum(dry_run=False)
    assert _paths(again) == set(done.failed)
    assert _statuses(table)[0] == ("VACUUM END", "COMPLETED", {"numDeletedFiles": str(len(done.failed))})
    version = table.version
    table.vacuum(dry_run=False, logging=False)
    assert table.version == version
    assert [entry["operation"] for entry in deltalake.DeltaTable(str(tmp_path)).history(2)] == [
        "VACUUM END",
        "VACUUM START",
    ]


@pytest.mark.req("DL-VAC-10")
def test_nothing_is_deleted_after_an_unknown_start(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _every_kind(tmp_path)
    before = _files(tmp_path)
    clock.ahead = 8 * _DAY
    real = LocalStorage.put

    def put(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        if if_absent and b"VACUUM START" in data:
            return PutResult(PutOutcome.UNKNOWN)
        return real(self, path, data, if_absent=if_absent)

    monkeypatch.setattr(LocalStorage, "put", put)
    with pytest.raises((CommitUnknownError, StorageError)):
        DeltaTable(tmp_path).vacuum(dry_run=False)
    assert _files(tmp_path) == before
    assert table.refresh().history(1)[0].operation != "VACUUM START"


@pytest.mark.req("DL-VAC-10")
def test_an_end_that_fails_hides_nothing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _every_kind(tmp_path)
    clock.ahead = 8 * _DAY
    real = LocalStorage.put

    def put(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        if b"VACUUM END" in data:
            raise StorageError("the end fails")
        return real(self, path, data, if_absent=if_absent)

    def broken(*_: object) -> Iterator[Any]:
        raise StorageError("the deletion fails")

    monkeypatch.setattr(LocalStorage, "put", put)
    monkeypatch.setattr(LocalStorage, "delete_many", broken)
    with pytest.raises(StorageError, match="the deletion fails"):
        table.vacuum(dry_run=False)


@pytest.mark.req("DL-VAC-11")
def test_an_inventory_replaces_the_listing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _every_kind(tmp_path)
    clock.ahead = 8 * _DAY
    wanted = sorted(_paths(table.vacuum()))
    left, listed = wanted[0], wanted[1:]
    rows = [
        *({"path": path, "length": 1, "isDir": False, "modificationTime": 0} for path in listed),
        {"path": f"{tmp_path}/orphan.parquet", "length": 3, "isDir": False, "modificationTime": 0},
        {"path": "_hidden", "length": 3, "isDir": False, "modificationTime": 0},
        {"path": "/elsewhere/f.parquet", "length": 3, "isDir": False, "modificationTime": 0},
        {"path": "some", "length": 0, "isDir": True, "modificationTime": 0},
        *(
            {"path": path, "length": 3, "isDir": False, "modificationTime": 0}
            for path in table.live_files["path"].to_pylist()
        ),
    ]
    monkeypatch.setattr(LocalStorage, "walk", lambda *_: pytest.fail("the directory was listed"))
    done = table.vacuum(dry_run=False, inventory=pa.Table.from_pylist(rows))
    monkeypatch.undo()
    assert _paths(done) == set(listed)
    assert (tmp_path / left).exists()
    assert ids_of(DeltaTable(tmp_path)) == [7]


@pytest.mark.parametrize("inventory", [pa.table({"path": ["a"]}), "files.csv", 7, {"path": [1]}])
def test_what_is_no_inventory_is_refused(tmp_path: Path, inventory: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="inventory"):
        _table(tmp_path).vacuum(inventory=inventory)


def test_arguments_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    with pytest.raises(InvalidArgumentError, match="lists nothing"):
        table.vacuum(full=False, inventory=pa.table({"path": ["a"]}))
    for versions in ("3", 3, [-1], ["x"], [None]):
        with pytest.raises(InvalidArgumentError, match="keep_versions"):
            table.vacuum(keep_versions=versions)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="opened with version"):
        DeltaTable(tmp_path, version=0).vacuum()


@pytest.mark.req("DL-VAC-12")
def test_a_run_that_was_killed_can_be_run_again(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of its deletions; and a file that is gone already is no error."""
    table = _every_kind(tmp_path)
    clock.ahead = 8 * _DAY
    wanted = _paths(table.vacuum())
    real = LocalStorage.delete
    runs = 0
    while _files(tmp_path) & wanted:
        runs += 1

        def killed(self: LocalStorage, path: str) -> None:
            real(self, path)
            if "_delta_log" not in path:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(LocalStorage, "delete", killed)
            with pytest.raises(KeyboardInterrupt):
                table.vacuum(dry_run=False)
        assert ids_of(DeltaTable(tmp_path)) == [7]
    assert runs == len(wanted)
    assert table.vacuum(dry_run=False).deleted_files == 0


@pytest.mark.req("DL-VAC-12")
def test_two_at_once_delete_each_file(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second runs between the listing of the first and its deletions."""
    table = _every_kind(tmp_path)
    clock.ahead = 8 * _DAY
    wanted = _paths(table.vacuum())
    real = vacuum_module._Vacuum._delete
    others: list[CleanupResult] = []

    def delete(self: Any, files: pa.Table) -> CleanupResult:
        if not others:
            monkeypatch.undo()
            monkeypatch.setattr(vacuum_module, "earlier_clock", clock)
            others.append(DeltaTable(tmp_path).vacuum(dry_run=False))
        return real(self, files)

    monkeypatch.setattr(vacuum_module._Vacuum, "_delete", delete)
    done = table.vacuum(dry_run=False)
    assert _paths(done) | _paths(others[0]) == wanted
    assert not done.failed
    assert ids_of(DeltaTable(tmp_path)) == [7]


@pytest.mark.req("DL-VAC-13")
@pytest.mark.parametrize("by_property", [False, True])
def test_kept_versions_stay_readable(tmp_path: Path, clock: Clock, by_property: bool) -> None:
    table = _table(tmp_path, **_VECTORS, **_FEED)
    table.append(ids(*range(5)))
    table.delete("id = 1", strategy="merge-on-read")
    kept = table.version
    table.append(ids(7))
    table.overwrite(ids(9))
    if by_property:
        table.alter().set({"deltaberg.keepVersions": f"{kept}"}).commit()
    table.checkpoint()
    clock.ahead = 40 * _DAY
    table.vacuum(dry_run=False, keep_versions=None if by_property else [kept])
    if by_property:
        table.cleanup_metadata(at="2100-01-01")
    assert ids_of(DeltaTable(tmp_path, version=kept)) == [0, 2, 3, 4]
    with pytest.raises(DataFileNotFoundError, match="vacuum"):
        DeltaTable(tmp_path, version=kept + 1).scan().to_arrow()


def test_a_property_that_names_no_versions_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path, **{"deltaberg.keepVersions": "3, x"})
    with pytest.raises(SchemaError, match="keepVersions"):
        table.vacuum()


@pytest.mark.req("DL-VAC-14")
def test_nothing_is_deleted_where_a_live_file_is_missing(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _every_kind(tmp_path)
    (live,) = table.live_files["path"].to_pylist()
    before = _files(tmp_path) - {live}
    clock.ahead = 8 * _DAY
    data = (tmp_path / live).read_bytes()
    (tmp_path / live).unlink()
    with pytest.raises(DataFileNotFoundError, match=live) as caught:
        table.vacuum(dry_run=False)
    assert "verify" in str(caught.value.hint)
    assert "repair" in str(caught.value.hint)
    assert _files(tmp_path) == before
    (tmp_path / live).write_bytes(data)
    # A listing that lacks a file which is there: the file is asked for.
    real = LocalStorage.walk

    def walk(self: LocalStorage, prefix: str) -> Iterator[ObjectMeta]:
        return (meta for meta in real(self, prefix) if not meta.path.endswith(live))

    monkeypatch.setattr(LocalStorage, "walk", walk)
    assert table.vacuum().deleted_files > 0


@pytest.mark.req("DL-VAC-14")
def test_a_file_of_the_last_hour_may_be_missing_from_the_listing(tmp_path: Path) -> None:
    table = _every_kind(tmp_path)
    (live,) = table.live_files["path"].to_pylist()
    (tmp_path / live).unlink()
    assert table.vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-14")
def test_a_listing_that_fails_deletes_nothing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _every_kind(tmp_path)
    before = _files(tmp_path)
    clock.ahead = 8 * _DAY
    real = LocalStorage.walk

    def walk(self: LocalStorage, prefix: str) -> Iterator[ObjectMeta]:
        yield from real(self, prefix)
        raise StorageError("the last page fails")

    monkeypatch.setattr(LocalStorage, "walk", walk)
    with pytest.raises(StorageError, match="last page"):
        table.vacuum(dry_run=False)
    assert _files(tmp_path) == before


def test_a_file_that_a_commit_brings_back_meanwhile_stays(
    builder: DeltaBuilder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore may make a removed file live again, after the log was read and before anything is deleted (T84b)."""
    a, b = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, a, b)
    builder.commit(builder.remove(a), builder.remove(b))
    clock.ahead = 8 * _DAY
    real = vacuum_module._Vacuum._delete

    def delete(self: Any, files: pa.Table) -> CleanupResult:
        builder.commit(a)
        return real(self, files)

    monkeypatch.setattr(vacuum_module._Vacuum, "_delete", delete)
    assert _paths(DeltaTable(builder.root).vacuum(dry_run=False)) == {"2.parquet"}
    assert ids_of(DeltaTable(builder.root)) == [1]


def test_links_are_left_alone(tmp_path: Path, clock: Clock) -> None:
    table = _table(tmp_path / "t")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f.parquet").write_bytes(b"")
    (tmp_path / "t" / "link.parquet").symlink_to(tmp_path / "other" / "f.parquet")
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "other")
    clock.ahead = 8 * _DAY
    assert table.vacuum(dry_run=False).deleted_files == 0
    assert (tmp_path / "other" / "f.parquet").exists()


def test_a_table_in_a_bucket(s3: Bucket, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour's name begins like the table's; and a vacuum makes no commits on S3 unless it is asked to."""
    root, options = f"{s3.url}/t", s3.options
    table: Any = deltaberg.create_table(root, ids().schema, storage_options=options)
    beside: Any = deltaberg.create_table(f"{root}2", ids().schema, storage_options=options)
    for one in (table, beside):
        one.append(ids(1))
        one.overwrite(ids(2))
    clock.ahead = 8 * _DAY
    version = table.version
    batches: list[int] = []
    real = RemoteStorage.delete_many

    def delete_many(self: RemoteStorage, paths: Any) -> Any:
        some = list(paths)
        batches.append(len(some))
        return real(self, some)

    monkeypatch.setattr(RemoteStorage, "delete_many", delete_many)
    assert table.vacuum(dry_run=False).deleted_files == 1
    assert (batches, table.version) == ([1], version)
    assert ids_of(deltaberg.open_table(root, storage_options=options)) == [2]
    assert beside.vacuum().deleted_files == 1
    table.vacuum(dry_run=False, logging=True)
    assert table.version == version + 2
