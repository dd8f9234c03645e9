"""Expiry of Iceberg snapshots: which go, which files go with them, and what happens where a store or a commit fails."""

from __future__ import annotations

import json
import logging
import pickle
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import DeltaTable, IcebergTable, create_table, drop_table, load_catalog, write_table
from deltaberg.errors import (
    AuthenticationError,
    CommitUnknownError,
    CorruptMetadataError,
    DataFileNotFoundError,
    InvalidArgumentError,
)
from deltaberg.iceberg.maintain.cleaning import reached
from deltaberg.iceberg.maintain.cleaning.sweep import Sweep
from deltaberg.iceberg.manifests.reader import ManifestReader
from deltaberg.iceberg.transaction.table_commit import TableChange
from deltaberg.storage.local import LocalStorage
from deltaberg.table.maintain import listed_files
from deltaberg.table.maintain.cleanup import CleanupResult
from tests.write.small_iceberg import as_pyiceberg_reads, ids_of, new_table, rows_of

pytestmark = pytest.mark.one_backend

_END = "9999-12-31"


def _history(root: Path, version: str = "2") -> IcebergTable:
    """Return a table with three snapshots, of which each has replaced the file of the one before."""
    table = new_table(root, version)
    for number in (1, 2, 3):
        table.overwrite(rows_of(number))
    return table


def _files(table: IcebergTable) -> set[str]:
    root = Path(table.location)
    found = {
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")
    }
    return {path for path in found if not path.endswith((".metadata.json", "version-hint.text"))}


def _kinds(result: Any) -> list[str]:
    return sorted(result.files["kind"].to_pylist())


class _Apart:
    """Tasks that share nothing with this process but what is pickled."""

    parallelism = 2
    #: The sizes in bytes of what they were given, without the shares.
    sizes: list[int]

    def __init__(self) -> None:
        self.sizes = []

    def run(self, work: Any, shares: Any) -> list[Any]:
        self.sizes.append(len(pickle.dumps(work)))
        return [
            pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(one)))))
            for one in shares
        ]


def test_tasks_read_lists_and_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sent no columns but those of partitions, and find what this process does."""
    wide = pa.schema([("id", pa.int64()), ("p", pa.int64()), *((f"c{number}", pa.string()) for number in range(500))])
    properties = {"commit.manifest-merge.enabled": "false"}
    table: Any = create_table(tmp_path / "t", wide, format="iceberg", partition_by="p", properties=properties)
    for number in range(4):
        table.append(pa.table({"id": [number], "p": [number % 2]}))
    table.overwrite(pa.table({"id": [9], "p": [1]}))
    (Path(table.location) / "left.parquet").write_text("x")
    ways: list[tuple[Any, dict[str, Any]]] = [
        ("remove_orphan_files", {"older_than": _END, "enforce_retention_duration": False}),
        ("expire_snapshots", {"older_than": _END, "dry_run": True}),
    ]
    expected = [getattr(table, verb)(**arguments).files.sort_by("path") for verb, arguments in ways]
    monkeypatch.setattr(reached, "_LEAST_IN_TASKS", 2)
    monkeypatch.setattr(reached, "_IN_A_TASK", 1)
    tasks = _Apart()
    table._file_tasks = tasks
    assert [getattr(table, verb)(**arguments).files.sort_by("path") for verb, arguments in ways] == expected
    assert [len(files) for files in expected] == [1, 12]
    assert len(tasks.sizes) >= 4
    assert max(tasks.sizes) < 5_000


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_files_go_with_their_snapshots(tmp_path: Path, version: str) -> None:
    table = _history(tmp_path, version)
    before = _files(table)
    planned = table.expire_snapshots(older_than=_END, dry_run=True)
    assert _files(table) == before
    assert len(table.refresh().snapshots) == 3
    told: list[Any] = []
    done = table.expire_snapshots(older_than=_END, progress=told.append)
    assert done.snapshot_ids == planned.snapshot_ids
    assert sorted(done.files["path"].to_pylist()) == sorted(planned.files["path"].to_pylist())
    assert before - _files(table) == set(done.files["path"].to_pylist())
    assert _kinds(done).count("data file") == 2
    assert done.commit is not None
    assert done.commit.committed
    assert told[-1].deleted == done.deleted_files
    assert (ids_of(table), len(table.snapshots)) == ([3], 1)
    assert [row["id"] for row in as_pyiceberg_reads(IcebergTable(table.location))] == [3]
    again = table.expire_snapshots(older_than=_END)
    assert (again.snapshot_ids, again.commit, again.deleted_files) == ((), None, 0)
    assert (
        table.remove_orphan_files(older_than=_END, enforce_retention_duration=False).deleted_files
        == len(list(Path(table.location).glob("metadata/*.metadata.json"))) - len(table.metadata.metadata_log) - 1
    )


@pytest.mark.req("ICE-MNT-02")
def test_what_is_reached_stays(tmp_path: Path) -> None:
    """A file that was removed and added again, or that a tag still has, is needed like any other."""
    table = new_table(tmp_path)
    table.append(rows_of(1))
    table.alter().create_tag("first").commit()
    table.append(rows_of(2))
    kept = table.scan().files()["file_path"].to_pylist()
    table.delete("id > 0")
    # The same files come back, in one later commit.
    table.add_files(kept, check_duplicate_files=False)
    table.delete("id = 1", strategy="merge-on-read")
    done = table.expire_snapshots(older_than=_END)
    assert "data file" not in _kinds(done)
    assert ids_of(table) == [2]
    assert ids_of(IcebergTable(table.location, ref="first")) == [1]


@pytest.mark.req("ICE-MNT-03")
def test_what_stays_must_be_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _history(tmp_path)
    before = _files(table)
    manifest = Path(table.inspect("manifests")["path"][0].as_py().removeprefix("file:"))
    data = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(DataFileNotFoundError, match="a metadata file of the snapshot is missing"):
        table.expire_snapshots(older_than=_END)
    assert len(table.refresh().snapshots) == 3
    manifest.write_bytes(data)
    assert _files(table) == before
    # After the commit, newer metadata cannot be read.
    with mock.patch.object(Sweep, "look_at_newer", side_effect=DataFileNotFoundError("the list is gone")):
        done = table.expire_snapshots(older_than=_END)
    assert len(table.refresh().snapshots) == 1
    assert (done.deleted_files, _files(table)) == (0, before)
    assert "files stay, since what newer metadata reaches could not be found out: the list is gone" in done.warnings[0]


def test_a_damaged_manifest_of_an_expired_snapshot(tmp_path: Path) -> None:
    """What can be read goes, and what only the damaged file names stays, which is said."""
    table = _history(tmp_path)
    first = table.snapshots[0]
    assert first.manifest_list is not None
    Path(first.manifest_list.removeprefix("file:")).write_bytes(b"nothing")
    done = table.expire_snapshots(older_than=_END)
    assert len(done.snapshot_ids) == 2
    assert f"files of the snapshot {first.snapshot_id} stay" in done.warnings[0]
    assert _kinds(done).count("data file") == 2
    assert ids_of(table) == [3]


@pytest.mark.req("ICE-MNT-04")
def test_an_unknown_commit_deletes_nothing(tmp_path: Path) -> None:
    table = _history(tmp_path)
    before = _files(table)
    unknown = mock.patch.object(TableChange, "commit", side_effect=CommitUnknownError("no answer"))
    with unknown, pytest.raises(CommitUnknownError, match="no answer"):
        table.expire_snapshots(older_than=_END)
    assert _files(table) == before


@pytest.mark.req("ICE-MNT-04")
def test_newer_metadata_is_looked_through_first(tmp_path: Path) -> None:
    """Between the commit and the deletion, somebody adds the file of an expired snapshot again."""
    table = _history(tmp_path)
    old = IcebergTable(table.location, snapshot_id=table.snapshots[0].snapshot_id)
    path = old.scan().files()["file_path"][0].as_py()
    real = Sweep.look_at_newer

    def meanwhile(self: Sweep) -> None:
        IcebergTable(table.location).add_files([path])
        real(self)

    with mock.patch.object(Sweep, "look_at_newer", meanwhile):
        done = table.expire_snapshots(older_than=_END)
    assert ids_of(IcebergTable(table.location)) == [1, 3]
    assert done.kept == {"newer metadata of the table needs it": 1}


@pytest.mark.req("ICE-MNT-04")
def test_a_branch_that_went_on_from_an_expired_snapshot(tmp_path: Path) -> None:
    """A REST catalog compares only the branches that the expiry knew. What a newer one reaches stays all the same."""
    table = _history(tmp_path)
    first = dict(table.snapshots[0].raw)
    number = first["snapshot-id"] = 77
    real = Sweep.look_at_newer

    def meanwhile(self: Sweep) -> None:
        newest = IcebergTable(table.location).metadata.raw
        refs = {**newest["refs"], "side": {"snapshot-id": number, "type": "branch"}}
        if number not in [one["snapshot-id"] for one in newest["snapshots"]]:
            _commit(table, {**newest, "snapshots": [first, *newest["snapshots"]], "refs": refs})
        real(self)

    with mock.patch.object(Sweep, "look_at_newer", meanwhile):
        done = table.expire_snapshots(older_than=_END)
    assert len(done.snapshot_ids) == 2
    assert _kinds(done).count("data file") == 1
    assert ids_of(IcebergTable(table.location, ref="side")) == [1]


@pytest.mark.req("ICE-MNT-04")
def test_a_tag_that_comes_first_keeps_its_snapshot(tmp_path: Path) -> None:
    table = _history(tmp_path)
    oldest = table.snapshots[0].snapshot_id
    real = TableChange.send

    def meanwhile(self: TableChange) -> Any:
        if "saved" not in IcebergTable(table.location).refs:
            with mock.patch.object(TableChange, "send", real):
                IcebergTable(table.location).alter().create_tag("saved", oldest).commit()
        return real(self)

    with mock.patch.object(TableChange, "send", meanwhile):
        done = table.expire_snapshots(older_than=_END)
    assert oldest not in done.snapshot_ids
    assert ids_of(IcebergTable(table.location, ref="saved")) == [1]


@pytest.mark.req("ICE-MNT-05")
def test_statistics_go_with_their_snapshots(tmp_path: Path) -> None:
    table = _history(tmp_path)
    old, new = table.snapshots[0].snapshot_id, table.snapshots[-1].snapshot_id
    _add_statistics(table, {"old": old, "new": new})
    done = table.refresh().expire_snapshots(older_than=_END)
    gone = [file["path"] for file in done.files.to_pylist() if file["kind"] == "statistics"]
    assert sorted(gone) == ["metadata/old.puffin", "metadata/old.stats.parquet"]
    # Nobody records how long a manifest list is.
    sizes = {(file["kind"], file["bytes"] is None) for file in done.files.to_pylist()}
    kinds = {("data file", False), ("manifest", False), ("statistics", False), ("manifest list", True)}
    assert sizes == kinds
    assert f"of {done.deleted_bytes} bytes and 2 of unknown size" in repr(done)
    lists = CleanupResult(True, done.files.filter(pc.equal(done.files["kind"], "manifest list")))
    assert repr(lists) == "CleanupResult(would delete 2 files of unknown size)"
    assert {path for path in _files(table) if "new" in path} == {"metadata/new.puffin", "metadata/new.stats.parquet"}
    assert [one["snapshot-id"] for one in table.metadata.statistics] == [new]


def _add_statistics(table: IcebergTable, snapshots: dict[str, int]) -> None:
    """Add files of statistics of some snapshots by a newer metadata file, as another engine does."""
    folder = Path(table.location, "metadata")
    raw = dict(table.metadata.raw)
    for kind, suffix in (("statistics", "puffin"), ("partition-statistics", "stats.parquet")):
        raw[kind] = []
        for name, number in snapshots.items():
            (folder / f"{name}.{suffix}").write_bytes(b"x")
            path = f"{raw['location']}/metadata/{name}.{suffix}"
            raw[kind].append({"snapshot-id": number, "statistics-path": path, "file-size-in-bytes": 1})
            if kind == "statistics":
                raw[kind][-1] |= {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    _commit(table, raw)


def _commit(table: IcebergTable, raw: Mapping[str, Any]) -> None:
    """Write newer metadata as another engine does."""
    folder = Path(table.location, "metadata")
    newest = max(int(path.name[1:].partition(".")[0]) for path in folder.glob("v*.metadata.json"))
    (folder / f"v{newest + 1}.metadata.json").write_text(json.dumps(raw))


@pytest.mark.req("ICE-MNT-06")
def test_tables_whose_files_are_not_their_own(tmp_path: Path) -> None:
    table = _history(tmp_path)
    table.alter().set({"gc.enabled": "false"}).commit()
    for call in (table.expire_snapshots, table.remove_orphan_files):
        with pytest.raises(InvalidArgumentError, match=r"the property gc\.enabled is not true"):
            call()
    assert len(table.refresh().snapshots) == 3


def test_a_directory_that_is_a_delta_table_as_well(tmp_path: Path) -> None:
    table = _history(tmp_path)
    write_table(f"{table.location}/other", pa.table({"id": [1]}))
    Path(table.location, "other", "_delta_log").rename(Path(table.location, "_delta_log"))
    for call in (table.expire_snapshots, table.remove_orphan_files):
        with pytest.raises(InvalidArgumentError, match="also the directory of another table"):
            call()
    assert DeltaTable(table.location).version == 0


def test_files_of_others_stay(tmp_path: Path) -> None:
    """Files that were added from elsewhere are not the table's to delete, wherever it had its own files once."""
    outside = new_table(tmp_path / "outside")
    outside.append(rows_of(7))
    table = new_table(tmp_path)
    table.add_files(outside.scan().files()["file_path"].to_pylist())
    table.alter().set({"write.data.path": str(tmp_path / "once")}).commit()
    table.append(rows_of(1))
    table.alter().unset("write.data.path").commit()
    table.overwrite(rows_of(2))
    done = table.expire_snapshots(older_than=_END)
    assert list(done.kept.values()) == [1]
    assert "not in a directory of the table" in next(iter(done.kept))
    assert ids_of(outside) == [7]
    assert not list((tmp_path / "once").rglob("*.parquet"))
    assert str(tmp_path / "once") in " ".join(done.files["path"].to_pylist())


def test_schemas_and_specs_that_nothing_uses(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(rows_of(1))
    table.alter().partition_by("name").commit()
    table.append(rows_of(2))
    table.alter().add("more", pa.int64()).partition_by("id").commit()
    table.overwrite(pa.table({"id": pa.array([3], pa.int32()), "name": ["x"], "more": [1]}))
    assert (len(table.metadata.schemas), len(table.metadata.specs)) == (2, 3)
    # The manifests of the snapshot that removed the older files are of the older specs.
    assert table.expire_snapshots(older_than=_END, clean_expired_metadata=True, dry_run=True).spec_ids == ()
    table.append(pa.table({"id": pa.array([4], pa.int32()), "name": ["x"], "more": [1]}))
    done = table.expire_snapshots(older_than=_END, clean_expired_metadata=True)
    assert (done.schema_ids, done.spec_ids) == ((0,), (0, 1))
    assert (len(table.metadata.schemas), len(table.metadata.specs)) == (1, 1)
    assert ids_of(IcebergTable(table.location)) == [3, 4]


def test_what_cannot_be_deleted_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = _history(tmp_path)
    real = LocalStorage.delete

    def delete(self: LocalStorage, path: str) -> bool:
        if path.endswith(".parquet"):
            raise AuthenticationError("the store denies it", path=path)
        return real(self, path)

    monkeypatch.setattr(LocalStorage, "delete", delete)
    with caplog.at_level(logging.INFO, "deltaberg.removal"):
        done = table.expire_snapshots(older_than=_END)
    assert sorted(set(done.failed.values())) == ["the store denies it"]
    assert all(path.startswith("data/") for path in done.failed)
    assert len(done.failed) == 2
    assert "data file" not in _kinds(done)
    assert caplog.text.count("only snapshots that expired needed it") == done.deleted_files + 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"older_than": "yesterday"}, "yesterday"),
        ({"retain_last": 0}, "retain_last"),
        ({"snapshot_ids": "17"}, "snapshot_ids must be a list of numbers"),
        ({"snapshot_ids": [1.5]}, "snapshot_ids"),
        ({"dry_run": 1}, "dry_run"),
        ({"progress": 1}, "progress"),
    ],
)
def test_arguments(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        new_table(tmp_path).expire_snapshots(**arguments)


def test_files_of_a_table_below_stay(tmp_path: Path) -> None:
    """Files of another table in the same directory were added, and are not the table's to delete."""
    table = new_table(tmp_path)
    inner = new_table(tmp_path / "t" / "inner")
    inner.append(rows_of(7))
    table.add_files(inner.scan().files()["file_path"].to_pylist())
    table.overwrite(rows_of(2))
    done = table.expire_snapshots(older_than=_END)
    assert (list(done.kept.values()), _kinds(done).count("data file")) == ([1], 0)
    assert ids_of(inner) == [7]


def test_a_table_that_was_opened_by_a_tag_which_expires(tmp_path: Path) -> None:
    table = _history(tmp_path)
    table.alter().create_tag("old", table.snapshots[0].snapshot_id, max_ref_age_ms=1).commit()
    opened = IcebergTable(table.location, ref="old")
    done = opened.expire_snapshots(older_than=_END)
    assert (done.refs, _kinds(done).count("data file"), ids_of(opened)) == (("old",), 2, [3])


def test_no_numbers_expire_nothing(tmp_path: Path) -> None:
    table = _history(tmp_path)
    table.alter().set({"history.expire.max-snapshot-age-ms": "1"}).commit()
    assert table.expire_snapshots(snapshot_ids=[]).snapshot_ids == ()
    assert len(table.snapshots) == 3


def test_metadata_that_moved_is_the_tables_own(tmp_path: Path) -> None:
    catalog = load_catalog("shop", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.alter().set({"write.metadata.path": f"{table.location}/elsewhere"}).commit()
    table.overwrite(pa.table({"id": [2]}))
    done = table.expire_snapshots(older_than=_END)
    assert (_kinds(done).count("data file"), ids_of(catalog.load_table("db.t"))) == (1, [2])
    assert table.remove_orphan_files().deleted_files == 0


def test_manifest_lists_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _history(tmp_path)
    *older, newest = [one.manifest_list for one in table.metadata.snapshots.values()]
    assert newest not in older
    together, fetch = threading.Barrier(len(older), timeout=60), ManifestReader.fetch

    def fetched(self: ManifestReader, path: str) -> bytes:
        if path in older:
            # One after the other, the first would wait for a second that never comes.
            together.wait()
        return fetch(self, path)

    monkeypatch.setattr(ManifestReader, "fetch", fetched)
    assert len(table.expire_snapshots(_END, dry_run=True).snapshot_ids) == len(older) == 2


@pytest.mark.parametrize("most", [0, 2_000])
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_files_of_tables_below_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Any, most: int
) -> None:
    """Whether the store is asked about each directory, or, for many of them, lists the files."""
    monkeypatch.setattr(listed_files, "_MOST_ASKED", most)
    table = new_table(tmp_path, partition_by=["id"])
    table.append(rows_of(1, 2))
    inner = Path(table.location, "data", "x", "inner")
    write_table(inner, rows_of(3), format=format)
    (file,) = inner.rglob("*.parquet")
    table.add_files([str(file)])
    table.delete("true")
    with mock.patch.object(LocalStorage, "has_objects", autospec=True, side_effect=LocalStorage.has_objects) as asked:
        done = table.expire_snapshots(older_than=_END)
    assert done.kept["not in a directory of the table, so that it may be a file of others"] == 1
    assert file.exists()
    assert not list(Path(table.location, "data").glob("id=*/*.parquet"))
    told = [call.args[1] for call in asked.call_args_list]
    # The root of the table is asked about once more, before anything is planned.
    assert len(told) - len(set(told)) <= 1


def test_a_table_that_was_made_anew_is_not_cleaned_up_by_an_old_handle(tmp_path: Path) -> None:
    table: Any = new_table(tmp_path, "2")
    table.append(rows_of(1))
    root = table.location
    drop_table(root, purge=True)
    anew: Any = new_table(tmp_path, "2")
    assert anew.location == root
    for number in (2, 3):
        anew.append(rows_of(number))
    acts: list[Callable[[], object]] = [
        lambda: table.expire_snapshots(older_than="9999-12-31"),
        lambda: table.remove_orphan_files(older_than="9999-12-31", enforce_retention_duration=False, dry_run=False),
        table.maintain,
        lambda: table.rewrite_table_path(root, tmp_path / "copy"),
        table.refresh,
    ]
    for act in acts:
        with pytest.raises(CorruptMetadataError, match="this is another table"):
            act()
    assert (len(anew.refresh().snapshots), ids_of(anew)) == (2, [2, 3])
