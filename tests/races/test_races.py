"""Eight processes change one table at once while its log is cleaned up: nothing that was acknowledged is lost.

``make proof`` runs the same races with thousands of commits.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.crash.aftermath import local_files
from tests.crash.targets import Target
from tests.races.deletions import check_deletions, needed_files
from tests.races.drops import race_of_drops
from tests.races.expiry import race_of_expiries, table_to_expire
from tests.races.kinds import COLUMNS, as_arrow
from tests.races.pack import digest
from tests.races.race import (
    PATIENT,
    REPARTITIONED,
    Race,
    bad_network,
    race_in_bucket,
    race_in_database,
    race_on_disk,
    race_through_rest,
    vacuum_races,
)
from tests.races.replay import check_race, check_snapshot_race
from tests.storage.conftest import s3_endpoint, s3_gateway, s3_proxy
from tests.support import postgres, untried
from tests.support.faulty_proxy import FaultyProxy
from tests.support.serial_log import check_history
from tests.support.snapshot_log import check_snapshots, newest_metadata
from tests.support.tally import Tally
from tests.support.vectors import relative_descriptor
from tests.support.versioned_bucket import VersionedBucket

__all__ = ["s3_endpoint", "s3_gateway", "s3_proxy"]

pytestmark = pytest.mark.one_backend


@pytest.fixture
def versioned(s3_endpoint: str) -> Iterator[VersionedBucket]:
    """A bucket that forgets nothing."""
    bucket = VersionedBucket(s3_endpoint)
    yield bucket
    bucket.close()


def _check(tally: Tally, commits: int) -> None:
    print(tally)
    assert tally.faults == []
    # It was a race, and it came to something.
    assert tally.tried >= commits
    assert "retries" in tally.note or "conflicts" in tally.note


@pytest.mark.req("DL-LOG-05", "DL-LOG-07", half="writer")
@pytest.mark.req("DL-GEN-01", half="writer")
@pytest.mark.req("DL-RT-13")
@pytest.mark.slow
def test_on_this_machine(tmp_path: Path, seed: int) -> None:
    _check(race_on_disk(tmp_path, Race(20, seed, least=5)), 40)


@pytest.mark.req("DL-OPS-10")
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_partitioned_anew_beside_writers(tmp_path: Path, seed: int, kind: str) -> None:
    _check(race_on_disk(tmp_path, replace(REPARTITIONED, turns=12, seed=seed, kind=kind, least=2)), 15)


def _check_vacuums(tally: Tally, commits: int) -> None:
    _check(tally, commits)
    assert "files vacuumed" in tally.note
    assert "restores" in tally.note


@pytest.mark.req("DL-VAC-02", "DL-VAC-03", "DL-VAC-08", "DL-VAC-12", "DL-VAC-13")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["vacuums beside a feed, a clock ahead"])
def test_vacuums_beside_writers(tmp_path: Path, seed: int, name: str) -> None:
    _check_vacuums(race_on_disk(tmp_path, vacuum_races(25, seed)[name], name), 60)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", list(vacuum_races(1, 0)))
def test_all_vacuums_beside_writers(tmp_path: Path, seed: int, name: str) -> None:
    _check_vacuums(race_on_disk(tmp_path, vacuum_races(60, seed)[name], name), 120)


@pytest.mark.req("ICE-MNT-02", "ICE-MNT-04", "ICE-MNT-07")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iceberg", "rest"])
def test_expiries_beside_all_else(tmp_path: Path, seed: int, kind: str) -> None:
    with table_to_expire(tmp_path, kind) as open_table:
        tally = race_of_expiries(open_table, 6, 8, seed, "race of expiries")
    print(tally)
    assert tally.faults == []
    assert "expired" in tally.note


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_drops_beside_writers(tmp_path: Path, seed: int, kind: Any) -> None:
    tally = race_of_drops(tmp_path / "t", kind, 4, 25, seed, "race of drops")
    print(tally)
    assert tally.faults == []
    assert {"append", "make", "drop"} <= set(tally.note.replace(",", "").split())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iceberg", pytest.param("sqlite", marks=pytest.mark.full)])
def test_iceberg_on_this_machine(tmp_path: Path, seed: int, kind: str) -> None:
    _check(race_on_disk(tmp_path, Race(6, seed, kind=kind, least=2)), 15)


@pytest.mark.slow
@pytest.mark.full
def test_iceberg_in_postgresql(tmp_path: Path, seed: int) -> None:
    if postgres.binaries() is None:
        untried.POSTGRES.skip("its programs are not there")
    _check(race_in_database(tmp_path, Race(6, seed, kind="postgres", least=2)), 15)


@pytest.mark.spark
@pytest.mark.full
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_spark_among_others(tmp_path: Path, seed: int, kind: str) -> None:
    """One of four processes has Spark's tasks write."""
    _check(race_on_disk(tmp_path, Race(48, seed, kind=kind, sparks=1, processes=4, readers=1)), 40)


@pytest.mark.slow
@pytest.mark.full
def test_through_rest_over_a_bad_network(tmp_path: Path, seed: int) -> None:
    _check(race_through_rest(tmp_path, Race(2, seed, kind="rest", least=1)), 4)


@pytest.mark.req("DL-LOG-05", half="writer")
@pytest.mark.slow
@pytest.mark.full
def test_on_s3(tmp_path: Path, versioned: VersionedBucket, s3_proxy: FaultyProxy, seed: int) -> None:
    _check(race_in_bucket(tmp_path, versioned, s3_proxy, Race(4, seed, least=1)), 8)


@pytest.mark.req("DL-LOG-05", half="writer")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_over_a_bad_network(
    tmp_path: Path, versioned: VersionedBucket, s3_proxy: FaultyProxy, seed: int, kind: str
) -> None:
    bad_network(s3_proxy, seed)
    _check(race_in_bucket(tmp_path, versioned, s3_proxy, Race(2, seed, kind=kind, least=1), more=PATIENT), 3)


def test_the_checker_of_logs_finds_faults() -> None:
    """What it does not complain about was looked at."""
    add = {"path": "a", "baseRowId": 0, "stats": '{"numRecords":5}'}

    def entry(*actions: dict[str, Any], **info: Any) -> bytes:
        return b"\n".join(json.dumps(action).encode() for action in ({"commitInfo": info}, *actions))

    good = {
        0: entry({"metaData": {}}, txnId="0", inCommitTimestamp=5),
        1: entry({"add": add}, txnId="1", readVersion=0, inCommitTimestamp=6),
        2: entry({"add": {**add, "path": "b", "baseRowId": 5}}, txnId="2", readVersion=1, inCommitTimestamp=7),
    }
    assert check_history(good).faults == []
    bad = {
        "the versions are": {0: good[0], 2: good[2]},
        "not one action": {**good, 2: b'{"add":{"path":"x"},"txn":{}}'},
        "read version 3": {**good, 2: entry(readVersion=3)},
        "not later than": {**good, 2: entry(inCommitTimestamp=6)},
        "more than once": {**good, 2: entry(txnId="1")},
        "added b twice": {**good, 2: entry({"add": {"path": "b"}}, {"add": {"path": "b"}})},
        "removed a twice": {**good, 2: entry({"remove": {"path": "a"}}, {"remove": {"path": "a"}})},
        "not live": {**good, 2: entry({"remove": {"path": "b"}})},
        "given twice": {**good, 2: entry({"add": {**add, "path": "b", "baseRowId": 4}})},
    }
    for fault, commits in bad.items():
        found = check_history(commits).faults
        assert any(fault in sentence for sentence in found), (fault, found)


def test_the_checker_of_snapshots_finds_faults(tmp_path: Path) -> None:
    at = Target(str(tmp_path / "t"), kind="iceberg")
    table = at.create(COLUMNS, properties={"format-version": "3"})
    for number in range(2):
        table.append(as_arrow([(number, number, "a")]))
    table.overwrite(as_arrow([(7, 7, "b")]))
    files = local_files(tmp_path / "t")
    good = newest_metadata(files, table.metadata_location.rpartition("/")[2])
    assert check_snapshots(good, files).faults == []
    first, second, third = good["snapshots"]
    data = next(name for name in files if name.endswith(".parquet"))
    damaged: dict[str, tuple[dict[str, Any], Any]] = {
        "a snapshot is there twice": ({"snapshots": [first, second, third, third]}, files),
        "a sequence number is there more than once": (
            {"snapshots": [first, {**second, "sequence-number": 1}, third]},
            files,
        ),
        "a sequence number is above the last one": ({"last-sequence-number": 2}, files),
        "row ids of two snapshots overlap": ({"snapshots": [first, {**second, "first-row-id": 0}, third]}, files),
        "the next row id was given already": ({"next-row-id": 2}, files),
        "a reference names no snapshot": ({"snapshots": [first, second]}, files),
        "the branch main is not the current snapshot": ({"current-snapshot-id": first["snapshot-id"]}, files),
        "the times of the snapshot-log are not in order": ({"last-updated-ms": 1}, files),
        "which is not there": ({}, {name: read for name, read in files.items() if name != data}),
        "its parent and its changes make": (
            {"snapshots": [first, {**second, "manifest-list": third["manifest-list"]}, third]},
            files,
        ),
        "says total-records 9": ({"snapshots": [first, second, {**third, "summary": {"total-records": "9"}}]}, files),
    }
    for fault, (members, there) in damaged.items():
        found = check_snapshots({**good, **members}, there).faults
        assert any(fault in sentence for sentence in found), (fault, found)


def test_the_checker_of_races_finds_what_main_lacks(tmp_path: Path) -> None:
    at = Target(str(tmp_path / "t"), kind="iceberg")
    table = at.create(COLUMNS)
    appended = [table.append(as_arrow([(number, number, "a")])) for number in range(2)]
    staged = table.append(as_arrow([(2, 2, "a")]), properties={"wap.id": "x"})
    files = local_files(tmp_path / "t")
    metadata = newest_metadata(files, table.metadata_location.rpartition("/")[2])
    notes: list[dict[str, Any]] = [
        {
            "kind": "append",
            "token": one.token,
            "version": one.version,
            "snapshot": one.snapshot_id,
            "aside": one is staged,
            "claim": {"removes": {}, "adds": [(number, number, "a")], "changes": {}},
        }
        for number, one in enumerate([*appended, staged])
    ]

    def lost(*more: dict[str, Any], current: int | None = appended[1].snapshot_id) -> list[str]:
        tally = Tally("checker", "commits")
        found = {**metadata, "current-snapshot-id": current, "refs": {}}
        check_snapshot_race(tally, found, [*notes, *more], files)
        assert not tally.doubled
        return tally.lost

    assert lost() == []
    assert lost(current=appended[0].snapshot_id) == [
        f"append: main does not lead to the snapshot {appended[1].snapshot_id}"
    ]
    moved = {"kind": "publish", "moved_to": [staged.snapshot_id]}
    assert lost(moved) == [f"publish: main does not lead to the snapshot {staged.snapshot_id}"]
    assert lost(moved, current=staged.snapshot_id) == []


_Rows = list[tuple[int, int, str]]


def _file(rows: _Rows) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS), out)
    return out.getvalue()


def _entry(token: str, *actions: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(action).encode() for action in ({"commitInfo": {"txnId": token}}, *actions))


def _add(path: str, count: int) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {"part": "a"}, "stats": json.dumps({"numRecords": count})}}


_ONE, _TWO, _NEW = [(1, 1, "a"), (2, 2, "a")], [(3, 3, "a")], [(4, 4, "b")]
_FILES = {"one": _file(_ONE), "two": _file(_TWO), "new": _file(_NEW), "again": _file([*_TWO, (1, 1, "a")])}
_COMMITS = {
    0: b'{"metaData":{}}',
    1: _entry("1", _add("one", 2)),
    2: _entry("2", _add("two", 1)),
    3: _entry("3", {"remove": {"path": "one"}}, {"remove": {"path": "two"}}, _add("new", 1)),
}


def _note(number: int, adds: _Rows, **removes: Any) -> dict[str, Any]:
    claim = {"removes": removes, "adds": adds, "changes": {}}
    return {"kind": "write", "token": str(number), "version": number, "claim": claim}


_NOTES = [_note(1, _ONE), _note(2, _TWO), _note(3, _NEW, parts=["a"])]


def _found(commits: dict[int, bytes], notes: list[dict[str, Any]]) -> Tally:
    tally = Tally("checker", "commits")
    check_race(tally, commits, notes, _FILES.__getitem__)
    return tally


def test_the_checker_of_races_is_content_with_a_serial_history() -> None:
    reads = [{"how": "time travel", "read": 2, "digest": digest([*_ONE, *_TWO])}]
    assert _found(_COMMITS, _NOTES + reads).faults == []


@pytest.mark.parametrize(
    ("commits", "notes", "kind", "sentence"),
    [
        ({**_COMMITS, 3: _entry("x")}, _NOTES, "lost", "write of version 3 is gone"),
        ({**_COMMITS, 2: _entry("2")}, _NOTES, "lost", "version 2, write: 1 rows are missing, such as 3"),
        ({**_COMMITS, 2: _entry("2", _add("again", 2))}, _NOTES, "doubled", "version 2 adds the row 1 again"),
        ({**_COMMITS, 3: _entry("2")}, _NOTES, "doubled", "the commit 2 is there more than once"),
        (
            {**_COMMITS, 3: _entry("3", {"remove": {"path": "one"}}, _add("new", 1))},
            _NOTES,
            "doubled",
            "version 3, write: 1 rows are there that must not be, such as 3",
        ),
        ({**_COMMITS, 2: _entry("2", _add("two", 7))}, _NOTES, "wrong", "version 2 counts 7 rows in two"),
        (_COMMITS, _NOTES[:2], "wrong", "version 3, None, was committed by nobody"),
        (_COMMITS, [*_NOTES[:2], {**_NOTES[2], "version": 2}], "wrong", "version 3 was acknowledged as 2"),
        (_COMMITS, [*_NOTES[:1], _note(2, [(3, 9, "a")]), _NOTES[2]], "wrong", "1 rows have other values, such as 3"),
        (_COMMITS, [*_NOTES, {"how": "x", "read": 2, "digest": ""}], "wrong", "a reader of x saw other rows in"),
        (_COMMITS, [*_NOTES, {"how": "x", "error": "E"}], "wrong", "a reader of x failed: E"),
        (_COMMITS, [*_NOTES, {"kind": "write", "error": "E"}], "wrong", "write failed: E"),
    ],
)
def test_the_checker_of_races_finds_faults(
    commits: dict[int, bytes], notes: list[dict[str, Any]], kind: str, sentence: str
) -> None:
    found = getattr(_found(commits, notes), kind)
    assert any(sentence in one for one in found), found


_DAYS = 86_400_000
_IDS = [uuid.UUID(int=number) for number in range(2)]
_VECTOR = [f"deletion_vector_{one}.bin" for one in _IDS]


def _deleted(path: str, day: float, by: str = "vacuum") -> dict[str, Any]:
    return {"deleted": path, "at": int(day * _DAYS), "by": by}


@pytest.mark.parametrize(
    ("note", "is_lost"),
    [
        # It went in version 2, on day 2.
        (_deleted("a b", 10.1), False),
        (_deleted("a b", 9.9), True),
        (_deleted("a b", 9.9, "vacuum early"), False),
        (_deleted("a b", 7.9, "vacuum early"), True),
        # It came back.
        (_deleted("back", 30), True),
        (_deleted("live", 30), True),
        (_deleted("live", 0, "append"), True),
        # Changes of day 2.
        (_deleted("_change_data/c", 9.9), True),
        (_deleted("_change_data/c", 10.1), False),
        # The vectors of a live file, and of one that went on day 3.
        (_deleted(_VECTOR[1], 30), True),
        (_deleted(_VECTOR[0], 10.9), True),
        (_deleted(_VECTOR[0], 11.1), False),
        (_deleted("never named", 0), False),
        (_deleted("_delta_log/1.json", 0), False),
    ],
)
def test_the_checker_of_deletions(note: dict[str, Any], is_lost: bool) -> None:
    def add(path: str, vector: int | None = None) -> dict[str, Any]:
        described = (
            None if vector is None else {"storageType": "u", "pathOrInlineDv": relative_descriptor(_IDS[vector])}
        )
        return {"add": {"path": path, "deletionVector": described}}

    commits = {
        1: _entry("1", add("a%20b"), add("back"), add("live", 0)),
        2: _entry(
            "2", {"remove": {"path": "a%20b"}}, {"remove": {"path": "back"}}, {"cdc": {"path": "_change_data/c"}}
        ),
        3: _entry("3", add("back"), {"remove": {"path": "live"}}, add("live", 1)),
    }
    tally = Tally("checker", "commits")
    taken = check_deletions(tally, commits, {number: number * _DAYS for number in commits}, [note])
    assert bool(tally.lost) == is_lost
    assert taken == ("vacuum" in note["by"] and not note["deleted"].startswith("_delta_log"))
    assert needed_files(commits) == {"back", "live", _VECTOR[1]}
