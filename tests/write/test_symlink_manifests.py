"""Manifests of symlinks: what they name, when commits write them, and which tables they are not written for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import InvalidArgumentError, StorageError, UnsupportedFeatureError
from deltaberg.storage.local import LocalStorage
from tests.support.command_line import json_lines
from tests.support.log_entries import named_actions

_ENABLED = "delta.compatibility.symlinkFormatManifest.enabled"
_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])


def _rows(*pairs: tuple[int, str | None]) -> pa.Table:
    return pa.table({"id": [one for one, _ in pairs], "p": [p for _, p in pairs]}, schema=_COLUMNS)


def _manifests(root: Path) -> dict[str, set[str]]:
    folder = root / "_symlink_format_manifest"
    return {
        path.parent.relative_to(folder).as_posix(): set(path.read_text().splitlines())
        for path in folder.rglob("manifest")
    }


def _files(table: DeltaTable) -> set[str]:
    return {f"file:{table.location}/{unquote(path)}" for path in table.live_files["path"].to_pylist()}


def test_a_table_without_partitions(tmp_path: Path) -> None:
    table = create_table(tmp_path, _COLUMNS)
    result = table.generate()
    assert (result.version, result.files, result.manifests, result.removed) == (
        0,
        0,
        ("_symlink_format_manifest/manifest",),
        (),
    )
    assert _manifests(tmp_path) == {".": set()}
    DeltaTable(tmp_path).append(_rows((1, "a")))
    DeltaTable(tmp_path).append(_rows((2, "b")))
    # What Hadoop says of the bytes that were there before would fail each read.
    checksum = tmp_path / "_symlink_format_manifest" / ".manifest.crc"
    checksum.write_bytes(b"crc")
    result = table.generate("symlink_format_manifest")
    assert (result.version, result.files) == (2, 2)
    assert _manifests(tmp_path) == {".": _files(table)}
    assert not checksum.exists()
    with pytest.raises(InvalidArgumentError, match="mode must be 'symlink_format_manifest', not 'manifest'"):
        table.generate("manifest")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="the table was opened with version"):
        DeltaTable(tmp_path, version=1).generate()


def test_partitions(tmp_path: Path) -> None:
    table = create_table(tmp_path, _COLUMNS, partition_by="p")
    table.append(_rows((1, "a"), (2, "b/c"), (3, None), (4, "ü")))
    assert table.generate().files == 4
    manifests = _manifests(tmp_path)
    assert manifests.keys() == {"p=a", "p=b%2Fc", "p=__HIVE_DEFAULT_PARTITION__", "p=ü"}
    assert set[str]().union(*manifests.values()) == _files(table)
    assert all(len(files) == 1 for files in manifests.values())
    table.delete("p = 'a'")
    # Nothing asks for manifests of later versions.
    assert _manifests(tmp_path) == manifests
    assert table.generate().removed == ("_symlink_format_manifest/p=a/manifest",)
    assert _manifests(tmp_path) == {name: files for name, files in manifests.items() if name != "p=a"}
    assert not (tmp_path / "_symlink_format_manifest" / "p=a").exists()
    (tmp_path / "_symlink_format_manifest" / "p=b%2Fc" / "notes.txt").write_text("of somebody else")
    table.delete("id = 2 OR id = 3")
    table.generate()
    left = sorted(path.name for path in (tmp_path / "_symlink_format_manifest").iterdir())
    assert left == ["_version", "p=b%2Fc", "p=ü"]


def test_directories_of_gone_partitions_of_several_columns(tmp_path: Path) -> None:
    rows = _rows((1, "a"), (2, "a"), (3, "b"))
    rows = rows.append_column("n", rows["id"])
    table = create_table(tmp_path, rows.schema, partition_by=["p", "id"], properties={_ENABLED: "true"})
    table.append(rows)
    table.delete("id = 1 OR id = 3")
    folder = tmp_path / "_symlink_format_manifest"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert found == {"_version", "p=a", "p=a/id=2", "p=a/id=2/manifest"}
    table.delete("id = 2")
    assert [path.name for path in folder.iterdir()] == ["_version"]


def test_commits_write_those_of_changed_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path, _COLUMNS, partition_by="p")
    table.append(_rows((1, "a"), (2, "b"), (3, None)))
    table.alter().set({_ENABLED: "true"}).commit()
    assert set[str]().union(*_manifests(tmp_path).values()) == _files(table)
    before = {path: path.stat().st_ino for path in (tmp_path / "_symlink_format_manifest").rglob("manifest")}
    table.append(_rows((4, "a"), (5, "c")))
    table.delete("p IS NULL")
    after = {path: path.stat().st_ino for path in (tmp_path / "_symlink_format_manifest").rglob("manifest")}
    assert _manifests(tmp_path).keys() == {"p=a", "p=b", "p=c"}
    assert set[str]().union(*_manifests(tmp_path).values()) == _files(table)
    same = {path.parent.name for path, number in before.items() if after.get(path) == number}
    assert same == {"p=b"}
    put = LocalStorage.put

    def fail(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> object:
        if path.endswith("/manifest"):
            raise StorageError("the disk is full")
        return put(self, path, data, if_absent=if_absent)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "put", fail)
        done = table.append(_rows((6, "b")))
    assert done.committed
    assert any("the manifests of symlinks were not written: the disk is full" in one for one in done.warnings)
    assert set[str]().union(*_manifests(tmp_path).values()) != _files(table)
    # The next commit makes up for it, and so does one that finds none at all.
    table.append(_rows((7, "c")))
    assert set[str]().union(*_manifests(tmp_path).values()) == _files(table)
    shutil.rmtree(tmp_path / "_symlink_format_manifest")
    table.append(_rows((8, "c")))
    assert set[str]().union(*_manifests(tmp_path).values()) == _files(table)


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_a_writer_that_is_overtaken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: str | None) -> None:
    table = create_table(tmp_path, _COLUMNS, partition_by=partition_by, properties={_ENABLED: "true"})
    put, others = LocalStorage.put, [_rows((2, "a")), _rows((3, "b"))]

    def overtaken(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> object:
        if path.endswith("/manifest") and others:
            DeltaTable(tmp_path).append(others.pop())
        return put(self, path, data, if_absent=if_absent)

    monkeypatch.setattr(LocalStorage, "put", overtaken)
    assert table.append(_rows((1, "a"))).warnings == ()
    assert DeltaTable(tmp_path).version == 3
    assert set[str]().union(*_manifests(tmp_path).values()) == _files(DeltaTable(tmp_path))
    assert len(_files(DeltaTable(tmp_path))) == 3


def _allow(root: Path, *properties: str) -> None:
    """Set properties to true as another writer does that allows them together."""
    (last,) = sorted((root / "_delta_log").glob("*.json"))[-1:]
    metadata = named_actions(root, int(last.stem), "metaData")[0]
    metadata["configuration"] |= dict.fromkeys(properties, "true")
    (last.with_name(f"{int(last.stem) + 1:020}.json")).write_text(json.dumps({"metaData": metadata}) + "\n")


def test_partitions_with_deletion_vectors_lose_their_manifests(tmp_path: Path) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    create_table(tmp_path, _COLUMNS, partition_by="p", properties=vectors)
    _allow(tmp_path, _ENABLED)
    table = DeltaTable(tmp_path)
    assert table.append(_rows((1, "a"), (2, "a"), (3, "b"))).warnings == ()
    assert _manifests(tmp_path).keys() == {"p=a", "p=b"}
    (said,) = table.delete("id = 1", strategy="merge-on-read").warnings
    assert "readers of manifests know no deletion vectors" in said
    assert "reorg()" in said
    assert _manifests(tmp_path).keys() == {"p=b"}
    # It is said once, of the partition that a commit concerns.
    assert table.append(_rows((4, "b"))).warnings == ()
    assert len(_manifests(tmp_path)["p=b"]) == 2
    table.reorg()
    assert _manifests(tmp_path).keys() == {"p=a", "p=b"}
    assert set[str]().union(*_manifests(tmp_path).values()) == _files(table)


def test_column_mapping_takes_all_manifests(tmp_path: Path) -> None:
    mapped = create_table(tmp_path, _COLUMNS, partition_by="p", properties={"delta.columnMapping.mode": "name"})
    _allow(tmp_path, _ENABLED)
    stale = tmp_path / "_symlink_format_manifest" / "p=a" / "manifest"
    stale.parent.mkdir(parents=True)
    stale.write_text("file:/gone.parquet\n")
    (said,) = DeltaTable(mapped.location).append(_rows((1, "b"))).warnings
    assert "readers of manifests know no column mapping" in said
    assert _manifests(tmp_path) == {}


_UNKNOWN = pytest.mark.parametrize(
    ("properties", "feature"),
    [
        ({"delta.enableDeletionVectors": "true"}, "deletionVectors"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping"),
    ],
)


@_UNKNOWN
def test_properties_that_exclude_manifests(tmp_path: Path, properties: dict[str, str], feature: str) -> None:
    asks = {_ENABLED: "true"}
    with pytest.raises(InvalidArgumentError, match=f"cannot be true for a table with {feature}"):
        create_table(tmp_path / "both", _COLUMNS, properties={**asks, **properties})
    assert not (tmp_path / "both").exists()
    for first, second in ((asks, properties), (properties, asks)):
        table = create_table(tmp_path / next(iter(first)), _COLUMNS, properties=first)
        with pytest.raises(InvalidArgumentError, match=f"cannot be true for a table with {feature}"):
            table.alter().set(second).commit()
        assert DeltaTable(table.location).version == 0


@_UNKNOWN
def test_tables_that_these_readers_get_wrong(tmp_path: Path, properties: dict[str, str], feature: str) -> None:
    table = create_table(tmp_path, _COLUMNS, properties=properties)
    table.append(_rows((1, "a"), (2, "b")))
    table.delete("id = 1")
    with pytest.raises(UnsupportedFeatureError) as caught:
        table.generate()
    assert caught.value.context["feature"] == feature
    assert not (tmp_path / "_symlink_format_manifest").exists()
    table.drop_feature(feature)
    assert table.generate().files == 1


def test_at_the_command_line(tmp_path: Path) -> None:
    create_table(tmp_path, _COLUMNS, partition_by="p").append(_rows((1, "a")))
    (said,) = json_lines("generate", tmp_path)
    assert (said["version"], said["files"], said["manifests"]) == (1, 1, ["_symlink_format_manifest/p=a/manifest"])
    assert "the manifests" not in str(said["removed"])
