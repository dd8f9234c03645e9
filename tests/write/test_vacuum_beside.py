"""Vacuums that are interrupted, and that run beside others (DL-VAC-10, DL-VAC-12)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import CleanupResult, DeltaTable
from deltaberg.delta.maintain.cleaning import vacuum as vacuum_module
from deltaberg.delta.maintain.cleaning import vacuum_candidates
from deltaberg.errors import MetadataChangedError
from deltaberg.storage.base import PutResult
from deltaberg.storage.local import LocalStorage
from tests.storage.conftest import Bucket
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.vacuums import DAY, Clock, age, every_kind, files, paths, statuses


def test_a_run_that_was_killed_can_be_run_again(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of its deletions; and a file that is gone already is no error."""
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    due = paths(table.vacuum())
    real = LocalStorage.delete
    runs = 0
    while files(tmp_path) & due:
        runs += 1

        def killed(self: LocalStorage, path: str) -> bool:
            done = real(self, path)
            if "_delta_log" not in path:
                raise KeyboardInterrupt
            return done

        with monkeypatch.context() as patched:
            patched.setattr(LocalStorage, "delete", killed)
            with pytest.raises(KeyboardInterrupt):
                table.vacuum(dry_run=False)
        assert ids_of(DeltaTable(tmp_path)) == [7]
    assert runs == len(due)
    assert table.vacuum(dry_run=False).deleted_files == 0


@pytest.mark.req("DL-VAC-10", "DL-VAC-12")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_end_counts_what_was_deleted_before_an_interruption(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """In the middle of a batch, too."""
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    before = files(tmp_path)
    real = LocalStorage.delete
    asked = 0

    def interrupted(self: LocalStorage, path: str) -> bool:
        nonlocal asked
        asked += "_delta_log" not in path
        if asked == number and "_delta_log" not in path:
            raise KeyboardInterrupt
        return real(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.vacuum(dry_run=False)
    assert len(before - files(tmp_path)) == number - 1
    assert statuses(table.refresh())[0] == ("VACUUM END", "FAILED", {"numDeletedFiles": str(number - 1)})


@pytest.mark.req("DL-VAC-12")
@pytest.mark.parametrize("place", ["local", "s3"])
@pytest.mark.parametrize("moment", ["_delete", "_delete_some"])
def test_two_at_once_delete_each_file(
    tmp_path: Path, s3: Bucket, clock: Clock, monkeypatch: pytest.MonkeyPatch, place: str, moment: str
) -> None:
    """The second runs between the listing of the first and its deletions, or in the middle of these.

    The system tells who of them has deleted a file, and a bucket does not.
    """
    root, options = (str(tmp_path), None) if place == "local" else (f"{s3.url}/t", s3.options)
    table: Any = deltaberg.create_table(root, ids().schema, storage_options=options)
    for number in range(6):
        table.overwrite(ids(number))
    clock.ahead = 8 * DAY
    due = paths(table.vacuum())
    assert len(due) == 5
    monkeypatch.setattr(vacuum_module, "_AT_ONCE", 2)
    real = getattr(vacuum_module.Vacuum, moment)
    others: list[CleanupResult] = []
    begun = 0

    def run(self: Any, *arguments: Any) -> Any:
        nonlocal begun
        begun += 1
        if begun == (1 if moment == "_delete" else 2):
            others.append(DeltaTable(root, storage_options=options).vacuum(dry_run=False))
        return real(self, *arguments)

    monkeypatch.setattr(vacuum_module.Vacuum, moment, run)
    done = table.vacuum(dry_run=False)
    ours, theirs = paths(done), paths(others[0])
    assert ours | theirs == due
    assert theirs
    if place == "local":
        assert not ours & theirs
        assert table.history(1)[0].info["operationMetrics"] == {"numDeletedFiles": str(len(ours))}
    assert not done.failed
    assert ids_of(DeltaTable(root, storage_options=options)) == [5]


def test_a_file_that_a_commit_brings_back_meanwhile_stays(
    builder: DeltaBuilder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore may make a removed file live again, after the log was read and before anything is deleted (T84b)."""
    a, b = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, a, b)
    builder.commit(builder.remove(a), builder.remove(b))
    clock.ahead = 8 * DAY
    real = vacuum_module.Vacuum._delete

    def delete(self: Any, files: pa.Table) -> CleanupResult:
        builder.commit(a)
        return real(self, files)

    monkeypatch.setattr(vacuum_module.Vacuum, "_delete", delete)
    assert paths(DeltaTable(builder.root).vacuum(dry_run=False)) == {"2.parquet"}
    assert ids_of(DeltaTable(builder.root)) == [1]


def test_rules_that_change_meanwhile_end_the_run(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = every_kind(tmp_path)
    before = files(tmp_path)
    clock.ahead = 8 * DAY
    real = vacuum_candidates.VacuumCandidates._deletable

    def deletable(self: Any, chosen: pa.Table) -> pa.Table:
        other = DeltaTable(tmp_path)
        other.alter().set({"delta.deletedFileRetentionDuration": "interval 60 days"}).commit()
        return real(self, chosen)

    monkeypatch.setattr(vacuum_candidates.VacuumCandidates, "_deletable", deletable)
    with pytest.raises(MetadataChangedError, match="how long"):
        table.vacuum(dry_run=False)
    assert files(tmp_path) == before


@pytest.mark.req("DL-VAC-10")
def test_an_end_gets_past_changes_of_the_metadata(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the end, and between its attempts: deltalake writes protocol and metadata with each restore."""
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    real = LocalStorage.delete_many
    restored: list[int] = []

    def delete_many(self: LocalStorage, given: Any, deleted: Any = None) -> Any:
        if not restored:
            restored.append(1)
            DeltaTable(tmp_path).alter().set({"a": "b"}).commit()
        return real(self, given, deleted)

    put = LocalStorage.put

    def overtaken(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        if b"VACUUM END" in data and len(restored) < 4:
            restored.append(1)
            DeltaTable(tmp_path).alter().set({"a": str(len(restored))}).commit()
        return put(self, path, data, if_absent=if_absent)

    monkeypatch.setattr(LocalStorage, "delete_many", delete_many)
    monkeypatch.setattr(LocalStorage, "put", overtaken)
    done = table.vacuum(dry_run=False)
    assert (done.warnings, len(restored)) == ((), 4)
    assert statuses(table.refresh())[0] == ("VACUUM END", "COMPLETED", {"numDeletedFiles": str(done.deleted_files)})


@pytest.mark.req("DL-VAC-09")
def test_a_removed_file_that_the_store_calls_young_is_not_forgotten(builder: DeltaBuilder) -> None:
    """It may have been copied. A vacuum that lists nothing must find it once it is old."""
    old, new = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, old, new)
    builder.commit(builder.remove(old, deletionTimestamp=int((time.time() - 30 * DAY) * 1000)))
    for entry in builder.log.iterdir():
        age(entry, 30)
    table = DeltaTable(builder.root)
    assert table.vacuum(dry_run=False).deleted_files == 0
    age(builder.root / "1.parquet", 30)
    assert paths(DeltaTable(builder.root).vacuum(dry_run=False, full=False)) == {"1.parquet"}
