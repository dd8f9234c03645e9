"""What a table guarantees to its readers while others write."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.storage.local import LocalStorage
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.recorder import Recorder
from tests.support.roads import Road, by_every_road


def _rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number} for number in ids]


def _builder(tmp_path: Path, **options: Any) -> IcebergBuilder:
    return IcebergBuilder(tmp_path / "t", {"id": "long"}, **options)


def _ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


@pytest.mark.req("ICE-GEN-01")
def test_a_file_that_no_manifest_lists_does_not_exist(tmp_path: Path, road: Road) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))
    pq.write_table(pa.table({"id": [2]}), builder.root / "data" / "stray.parquet")
    assert road.column(open_table(builder.root).scan(), "id") == [1]


@by_every_road
@pytest.mark.req("ICE-GEN-03")
def test_changes_are_seen_after_a_refresh(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))
    table = open_table(builder.root)
    scan = table.scan()
    builder.commit(builder.data(_rows(2)))
    assert _ids(table) == [1]
    assert not [name for name in os.listdir(builder.root / "metadata") if "lock" in name]
    table.refresh()
    assert _ids(table) == [1, 2]
    assert scan.to_arrow().column("id").to_pylist() == [1]


@by_every_road
@pytest.mark.req("ICE-GEN-04", half="reader")
def test_a_commit_is_seen_whole_or_not_at_all(tmp_path: Path) -> None:
    """A reader opens the table again and again while three files are replaced by two."""
    builder = _Atomic(tmp_path / "t", {"id": "long"})
    old = [builder.data(_rows(number)) for number in range(3)]
    builder.commit(*old)
    new = [builder.data(_rows(number)) for number in (10, 11)]
    seen: set[tuple[int, ...]] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(tuple(_ids(open_table(builder.root))))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(15):
            builder.commit(*new, removed=old, operation="overwrite")
            builder.commit(*old, removed=new, operation="overwrite")
    finally:
        stop.set()
        reader.join()
    assert seen <= {(0, 1, 2), (10, 11)}
    assert seen


class _Atomic(IcebergBuilder):
    """Writes metadata in one step, as writers do."""

    def write(self) -> Path:
        self.metadata_version += 1
        path = self.root / "metadata" / f"v{self.metadata_version}.metadata.json"
        hint = self.root / "metadata" / "version-hint.text"
        for target, text in ((path, json.dumps(self.metadata())), (hint, str(self.metadata_version))):
            scratch = target.with_name("scratch")
            scratch.write_text(text)
            scratch.replace(target)
        return path


@by_every_road
@pytest.mark.req("ICE-GEN-05")
def test_planning_opens_three_objects(tmp_path: Path, recorder: Recorder) -> None:
    spec = [{"source-id": 1, "name": "id", "transform": "identity"}]
    builder = _builder(tmp_path, specs=[spec])
    file = builder.data(_rows(0))
    files = [type(file)(f"{file.path}-{number}", 1, file.size, partition={"id": number}) for number in range(1000)]
    builder.commit(*files)
    table = open_table(_newest(builder))
    assert table.scan("id = 17").files().column("partition").to_pylist() == [{"id": 17}]
    recorder.clear()
    again = open_table(_newest(builder))
    again.scan("id >= 500").files()
    assert len(recorder.read) == len(set(recorder.read)) == 3
    assert [name.split(".")[-1] for name in recorder.read] == ["json", "avro", "avro"]
    assert not recorder.listings


def _newest(builder: IcebergBuilder) -> Path:
    return builder.root / "metadata" / f"v{builder.metadata_version}.metadata.json"


@by_every_road
@pytest.mark.req("ICE-GEN-07", half="reader")
@pytest.mark.req("ICE-COM-09", half="reader")
@pytest.mark.parametrize("hint", ["1", None])
def test_reading_takes_nothing_but_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hint: str | None) -> None:
    """Everything is read from a store that refuses all writes, and still the newest version is found."""
    builder = _builder(tmp_path)
    file = builder.data(_rows(*range(10)), row_group_size=5)
    builder.commit(file)
    builder.commit(builder.position_deletes([(file, 1)]), builder.equality_deletes([1], _rows(3)))
    for number in range(12):
        builder.commit(builder.data(_rows(100 + number), format=["parquet", "avro", "orc"][number % 3]))
    path = builder.root / "metadata" / "version-hint.text"
    path.unlink()
    if hint is not None:
        path.write_text(hint)

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise AssertionError("this store does not write")

    for name in ("put", "delete"):
        monkeypatch.setattr(LocalStorage, name, refuse)
    before = {name: name.stat().st_mtime_ns for name in builder.root.rglob("*")}
    table = open_table(builder.root, "iceberg")
    assert table.metadata_location.endswith("/v14.metadata.json")
    assert _ids(table) == [0, 2, *range(4, 10), *range(100, 112)]
    assert table.refresh() is table
    assert {name: name.stat().st_mtime_ns for name in builder.root.rglob("*")} == before


@pytest.mark.req("ICE-COM-09", half="reader")
def test_the_highest_version_is_found(tmp_path: Path, recorder: Recorder) -> None:
    builder = _builder(tmp_path)
    for number in range(11):
        builder.commit(builder.data(_rows(number)))
    hint = builder.root / "metadata" / "version-hint.text"
    for text, lists in (("11", False), ("8", False), ("999", True), ("", True)):
        hint.write_text(text)
        recorder.clear()
        assert open_table(builder.root, "iceberg").metadata_location.endswith("/v11.metadata.json")
        assert bool([name for name, _ in recorder.listings if name == "metadata"]) is lists
