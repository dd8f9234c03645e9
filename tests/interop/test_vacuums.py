"""Tables that we vacuum are read by delta-spark, deltalake and polars, and vacuumed by delta-spark, and the reverse."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pytest

from deltaberg import CleanupResult, DeltaTable, col, create_table
from deltaberg.delta.maintain.cleaning.vacuum_candidates import VacuumCandidates
from tests.interop.judged import same
from tests.support.judge import Judge
from tests.support.rows import ids_of

_WEEKS = 21 * 86_400


def _aged(root: Path) -> None:
    """Make all files of a table three weeks old, also those of its log, as if nothing had happened since."""
    then = time.time() - _WEEKS
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def _files(root: Path) -> set[str]:
    found = (path for path in root.rglob("*") if path.suffix in (".parquet", ".bin"))
    return {str(path.relative_to(root)) for path in found if "_delta_log" not in path.parts}


#: Partition values that are written otherwise in paths, and again otherwise in the log.
_VALUES = ["a b", "a%20b", "ü", "x=y/z", "#?", None, "+"]
#: What deltalake's change feed finds: it does not decode what the log says of paths.
_PLAIN_VALUES = ["a", "b", "c", "d", "e", None, "f"]
_BOTH = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
_VECTORS = {**_BOTH, "delta.enableDeletionVectors": "true"}
#: Tables, as far as the readers of each kind go.
_KINDS: dict[str, dict[str, str]] = {
    "plain": _BOTH,
    "vectors": _VECTORS,
    "mapped": {**_VECTORS, "delta.columnMapping.mode": "name", "delta.checkpointPolicy": "v2"},
}
_every_kind = pytest.mark.parametrize("kind", _KINDS)


def _made(root: Path, kind: str) -> tuple[DeltaTable, int]:
    """Make a table of which all but the last versions are three weeks old, and return it with the oldest of these.

    Files of every kind were removed before the retention, and within it.
    """
    how: Any = "copy-on-write" if kind == "plain" else "merge-on-read"
    values = _PLAIN_VALUES if kind == "plain" else _VALUES

    def rows(first: int, count: int = 70) -> pa.Table:
        return pa.table({"id": range(first, first + count), "p": [values[number % 7] for number in range(count)]})

    table: DeltaTable = create_table(root, rows(0).schema, partition_by="p", properties=_KINDS[kind])
    table.append(rows(0))
    table.append(pa.table({"id": range(1_000, 9_000), "p": values[:1] * 8_000}))
    table.delete("id % 10 = 3 AND id < 500", strategy=how)
    table.delete("id % 2 = 1 AND id > 500", strategy=how)
    table.delete("id % 3 = 1 AND id > 500", strategy=how)
    table.update({"id": "id + 100"}, "id = 4", strategy="copy-on-write")
    table.delete(col("p") == values[3])
    table.compact(max_deleted=0)
    oldest = table.refresh().version
    (root / "p=left over").mkdir()
    (root / "p=left over" / "orphan.parquet").write_bytes(b"PAR1")
    _make_old(root)
    table = DeltaTable(root)
    table.checkpoint()
    table.append(rows(100))
    table.delete("id = 101", strategy=how)
    table.update({"id": "id + 1000"}, "id = 120", strategy="copy-on-write")
    table.delete(col("p") == values[4])
    table.compact(max_deleted=0)
    table.append(rows(200, 14))
    return table.refresh(), oldest


def _make_old(root: Path) -> None:
    """Make a table three weeks old, also by what its log says."""
    then = int((time.time() - _WEEKS) * 1000)
    for path in (root / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            for kind, name in (("remove", "deletionTimestamp"), ("commitInfo", "timestamp")):
                if kind in action:
                    action[kind][name] = then
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for path in [*(root / "_delta_log").glob("*.crc"), *(root / "_delta_log").glob("*checkpoint*")]:
        path.unlink()
    _aged(root)


#: What a reader finds, by the version and what is read of it.
_Seen = dict[tuple[str, Any], pa.Table]


def _ours(root: Path, versions: list[int], first: int) -> _Seen:
    states = {}
    for version in versions:
        rows = DeltaTable(root, version=version).scan(columns=["id", "p", "_metadata.row_id"]).to_arrow()
        states["rows", version] = rows.sort_by("id")
    states["changes", first] = DeltaTable(root).changes(first).to_arrow()
    return states


def _of_delta_spark(judge: Judge, root: Path, versions: list[int], first: int) -> _Seen:
    ids = "_metadata.row_id, _metadata.row_commit_version"
    states = {
        ("rows", version): judge.sql(f"SELECT *, {ids} FROM delta.`{root}` VERSION AS OF {version} ORDER BY id")
        for version in versions
    }
    changes = f"SELECT id, p, _change_type, _commit_version FROM table_changes_by_path('{root}', {first})"
    states["changes", first] = judge.sql(changes)
    return states


def _of_deltalake(root: Path, versions: list[int], first: int) -> _Seen:
    found = {}
    for version in versions:
        found["rows", version] = pa.table(deltalake.DeltaTable(root, version=version).to_pyarrow_table()).sort_by("id")
    found["changes", first] = pa.table(deltalake.DeltaTable(root).load_cdf(starting_version=first))
    return found


def _of_polars(root: Path, versions: list[int], _: int) -> _Seen:
    return {
        ("rows", version): pl.scan_delta(str(root), version=version).collect().sort("id").to_arrow()
        for version in versions
    }


def _same(after: _Seen, before: _Seen) -> None:
    assert after.keys() == before.keys()
    for key, rows in before.items():
        same(after[key], rows)
        assert len(rows), key


def _local_readers(kind: str) -> list[Callable[[Path, list[int], int], _Seen]]:
    """Return the readers that know the features of a table; deltalake reads vectors by polars alone."""
    return [_ours, *([_of_deltalake] if kind == "plain" else []), *([] if kind == "mapped" else [_of_polars])]


def _vacuumed(table: DeltaTable, how: str, oldest: int, root: Path) -> CleanupResult:
    before = _files(root)
    done = table.vacuum(
        dry_run=False, full=False if how == "lite" else None, keep_versions=[2] if how == "kept" else ()
    )
    gone = set(done.files["path"].to_pylist())
    assert gone == before - _files(root)
    assert len(gone) > 10 if how != "kept" else gone
    assert ("p=left over/orphan.parquet" in gone) == (how != "lite")
    assert table.refresh().version > oldest
    return done


@pytest.mark.slow
@pytest.mark.req("DL-CLEAN-09", "DL-VAC-02", "DL-VAC-08", "DL-VAC-13")
@_every_kind
@pytest.mark.parametrize("how", ["full", "lite", "kept"])
def test_retained_versions_are_read_as_before(tmp_path: Path, kind: str, how: str) -> None:
    """Rows with their ids and the change feed, by ours, deltalake and polars."""
    root = tmp_path / "t"
    table, oldest = _made(root, kind)
    versions = [*([2] if how == "kept" else []), *range(oldest, table.version + 1)]
    readers = _local_readers(kind)
    before = [read(root, versions, oldest + 1) for read in readers]
    _vacuumed(table, how, oldest, root)
    for read, seen in zip(readers, before, strict=True):
        found = read(root, versions, oldest + 1)
        _same(found, seen)
    assert table.verify(depth="footers").is_clean
    # What deltalake would delete now is what ours has left, for a reason.
    if kind == "plain" and how == "full":
        assert deltalake.DeltaTable(root).vacuum(full=True) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.req("DL-CLEAN-09", "DL-VAC-02", "DL-VAC-08", "DL-VAC-09", "DL-VAC-13")
@_every_kind
@pytest.mark.parametrize("how", ["full", "lite", "kept"])
def test_beside_delta_spark(tmp_path: Path, judge: Judge, kind: str, how: str) -> None:
    """It reads retained versions as before, its vacuum right after ours deletes nothing of them, and ours after its."""
    root = tmp_path / "t"
    table, oldest = _made(root, kind)
    # It refuses to read a version whose commit is older than the retention, though all of its files are there.
    versions = list(range(oldest + 1, table.version + 1))
    before = _of_delta_spark(judge, root, versions, oldest + 1)
    _vacuumed(table, how, oldest, root)
    _same(_of_delta_spark(judge, root, versions, oldest + 1), before)
    left = _files(root)
    judge.sql(f"VACUUM delta.`{root}` {'LITE' if how == 'lite' else 'FULL'}")
    gone = left - _files(root)
    if how != "kept":
        assert gone == set()
    else:
        # It does not know which versions we keep: what it takes is what a vacuum of ours without them would take.
        assert len(gone) > 1
    _same(_of_delta_spark(judge, root, versions, oldest + 1), before)
    assert table.refresh().vacuum(dry_run=False, full=False if how == "lite" else None).deleted_files == 0
    assert table.verify(depth="footers").is_clean
    # The history of both goes on.
    judge.sql(f"DELETE FROM delta.`{root}` WHERE id = 205")
    judge.sql(f"VACUUM delta.`{root}` FULL")
    assert table.refresh().vacuum(dry_run=False).deleted_files == 0
    assert 205 not in ids_of(table.refresh())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.req("DL-CLEAN-09", "DL-VAC-08", "DL-VAC-09")
@pytest.mark.parametrize("lite", [False, True])
def test_with_delta_spark(tmp_path: Path, judge: Judge, lite: bool) -> None:
    path = tmp_path / "t"
    judge.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true', "
        "'delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    for first in (0, 1000, 2000):
        judge.sql(f"INSERT INTO delta.`{path}` SELECT id FROM range({first}, {first + 1000}, 1, 1)")
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id % 3 = 1 AND id < 1500")
    judge.sql(f"UPDATE delta.`{path}` SET id = id + 10000 WHERE id = 2000")
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id < 1000")
    _aged(path)
    (path / "orphan.parquet").write_bytes(b"PAR1")
    table = DeltaTable(path)
    remaining = ids_of(table)
    ours = table.vacuum(0, dry_run=False, full=False if lite else None)
    assert ours.deleted_files > 1
    assert (path / "orphan.parquet").exists()
    left = _files(path)
    # Theirs comes right after ours, and finds nothing that ours has overlooked, or should have left.
    judge.sql(f"VACUUM delta.`{path}` {'LITE' if lite else ''} RETAIN 0 HOURS")
    assert _files(path) - {"orphan.parquet"} == left - {"orphan.parquet"}
    assert judge.sql(f"SELECT id FROM delta.`{path}` ORDER BY id")["id"].to_pylist() == remaining
    assert ids_of(table.refresh()) == remaining
    assert sorted(pl.scan_delta(str(path)).collect()["id"].to_list()) == remaining
    code = "[row.asDict() for row in spark.sql(query).select('operation', 'operationParameters').collect()]"
    history = judge.run(code, query=f"DESCRIBE HISTORY delta.`{path}`")
    assert [entry["operation"] for entry in history[:4]] == ["VACUUM END", "VACUUM START"] * 2
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 2500")
    judge.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    assert table.refresh().vacuum(0, dry_run=False).deleted_files == 0
    assert ids_of(table.refresh()) == [one for one in remaining if one != 2500]
    assert table.verify(depth="footers").findings == ()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.req("DL-CLEAN-09", "DL-VAC-08")
@pytest.mark.parametrize("lite", [False, True])
def test_a_restore_by_delta_spark_beside_ours(
    tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch, lite: bool
) -> None:
    """What it brings back between the search and the deletions stays, and the rest of what was found goes."""
    root = tmp_path / "t"
    properties = {"delta.enableDeletionVectors": "true"}
    table = create_table(root, pa.schema([("id", pa.int64())]), properties=properties)
    for first in (0, 10, 20):
        table.append(pa.table({"id": range(first, first + 10)}))
    table.delete("id >= 20")
    table.delete("id = 3", strategy="merge-on-read")
    remaining, version = ids_of(table), table.version
    before = _files(root)
    table.delete("id = 4", strategy="merge-on-read")
    table.delete("id >= 10")
    # What was removed in this very millisecond is retained.
    time.sleep(0.01)
    search, candidates = VacuumCandidates.find, set[str]()

    def find(self: VacuumCandidates) -> pa.Table:
        files = search(self)
        candidates.update(files["path"].to_pylist())
        judge.sql(f"RESTORE TABLE delta.`{root}` TO VERSION AS OF {version}")
        return files

    monkeypatch.setattr(VacuumCandidates, "find", find)
    done = table.vacuum(
        0, dry_run=False, full=False if lite else None, enforce_retention_duration=False, untracked_hours=0
    )
    gone = set(done.files["path"].to_pylist())
    # A data file and a vector come back, and the file of the ids from 20 on does not.
    assert len(candidates & before) == 3
    assert len(gone) == 1
    assert gone < candidates
    assert ids_of(table.refresh()) == remaining
    assert judge.sql(f"SELECT id FROM delta.`{root}` ORDER BY id")["id"].to_pylist() == remaining
    assert table.verify(depth="footers").is_clean
