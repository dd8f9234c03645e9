"""What deletes files, and what it is told to delete: only files of its kind in their own folder ever go."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import CheckpointLayout, DeltaTable, open_table, write_table
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec, open_store
from deltaberg.table.maintain.bins.stage import Stage
from deltaberg.table.removal import FileKind, delete_files
from tests.crash.targets import Target
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_NUMBER = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
_DAY = 86_400


def _there(root: Path) -> dict[str, bytes | str | None]:
    """Return all that is below a directory: the content of files, the target of links, None for directories."""
    contents: dict[str, bytes | str | None] = {}
    for above, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(above) / name
            key = str(path.relative_to(root))
            if path.is_symlink():
                contents[key] = os.readlink(path)
            else:
                contents[key] = path.read_bytes() if path.is_file() else None
    return contents


_KIND = FileKind("a log entry", re.compile("[0-9]+[.]json"))
#: Names that a log may give, where the folder is ``table/log``. The file that they mean is there.
_OUTSIDE = {
    "beside": "{home}/table/1.json",
    "above": "{home}/table/log/../1.json",
    "sibling": "{home}/table/log2/1.json",
    "begins with the folder": "{home}/table/log1.json",
    "another table": "{home}/other/log/1.json",
    "dots": "{home}/table/log/./1.json",
    "two slashes": "{home}/table/log//1.json",
    "deeper": "{home}/table/log/sub/1.json",
    "another kind": "{home}/table/log/notes.txt",
    "encoded slash": "{home}/table/log/..%2F1.json",
    "encoded name": "{home}/table/log/%31.json",
    "the folder": "{home}/table/log",
    "relative": "1.json",
    "root": "/",
    "nothing": "",
}


@pytest.mark.parametrize("scheme", ["file", "memory"])
@pytest.mark.parametrize("name", _OUTSIDE.values(), ids=_OUTSIDE)
def test_names_that_lead_elsewhere(tmp_path: Path, scheme: str, name: str) -> None:
    home = str(tmp_path) if scheme == "file" else "home"
    store = open_store(parse_location(home if scheme == "file" else f"memory://{tmp_path.name}-{hash(name)}"))
    names = ["1.json", "log/2.json", "log1.json", "log2/1.json", "log/sub/1.json", "log/notes.txt", "log/..%2F1.json"]
    for one in (*(f"table/{one}" for one in names), "table/log/%31.json", "other/log/1.json"):
        store.put(f"{home}/{one}", b"kept")
    before = sorted(meta.path for meta in store.walk(home))
    removal = delete_files(
        store, f"{home}/table/log", [name.format(home=home), f"{home}/table/log/2.json"], _KIND, "a test"
    )
    assert removal.deleted == [f"{home}/table/log/2.json"]
    assert len(removal.kept) == 1
    assert sorted(meta.path for meta in store.walk(home)) == [path for path in before if path not in removal.deleted]


def test_links_and_directories(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.json").write_bytes(b"kept")
    # The folder itself may be reached by a link.
    (tmp_path / "real").mkdir()
    log = tmp_path / "log"
    log.symlink_to(tmp_path / "real")
    (log / "1.json").symlink_to(tmp_path / "elsewhere" / "1.json")
    (log / "2.json").symlink_to(tmp_path / "nowhere")
    (log / "3.json").mkdir()
    (log / "4.json").write_bytes(b"goes")
    (log / "below").symlink_to(tmp_path / "elsewhere")
    kind = FileKind("a log entry", re.compile("(?:below/)?[0-9]+[.]json"))
    before = _there(tmp_path)
    paths = [str(log / name) for name in ("1.json", "2.json", "3.json", "4.json", "below/1.json", "5.json", "\0.json")]
    found = delete_files(open_store(parse_location(str(log))), str(log), paths, kind, "a test")
    # 5.json was never there.
    assert found.deleted == [str(log / "4.json")]
    del before["real/4.json"]
    assert _there(tmp_path) == before


def test_what_is_kept_is_asked_last(tmp_path: Path) -> None:
    for name in ("1.json", "2.json", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    asked = []

    def why(path: str) -> str | None:
        asked.append(path)
        return "it is needed" if path.endswith("2.json") else None

    paths = [str(tmp_path / name) for name in ("1.json", "2.json", "notes.txt")]
    store = open_store(parse_location(str(tmp_path)))
    found = delete_files(store, str(tmp_path), paths, _KIND, "a test", why_kept=why)
    assert asked == paths[:2]
    assert found.deleted == [paths[0]]
    assert list(found.kept.values()) == [f"{paths[2]} does not have the name of a log entry", "it is needed"]


# The log of an Iceberg table, which names the metadata files that commits delete

_DELETES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "1",
}


class _Log:
    """An Iceberg table whose newest metadata file names hostile files as old ones."""

    def __init__(self, home: Path, kind: str) -> None:
        self.at = Target(str(home / "table"), kind=kind)
        Path(self.at.location).mkdir(exist_ok=True)
        self.at.prepare()
        table = self.at.create(ID, properties=_DELETES)
        table.append(ids(1))
        table = self.at.open()
        self.file = Path(table.metadata_location.removeprefix("file://"))
        self.folder = self.file.parent
        self.previous = json.loads(self.file.read_text())["metadata-log"][-1]["metadata-file"].removeprefix("file://")
        self.data = Path(table.scan().files()["file_path"][0].as_py().removeprefix("file://"))

    def name(self, *names: str) -> None:
        raw = json.loads(self.file.read_text())
        old = [{"timestamp-ms": raw["last-updated-ms"] - 1, "metadata-file": name} for name in names]
        self.file.write_text(json.dumps({**raw, "metadata-log": [*old, *raw["metadata-log"]]}))

    def metadata(self, table_uuid: str | None = None) -> bytes:
        """Return the bytes of a metadata file of the table, or of another one."""
        raw = json.loads(self.file.read_text())
        return json.dumps({**raw, **({} if table_uuid is None else {"table-uuid": table_uuid})}).encode()


def _put(path: Path, data: bytes = b"kept") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def _named(log: _Log, home: Path) -> dict[str, str]:
    """Return what a log may name that is no old metadata of the table, each by a word for it. The files are there."""
    own, foreign = log.metadata(), log.metadata(_NUMBER)
    folder, root = log.folder, log.folder.parent
    new = (f"00000-{number}.metadata.json" for number in itertools.count(1))
    (folder / "below").symlink_to(home / "far")
    linked, inside, above = folder / next(new), folder / next(new), next(new)
    linked.symlink_to(_put(home / next(new), own))
    _put(inside / "in a directory")
    _put(root / above, own)
    _put(home / "far" / above, own)
    return {
        "text beside the table": _put(home / "notes.txt"),
        "text in the table": _put(root / "notes.txt"),
        "text in the folder": _put(folder / "notes.txt"),
        "own data file": str(log.data),
        "own data file as a URI": f"file://{log.data}",
        "own manifest list": str(next(folder.glob("snap-*.avro"))),
        "Parquet file of another table": _put(home / "other" / "data" / f"0-{_NUMBER}.parquet"),
        "another table": _put(home / "other" / "metadata" / next(new), foreign),
        "another table in the folder": _put(folder / next(new), foreign),
        "folder whose name begins alike": _put(folder.with_name("metadata2") / next(new), own),
        "table whose name begins alike": _put(root.with_name(f"{root.name}2") / "metadata" / next(new), own),
        "deeper": _put(folder / "old" / next(new), own),
        "relative, up": f"metadata/../{above}",
        "absolute, up": f"{folder}/../{above}",
        "data under the name": _put(folder / next(new), b"PAR1"),
        "nothing under the name": _put(folder / next(new), b""),
        "link": str(linked),
        "behind a link": f"{folder}/below/{above}",
        "directory": str(inside),
        "the folder": str(folder),
        "the table": str(root),
        "encoded slash": f"{folder}/..%2F{above}",
        "encoded name": f"{folder}/{above.replace('-', '%2D')}",
        "another store": f"s3://bucket/metadata/{above}",
        "the newest": str(log.file),
        "empty": "",
    }


@pytest.mark.req("ICE-META-17", half="writer")
@pytest.mark.parametrize("kind", ["iceberg", "sqlite"])
def test_metadata_names_other_files(tmp_path: Path, kind: str) -> None:
    log = _Log(tmp_path, kind)
    named = _named(log, tmp_path)
    old = _put(log.folder / "00000-0.metadata.json", log.metadata())
    log.name(*named.values(), old)
    before = _there(tmp_path)
    result = log.at.open().append(ids(2))
    gone = {str(tmp_path / path) for path in before.keys() - _there(tmp_path).keys()}
    # The file before the newest one was in the log, and left it.
    assert gone == {old, log.previous}
    said = [text for text in result.warnings if text.startswith("an old metadata file was not deleted: ")]
    assert len(said) == len(result.warnings) >= len(named) - 3
    assert ids_of(log.at.open()) == [1, 2]


@pytest.mark.parametrize("kind", ["iceberg", "sqlite"])
@pytest.mark.parametrize("spelling", ["{path}", "file://{path}", "file:{path}", "file://localhost{path}"])
def test_metadata_names_what_it_retains_in_two_ways(tmp_path: Path, kind: str, spelling: str) -> None:
    """The same file is old under one name, and retained under another."""
    log = _Log(tmp_path, kind)
    twice = _put(log.folder / f"00000-{_NUMBER}.metadata.json", log.metadata())
    raw = json.loads(log.file.read_text())
    names = [twice, spelling.format(path=twice)]
    entries = [{"timestamp-ms": raw["last-updated-ms"] - 1, "metadata-file": name} for name in names]
    raw["properties"]["write.metadata.previous-versions-max"] = "2"
    log.file.write_text(json.dumps({**raw, "metadata-log": entries}))
    before = _there(tmp_path)
    log.at.open().append(ids(2))
    assert not before.keys() - _there(tmp_path).keys()


# The log of a Delta table


def _old_log(builder: DeltaBuilder, **create: Any) -> None:
    past = int(time.time() - 60 * _DAY) * 1000
    builder.create(ID, builder.add(ids(0)), millis=past, **create)
    for version in range(1, 6):
        builder.commit(builder.add(ids(version)), millis=past + version)


def _aged(path: Path) -> None:
    os.utime(path, (time.time() - 50 * _DAY,) * 2)


def test_a_clean_up_of_a_delta_log(builder: DeltaBuilder) -> None:
    folder = builder.log / "_sidecars"
    live = {"path": f"_delta_log/_sidecars/{_NUMBER}.parquet", "partitionValues": {}, "size": 4, "dataChange": True}
    encoded = {**live, "path": f"_delta%5Flog/_sidecars/a%2D{_NUMBER}.parquet"}
    _old_log(builder, protocol=builder.features("v2Checkpoint"))
    builder.commit({"add": {**live, "modificationTime": 0}}, {"add": {**encoded, "modificationTime": 0}}, millis=10**12)
    table = DeltaTable(builder.root)
    table.checkpoint(CheckpointLayout(spec=2, naming="uuid", files_per_sidecar=2))
    named = {path.name for path in folder.iterdir()}
    assert len(named) > 1
    kept = [
        folder / f"{_NUMBER}.parquet",
        folder / f"a-{_NUMBER}.parquet",
        folder / "notes.txt",
        builder.log / "1.json",
    ]
    kept += [builder.log / f"{0:020d}.json.bak", builder.log / f"x{0:020d}.json", builder.root / f"{0:020d}.json"]
    for path in kept:
        path.write_bytes(b"kept")
    unnamed = folder / f"b-{_NUMBER}.parquet"
    unnamed.write_bytes(b"goes")
    linked = folder / f"c-{_NUMBER}.parquet"
    linked.symlink_to(_put(builder.root.parent / "far.parquet"))
    crc = builder.log / f"{0:020d}.crc"
    crc.symlink_to(builder.root.parent / "far.parquet")
    (builder.log / f"{1:020d}.crc").mkdir()
    for path in (*builder.log.iterdir(), *folder.iterdir()):
        _aged(path)
    found = DeltaTable(builder.root).cleanup_metadata()
    assert found.first_version == 6
    gone = [*(f"{number:020d}.json" for number in range(6)), f"_sidecars/{unnamed.name}"]
    assert sorted(found.files["path"].to_pylist()) == sorted(f"_delta_log/{name}" for name in gone)
    for path in (*kept, linked, crc, builder.log / f"{1:020d}.crc", *(folder / name for name in named)):
        assert path.exists(), path
    assert (builder.root.parent / "far.parquet").exists()


# What a writer that fails deletes


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_failed_write_under_odd_partitions(tmp_path: Path, format: Any) -> None:
    names = ["..", "../..", "a/../../b", "%2E%2E", ".", "", "x=y", "a%2Fb"]
    rows = pa.table({"p": names, "id": range(len(names))})
    write_table(tmp_path / "t", rows, format=format, partition_by=["p"])
    _put(tmp_path / f"part-{_NUMBER}.parquet")
    _put(tmp_path / "t2" / f"part-{_NUMBER}.parquet")
    before = {path for path, what in _there(tmp_path).items() if what is not None}
    table = open_table(tmp_path / "t")
    transaction = table.transaction()
    transaction.append(rows)
    transaction.delete("id = 1")
    assert {path for path, what in _there(tmp_path).items() if what is not None} > before
    transaction.abort()
    assert {path for path, what in _there(tmp_path).items() if what is not None} == before


def test_rows_that_an_operation_has_left(tmp_path: Path) -> None:
    folder = tmp_path / "deltaberg-staged"
    token = "0" * 32
    old, young = folder / f"{token}-{_NUMBER}-00000.arrow", folder / f"{token}-{_NUMBER}-00001.arrow"
    others = [folder / "notes.txt", tmp_path / f"{token}-{_NUMBER}-00000.arrow", folder / f"{_NUMBER}.parquet"]
    for path in (old, young, *others):
        _put(path)
    for path in (old, *others):
        _aged(path)
    stage = Stage.of(StoreSpec(), parse_location(str(tmp_path)))
    assert not old.exists()
    assert all(path.exists() for path in (young, *others))
    mine = folder / f"{stage.token}-{_NUMBER}-00000.arrow"
    _put(mine)
    stage.clear()
    assert not mine.exists()
    assert all(path.exists() for path in (young, *others))


def test_rows_of_a_running_operation_stay_if_the_clock_is_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    young = tmp_path / "deltaberg-staged" / f"{'0' * 32}-{_NUMBER}-00000.arrow"
    _put(young)
    ahead = time.time_ns() + 7 * 86_400_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: ahead)
    Stage.of(StoreSpec(), parse_location(str(tmp_path)))
    assert young.exists()
