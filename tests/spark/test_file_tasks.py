"""Listing and deleting by Spark's tasks: they find and delete what this process would."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from deltaberg import DeltaTable, IcebergTable, create_table, drop_table
from deltaberg.delta.maintain.cleaning import vacuum
from deltaberg.errors import DataFileNotFoundError, StorageError
from deltaberg.iceberg.maintain.cleaning import reached, sweep
from deltaberg.spark.write.item_tasks import ItemTask
from deltaberg.storage.local import LocalStorage
from deltaberg.table.maintain import file_tasks, listed_files
from deltaberg.table.maintain.cleanup import CleanupProgress
from deltaberg.table.maintain.cloning import copies
from deltaberg.table.rows.progress import WriteProgress

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_ROWS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("hour", pa.int32())])
_NOW: dict[str, Any] = {"retention_hours": 0, "enforce_retention_duration": False, "untracked_hours": 0}
#: So many files show how the table is laid out.
_FEW = 12
_ODD = ("a b", "a%20b", "ä#+", "x'y", "1=2")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A table of a few directories, with removed files, leftovers and hidden files, that is large enough for tasks."""
    monkeypatch.setattr(file_tasks, "_LEAST_LISTED", _FEW)
    monkeypatch.setattr(listed_files, "_AT_ONCE", 1)
    monkeypatch.setattr(vacuum, "LEAST_DELETED", 1)
    events = create_table(tmp_path / "events", _ROWS, partition_by=["day", "hour"])
    days = [*_ODD, *(f"day {number}" for number in range(6))]
    rows = [{"id": number, "day": day, "hour": number % 2} for number, day in enumerate(days * 2)]
    events.append(pa.Table.from_pylist(rows, schema=_ROWS))
    events.delete("day IN ('a b', 'x''y', 'day 3')")
    root = tmp_path / "events"
    for name in ("left.parquet", "day=day 1/left.parquet", "deep/er/and/er/left.parquet", "_hidden/kept.parquet"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
        # Not of this very moment, of which a vacuum need not know that it is past.
        os.utime(root / name, (1_000_000_000, 1_000_000_000))
    return events


def _files(result: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, (row.values() for row in result.files.to_pylist())))


def test_a_vacuum_by_tasks_finds_and_deletes_what_one_here_does(
    table: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = table.vacuum(**_NOW)
    shared = table.on_spark(spark)
    monkeypatch.setattr(LocalStorage, "walk", _begun(LocalStorage.walk))
    found = shared.vacuum(**_NOW)
    assert _files(found) == _files(expected)
    assert found.kept == expected.kept
    assert found.deleted_files == 3 + 3 * 2
    told: list[CleanupProgress] = []
    monkeypatch.setattr(vacuum, "_AT_ONCE_BY_TASKS", 4)
    with caplog.at_level(logging.INFO, "deltaberg.removal"):
        done = shared.vacuum(dry_run=False, progress=told.append, **_NOW)
    monkeypatch.undo()
    assert (told[-1].chosen, told[-1].deleted) == (done.deleted_files, done.deleted_files)
    # Commits are asked again between jobs that delete.
    assert sorted({one.deleted for one in told}) == [0, 4, 8, 9]
    assert _files(done) == _files(expected)
    assert not done.failed
    logged = " ".join(record.getMessage() for record in caplog.records)
    for row in expected.files.to_pylist():
        assert not (Path(table.location) / row["path"]).exists()
        assert row["path"] in logged
    assert DeltaTable(table.location).vacuum(**_NOW).deleted_files == 0
    assert DeltaTable(table.location).verify().is_clean


def _begun(walk: Any) -> Any:
    """Return a walk that shows how a table is laid out, and no more."""

    def walked(*given: Any) -> Any:
        yield from itertools.islice(walk(*given), _FEW)
        raise AssertionError("this process lists a directory to its end")

    return walked


def test_what_tasks_cannot_delete_is_said(table: Any, spark: SparkSession, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        place = tmp_path / "events" / "day=day 1" / "left.parquet"
        place.unlink()
        place.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(b"x")
    result = table.on_spark(spark).vacuum(dry_run=False, **_NOW)
    assert "day=day 1/left.parquet" not in result.files.column("path").to_pylist()
    assert (tmp_path / "elsewhere").exists()


def test_a_directory_that_tasks_cannot_list_ends_the_vacuum(
    table: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = file_tasks._List(table._log.store, table._log.root)
    monkeypatch.setattr(LocalStorage, "walk", _failing)
    with pytest.raises(StorageError, match="no answer"):
        task(["day=day 1"])
    # What a task raises comes back as it is.
    carried = (pickle.dumps((0, ["day=day 1"])),)
    (reply,) = ItemTask(task, carried, is_repeated=False)([_numbers()])
    assert isinstance(pickle.loads(zlib.decompress(reply.column("result")[0].as_py())), StorageError)
    with pytest.raises(StorageError, match="no answer"):
        next(ItemTask(task, carried, is_repeated=True)([_numbers()]))


def _failing(*_: Any) -> Any:
    raise StorageError("no answer")


def _numbers() -> pa.RecordBatch:
    return pa.record_batch({"number": [0]})


def test_verify_by_tasks_finds_what_is_lost(table: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = next(Path(table.location).glob("day=day 1/*/*.parquet"))
    lost.unlink()
    expected = table.verify()
    shared = table.on_spark(spark)
    monkeypatch.setattr(LocalStorage, "walk", _begun(LocalStorage.walk))
    found = shared.verify()
    assert [one.path for one in found.findings] == [one.path for one in expected.findings] != []
    for entry in Path(table.location, "_delta_log").iterdir():
        # What was committed less than an hour ago may be too young for the listing.
        os.utime(entry, (0, 0))
    with pytest.raises(DataFileNotFoundError, match="the table names files that do not exist"):
        DeltaTable(table.location).on_spark(spark).vacuum(dry_run=False, **_NOW)


def _refused(*_: Any) -> int:
    raise AssertionError("this process copies a file")


def test_copies_are_made_by_tasks(
    table: Any, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their sizes come back, whatever the order of the replies, and so does the error of one that cannot be made."""
    monkeypatch.setattr(copies, "_LEAST_IN_TASKS", 1)
    monkeypatch.setattr(copies, "copy_file", _refused)
    expected = table.scan().to_arrow().sort_by("id")
    monkeypatch.setattr(copies, "_COPIED", 3)
    told: list[WriteProgress] = []
    result = table.on_spark(spark).clone(tmp_path / "clone", progress=told.append)
    assert len(told) >= 4
    assert told[-1] == (0, result.copied_files)
    assert (result.copied_files, result.copied_bytes) == (result.source_files, result.source_bytes)
    cloned = DeltaTable(tmp_path / "clone")
    assert cloned.scan().to_arrow().sort_by("id") == expected
    assert cloned.verify().is_clean
    lost = table.scan().files().column("file_path")[0].as_py()
    os.remove(lost)
    with pytest.raises(DataFileNotFoundError, match="a file that the table names is gone"):
        table.on_spark(spark).clone(tmp_path / "other")


def test_tasks_read_the_manifests_of_an_expiry(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reached, "_LEAST_IN_TASKS", 1)
    for reading in (reached._ReadLists, reached._ReadManifests):
        monkeypatch.setattr(reading, "__call__", _read_here)
    table: Any = create_table(tmp_path / "t", pa.schema([("id", pa.int64())]), format="iceberg")
    for number in range(3):
        table.overwrite(pa.table({"id": [number]}))
    done = table.on_spark(spark).expire_snapshots("9999-12-31")
    assert sorted(done.files["kind"].to_pylist()).count("data file") == 2
    assert IcebergTable(tmp_path / "t").scan().to_arrow()["id"].to_pylist() == [2]


def _read_here(*_: Any) -> Any:
    raise AssertionError("this process reads a manifest")


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_dropped_table_goes_by_tasks(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, format: Any
) -> None:
    for module in (vacuum, sweep):
        monkeypatch.setattr(module, "LEAST_DELETED", 1)
    monkeypatch.setattr(file_tasks, "delete_files", _deleted_here)
    create_table(tmp_path / "t", pa.schema([("id", pa.int64())]), format=format).append(pa.table({"id": [1]}))
    done = drop_table(tmp_path / "t", purge=True, on_spark=spark)
    assert done is not None
    assert done.is_complete
    assert not (tmp_path / "t").exists()


def _deleted_here(*_: Any, **__: Any) -> Any:
    raise AssertionError("this process deletes a file")


def test_copies_of_an_iceberg_table_are_made_by_tasks(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_LEAST_IN_TASKS", 1)
    monkeypatch.setattr(copies, "copy_file", _refused)
    table: Any = create_table(tmp_path / "t", pa.schema([("id", pa.int64())]), format="iceberg")
    for first in (0, 10, 20):
        table.append(pa.table({"id": range(first, first + 10)}))
    table.delete("id = 13", strategy="merge-on-read")
    table.delete_by_keys(pa.table({"id": [4]}))
    result = table.on_spark(spark).clone(tmp_path / "clone")
    assert (result.source_files, result.copied_files) == (3, 4)
    found = IcebergTable(tmp_path / "clone").scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == [number for number in range(30) if number not in (4, 13)]
