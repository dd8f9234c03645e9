"""Tables that share a directory, or are known by two names: no clean-up of one takes what the other needs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.location.loaded import load_file
from deltaberg.iceberg.maintain.cleaning import expire, metadata_beside
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_ID = pa.schema({"id": pa.int64()})
_OLD = 946_684_800
#: After so many seconds a commit has ended.
_SETTLED = 7200
_NOW: dict[str, Any] = {"older_than": "9999-12-31", "enforce_retention_duration": False, "dry_run": False}


def _aged(root: Path, seconds: float | None = None) -> set[Path]:
    """Make all files so old that commits which wrote them have ended, or of another year."""
    files = {path for path in root.rglob("*") if path.is_file()}
    written = _OLD if seconds is None else time.time() - seconds
    for path in files:
        os.utime(path, (written, written))
    return files


def _two_tables(catalog: Any, peer: Any, root: Path) -> tuple[Any, Any]:
    """Two tables of one location: pyiceberg and Java make such ones after a rename, too."""
    for name, number in (("db.a", 1), ("db.b", 2)):
        peer.create_table(name, _ID, location=str(root)).append(ids(number))
    return catalog.load_table("db.a"), catalog.load_table("db.b")


def _dropped(catalog: Any, peer: Any, root: Path) -> tuple[Any, Any]:
    """A table that was dropped without a purge, and another one in its place."""
    gone, table = _two_tables(catalog, peer, root)
    place = gone.metadata_location
    catalog.drop_table("db.a")
    return table, deltaberg.IcebergTable(place)


def _in_a_catalog(catalog: Any, peer: Any, root: Path) -> tuple[Any, Any]:
    """A directory that a catalog has registered and changed."""
    table = deltaberg.create_table(root, _ID, format="iceberg")
    table.append(ids(1))
    kept = catalog.register_table("db.a", table.metadata_location)
    for number in (2, 3):
        kept.append(ids(number))
    return table, kept


def _of_two_names(catalog: Any, peer: Any, root: Path) -> tuple[Any, Any]:
    table = catalog.create_table("db.a", _ID, location=str(root))
    for number in (1, 2):
        table.append(ids(number))
    return table, catalog.register_table("db.b", table.metadata_location)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (_two_tables, "those of the table db.b"),
        (_dropped, "metadata of another table in the same directory"),
        (_in_a_catalog, "its newest metadata does not know"),
        (_of_two_names, "those of the table db.b"),
    ],
)
def test_orphans_of_shared_directories(catalog: Any, peer: Any, tmp_path: Path, made: Any, message: str) -> None:
    table, other = made(catalog, peer, tmp_path / "t")
    there = ids_of(table), ids_of(other)
    files = _aged(tmp_path / "t")
    (tmp_path / "t" / "data" / "left.parquet").write_bytes(b"x")
    for chosen in ({}, {"location": f"{tmp_path}/t/data"}):
        with pytest.raises(InvalidArgumentError, match=message):
            table.remove_orphan_files(**chosen, **_NOW)
    assert all(path.exists() for path in files)
    assert (ids_of(table.refresh()), ids_of(other)) == there


def test_expiry_of_a_table_with_two_names(catalog: Any, peer: Any, tmp_path: Path) -> None:
    """What one name forgets, the other one needs. Two different tables in one directory have files of their own."""
    table, other = _of_two_names(catalog, peer, tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match=r"those of the table db\.b of the catalog shop as well"):
        table.expire_snapshots(older_than="9999-12-31", dry_run=False)
    assert ids_of(other) == [1, 2]
    catalog.drop_table("db.b")
    peer.create_table("db.c", _ID, location=str(tmp_path / "t")).append(ids(3))
    assert len(table.expire_snapshots(older_than="9999-12-31", dry_run=False).snapshot_ids) == 1
    assert (ids_of(table), ids_of(catalog.load_table("db.c"))) == ([1, 2], [3])


def _in_its_directory(catalog: Any, root: Path) -> tuple[Any, Any]:
    """A table of a directory, and a catalog that has entered a state of its past."""
    table = deltaberg.create_table(root, _ID, format="iceberg", properties=_EXPIRING)
    table.append(ids(1))
    table.overwrite(ids(2))
    return table, catalog.register_table("db.t", table.metadata_location)


def _in_another_database(catalog: Any, root: Path) -> tuple[Any, Any]:
    table = catalog.create_table("db.t", _ID, location=str(root), properties=_EXPIRING)
    table.append(ids(1))
    table.overwrite(ids(2))
    far: Any = deltaberg.load_catalog("far", type="sql", uri=f"sqlite:///{root.parent}/far.db")
    far.create_namespace("db")
    return table, far.register_table("db.t", table.metadata_location)


_EXPIRING = {"history.expire.max-snapshot-age-ms": "1"}
_EXPIRIES: list[Callable[[Any], Any]] = [
    lambda table: table.expire_snapshots(older_than="9999-12-31", dry_run=True),
    lambda table: table.expire_snapshots(older_than="9999-12-31"),
    lambda table: table.expire_snapshots(snapshot_ids=[next(iter(table.metadata.snapshots))]),
    lambda table: table.maintain(deltaberg.MaintenancePolicy(steps=["expire_snapshots"])),
]


@pytest.mark.parametrize("made", [_in_its_directory, _in_another_database])
def test_expiry_by_a_name_at_a_past_state(catalog: Any, tmp_path: Path, made: Any) -> None:
    """What newer metadata beside it needs stays: it is refused, or kept where it may be that of a running commit."""
    table, past = made(catalog, tmp_path / "t")
    table.restore(next(iter(table.metadata.snapshots)))
    _aged(tmp_path / "t", _SETTLED)
    before = past.metadata_location
    for act in _EXPIRIES:
        with pytest.raises(InvalidArgumentError, match="its newest metadata does not know"):
            act(past)
    assert past.refresh().metadata_location == before
    for file in (tmp_path / "t" / "metadata").iterdir():
        os.utime(file)
    done = past.expire_snapshots(older_than="9999-12-31")
    assert (len(done.snapshot_ids), done.deleted_files) == (1, 0)
    assert ids_of(table.refresh()) == [1]


def test_expiry_where_two_names_have_gone_apart(catalog: Any, tmp_path: Path) -> None:
    """The one that has gone further knows nothing of the other, whose metadata is older."""
    table, past = _in_another_database(catalog, tmp_path / "t")
    table.restore(next(iter(table.metadata.snapshots)))
    # One commit may be one that failed, and what it needs stays; nobody goes on from a failed one.
    for number in range(4):
        past.append(ids(3 + number))
    _aged(tmp_path / "t", _SETTLED)
    done = past.expire_snapshots(older_than="9999-12-31")
    assert (len(done.snapshot_ids), ids_of(table.refresh())) == (5, [1])
    assert done.deleted_files
    table.alter().set({"a": "b"}).commit()
    past.append(ids(9))
    _aged(tmp_path / "t", _SETTLED)
    before = past.metadata_location
    acts: list[Callable[[Any], Any]] = [*_EXPIRIES, lambda table: table.remove_orphan_files(**_NOW)]
    for act in acts:
        with pytest.raises(InvalidArgumentError, match="its newest metadata does not know"):
            act(past)
    assert (past.refresh().metadata_location, ids_of(table.refresh())) == (before, [1])


def test_an_expiry_reads_no_metadata_from_before_what_its_own_knows(catalog: Any, tmp_path: Path) -> None:
    """A table keeps all its former metadata files by default, and expires hourly."""
    properties = {**_EXPIRING, "write.metadata.previous-versions-max": "2"}
    table = catalog.create_table("db.t", _ID, location=str(tmp_path / "t"), properties=properties)
    for number in range(6):
        table.append(ids(number))
    _aged(tmp_path / "t")
    with mock.patch.object(metadata_beside, "load_file", wraps=load_file) as read:
        assert table.expire_snapshots(older_than="9999-12-31").snapshot_ids
    assert read.call_count == 0


def test_metadata_of_a_commit_that_was_interrupted(catalog: Any) -> None:
    """It goes once the table has gone on; before, nobody can know whether another catalog finds the table by it."""
    table = catalog.create_table("db.t", _ID, properties={"write.metadata.previous-versions-max": "5"})
    root, before = Path(table.location), table.metadata_location
    table.append(ids(1))
    # The swap did not come, or has yet to come.
    catalog.drop_table("db.t")
    table = catalog.register_table("db.t", before)
    done = table.remove_orphan_files(**_NOW)
    assert (done.deleted_files, done.kept["newer metadata of the table needs it"]) == (0, 4)
    files = _aged(root)
    with pytest.raises(InvalidArgumentError, match="its newest metadata does not know"):
        table.remove_orphan_files(dry_run=False)
    table.append(ids(2))
    assert {path for path in files if path.exists()} == files
    for number in range(40):
        table.alter().set({"round": str(number)}).commit()
    files = _aged(root)
    with mock.patch.object(metadata_beside, "load_file", wraps=load_file) as read:
        done = table.remove_orphan_files(dry_run=False)
    # Of the metadata files that nothing names any more, most are in the logs of others.
    gone = {path for path in files if not path.exists()}
    assert (len(gone), done.deleted_files) == (40, 40)
    assert read.call_count < 30
    assert ids_of(table) == [2]


@pytest.mark.parametrize("content", [b"", b"{}", b"\x28\xb5\x2f\xfd"])
def test_what_cannot_be_read_as_metadata(catalog: Any, content: bytes) -> None:
    table = catalog.create_table("db.t", _ID)
    (Path(table.location) / "data").mkdir()
    (Path(table.location) / "data" / "left.parquet").write_bytes(b"x")
    (Path(table.location) / "metadata" / "00000-x.metadata.json").write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=r"00000-x\.metadata\.json cannot be read"):
        table.remove_orphan_files(**_NOW)


@pytest.mark.parametrize("leave", ["rename", "drop"])
def test_a_new_table_where_files_of_another_are(catalog: Any, leave: str) -> None:
    """It gets a directory of its own."""
    old = catalog.create_table("db.t", _ID)
    old.append(ids(1))
    old = catalog.rename_table("db.t", "db.other") if leave == "rename" else catalog.drop_table("db.t") or old
    table = catalog.create_table("db.t", _ID)
    table.append(ids(2))
    assert table.location.startswith(f"{old.location}-")
    _aged(Path(old.location).parent)
    assert table.remove_orphan_files(dry_run=False).deleted_files == 0
    assert (ids_of(deltaberg.IcebergTable(old.metadata_location)), ids_of(table)) == ([1], [2])


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_location_that_is_that_of_another_table(catalog: Any, tmp_path: Path, format: Any) -> None:
    deltaberg.write_table(tmp_path / "t", ids(1), format=format)
    with pytest.raises(InvalidArgumentError, match=f"there is a table of the format {format.title()} in the directory"):
        catalog.create_table("db.t", _ID, location=str(tmp_path / "t"))
    assert not catalog.table_exists("db.t")


@pytest.mark.parametrize("where", ["data", "data/deep", ""])
def test_a_directory_in_that_of_another_table(catalog: Any, tmp_path: Path, where: str) -> None:
    """A property that names it does not make it the table's own."""
    root = tmp_path / "other"
    other = catalog.create_table("db.other", _ID, location=str(root), properties={"write.data.path": f"{root}/{where}"})
    other.append(ids(1))
    table = catalog.create_table("db.t", _ID, properties={"write.data.path": f"{root}/{where}"})
    table.add_files(other.scan().files()["file_path"].to_pylist())
    message = "is also the directory of another table"
    for shown in (str(root / where), f"{root / where}/."):
        with pytest.raises(InvalidArgumentError, match=message):
            table.remove_orphan_files(location=shown, **_NOW)
        with pytest.raises(InvalidArgumentError, match=message):
            catalog.drop_table("db.t", purge=True, locations=shown)
    assert (ids_of(table.refresh()), ids_of(other)) == ([1], [1])


def _by_a_link(catalog: Any, root: Path) -> tuple[Any, Any]:
    (root / "real").mkdir(parents=True)
    (root / "link").symlink_to(root / "real")
    table = catalog.create_table("db.a", _ID, location=f"{root}/real/t")
    table.append(ids(1))
    return table, catalog.register_table("db.b", table.metadata_location.replace("/real/", "/link/"))


def _before_metadata_went_elsewhere(catalog: Any, root: Path) -> tuple[Any, Any]:
    table = catalog.create_table("db.a", _ID, location=f"{root}/t")
    table.append(ids(1))
    first = table.metadata_location
    table.alter().set({"write.metadata.path": f"{root}/elsewhere"}).commit()
    return table, catalog.register_table("db.b", first)


def _after_metadata_went_elsewhere(catalog: Any, root: Path) -> tuple[Any, Any]:
    table = catalog.create_table("db.a", _ID, location=f"{root}/t")
    table.append(ids(1))
    other = catalog.register_table("db.b", table.metadata_location)
    other.alter().set({"write.metadata.path": f"{root}/elsewhere"}).commit()
    return table, other


@pytest.mark.parametrize("made", [_by_a_link, _before_metadata_went_elsewhere, _after_metadata_went_elsewhere])
def test_a_second_name_of_other_metadata(catalog: Any, tmp_path: Path, made: Any) -> None:
    table, other = made(catalog, tmp_path / "at")
    table.overwrite(ids(2))
    refused: list[Callable[[], object]] = [
        lambda: catalog.drop_table("db.a", purge=True),
        lambda: table.expire_snapshots(older_than="9999-12-31", dry_run=False),
        lambda: table.remove_orphan_files(**_NOW),
    ]
    for act in refused:
        with pytest.raises(InvalidArgumentError, match=r"those of the table db\.b of the catalog shop as well"):
            act()
    assert (ids_of(table.refresh()), ids_of(other.refresh())) == ([2], [1])
    catalog.drop_table("db.b")
    catalog.drop_table("db.a", purge=True)


def test_a_copy_with_its_files_under_another_name(catalog: Any, tmp_path: Path) -> None:
    """It is the same table by its id, and needs none of the other's files."""
    table = catalog.create_table("db.a", _ID, location=f"{tmp_path}/t")
    table.append(ids(1))
    for row in table.rewrite_table_path(table.location, tmp_path / "copy").files.to_pylist():
        source, target = (row[name].removeprefix("file://") for name in ("source", "target"))
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    (newest,) = (tmp_path / "copy" / "metadata").glob(f"{Path(table.metadata_location).name}")
    copy = catalog.register_table("db.b", str(newest))
    assert copy.metadata.table_uuid == table.metadata.table_uuid
    table.overwrite(ids(2))
    assert len(table.expire_snapshots(older_than="9999-12-31", dry_run=False).snapshot_ids) == 1
    catalog.drop_table("db.a", purge=True)
    assert ids_of(copy) == [1]


@pytest.mark.parametrize("moment", ["before it is committed", "before the directories are listed"])
@pytest.mark.parametrize("of_catalog", [True, False])
def test_an_expiry_that_others_commit_beside(catalog: Any, tmp_path: Path, of_catalog: bool, moment: str) -> None:
    """Their commit is no other state of the table once it has landed: what expires there goes as well."""
    root = tmp_path / "t"

    def opened() -> Any:
        return catalog.load_table("db.t") if of_catalog else deltaberg.open_table(root)

    table = catalog.create_table("db.t", _ID) if of_catalog else deltaberg.create_table(root, _ID, format="iceberg")
    for number in (1, 2):
        table.overwrite(ids(number))
    keep, calls = metadata_beside.keep_what_is_beside, []

    def beside(*arguments: Any) -> None:
        calls.append(arguments)
        is_first = len(calls) == 1
        if is_first and "listed" in moment:
            opened().append(ids(3))
        keep(*arguments)
        if is_first and "committed" in moment:
            opened().append(ids(3))

    with mock.patch.object(expire, "keep_what_is_beside", beside):
        result = opened().expire_snapshots(older_than="9999-12-31", dry_run=False)
    assert len(calls) == 2
    assert (len(result.snapshot_ids), result.kept) == (2, {})
    assert set(result.files.column("kind").to_pylist()) == {"data file", "manifest", "manifest list"}
    assert sorted(ids_of(opened())) == [2, 3]
    data = {path.name for path in tmp_path.rglob("*.parquet")}
    assert len(data) == 2


def test_metadata_that_is_being_written(catalog: Any) -> None:
    """Whoever deleted it would delete the newest state of the table."""
    table = catalog.create_table("db.t", _ID)
    for number in (1, 2):
        table.append(ids(number))
    folder = Path(table.metadata_location.removeprefix("file://")).parent
    (folder / "00009-x.metadata.json").write_bytes(b"{")
    assert table.expire_snapshots(older_than="9999-12-31").deleted_files
    assert ids_of(table.refresh()) == [1, 2]
    with pytest.raises(InvalidArgumentError, match=r"00009-x\.metadata\.json cannot be read") as caught:
        table.remove_orphan_files(**_NOW)
    assert caught.value.hint is not None
    assert "still writing it" in caught.value.hint
    assert "delete" not in caught.value.hint
