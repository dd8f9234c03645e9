"""Tables that are directories, dropped with their files: there is a table, or there is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import deltaberg
from deltaberg.errors import (
    CommitConflictError,
    CorruptMetadataError,
    InvalidArgumentError,
    NotAFileError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.location.directory_commit import DirectoryAttempt
from deltaberg.iceberg.maintain.cleaning.dropped_directory import DroppedDirectory
from deltaberg.iceberg.maintain.cleaning.sweep import Sweep
from deltaberg.storage.base import ObjectMeta, PutResult
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.cleanup import DropRequest
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return deltaberg.load_catalog("local", type="hadoop", warehouse=str(tmp_path / "w"))


@pytest.fixture
def table(catalog: Any, tmp_path: Path) -> Any:
    """A table with files of each kind, some of which only an older snapshot needs, and few names of older metadata."""
    properties = {"format-version": "3", "write.metadata.previous-versions-max": "2"}
    orders: Any = deltaberg.create_table(
        str(tmp_path / "w" / "db" / "t"), ids().schema, format="iceberg", properties=properties
    )
    orders.append(ids(1, 2, 3))
    orders.delete("id = 1", strategy="merge-on-read")
    orders.append(ids(4))
    orders.delete("id = 4", strategy="copy-on-write")
    assert catalog.table_exists("db.t")
    return orders


def _files(root: Any) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file())


def test_the_directory_goes(catalog: Any, table: Any, tmp_path: Path) -> None:
    before = _files(table.location)
    planned = catalog.drop_table("db.t", purge=True, dry_run=True)
    assert (planned.dry_run, planned.kept, sorted(planned.files["path"].to_pylist())) == (True, {}, before)
    with pytest.raises(UnsupportedFeatureError, match="cannot be dropped without its files") as refused:
        catalog.drop_table("db.t")
    assert "drop them with purge=True" in str(refused.value)
    assert _files(table.location) == before
    done = catalog.drop_table("db.t", purge=True)
    assert planned.files.equals(done.files)
    assert (done.dry_run, done.is_complete, done.kept) == (False, True, {})
    # The table is found by its newest metadata, which goes behind the older ones, and before the hint and its rows.
    order = done.files["path"].to_pylist()
    newest = order.index(table.metadata_location.rpartition(f"{table.location}/")[2])
    assert sorted(order[: newest + 1]) == [path for path in before if path.endswith(".metadata.json")]
    assert order[newest + 1] == "metadata/version-hint.text"
    assert not Path(table.location).exists()
    assert (catalog.list_tables("db"), catalog.list_namespaces("db")) == ([], [])
    with pytest.raises(TableNotFoundError, match="the directory does not exist"):
        catalog.drop_table("db.t", purge=True)


def test_what_the_table_does_not_name_stays(catalog: Any, table: Any) -> None:
    Path(table.location, "data", "notes.txt").write_text("of somebody else")
    inner = Path(table.location, "inner")
    deltaberg.create_table(str(inner), ids().schema, format="iceberg").append(ids(7))
    stays = {"the table did not name it": 1 + len(_files(inner))}
    assert catalog.drop_table("db.t", purge=True, dry_run=True).kept == stays
    done = catalog.drop_table("db.t", purge=True)
    assert (done.kept, done.is_complete) == (stays, True)
    assert {path for path in _files(table.location) if not path.startswith("inner/")} == {"data/notes.txt"}
    assert ids_of(catalog.load_table("db.t.inner")) == [7]


def test_metadata_of_others_and_shared_files_keep_the_table(catalog: Any, table: Any, tmp_path: Path) -> None:
    older = Path(table.location, "metadata", "v1.metadata.json")
    text = older.read_text()
    for wrong in ("{", json.dumps({**json.loads(text), "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"})):
        older.write_text(wrong)
        with pytest.raises(InvalidArgumentError, match="is not known to be metadata of the table"):
            catalog.drop_table("db.t", purge=True)
    older.write_text(text)
    table.alter().set({"gc.enabled": "false"}).commit()
    before = _files(table.location)
    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match=r"the property gc\.enabled is not true"):
            catalog.drop_table("db.t", purge=True, dry_run=dry_run)
    assert _files(table.location) == before
    deltaberg.write_table(str(tmp_path / "w" / "delta"), ids(1))
    with pytest.raises(TableNotFoundError, match="no metadata file in metadata/"):
        catalog.drop_table("delta", purge=True)


def test_a_drop_that_is_interrupted_goes_on(
    catalog: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each number of deleted files, there is the whole table or none, and all files are gone in the end."""
    kept, root = tmp_path / "kept", Path(table.location)
    shutil.copytree(root, kept)
    count = len(_files(root))
    delete_many, whole = LocalStorage.delete_many, 0
    for number in range(0, count, 3):
        left = [number]

        def some(self: Any, paths: Any, deleted: Any = None, left: list[int] = left) -> Any:
            names = list(paths)
            chosen, left[0] = names[: left[0]], max(0, left[0] - len(names))
            yield from delete_many(self, chosen, deleted)
            if len(chosen) < len(names):
                raise StorageError("the machine stops")

        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "delete_many", some)
            with pytest.raises(StorageError, match="the machine stops"):
                catalog.drop_table("db.t", purge=True)
        if catalog.table_exists("db.t"):
            assert ids_of(catalog.load_table("db.t")) == [2, 3]
            whole += 1
        done = catalog.drop_table("db.t", purge=True)
        # Whoever goes on cannot know whether a manifest was deleted or lost.
        assert (done.failed, [text for text in done.warnings if "unless an earlier purge" not in text]) == ({}, [])
        assert not root.exists()
        shutil.copytree(kept, root)
    assert 0 < whole < count


def test_a_commit_meanwhile_keeps_the_table(catalog: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out, at = Sweep.carry_out, [0]
    for stage in (0, 2):

        def slowly(self: Any, files: Any, kind: Any, stage: int = stage) -> Any:
            if at[0] == stage:
                # Before the newest metadata goes, somebody writes to the table; later, makes it anew.
                deltaberg.write_table(table.location, ids(9), format="iceberg", mode="append")
            at[0] += 1
            return carry_out(self, files, kind)

        at[0] = 0
        with monkeypatch.context() as patch:
            patch.setattr(Sweep, "carry_out", slowly)
            if stage:
                done = catalog.drop_table("db.t", purge=True)
                assert "another writer has changed the table" in done.warnings[0]
            else:
                with pytest.raises(CommitConflictError, match="another writer has changed the table"):
                    catalog.drop_table("db.t", purge=True)
        assert ids_of(catalog.load_table("db.t")) == ([2, 3, 9] if stage == 0 else [9])
        assert catalog.load_table("db.t").verify(depth="footers").is_clean
    dropped = DroppedDirectory.find(parse_location(table.location), StoreSpec(), DropRequest(purge=True))
    catalog.load_table("db.t").append(ids(10))
    before = _files(table.location)
    with pytest.raises(CommitConflictError, match="another writer has changed the table"):
        dropped.run()
    assert _files(table.location) == before


@pytest.mark.parametrize("linked", ["metadata", "metadata/v1.metadata.json", "newest"])
def test_links_to_metadata_keep_the_table(linked: str, catalog: Any, table: Any, tmp_path: Path) -> None:
    """A link is not followed to what it names, so that the directory would stay a table, of files that are gone."""
    path = Path(table.location, linked) if linked != "newest" else Path(table.metadata_location.removeprefix("file://"))
    elsewhere = tmp_path / "elsewhere"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)
    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match="is a link, or is behind one"):
            catalog.drop_table("db.t", purge=True, dry_run=dry_run)
    assert ids_of(catalog.load_table("db.t")) == [2, 3]


def test_metadata_that_stays_keeps_the_rows(catalog: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason is for which a metadata file stays, nothing goes that it names."""
    without_reached = Sweep.without_reached
    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "without_reached", lambda self, files: without_reached(self, files).slice(1))
        done = catalog.drop_table("db.t", purge=True)
    assert (done.is_complete, done.warnings) == (
        False,
        ("to go on, drop the table once more, unless there is another one in its place",),
    )
    kept = catalog.load_table("db.t")
    assert (kept.metadata_location, ids_of(kept)) == (table.metadata_location, [2, 3])
    assert catalog.drop_table("db.t", purge=True).is_complete


def test_a_table_of_a_catalog_stays(catalog: Any, table: Any, tmp_path: Path) -> None:
    sql = deltaberg.load_catalog(
        "sql", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w" / "sql")
    )
    sql.create_namespace("n")
    sql.create_table("n.t", ids().schema).append(ids(5))
    folder = Path(sql.load_table("n.t").location.removeprefix("file://"))
    with pytest.raises(UnsupportedFeatureError, match="a catalog keeps this table") as refused:
        catalog.drop_table(tuple(folder.relative_to(tmp_path / "w").parts), purge=True)
    assert "drop it, by its catalog" in str(refused.value)
    assert ids_of(sql.load_table("n.t")) == [5]


def test_a_commit_upon_a_table_that_is_dropped_meanwhile_fails(
    catalog: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata file would bring the table back, without the files of older snapshots."""
    send = DirectoryAttempt.send

    def late(self: DirectoryAttempt) -> PutResult:
        monkeypatch.setattr(DirectoryAttempt, "send", send)
        assert catalog.drop_table("db.t", purge=True).is_complete
        return send(self)

    monkeypatch.setattr(DirectoryAttempt, "send", late)
    with pytest.raises(TableNotFoundError, match="does not exist any more under its name"):
        table.append(ids(9))
    assert not catalog.table_exists("db.t")
    assert _files(table.location) == []


def test_times_in_listings_may_be_others_than_those_of_files(
    catalog: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some stores tell milliseconds in the one and seconds in the other."""
    head = LocalStorage.head

    def in_seconds(self: LocalStorage, path: str) -> ObjectMeta:
        meta = head(self, path)
        return meta._replace(modified=meta.modified // 1000 * 1000 - 1)

    monkeypatch.setattr(LocalStorage, "head", in_seconds)
    assert catalog.drop_table("db.t", purge=True).is_complete


def test_what_would_be_the_newest_metadata_keeps_the_table(catalog: Any, table: Any) -> None:
    Path(table.location, "metadata", "v99.metadata.json").mkdir()
    before = _files(table.location)
    with pytest.raises(NotAFileError, match="a directory of this name"):
        catalog.drop_table("db.t", purge=True)
    assert _files(table.location) == before


def test_a_damaged_manifest_keeps_the_table(catalog: Any, table: Any) -> None:
    """Nobody could find its files once the table is gone."""
    Path(table.inspect("manifests")["path"][0].as_py().removeprefix("file://")).write_bytes(b"Obj")
    before = _files(table.location)
    with pytest.raises(CorruptMetadataError, match="the table cannot be dropped: files of"):
        catalog.drop_table("db.t", purge=True)
    assert _files(table.location) == before


def test_the_note_of_a_drop_is_there_as_long_as_it_is_needed(
    catalog: Any, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = Path(table.location, "metadata", "dropped-table.json")

    def stop(self: Any, paths: Any, deleted: Any = None) -> Any:
        raise StorageError("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(DroppedDirectory, "_check_note", lambda *_: patch.setattr(Sweep, "carry_out", stop))
        with pytest.raises(StorageError, match="the store is away"):
            catalog.drop_table("db.t", purge=True)
    assert not note.exists()
    text = note.with_name("v1.metadata.json").read_text()
    note.write_text(json.dumps({**json.loads(text), "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}))
    with pytest.raises(InvalidArgumentError, match="is about another table"):
        catalog.drop_table("db.t", purge=True)
    assert ids_of(catalog.load_table("db.t")) == [2, 3]


def test_what_names_shared_files_stays(catalog: Any, tmp_path: Path) -> None:
    """The directory is no table any more, and the note in it leads to the files."""
    shared = {"write.data.path": str(tmp_path / "shared")}
    root = tmp_path / "w" / "db" / "t"
    deltaberg.create_table(root, ids().schema, format="iceberg", properties=shared).append(ids(1))
    planned = catalog.drop_table("db.t", purge=True, dry_run=True)
    done = catalog.drop_table("db.t", purge=True)
    assert sorted(planned.files["path"].to_pylist()) == sorted(done.files["path"].to_pylist())
    assert len(list((tmp_path / "shared").rglob("*.parquet"))) == 1
    assert sorted(Path(path).suffix for path in _files(root)) == [".avro", ".avro", ".json"]
    assert not catalog.table_exists("db.t")
    assert "stays with them" in done.warnings[0]
    leading = "it is the table's, and leads to files that stay, or could not be looked into"
    assert done.kept == {leading: 2, "not in a directory of the table, so that it may be a file of others": 1}
    (root / "notes.txt").write_text("ours")
    again = deltaberg.drop_table(root, purge=True, locations=[tmp_path / "shared"])
    assert again is not None
    assert (again.is_complete, again.kept) == (True, {"the table did not name it": 1})
    assert _files(root) == ["notes.txt"]
    assert not (tmp_path / "shared").exists()


def test_a_table_is_not_made_while_another_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest metadata file of that one has gone, so that its name is free, and the newest one is still there."""
    root, send = tmp_path / "t", DirectoryAttempt.send

    def late(self: DirectoryAttempt) -> Any:
        monkeypatch.setattr(DirectoryAttempt, "send", send)
        other = deltaberg.create_table(root, ids(1).schema, format="iceberg")
        for number in (1, 2):
            other.append(ids(number))
        (root / "metadata" / "v1.metadata.json").unlink()
        return send(self)

    monkeypatch.setattr(DirectoryAttempt, "send", late)
    with pytest.raises(TableExistsError, match="there is a table already"):
        deltaberg.create_table(root, ids(1).schema, format="iceberg")
    assert sorted(path.name for path in root.glob("metadata/*.json")) == ["v2.metadata.json", "v3.metadata.json"]
    assert ids_of(deltaberg.IcebergTable(root)) == [1, 2]
    deltaberg.drop_table(root, purge=True)
    assert not root.exists()


@pytest.mark.parametrize("is_open", [True, False])
def test_a_commit_that_comes_after_the_table_was_made_anew_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    """The other table has as many versions, so that the metadata file follows one. The drop has taken what it names."""
    root, send = tmp_path / "t", DirectoryAttempt.send

    def new_table() -> Any:
        table = deltaberg.create_table(root, ids(1).schema, format="iceberg")
        table.append(ids(1))
        return table

    table = new_table()
    if not is_open:
        table = deltaberg.IcebergTable(root)

    def late(self: DirectoryAttempt) -> Any:
        monkeypatch.setattr(DirectoryAttempt, "send", send)
        deltaberg.drop_table(root, purge=True)
        new_table()
        return send(self)

    monkeypatch.setattr(DirectoryAttempt, "send", late)
    with pytest.raises((CommitConflictError, CorruptMetadataError), match="another table"):
        table.append(ids(9))
    assert ids_of(deltaberg.IcebergTable(root)) == [1]
    deltaberg.IcebergTable(root).append(ids(2))
    assert ids_of(deltaberg.IcebergTable(root)) == [1, 2]
