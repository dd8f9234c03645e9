"""Runs of vacuum: by the log or an inventory, recorded, interrupted, beside others (DL-VAC-08 on)."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable, spark
from deltaberg.delta.snapshot.retention import KEPT_VERSIONS
from deltaberg.errors import (
    AuthenticationError,
    CommitUnknownError,
    DataFileNotFoundError,
    InvalidArgumentError,
    SchemaError,
    StorageError,
    VersionNotFoundError,
)
from deltaberg.storage.base import ObjectMeta, PutOutcome, PutResult
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.remote import RemoteStorage
from deltaberg.table.maintain.cleanup import CLEANED_FILES, CleanupResult
from tests.storage.conftest import Bucket
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.vacuums import DAY, FEED, VECTORS, Clock, every_kind, files, new_table, paths, statuses
from tests.support.versioned_bucket import VersionedBucket


@pytest.mark.req("DL-VAC-08", "DL-VAC-09")
def test_a_lite_run_goes_by_the_log(tmp_path: Path, clock: Clock) -> None:
    table = every_kind(tmp_path)
    before = files(tmp_path)
    mark = tmp_path / "_delta_log" / "_last_vacuum_info"
    clock.ahead = 8 * DAY
    planned = table.vacuum(full=False)
    assert paths(planned) == paths(table.vacuum()) - {"orphan.parquet"}
    version = table.version
    done = table.vacuum(full=False, dry_run=False)
    assert paths(done) == paths(planned)
    assert json.loads(mark.read_bytes()) == {"latestCommitVersionOutsideOfRetentionWindow": version}
    assert files(tmp_path) == before - paths(done)
    assert table.vacuum(full=False).deleted_files == 0
    assert paths(table.vacuum(dry_run=False)) == {"orphan.parquet"}


@pytest.mark.req("DL-VAC-08")
def test_a_lite_run_keeps_a_file_that_is_live_again(builder: DeltaBuilder, clock: Clock) -> None:
    a, b = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, a, b)
    builder.commit(builder.remove(a), builder.remove(b))
    builder.commit(a, b)
    builder.commit(builder.remove(b))
    clock.ahead = 8 * DAY
    done = DeltaTable(builder.root).vacuum(full=False, dry_run=False)
    assert done.files["path"].to_pylist() == ["2.parquet"]
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
    clock.ahead = 8 * DAY
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
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
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


def _denying(suffix: str) -> Callable[[LocalStorage, str], bool]:
    real = LocalStorage.delete

    def delete(self: LocalStorage, path: str) -> bool:
        if path.endswith(suffix):
            raise AuthenticationError("the store denies it", path=path)
        return real(self, path)

    return delete


@pytest.mark.req("DL-VAC-10")
def test_the_history_shows_both_ends(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete", _denying(".bin"))
        done = table.vacuum(dry_run=False)
    assert {Path(path).suffix for path in done.failed} == {".bin"}
    end, start = statuses(table)
    assert end == ("VACUUM END", "FAILED", {"numDeletedFiles": str(done.deleted_files)})
    assert start[0] == "VACUUM START"
    assert start[2]["numFilesToDelete"] == str(done.deleted_files + len(done.failed))
    again = table.vacuum(dry_run=False)
    assert paths(again) == set(done.failed)
    assert statuses(table)[0] == ("VACUUM END", "COMPLETED", {"numDeletedFiles": str(len(done.failed))})
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
    table = every_kind(tmp_path)
    before = files(tmp_path)
    clock.ahead = 8 * DAY
    real = LocalStorage.put

    def put(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        if if_absent and b"VACUUM START" in data:
            return PutResult(PutOutcome.UNKNOWN)
        return real(self, path, data, if_absent=if_absent)

    monkeypatch.setattr(LocalStorage, "put", put)
    with pytest.raises(CommitUnknownError, match="the commit was sent, but it is not known whether it took"):
        DeltaTable(tmp_path).vacuum(dry_run=False)
    assert files(tmp_path) == before
    assert table.refresh().history(1)[0].operation != "VACUUM START"


def _refuse_the_end(monkeypatch: pytest.MonkeyPatch, failure: StorageError) -> None:
    real = LocalStorage.put

    def put(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        if b"VACUUM END" in data:
            raise failure
        return real(self, path, data, if_absent=if_absent)

    monkeypatch.setattr(LocalStorage, "put", put)


@pytest.mark.req("DL-VAC-10")
def test_an_end_that_fails_hides_nothing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    _refuse_the_end(monkeypatch, StorageError("the end fails"))

    def broken(*_: object) -> Iterator[Any]:
        raise StorageError("the deletion fails")

    monkeypatch.setattr(LocalStorage, "delete_many", broken)
    with pytest.raises(StorageError, match="the deletion fails"):
        table.vacuum(dry_run=False)


@pytest.mark.req("DL-VAC-11")
def test_an_inventory_replaces_the_listing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    wanted = sorted(paths(table.vacuum()))
    left, listed = wanted[0], wanted[1:]
    rows = [
        *({"path": path, "length": 1, "isDir": False, "modificationTime": 0} for path in listed),
        {"path": f"{tmp_path}/orphan.parquet", "length": 3, "isDir": False, "modificationTime": 0},
        {"path": "_hidden", "length": 3, "isDir": False, "modificationTime": 0},
        {"path": "/elsewhere/f.parquet", "length": 3, "isDir": False, "modificationTime": 0},
        {"path": "gone.parquet", "length": 3, "isDir": False, "modificationTime": 0},
        {"path": "some", "length": 0, "isDir": True, "modificationTime": 0},
        *(
            {"path": path, "length": 3, "isDir": False, "modificationTime": 0}
            for path in table.live_files["path"].to_pylist()
        ),
    ]
    monkeypatch.setattr(LocalStorage, "walk", lambda *_: pytest.fail("the directory was listed"))
    inventory = pa.Table.from_pylist(rows)
    planned = table.vacuum(inventory=inventory)
    done = table.vacuum(dry_run=False, inventory=inventory)
    monkeypatch.undo()
    assert (paths(done), planned.files.equals(done.files)) == (set(listed), True)
    assert (tmp_path / left).exists()
    assert ids_of(DeltaTable(tmp_path)) == [7]


@pytest.mark.parametrize("inventory", [pa.table({"path": ["a"]}), "files.csv", 7, {"path": [1]}])
def test_what_is_no_inventory_is_refused(tmp_path: Path, inventory: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="inventory"):
        new_table(tmp_path).vacuum(inventory=inventory)


def test_arguments_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with pytest.raises(InvalidArgumentError, match="lists nothing"):
        table.vacuum(full=False, inventory=pa.table({"path": ["a"]}))
    for versions in ("3", 1.5, True, -1, [-1], ["x"], [None], {1: 2}):
        with pytest.raises(InvalidArgumentError, match="keep_versions"):
            table.vacuum(keep_versions=versions)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="opened with version"):
        DeltaTable(tmp_path, version=0).vacuum()


def test_versions_to_keep_that_cannot_be_read(tmp_path: Path, clock: Clock) -> None:
    """They are refused when they are named, and a vacuum says what names one that is gone since."""
    table = new_table(tmp_path)
    for number in range(3):
        table.append(ids(number))
    with pytest.raises(InvalidArgumentError, match="keepVersions must be versions, such as 3, 17, not 'abc'"):
        table.alter().set({KEPT_VERSIONS: "abc"}).commit()
    with pytest.raises(VersionNotFoundError, match="no version 99"):
        table.alter().set({KEPT_VERSIONS: "1, 99"}).commit()
    table.alter().set({KEPT_VERSIONS: " 1"}).commit()
    assert table.properties[KEPT_VERSIONS] == "1"
    table.checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    for versions, wanted in ((None, KEPT_VERSIONS), ([0], "leave it out of keep_versions")):
        with pytest.raises(VersionNotFoundError) as refused:
            table.vacuum(keep_versions=versions)
        assert wanted in str(refused.value.hint)
    table.alter().unset(KEPT_VERSIONS).commit()
    assert table.vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-13")
@pytest.mark.parametrize("by_property", [False, True])
def test_kept_versions_stay_readable(tmp_path: Path, clock: Clock, by_property: bool) -> None:
    table = new_table(tmp_path, **VECTORS, **FEED)
    table.append(ids(*range(5)))
    table.delete("id = 1", strategy="merge-on-read")
    kept = table.version
    table.append(ids(7))
    table.overwrite(ids(9))
    if by_property:
        table.alter().set({"deltaberg.keepVersions": f"{kept}"}).commit()
    table.checkpoint()
    clock.ahead = 40 * DAY
    table.vacuum(dry_run=False, keep_versions=None if by_property else [kept])
    if by_property:
        table.cleanup_metadata(at="2100-01-01")
    assert ids_of(DeltaTable(tmp_path, version=kept)) == [0, 2, 3, 4]
    with pytest.raises(DataFileNotFoundError, match="vacuum"):
        DeltaTable(tmp_path, version=kept + 1).scan().to_arrow()


def test_a_property_that_names_no_versions_is_refused(builder: DeltaBuilder) -> None:
    """Others set it without a check."""
    builder.create(ID, builder.add(ids(1)), configuration={KEPT_VERSIONS: "3, x"})
    table = DeltaTable(builder.root)
    with pytest.raises(SchemaError, match="keepVersions"):
        table.vacuum()
    table.alter().set({KEPT_VERSIONS: "0"}).commit()
    assert table.vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-14")
def test_nothing_is_deleted_where_a_live_file_is_missing(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = every_kind(tmp_path)
    (live,) = table.live_files["path"].to_pylist()
    before = files(tmp_path) - {live}
    clock.ahead = 8 * DAY
    data = (tmp_path / live).read_bytes()
    (tmp_path / live).unlink()
    with pytest.raises(DataFileNotFoundError, match=live) as caught:
        table.vacuum(dry_run=False)
    assert "verify" in str(caught.value.hint)
    assert "repair" in str(caught.value.hint)
    assert files(tmp_path) == before
    (tmp_path / live).write_bytes(data)
    # A listing that lacks a file which is there: the file is asked for.
    real = LocalStorage.walk

    def walk(self: LocalStorage, prefix: str, *_: Any) -> Iterator[ObjectMeta]:
        return (meta for meta in real(self, prefix) if not meta.path.endswith(live))

    monkeypatch.setattr(LocalStorage, "walk", walk)
    assert table.vacuum().deleted_files > 0


@pytest.mark.req("DL-VAC-14")
def test_a_file_of_the_last_hour_may_be_missing_from_the_listing(tmp_path: Path) -> None:
    table = every_kind(tmp_path)
    (live,) = table.live_files["path"].to_pylist()
    (tmp_path / live).unlink()
    assert table.vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-14")
def test_a_listing_that_fails_deletes_nothing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = every_kind(tmp_path)
    before = files(tmp_path)
    clock.ahead = 8 * DAY
    real = LocalStorage.walk

    def walk(self: LocalStorage, prefix: str, *_: Any) -> Iterator[ObjectMeta]:
        yield from real(self, prefix)
        raise StorageError("the last page fails")

    monkeypatch.setattr(LocalStorage, "walk", walk)
    with pytest.raises(StorageError, match="last page"):
        table.vacuum(dry_run=False)
    assert files(tmp_path) == before


def test_links_are_left_alone(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path / "t")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f.parquet").write_bytes(b"")
    (tmp_path / "t" / "link.parquet").symlink_to(tmp_path / "other" / "f.parquet")
    (tmp_path / "t" / "linked").symlink_to(tmp_path / "other")
    clock.ahead = 8 * DAY
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
    clock.ahead = 8 * DAY
    version = table.version
    batches: list[int] = []
    real = RemoteStorage.delete_many

    def delete_many(self: RemoteStorage, paths: Any, deleted: Any) -> Any:
        some = list(paths)
        batches.append(len(some))
        return real(self, some, deleted)

    monkeypatch.setattr(RemoteStorage, "delete_many", delete_many)
    assert table.vacuum(dry_run=False).deleted_files == 1
    assert (batches, table.version) == ([1], version)
    assert ids_of(deltaberg.open_table(root, storage_options=options)) == [2]
    assert beside.vacuum().deleted_files == 1
    table.vacuum(dry_run=False, logging=True)
    assert table.version == version + 2


@pytest.mark.req("DL-VAC-09")
def test_objects_that_cannot_be_named_stay(s3: Bucket, clock: Clock) -> None:
    """And what is listed behind them goes. Lite runs have to come back for the rest, so the mark stays behind."""
    bucket = VersionedBucket(s3.options["AWS_ENDPOINT_URL"])
    root = f"s3://{bucket.name}/t"
    table: Any = deltaberg.create_table(root, ids().schema, storage_options=bucket.options)
    table.append(ids(1))
    table.overwrite(ids(2))
    odd = ["t/a//b", "t/../x"]
    for name in [*odd, "t/zz.parquet"]:
        bucket.put(name, b"x")
    clock.ahead = 8 * DAY
    planned, done = table.vacuum(), table.vacuum(dry_run=False)
    assert paths(planned) == paths(done)
    assert {path for path in paths(done) if path.startswith("z")} == {"zz.parquet"}
    assert done.deleted_files == 2
    assert planned.warnings == done.warnings
    assert all(repr(name) in done.warnings[0] for name in odd)
    assert set(odd) <= set(bucket.keys("t/"))
    assert "t/_delta_log/_last_vacuum_info" not in bucket.keys("t/")
    found = DeltaTable(root, storage_options=bucket.options)
    assert ids_of(found) == [2]
    assert found.verify().findings == ()
    bucket.close()


def test_an_end_that_cannot_be_recorded_is_told(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    _refuse_the_end(monkeypatch, AuthenticationError("the end fails"))
    done = table.vacuum(dry_run=False)
    assert done.deleted_files > 1
    assert done.warnings == ("the end of the vacuum could not be recorded: the end fails",)


@pytest.mark.req("DL-VAC-09")
def test_a_mark_never_goes_back(tmp_path: Path, clock: Clock) -> None:
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    version = table.version
    table.vacuum(dry_run=False)
    clock.ahead = 0
    table.vacuum(dry_run=False)
    clock.ahead = 8 * DAY
    table.vacuum(24 * 30, dry_run=False)
    mark = json.loads((tmp_path / "_delta_log" / "_last_vacuum_info").read_bytes())
    assert mark == {"latestCommitVersionOutsideOfRetentionWindow": version}


def test_times_of_an_inventory_have_units(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path)
    (tmp_path / "new.parquet").write_bytes(b"")
    now = dt.datetime.now(dt.timezone.utc)
    for unit in ("s", "ms", "us"):
        times = pa.array([now], pa.timestamp(unit, "UTC"))
        columns = {
            "path": [f"file:{tmp_path}//new.parquet"],
            "length": [0],
            "isDir": [False],
            "modificationTime": times,
        }
        assert table.vacuum(inventory=pa.table(columns)).deleted_files == 0


def test_warnings_of_a_vacuum_are_told() -> None:
    """They are warnings of Python, since the rows that it returns are files."""
    table: Any = spark.DeltaTable.__new__(spark.DeltaTable)
    table._spark = mock.Mock()
    table._spark.conf.get.return_value = "true"
    table._table = mock.Mock(location="/t")
    done = CleanupResult(False, CLEANED_FILES.empty_table(), warnings=("objects stay",))
    table._newest = lambda: mock.Mock(vacuum=lambda *_, **__: done)
    with pytest.warns(UserWarning, match="/t: objects stay"):
        table.vacuum()
