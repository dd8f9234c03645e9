"""Vacuum: what no retained version needs goes, and nothing else (Part 4 of the requirements, DL-VAC)."""

from __future__ import annotations

import json
import logging
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable, IcebergTable
from deltaberg.errors import (
    AuthenticationError,
    InvalidArgumentError,
    UnsupportedFeatureError,
)
from deltaberg.storage.base import PutResult
from deltaberg.storage.local import LocalStorage
from deltaberg.table.maintain.listed_files import earlier_clock
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.vacuums import DAY, FEED, MANY, VECTORS, Clock, age, every_kind, files, new_table, paths

_READ_BY_ICEBERG = "a branch or a tag of the Iceberg table in the same directory needs it"


@pytest.mark.req("DL-GEN-08")
def test_removed_files_go_after_the_retention(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path)
    table.append(ids(1, 2))
    before = files(tmp_path)
    table.delete("true")
    assert table.vacuum(dry_run=False).deleted_files == 0
    assert files(tmp_path) == before
    clock.ahead = 7 * DAY + 1
    result = table.vacuum(dry_run=False)
    assert paths(result) == before
    assert files(tmp_path) == set()
    assert ids_of(DeltaTable(tmp_path)) == []


@pytest.mark.req("DL-CLEAN-09")
def test_what_is_named_or_young_stays(builder: DeltaBuilder) -> None:
    """Live f with a vector, tombstones of one and of eight days, orphans of eight days and of one hour."""
    now = int(time.time() * 1000)
    f = builder.add(ids(1, 2), path="f.parquet", vector=builder.vector([0]))
    g, h = (builder.add(ids(3), path=f"{name}.parquet") for name in "gh")
    builder.create(ID, f, g, h, protocol=builder.features("deletionVectors"), configuration=VECTORS)
    # The node that has removed h had a clock of its own, so that the commit says when that was.
    builder.commit(builder.remove(h, deletionTimestamp=now - int(8 * DAY * 1000)))
    age(builder.log / f"{1:020d}.json", 8)
    builder.commit(builder.remove(g, deletionTimestamp=now - int(DAY * 1000)))
    for name in ("o", "p"):
        (builder.root / f"{name}.parquet").write_bytes(b"")
    for path in (*builder.root.glob("*.*"), *builder.log.glob("*0.json")):
        age(path, 8.1)
    age(builder.root / "p.parquet", 1 / 24)
    result = DeltaTable(builder.root).vacuum(dry_run=False)
    assert paths(result) == {"h.parquet", "o.parquet"}
    assert len([name for name in files(builder.root) if name.endswith(".bin")]) == 1
    assert ids_of(DeltaTable(builder.root)) == [2]


@pytest.mark.req("DL-VAC-01")
@pytest.mark.req("BEY-05", half="writer")
def test_the_protocol_is_checked_before_anything_is_listed(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.create(
        ID, builder.add(ids(1)), protocol=builder.features("vacuumProtocolCheck", writer_only=["somethingNew"])
    )
    table = DeltaTable(builder.root)
    assert ids_of(table) == [1]
    listed: list[str] = []
    monkeypatch.setattr(LocalStorage, "walk", lambda _, prefix, *__: listed.append(prefix))
    monkeypatch.setattr(LocalStorage, "put", lambda _, path, *__, **___: listed.append(path))
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        table.vacuum()
    assert listed == []


@pytest.mark.req("DL-VAC-02")
def test_vectors_stay_as_long_as_removed_files(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path, **VECTORS, **FEED)
    table.append(MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.delete("true")
    before = files(tmp_path)
    assert {Path(name).suffix for name in before} == {".parquet", ".bin"}
    clock.ahead = DAY
    assert table.vacuum(dry_run=False).deleted_files == 0
    clock.ahead = 8 * DAY
    assert paths(table.vacuum(dry_run=False)) == before


@pytest.mark.req("DL-VAC-02")
def test_change_data_files_stay_as_long_as_their_commits_are_young(tmp_path: Path, clock: Clock) -> None:
    """Also where a copy of the table made them look old: the time of the commit decides, not that of the file."""
    table = new_table(tmp_path, **FEED)
    table.append(ids(1, 2))
    table.update({"id": "id + 10"}, "id = 1")
    (change,) = (tmp_path / "_change_data").iterdir()
    age(change, 30)
    assert change.name not in {Path(path).name for path in paths(table.vacuum())}
    assert table.changes(2).to_arrow().num_rows == 2
    clock.ahead = 8 * DAY
    assert f"_change_data/{change.name}" in paths(table.vacuum(dry_run=False))


@pytest.mark.req("DL-VAC-03")
def test_a_clock_that_is_ahead_makes_no_file_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    table.delete("true")
    (tmp_path / "running.parquet").write_bytes(b"")
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + int(8 * DAY * 1e9))
    assert table.vacuum(dry_run=False).deleted_files == 0
    assert (tmp_path / "running.parquet").exists()


@pytest.mark.req("DL-VAC-03")
@pytest.mark.parametrize(("ahead", "earlier"), [(8 * DAY, "store"), (-8 * DAY, "own")])
def test_the_earlier_of_two_clocks_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, earlier: str
) -> None:
    real = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: real + int(ahead * 1e9))
    found = earlier_clock(LocalStorage(), str(tmp_path))
    assert (
        abs(found - real // 1_000_000) < 60_000 if earlier == "store" else found == (real + int(ahead * 1e9)) // 10**6
    )
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_needs_no_permission_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)

    def denied(*_: object, **__: object) -> PutResult:
        raise AuthenticationError("no")

    monkeypatch.setattr(LocalStorage, "put", denied)
    assert table.vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-04")
def test_hidden_files_stay(tmp_path: Path, clock: Clock) -> None:
    schema = pa.schema([("_p", pa.int64()), ("id", pa.int64())])
    table: Any = deltaberg.create_table(str(tmp_path), schema, partition_by=["_p"])
    table.append(pa.table({"_p": [1], "id": [1]}))
    stay = ["_x/f", "a/.tmp", "a/_b/c/d.parquet", ".hidden", "_p/_q", "_change_data/_x", "metadata/v1.metadata.json"]
    stay += ["metadata/snap.avro", "_delta_log/stray.parquet", "_delta_log/_x/f.parquet", "_delta_logs/f", "_P=1/f"]
    go = ["_p=1/old.parquet", "_p=1/_p=2/old.parquet", "_change_data/old", "_delta_index/old", "a/x_.parquet"]
    go += ["_delta_index/_p=3/old", "line\nbreak/a b+%20#?.parquet", "ünïcode/😀.parquet", "metadata.json"]
    for name in (*stay, *go):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    clock.ahead = 8 * DAY
    assert paths(table.vacuum(dry_run=False)) == set(go)
    assert all((tmp_path / name).exists() for name in stay)
    assert ids_of(DeltaTable(tmp_path)) == [1]


@pytest.mark.req("DL-VAC-04")
@pytest.mark.parametrize("name", ["x.metadata.json", "version-hint.text", "f.parquet"])
def test_metadata_of_an_iceberg_table_stays(tmp_path: Path, clock: Clock, name: str) -> None:
    table = new_table(tmp_path)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / name).write_bytes(b"")
    clock.ahead = 8 * DAY
    assert paths(table.vacuum()) == ({"metadata/f.parquet"} if name == "f.parquet" else set())


@pytest.mark.parametrize("zipped", [False, True])
def test_an_iceberg_table_in_the_same_directory(tmp_path: Path, clock: Clock, zipped: bool) -> None:
    """Its files are none of the log; those of UniForm are the table's own."""
    codec = {"write.metadata.compression-codec": "gzip"} if zipped else {}
    other: Any = deltaberg.create_table(tmp_path, ID, format="iceberg", properties=codec)
    other.append(ids(1))
    shutil.move(tmp_path / "metadata", tmp_path / "aside")
    table = new_table(tmp_path)
    table.append(ids(2))
    shutil.move(tmp_path / "aside", tmp_path / "metadata")
    clock.ahead = 8 * DAY
    for dry_run in (False, True):
        with pytest.raises(InvalidArgumentError, match="is metadata of an Iceberg table in the same directory"):
            table.vacuum(dry_run=dry_run)
    assert ids_of(IcebergTable(str(tmp_path))) == [1]
    newest = max((tmp_path / "metadata").glob("*.metadata.json*"), key=lambda path: path.stat().st_mtime_ns)
    if not zipped:
        raw, synced = json.loads(newest.read_text()), {"version": 0, "sourceTableFormat": "DELTA"}
        left = {f"data/{path.name}" for path in (tmp_path / "data").iterdir()}
        # Iceberg writers leave the property of XTable as it is, so that it does not say whose the newest metadata is.
        newest.write_text(json.dumps({**raw, "properties": {"XTABLE_METADATA": json.dumps(synced)}}))
        with pytest.raises(InvalidArgumentError, match="If a tool such as XTable made them of this table"):
            table.vacuum(dry_run=False)
        assert ids_of(IcebergTable(str(tmp_path))) == [1]
        # Nor does that of UniForm: what the Iceberg table reads stays, and what it has left goes.
        newest.write_text(json.dumps({**raw, "properties": {"delta-version": "1"}}))
        done = table.vacuum(dry_run=False)
        assert (paths(done), done.kept[_READ_BY_ICEBERG]) == (set(), len(left))
        assert ids_of(IcebergTable(str(tmp_path))) == [1]
        newest.write_text(json.dumps({**raw, "properties": {"delta-version": "1"}, "refs": {}, "snapshots": []}))
        assert paths(table.vacuum(dry_run=False)) == left
        assert newest.exists()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_an_inventory_that_leaves_out_what_shows_tables_below(tmp_path: Path, clock: Clock, format: Any) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    deltaberg.write_table(tmp_path / "a" / "inner", ids(2), format=format)
    clock.ahead = 8 * DAY
    found = [path for path in tmp_path.rglob("*.parquet") if "_delta_log" not in path.parts]
    rows = [{"path": str(path), "length": 1, "isDir": False, "modificationTime": 0} for path in found]
    done = table.vacuum(dry_run=False, inventory=pa.Table.from_pylist(rows))
    assert (done.deleted_files, done.kept["of another table below the directory"]) == (0, 1)
    assert ids_of(deltaberg.open_table(tmp_path / "a" / "inner")) == [2]


@pytest.mark.req("DL-VAC-05")
@pytest.mark.parametrize(
    "name", ["a b.parquet", "a%20b.parquet", "a+b.parquet", "a#b.parquet", "ü😀.parquet", "a?b:c=d"]
)
def test_names_are_decoded_once(builder: DeltaBuilder, clock: Clock, name: str) -> None:
    from urllib.parse import quote

    live = builder.add(ids(1), path=name)
    live["add"]["path"] = quote(name)
    builder.create(ID, live)
    (builder.root / quote(name)).with_suffix(".other").write_bytes(b"")
    clock.ahead = 8 * DAY
    assert name not in paths(DeltaTable(builder.root).vacuum(dry_run=False))
    assert (builder.root / name).exists()


@pytest.mark.req("DL-VAC-05")
def test_files_elsewhere_are_never_the_own(tmp_path: Path, clock: Clock) -> None:
    """A clone reads files of its source, by absolute paths; and a table may be opened by a link to it."""
    source = DeltaBuilder(tmp_path / "source")
    there = source.add(ids(1), path="f.parquet")
    source.create(ID, there)
    clone = DeltaBuilder(tmp_path / "clone")
    elsewhere = {"add": {**there["add"], "path": (source.root / "f.parquet").as_uri()}}
    own = clone.add(ids(2), path="own.parquet")
    own["add"]["path"] = (clone.root / "own.parquet").as_uri()
    other_store = {"add": {**there["add"], "path": "s3://bucket/f.parquet"}}
    clone.create(ID, elsewhere, own)
    (tmp_path / "link").symlink_to(clone.root)
    clock.ahead = 8 * DAY
    for root in (clone.root, tmp_path / "link"):
        assert DeltaTable(root).vacuum(dry_run=False).deleted_files == 0
    assert ids_of(DeltaTable(clone.root)) == [1, 2]
    clone.commit(other_store)
    assert DeltaTable(clone.root).vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-06")
def test_a_short_retention_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    table.delete("true")
    (tmp_path / "running.parquet").write_bytes(b"")
    age(tmp_path / "running.parquet", 1 / 24)
    with pytest.raises(InvalidArgumentError, match="168 hours") as caught:
        table.vacuum(0)
    assert "enforce_retention_duration" in str(caught.value.hint)
    for hours in (-1, float("nan"), float("inf"), True, "7"):
        with pytest.raises(InvalidArgumentError, match="retention_hours"):
            table.vacuum(hours, enforce_retention_duration=False)  # type: ignore[arg-type]
    for numbers in ((np.int64(200), np.float64(24.5)), (200, 24.5)):
        assert table.vacuum(numbers[0], untracked_hours=numbers[1]).deleted_files == 0
    kept = files(tmp_path)
    result = table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert paths(result) == kept - {"running.parquet"}
    assert result.kept == {"not named by the log, and too young to be a leftover": 1}
    result = table.vacuum(0, dry_run=False, enforce_retention_duration=False, untracked_hours=0.5)
    assert paths(result) == {"running.parquet"}


@pytest.mark.req("DL-VAC-07", "DL-OPS-14")
def test_a_dry_run_lists_what_a_run_deletes(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    table = every_kind(tmp_path)
    clock.ahead = 8 * DAY
    before, version = files(tmp_path), table.version
    told: list[Any] = []
    planned = table.vacuum(progress=told.append)
    assert (files(tmp_path), table.version) == (before, version)
    assert (told[-1].listed >= len(before), told[-1].chosen, told[-1].deleted) == (True, planned.deleted_files, 0)
    with caplog.at_level(logging.INFO, "deltaberg.removal"):
        done = table.vacuum(dry_run=False, progress=told.append)
    assert done.files.sort_by("path").equals(planned.files.sort_by("path"))
    assert (planned.dry_run, done.dry_run, told[-1].deleted) == (True, False, done.deleted_files)
    assert files(tmp_path) == before - paths(done)
    rows = {row["path"]: row for row in done.files.to_pylist()}
    assert {row["kind"] for row in rows.values()} == {"data file", "deletion vector", "change data"}
    assert (rows["orphan.parquet"]["bytes"], rows["orphan.parquet"]["reason"]) == (3, "no retained version names it")
    assert done.deleted_bytes == sum(row["bytes"] for row in rows.values())
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert all(f"deleting {tmp_path}/{path}: {row['reason']}" in said for path, row in rows.items())
    assert ids_of(DeltaTable(tmp_path)) == [7]


@pytest.mark.req("DL-VAC-02")
@pytest.mark.parametrize("fields", [{}, {"deletionTimestamp": 0}])
def test_the_time_of_the_commit_counts_where_that_of_the_removal_is_wrong(
    builder: DeltaBuilder, fields: dict[str, Any]
) -> None:
    old = builder.add(ids(1), path="old.parquet")
    builder.create(ID, old)
    removed = builder.remove(old, **fields)
    if not fields:
        removed["remove"].pop("deletionTimestamp")
    builder.commit(removed)
    age(builder.root / "old.parquet", 30)
    assert DeltaTable(builder.root).vacuum().deleted_files == 0


@pytest.mark.req("DL-VAC-02", "DL-VAC-03")
@pytest.mark.parametrize(("recorded", "stored", "goes"), [(8, 0, False), (0, 8, False), (8, 8, True)])
def test_a_commit_is_as_old_as_the_later_of_its_times(
    builder: DeltaBuilder, recorded: float, stored: float, goes: bool
) -> None:
    """The clock of who removed a file was a week behind, or the log was copied with its times."""
    then = int((time.time() - recorded * DAY) * 1000)

    def info(version: int) -> dict[str, Any]:
        return {"commitInfo": {"inCommitTimestamp": then + version}}

    old = builder.add(ids(1), path="old.parquet")
    configuration = {"delta.enableInCommitTimestamps": "true"}
    first = [builder.features(writer_only=["inCommitTimestamp"]), builder.metadata(ID, configuration=configuration)]
    builder.commit(info(0), *first, old)
    builder.commit(info(1), builder.remove(old, deletionTimestamp=then))
    age(builder.root / "old.parquet", 30)
    for entry in builder.log.iterdir():
        age(entry, stored)
    result = DeltaTable(builder.root).vacuum(dry_run=False)
    assert paths(result) == ({"old.parquet"} if goes else set())
    assert goes or ids_of(DeltaTable(builder.root, version=0)) == [1]


@pytest.mark.req("DL-VAC-05")
@pytest.mark.parametrize("prefix", ["ab", "ab/", "./ab", "a//b", "/ab"])
def test_vectors_in_directories_of_any_spelling_stay(builder: DeltaBuilder, clock: Clock, prefix: str) -> None:
    vector = builder.vector([0])
    (name,) = [path.name for path in builder.root.glob("*.bin")]
    (builder.root / prefix.strip("/")).mkdir(parents=True, exist_ok=True)
    (builder.root / name).rename(builder.root / prefix.strip("/") / name)
    vector["pathOrInlineDv"] = prefix + vector["pathOrInlineDv"]
    live = builder.add(ids(1, 2), path="f.parquet", vector=vector)
    builder.create(ID, live, protocol=builder.features("deletionVectors"), configuration=VECTORS)
    assert ids_of(DeltaTable(builder.root)) == [2]
    clock.ahead = 8 * DAY
    assert DeltaTable(builder.root).vacuum(dry_run=False).deleted_files == 0
    assert ids_of(DeltaTable(builder.root)) == [2]


@pytest.mark.req("DL-VAC-05")
@pytest.mark.parametrize("how", ["directory", "file", "from outside", "moved", "other store"])
def test_a_live_file_has_several_names(builder: DeltaBuilder, clock: Clock, how: str) -> None:
    """A link leads to it, or its recorded path is that of the place from which the table was moved."""
    live = builder.add(ids(1), path="real/f.parquet")
    root, real = builder.root, builder.root / "real"
    if how == "directory":
        (root / "link").symlink_to(real)
        live["add"]["path"] = "link/f.parquet"
    elif how == "file":
        (root / "link.parquet").symlink_to(real / "f.parquet")
        live["add"]["path"] = "link.parquet"
    elif how == "from outside":
        (root.parent / "out.parquet").symlink_to(real / "f.parquet")
        live["add"]["path"] = (root.parent / "out.parquet").as_uri()
    else:
        live["add"]["path"] = "file:///old/place/f.parquet" if how == "moved" else "s3://other/t/f.parquet"
    builder.create(ID, live)
    age(real / "f.parquet", 30)
    age(builder.log / f"{0:020d}.json", 30)
    clock.ahead = 8 * DAY
    assert DeltaTable(root).vacuum(dry_run=False).deleted_files == 0
    assert (real / "f.parquet").exists()


def test_a_table_below_the_table_stays(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path)
    inner = new_table(tmp_path / "inner" / "most")
    inner.append(ids(1))
    (tmp_path / "iceberg" / "metadata").mkdir(parents=True)
    (tmp_path / "iceberg" / "metadata" / "v1.metadata.json").write_bytes(b"")
    (tmp_path / "iceberg" / "f.parquet").write_bytes(b"")
    clock.ahead = 8 * DAY
    result = table.vacuum(dry_run=False)
    assert (result.deleted_files, result.kept["of another table below the directory"]) == (0, 3)
    assert ids_of(inner) == [1]


def test_a_table_below_with_compressed_metadata_stays(tmp_path: Path, clock: Clock) -> None:
    table = new_table(tmp_path)
    for name in ("inner/metadata/00001-x.metadata.json.gz", "inner/data/x.parquet"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    clock.ahead = 30 * DAY
    result = table.vacuum(dry_run=False)
    assert (result.deleted_files, result.kept["of another table below the directory"]) == (0, 2)
