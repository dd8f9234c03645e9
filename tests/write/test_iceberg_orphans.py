"""Orphans of Iceberg tables: what is taken for one, what never is, and that nothing goes where something is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, IcebergTable, write_table
from deltaberg.errors import DataFileNotFoundError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.location.directory_commit import DirectoryCommitter
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.maintain.cleaning import orphans as orphans_module
from deltaberg.iceberg.maintain.cleaning.reached import Elsewhere, Places
from deltaberg.storage.location import parse_location
from deltaberg.table.maintain.file_tasks import list_by_tasks
from tests.support.rows import ids
from tests.write.small_iceberg import ids_of, new_table, rows_of

pytestmark = pytest.mark.one_backend

_OLD = 946_684_800
_NOW: dict[str, Any] = {"older_than": "9999-12-31", "enforce_retention_duration": False}


def _leave(table: IcebergTable, *names: str, age: int = _OLD) -> list[Path]:
    """Write files that nothing names below a table."""
    paths = []
    for name in names:
        path = Path(table.location, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (age, age))
        paths.append(path)
    return paths


def _age(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (_OLD, _OLD))


def _paths(result: Any) -> list[str]:
    found: list[str] = sorted(result.files["path"].to_pylist())
    return found


@pytest.mark.req("ICE-MNT-07")
def test_what_is_an_orphan(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in (1, 2):
        table.append(rows_of(number))
    table.delete("id = 1", strategy="merge-on-read")
    table.alter().create_tag("kept", table.snapshots[0].snapshot_id).commit()
    table.overwrite(rows_of(3))
    _age(Path(table.location))
    left = _leave(
        table, "data/a.parquet", "data/p=1/b c.parquet", "metadata/x-m0.avro", "metadata/v99-x.stats", "lost.bin"
    )
    _leave(table, "data/_staged/x.parquet", "data/.x.crc", "metadata/version-hint.text")
    young = _leave(table, "data/young.parquet", age=4_000_000_000)
    planned = table.remove_orphan_files()
    assert planned.dry_run
    assert all(path.exists() for path in left)
    told: list[Any] = []
    done = table.remove_orphan_files(dry_run=False, progress=told.append)
    assert _paths(done) == _paths(planned) == sorted(str(path.relative_to(table.location)) for path in left)
    assert not any(path.exists() for path in left)
    assert young[0].exists()
    assert (done.kept["too young to be a leftover"], done.deleted_bytes) == (1, 5)
    assert done.kept["hidden: its path has a part that begins with _ or ."] == 2
    assert (ids_of(table), ids_of(IcebergTable(table.location, ref="kept"))) == ([3], [1])
    assert told[-1].deleted == 5
    assert table.remove_orphan_files(**_NOW).deleted_files == 1


@pytest.mark.req("ICE-MNT-07")
def test_a_file_of_a_commit_that_comes_meanwhile(tmp_path: Path) -> None:
    """A writer commits after what is reached was read, and before, or while, the directory is listed."""
    table = new_table(tmp_path)
    table.append(rows_of(1))
    real = list_by_tasks

    def meanwhile(*arguments: Any) -> Any:
        IcebergTable(table.location).append(rows_of(2))
        yield from real(*arguments)

    (orphan,) = _leave(table, "data/x.parquet")
    with mock.patch.object(orphans_module, "list_by_tasks", meanwhile):
        done = table.remove_orphan_files(dry_run=False, **_NOW)
    assert _paths(done) == ["data/x.parquet"]
    assert not orphan.exists()
    assert ids_of(IcebergTable(table.location)) == [1, 2]
    assert done.kept["newer metadata of the table needs it"] >= 3


def test_metadata_that_nothing_names(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.alter().set({"write.metadata.previous-versions-max": "1"}).commit()
    for number in range(3):
        table.append(rows_of(number))
    _age(Path(table.location))
    done = table.remove_orphan_files(dry_run=False)
    assert _paths(done) == ["metadata/v1.metadata.json", "metadata/v2.metadata.json", "metadata/v3.metadata.json"]
    assert ids_of(IcebergTable(table.location)) == [0, 1, 2]
    table.append(rows_of(9))
    assert ids_of(table) == [0, 1, 2, 9]


def test_a_commit_at_the_beginning(tmp_path: Path) -> None:
    """It is no reason to refuse: the table is found by its directory, which knows the newest metadata."""
    table = new_table(tmp_path)
    real = DirectoryCommitter.load

    def meanwhile(self: DirectoryCommitter, known: Any = None) -> Any:
        with mock.patch.object(DirectoryCommitter, "load", real):
            IcebergTable(table.location).append(rows_of(1))
        return real(self, known)

    with mock.patch.object(DirectoryCommitter, "load", meanwhile):
        assert table.remove_orphan_files().deleted_files == 0
    assert ids_of(table.refresh()) == [1]


@pytest.mark.req("ICE-MNT-08")
def test_paths_of_another_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table names a file of the same path in another store, which may be another name of this one."""
    table = new_table(tmp_path)
    table.append(rows_of(1))
    (path,) = _leave(table, "data/x.parquet")
    real = Places.of

    def of(self: Places, recorded: Any, prefix: str = "") -> Any:
        self.elsewhere.add(Elsewhere(f"hdfs://name{path}", str(path).strip("/")))
        return real(self, recorded, prefix)

    monkeypatch.setattr(Places, "of", of)
    with pytest.raises(
        InvalidArgumentError, match=r"1 files have paths that the table names in another store"
    ) as caught:
        table.remove_orphan_files()
    assert "prefix_mismatch='ignore'" in str(caught.value)
    kept = table.remove_orphan_files(prefix_mismatch="ignore", dry_run=False)
    assert (kept.deleted_files, kept.kept["the table names a file of this path in another store"]) == (0, 1)
    assert _paths(table.remove_orphan_files(prefix_mismatch="delete", dry_run=False)) == ["data/x.parquet"]


@pytest.mark.req("ICE-MNT-08")
def test_other_names_of_a_store(tmp_path: Path) -> None:
    """Paths with ``s3a`` are those with ``s3``, and those of another bucket are elsewhere."""
    loaded = LoadedTable(new_table(tmp_path).metadata, parse_location("s3://b/t/m"), parse_location("s3://b/t"))
    places = Places(loaded)
    paths = pa.array([f"{scheme}://b/t/data/{scheme}.parquet" for scheme in ("s3", "s3a", "s3n")])
    assert places.of(paths).to_pylist() == [f"s3://b/t/data/{scheme}.parquet" for scheme in ("s3", "s3a", "s3n")]
    assert places.of(pa.array(["s3a://other/t/data/x.parquet"])).to_pylist() == [None]
    assert places.elsewhere == {Elsewhere("s3a://other/t/data/x.parquet", "t/data/x.parquet")}


@pytest.mark.req("ICE-MNT-09")
def test_siblings_that_share_the_beginning(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(rows_of(1))
    for name in ("t2", "t-old", "t.parquet"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.parquet").write_bytes(b"x")
        os.utime(tmp_path / name / "x.parquet", (_OLD, _OLD))
    assert table.remove_orphan_files(dry_run=False).deleted_files == 0
    with pytest.raises(InvalidArgumentError, match="is not a directory of the table"):
        table.remove_orphan_files(location=tmp_path / "t2")
    with pytest.raises(InvalidArgumentError, match="is not a directory of the table"):
        table.remove_orphan_files(location=tmp_path)
    assert len(list(tmp_path.glob("*/x.parquet"))) == 3


@pytest.mark.req("ICE-MNT-10")
def test_nothing_goes_where_something_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    table.append(rows_of(1))
    (orphan,) = _leave(table, "data/x.parquet")
    lost = Path(table.scan().files()["file_path"][0].as_py().removeprefix("file:"))
    data = lost.read_bytes()
    lost.unlink()
    # A file that was committed in the last hour may not be listed yet, in some stores.
    assert _paths(table.remove_orphan_files()) == ["data/x.parquet"]
    monkeypatch.setattr(orphans_module, "SETTLED", 0)
    with pytest.raises(DataFileNotFoundError, match=r"files are missing \(1\) that the table names") as caught:
        table.remove_orphan_files(dry_run=False)
    assert lost.name in str(caught.value)
    assert orphan.exists()
    # Elsewhere it does not matter, and neither does a file that only the listing lacks.
    assert table.remove_orphan_files(location=Path(table.location, "metadata")).deleted_files == 0
    lost.write_bytes(data)
    real = list_by_tasks

    def without(*arguments: Any) -> Any:
        for batch in real(*arguments):
            names = batch.column("path").to_pylist()
            yield batch.take([number for number, name in enumerate(names) if not name.endswith(lost.name)])

    with mock.patch.object(orphans_module, "list_by_tasks", without):
        assert _paths(table.remove_orphan_files(dry_run=False)) == ["data/x.parquet"]
    assert ids_of(table) == [1]


@pytest.mark.req("ICE-MNT-10")
def test_the_way_out_where_a_file_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what needs the lost file, and once that is gone, orphans go."""
    monkeypatch.setattr(orphans_module, "SETTLED", 0)
    table = new_table(tmp_path)
    table.append(rows_of(1))
    table.alter().create_tag("kept").commit()
    table.append(rows_of(2))
    first, second = table.metadata.snapshots
    Path(IcebergTable(table.location, ref="kept").scan().files()["file_path"][0].as_py().removeprefix("file:")).unlink()
    _leave(table, "data/x.parquet")
    assert table.repair().rows == 1
    for needing in (f"snapshot {second}, snapshot {first} (tag kept)", f"snapshot {second}; "):
        with pytest.raises(DataFileNotFoundError) as caught:
            table.remove_orphan_files(dry_run=False)
        assert f"the first one is needed by {needing}" in str(caught.value)
        if "kept" in needing:
            table.alter().drop_tag("kept").commit()
            table.expire_snapshots(snapshot_ids=[first])
    table.expire_snapshots(snapshot_ids=[second])
    assert (_paths(table.remove_orphan_files(dry_run=False)), ids_of(table)) == (["data/x.parquet"], [2])


def test_other_tables_below(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(rows_of(1))
    inner = new_table(Path(table.location, "inner"))
    inner.append(rows_of(2))
    write_table(f"{table.location}/delta", ids(3))
    _age(Path(table.location))
    done = table.remove_orphan_files(dry_run=False)
    assert done.deleted_files == 0
    assert done.kept["of another table below the directory"] > 3
    assert (ids_of(IcebergTable(inner.location)), len(DeltaTable(f"{table.location}/delta").scan().to_arrow())) == (
        [2],
        1,
    )


def test_links(tmp_path: Path) -> None:
    """Files are found by their places, whichever links lead to them, and links stay."""
    table = new_table(tmp_path)
    table.append(rows_of(1))
    data = Path(table.location, "data")
    moved = Path(table.location, "really")
    data.rename(moved)
    data.symlink_to(moved)
    _leave(table, "other/x.parquet")
    Path(table.location, "other", "link.parquet").symlink_to(next(moved.rglob("*.parquet")))
    _age(Path(table.location))
    done = table.remove_orphan_files(dry_run=False)
    assert _paths(done) == ["other/x.parquet"]
    assert ids_of(IcebergTable(table.location)) == [1]
    # The table itself is behind a link.
    shortcut = tmp_path / "shortcut"
    shortcut.symlink_to(table.location)
    by_link = IcebergTable(shortcut) if (shortcut / "metadata").exists() else None
    assert by_link is not None
    with pytest.raises(InvalidArgumentError, match="was found elsewhere"):
        by_link.remove_orphan_files()


def test_files_less_than_a_day_old(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with pytest.raises(InvalidArgumentError, match="less than a day old") as caught:
        table.remove_orphan_files(older_than="9999-12-31")
    assert "enforce_retention_duration=False" in str(caught.value)


def test_a_damaged_table(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(rows_of(1))
    (orphan,) = _leave(table, "data/x.parquet")
    manifest = Path(table.inspect("manifests")["path"][0].as_py().removeprefix("file:"))
    shutil.move(manifest, tmp_path / "aside")
    with pytest.raises(DataFileNotFoundError, match="a metadata file of the snapshot is missing"):
        table.remove_orphan_files(dry_run=False)
    assert orphan.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"older_than": 3.5}, "3.5"),
        ({"prefix_mismatch": "keep"}, "prefix_mismatch"),
        ({"dry_run": "no"}, "dry_run"),
        ({"location": "s3://other/bucket"}, "is not a directory of the table"),
    ],
)
def test_arguments(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        new_table(tmp_path).remove_orphan_files(**arguments)


def test_metadata_that_is_not_the_newest(tmp_path: Path) -> None:
    """What an older metadata file, a snapshot or a map shows is no reason to delete what the newest needs."""
    table = new_table(tmp_path)
    old = table.metadata_location
    for number in (1, 2):
        table.append(rows_of(number))
    _age(Path(table.location))
    for opened in (
        IcebergTable(old),
        IcebergTable(table.location, snapshot_id=table.snapshots[0].snapshot_id),
        IcebergTable(table.location, location_map={"s3://elsewhere": table.location}),
    ):
        for call in (opened.remove_orphan_files, opened.expire_snapshots):
            with pytest.raises((InvalidArgumentError, UnsupportedFeatureError), match="cannot be written to"):
                call(dry_run=False)
    assert ids_of(IcebergTable(table.location)) == [1, 2]


@pytest.mark.parametrize("below", ["inner", "inner/data"])
def test_directories_of_tables_below(tmp_path: Path, below: str) -> None:
    table = new_table(tmp_path)
    inner = new_table(Path(table.location, "inner").parent / "x")
    shutil.move(inner.location, Path(table.location, "inner"))
    with pytest.raises(InvalidArgumentError, match="is also the directory of another table"):
        table.remove_orphan_files(location=Path(table.location, below))
    # Its files are kept, too, where its metadata is compressed.
    folder = Path(table.location, "inner", "metadata")
    for path in folder.iterdir():
        path.rename(folder / "v1.metadata.json.gz") if path.name.endswith(".json") else path.unlink()
    _leave(table, "inner/data/x.parquet")
    _age(Path(table.location))
    assert table.remove_orphan_files().deleted_files == 0


def test_directories_elsewhere(tmp_path: Path) -> None:
    """They may be those of others, and are looked through on request, also once no property names them any more."""
    table = new_table(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    table.alter().set({"write.data.path": str(elsewhere)}).commit()
    table.append(rows_of(1))
    orphans = _leave(table, "data/x.parquet")
    for place in (elsewhere, elsewhere / "p=1"):
        place.mkdir(exist_ok=True)
        (place / "x.parquet").write_bytes(b"x")
        orphans.append(place / "x.parquet")
    _age(tmp_path)
    done = table.remove_orphan_files()
    assert _paths(done) == ["data/x.parquet"]
    assert f"orphans were not looked for in {elsewhere}" in done.warnings[0]
    assert _paths(table.remove_orphan_files(location=elsewhere)) == sorted(map(str, orphans[1:]))
    table.alter().unset("write.data.path").commit()
    assert table.remove_orphan_files().warnings == done.warnings
    assert len(_paths(table.remove_orphan_files(location=elsewhere, dry_run=False))) == 2
    assert [path.exists() for path in orphans] == [True, False, False]
    with pytest.raises(InvalidArgumentError, match="is not a directory of the table"):
        table.remove_orphan_files(location=tmp_path / "else")
    assert ids_of(table) == [1]
