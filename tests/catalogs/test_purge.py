"""Tables that are dropped with their files: what goes, what stays, and what happens where a purge ends half-way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import InvalidArgumentError, StorageError, TableNotFoundError, UnsafePathError
from deltaberg.iceberg.maintain.cleaning.sweep import Sweep
from deltaberg.storage.local import LocalStorage
from tests.catalogs.rest_server import RestServer
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_ID = pa.schema({"id": pa.int64()})


def _table(catalog: Any, name: str = "db.t", **more: Any) -> Any:
    """Return a table with files of each kind: data, vectors, and those that only an older snapshot needs."""
    table = catalog.create_table(name, _ID, properties={"format-version": "3"}, **more)
    table.append(ids(1, 2, 3))
    table.delete("id = 1", strategy="merge-on-read")
    table.append(ids(4))
    table.delete("id = 4", strategy="copy-on-write")
    return table


def _files(root: Any) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file())


def test_all_that_a_table_names_goes(catalog: Any) -> None:
    table = _table(catalog)
    stranger = Path(table.location, "data", "notes.txt")
    stranger.write_text("of somebody else")
    before = _files(table.location)
    planned = catalog.drop_table("db.t", purge=True, dry_run=True)
    assert catalog.drop_table("db.t", dry_run=True) is None
    wrong: Any = "yes"
    for given in ({"purge": wrong, "dry_run": True}, {"purge": True, "dry_run": wrong}):
        with pytest.raises(InvalidArgumentError, match="must be"):
            catalog.drop_table("db.t", **given)
    assert (catalog.table_exists("db.t"), _files(table.location), planned.dry_run) == (True, before, True)
    done = catalog.drop_table("db.t", purge=True)
    assert planned.files.equals(done.files)
    unknown = {file["kind"] for file in done.files.to_pylist() if file["bytes"] is None}
    assert unknown == {"manifest list", "metadata"}
    assert not catalog.table_exists("db.t")
    assert _files(table.location) == ["data/notes.txt"]
    assert sorted(done.files["path"].to_pylist()) == [path for path in before if path != "data/notes.txt"]
    assert (done.dry_run, done.failed, done.kept, done.warnings) == (False, {}, {}, ())
    assert set(done.files["reason"].to_pylist()) == {"its table was dropped"}
    # The newest metadata goes last.
    assert done.files["path"].to_pylist()[-1] == table.metadata_location.rpartition(f"{table.location}/")[2]


def test_without_a_purge_all_files_stay(catalog: Any) -> None:
    table = _table(catalog)
    before = _files(table.location)
    assert catalog.drop_table("db.t") is None
    assert _files(table.location) == before
    with pytest.raises(InvalidArgumentError, match="purge"):
        catalog.drop_table("db.t", purge="yes")


@pytest.mark.req("ICE-MNT-06")
def test_files_that_may_be_those_of_others(catalog: Any) -> None:
    """The table is still in the catalog then."""
    table = _table(catalog)
    before = _files(table.location)
    table.alter().set({"gc.enabled": "false"}).commit()
    with pytest.raises(InvalidArgumentError, match=r"the property gc\.enabled is not true"):
        catalog.drop_table("db.t", purge=True)
    table.alter().set({"gc.enabled": "true"}).commit()
    catalog.register_table("db.copy", table.metadata_location)
    with pytest.raises(InvalidArgumentError, match=r"those of the table db\.copy of the catalog shop as well"):
        catalog.drop_table("db.t", purge=True)
    assert {*before} <= {*_files(table.location)}
    assert ids_of(catalog.load_table("db.t")) == [2, 3]
    catalog.drop_table("db.copy")
    assert catalog.drop_table("db.t", purge=True).deleted_files > len(before)


@pytest.mark.parametrize("where", ["directory", "database"])
def test_a_table_that_lives_on_elsewhere(catalog: Any, tmp_path: Path, where: str) -> None:
    """Its directory, or another database, has newer metadata of it, which needs what is known here."""
    other: Any
    if where == "directory":
        other = deltaberg.create_table(tmp_path / "t", _ID, format="iceberg")
        other.append(ids(1))
        catalog.register_table("db.t", other.metadata_location)
    else:
        table = catalog.create_table("db.t", _ID)
        table.append(ids(1))
        far: Any = deltaberg.load_catalog("far", type="sql", uri=f"sqlite:///{tmp_path}/far.db", warehouse=tmp_path)
        far.create_namespace("db")
        other = far.register_table("db.t", table.metadata_location)
    other.append(ids(2))
    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match="that its newest metadata does not know"):
            catalog.drop_table("db.t", purge=True, dry_run=dry_run)
    assert (ids_of(catalog.load_table("db.t")), ids_of(other.refresh())) == ([1], [1, 2])


def test_what_cannot_be_found_out_fails_while_the_table_is_there(catalog: Any) -> None:
    table = _table(catalog)
    place = Path(table.metadata_location.removeprefix("file://"))
    raw = json.loads(place.read_text())
    statistics = {"snapshot-id": raw["current-snapshot-id"], "statistics-path": f"{raw['location']}/../s.puffin"}
    statistics |= {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    place.write_text(json.dumps({**raw, "statistics": [statistics]}))
    with pytest.raises(UnsafePathError, match=r"a path in the metadata contains '..'"):
        catalog.drop_table("db.t", purge=True)
    place.write_text(json.dumps(raw))
    with (
        mock.patch.object(Sweep, "in_own_folders", side_effect=StorageError("slow down")),
        pytest.raises(StorageError, match="slow down"),
    ):
        catalog.drop_table("db.t", purge=True)
    assert ids_of(catalog.load_table("db.t")) == [2, 3]
    # Behind the drop, whatever fails says how the table comes back.
    with (
        mock.patch.object(Sweep, "carry_out", side_effect=StorageError("slow down")),
        pytest.raises(StorageError, match=rf"slow down(?s:.*)register the table again by {table.metadata_location}"),
    ):
        catalog.drop_table("db.t", purge=True)
    assert not catalog.table_exists("db.t")
    catalog.register_table("db.t", table.metadata_location)
    assert catalog.drop_table("db.t", purge=True).is_complete


def test_files_elsewhere_and_of_tables_below_stay(catalog: Any, tmp_path: Path) -> None:
    outside = _table(catalog, "db.outside")
    table = catalog.create_table("db.t", _ID)
    inner = _table(catalog, "db.inner", location=f"{table.location}/inner")
    for other in (outside, inner):
        table.add_files(other.scan().files()["file_path"].to_pylist())
    done = catalog.drop_table("db.t", purge=True)
    assert list(done.kept.values()) == [2]
    assert "files stay (2) that are not in a directory of the table alone" in done.warnings[0]
    for name in ("db.outside", "db.inner"):
        assert ids_of(catalog.load_table(name)) == [2, 3]
        assert catalog.load_table(name).verify(depth="footers").is_clean


def test_a_purge_that_is_interrupted_goes_on(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever file it was at: the newest metadata is there until the end, and leads to the rest."""
    real = LocalStorage.delete
    for number in range(100):
        name = f"db.t{number}"
        table = _table(catalog, name)
        left = number

        def delete(self: LocalStorage, path: str) -> bool:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return real(self, path)

        with mock.patch.object(LocalStorage, "delete", delete):
            try:
                catalog.drop_table(name, purge=True)
            except KeyboardInterrupt:
                pass
            else:
                break
        assert not catalog.table_exists(name)
        catalog.register_table(name, table.metadata_location)
        done = catalog.drop_table(name, purge=True)
        assert _files(table.location) == []
        # Whoever purges again cannot know whether a manifest was deleted or lost.
        assert all("unless an earlier purge has deleted them" in text for text in done.warnings)
    assert number > 10


def _paths(table: Any, part: str, column: str) -> list[Path]:
    return [Path(path.removeprefix("file://")) for path in table.inspect(part)[column].to_pylist()]


@pytest.mark.parametrize("part", ["manifest", "manifest list"])
def test_what_cannot_be_read_keeps_the_metadata(catalog: Any, part: str) -> None:
    """Once it can be read, the table is registered and dropped again, and all files go."""
    table = _table(catalog)
    if part == "manifest":
        damaged = _paths(table, "manifests", "path")[0]
    else:
        damaged = Path(table.snapshot.manifest_list.removeprefix("file://"))
    data = damaged.read_bytes()
    damaged.write_bytes(b"nothing")
    metadata = [path for path in _files(table.location) if path.startswith("metadata/") and "puffin" not in path]
    done = catalog.drop_table("db.t", purge=True)
    assert any("stay, since it cannot be read" in text for text in done.warnings)
    assert f"register the table again by {table.metadata_location}" in done.warnings[-1]
    assert {*metadata} <= {*_files(table.location)}
    damaged.write_bytes(data)
    catalog.register_table("db.t", table.metadata_location)
    assert catalog.drop_table("db.t", purge=True).warnings == ()
    assert _files(table.location) == []


@pytest.mark.parametrize("refused", ["data", "manifest", "manifest list"])
def test_what_cannot_be_deleted_keeps_what_names_it(
    catalog: Any, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(catalog)
    kept = {
        "data": _paths(table, "data_files", "file_path")[0],
        "manifest": _paths(table, "manifests", "path")[0],
        "manifest list": Path(table.snapshot.manifest_list.removeprefix("file://")),
    }[refused]
    naming = [*_paths(table, "manifests", "path"), Path(table.snapshot.manifest_list.removeprefix("file://"))]
    naming = {"data": naming, "manifest": naming[-1:], "manifest list": []}[refused]
    naming.append(Path(table.metadata_location.removeprefix("file://")))
    real = LocalStorage.delete

    def delete(self: LocalStorage, path: str) -> bool:
        if path == str(kept):
            raise StorageError("403 AccessDenied")
        return real(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "delete", delete)
        done = catalog.drop_table("db.t", purge=True)
    assert [str(Path(table.location, path)) for path in done.failed] == [str(kept)]
    assert not any(path.startswith(("/", "file:")) for path in done.failed)
    assert f"register the table again by {table.metadata_location}" in done.warnings[-1]
    assert all(path.exists() for path in naming)
    catalog.register_table("db.t", table.metadata_location)
    assert catalog.drop_table("db.t", purge=True).failed == {}
    assert _files(table.location) == []


@pytest.mark.parametrize("part", ["manifest", "manifest list"])
def test_what_is_lost_is_said(catalog: Any, part: str) -> None:
    """Nothing can name the files any more that only it named, so that the rest goes."""
    table = catalog.create_table("db.t", _ID, properties={"commit.manifest-merge.enabled": "false"})
    table.append(ids(1))
    table.append(ids(2))
    lost = table.snapshot.manifest_list if part == "manifest list" else table.inspect("manifests")["path"][0].as_py()
    Path(lost.removeprefix("file://")).unlink()
    done = catalog.drop_table("db.t", purge=True)
    (told,) = done.warnings
    assert lost.removeprefix("file://") in told
    assert "files that only they named stay" in told
    assert not any(path.endswith(".metadata.json") for path in _files(table.location))


def test_files_in_a_directory_that_tables_share_stay(catalog: Any, tmp_path: Path) -> None:
    """So does what names them, since nobody could find them otherwise."""
    shared = {"write.data.path": str(tmp_path / "shared")}
    first = catalog.create_table("db.x", _ID, properties=shared)
    first.append(ids(1))
    second = catalog.create_table("db.y", _ID, properties=shared)
    second.append(ids(2))
    second.add_files(first.scan().files()["file_path"].to_pylist())
    before = _files(second.location)
    planned = catalog.drop_table("db.y", purge=True, dry_run=True)
    done = catalog.drop_table("db.y", purge=True)
    assert (_files(second.location), done.deleted_files, planned.deleted_files) == (before, 0, 0)
    assert list(done.kept.values()) == [2]
    assert second.metadata_location in done.warnings[0]
    assert f"in '{tmp_path / 'shared'}'" in done.warnings[1].replace("file://", "")
    assert ids_of(catalog.register_table("db.z", second.metadata_location)) == [1, 2]
    assert ids_of(catalog.load_table("db.x")) == [1]
    assert len(_files(tmp_path / "shared")) == 2
    with pytest.raises(InvalidArgumentError, match="is not a directory of the table"):
        catalog.drop_table("db.z", purge=True, locations=tmp_path / "other")
    with pytest.raises(InvalidArgumentError, match="locations says how the files of a table go, which stay"):
        catalog.drop_table("db.z", locations=tmp_path / "shared")
    # Whoever says that the directory is the table's alone has all go that it names.
    catalog.drop_table("db.x")
    planned = catalog.drop_table("db.z", purge=True, dry_run=True, locations=tmp_path / "shared")
    done = catalog.drop_table("db.z", purge=True, locations=[tmp_path / "shared"])
    assert sorted(done.files["path"].to_pylist()) == sorted(planned.files["path"].to_pylist())
    assert (done.is_complete, _files(second.location), _files(tmp_path / "shared")) == (True, [], [])


def test_a_table_that_comes_back_keeps_its_files(catalog: Any) -> None:
    """Somebody registers it again before the files go."""
    table = _table(catalog)
    before = _files(table.location)
    real = Sweep.carry_out

    def meanwhile(self: Sweep, *given: Any) -> pa.Table:
        catalog.register_table("db.again", table.metadata_location)
        return real(self, *given)

    with mock.patch.object(Sweep, "carry_out", meanwhile):
        done = catalog.drop_table("db.t", purge=True)
    assert (done.deleted_files, _files(table.location)) == (0, before)
    assert "db.again" in done.warnings[0]


@pytest.mark.req("ICE-MNT-06")
def test_a_rest_catalog_is_asked_to_purge(server: RestServer, orders: Any) -> None:
    catalog: Any = deltaberg.load_catalog("far", uri=server.uri)
    metadata = server.tables["sales", "orders"]
    raw = json.loads(metadata.read_text())
    metadata.write_text(json.dumps({**raw, "properties": {"gc.enabled": "false"}}))
    with pytest.raises(InvalidArgumentError, match=r"gc\.enabled is not true"):
        catalog.drop_table("sales.orders", purge=True)
    assert not [one for one in server.asked if one.method == "DELETE"]
    metadata.write_text(json.dumps(raw))
    real = server.answer

    def answer(asked: Any) -> Any:
        if asked.method == "DELETE":
            server.asked.append(asked)
            server.tables.clear()
            return 204, {}, None
        return real(asked)

    server.answer = answer  # type: ignore[method-assign]
    for purge in (False, True):
        assert catalog.drop_table("sales.orders", purge=purge, dry_run=True) is None
        with pytest.raises(TableNotFoundError, match=r"no such table|Table does not exist: sales.nothing"):
            catalog.drop_table("sales.nothing", purge=purge, dry_run=True)
    assert catalog.drop_table("sales.orders", purge=True) is None
    (deleted,) = [one for one in server.asked if one.method == "DELETE"]
    assert deleted.query == {"purgeRequested": ["true"]}
