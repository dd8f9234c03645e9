"""Rewriting manifests: entry by entry before and after, which are rewritten, and what happens beside other commits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import CommitPolicy, IcebergTable, create_table
from deltaberg.errors import ConcurrentDeleteReadError, CorruptMetadataError, InvalidArgumentError
from deltaberg.iceberg.maintain.manifest_rewriting import regrouped_entries
from deltaberg.iceberg.manifests.fields import EXISTING, WHOLE_ENTRIES
from deltaberg.iceberg.scan.source import IcebergSource
from tests.support.below_verbs import begin
from tests.write.small_iceberg import as_pyiceberg_reads

_COLUMNS = pa.schema([("id", pa.int32()), ("p", pa.int32()), ("name", pa.string())])
_Entries = dict[tuple[str, Any], dict[str, Any]]


def _rows(*ids: int, p: int | None = None) -> pa.Table:
    parts = [number % 3 for number in ids] if p is None else [p] * len(ids)
    return pa.table({"id": ids, "p": parts, "name": [f"n{number}" for number in ids]}, _COLUMNS)


def _table(root: Path, version: str = "3", **more: Any) -> IcebergTable:
    more = {"partition_by": ["p"], **more}
    properties = {"format-version": version, **more.pop("properties", {})}
    found: IcebergTable = create_table(root / "t", _COLUMNS, format="iceberg", properties=properties, **more)
    return found


def _source(table: IcebergTable) -> IcebergSource:
    return begin(table).source


def _entries(table: IcebergTable) -> _Entries:
    """Return all live entries of a snapshot, whole, by what tells them apart."""
    source = _source(table)
    entries: _Entries = {}
    for one in source.reader.read(source.manifests.to_pylist(), WHOLE_ENTRIES):
        for row in one.table.drop_columns(["position", "manifest"]).to_pylist():
            key = row["file_path"], row["content_offset"]
            if row["status"] != 2:
                assert key not in entries
                entries[key] = {**row, "spec": one.spec.spec_id}
    return entries


def _rows_of(table: IcebergTable) -> list[dict[str, Any]]:
    columns = ["id", "p", "name"]
    if table.format_version == 3:
        columns += ["_row_id", "_last_updated_sequence_number"]
    found: list[dict[str, Any]] = table.scan(columns=columns).to_arrow().sort_by("id").to_pylist()
    return found


def _listed(table: IcebergTable, *names: str) -> list[tuple[Any, ...]]:
    rows = _source(table).manifests.select(names).to_pylist()
    return [tuple(row.values()) for row in rows]


@pytest.mark.req("ICE-MNT-16", half="writer")
@pytest.mark.parametrize("version", ["1", "2", "3", "1 to 2", "2 to 3"])
def test_entries_before_and_after(tmp_path: Path, version: str) -> None:
    """Everything that an entry holds stays, but for its status; deleted entries go, and kinds stay apart."""
    old, _, new = version.partition(" to ")
    table = _table(tmp_path, old)
    for number in range(4):
        table.append(_rows(*range(9 * number, 9 * number + 9)))
    table.delete("p = 1 AND id < 9")
    table.delete("id = 20", strategy="copy-on-write")
    if old != "1":
        table.delete("id IN (3, 12)", strategy="merge-on-read")
        table.delete_by_keys(pa.table({"id": pa.array([6], pa.int32())}))
    # Then the specs are told apart, too.
    table.alter().partition_by("p", "bucket(4, id)").commit()
    for number in range(3):
        table.append(_rows(100 + number, 110 + number))
    if new:
        table.alter().set({"format-version": new}).commit()
        table.append(_rows(200))
    before, rows, kinds = _entries(table), _rows_of(table), set(_listed(table, "content", "partition_spec_id"))
    assert any(one[0] for one in _listed(table, "deleted_files_count"))
    planned = table.rewrite_manifests(dry_run=True)
    done = table.rewrite_manifests()
    assert (done.rewritten_manifests, done.added_manifests) == (planned.rewritten_manifests, planned.added_manifests)
    after = _entries(table)
    assert {one["status"] for one in after.values()} <= {EXISTING, 1}
    assert {key: {**one, "status": EXISTING} for key, one in before.items()} == {
        key: {**one, "status": EXISTING} for key, one in after.items()
    }
    # Each kind is one manifest now, without deleted entries.
    listed = _listed(table, "content", "partition_spec_id", "deleted_files_count")
    assert sorted(listed) == sorted((*kind, 0) for kind in kinds)
    for states in _listed(table, "added_files_count", "added_snapshot_id"):
        assert (states[0] == 0) is (states[1] == table.snapshot_id)
    assert _rows_of(table) == rows
    assert table.inspect("snapshots")["operation"].to_pylist()[-1] == "replace"
    plain = [{name: row[name] for name in _COLUMNS.names} for row in rows]
    if old == "1" or version == "2 to 3":
        # pyiceberg reads no equality deletes.
        assert old != "1" or as_pyiceberg_reads(table) == plain
    assert table.rewrite_manifests().commit is None
    table.append(_rows(300))
    assert len(_rows_of(table)) == len(rows) + 1


def test_what_the_snapshot_says(tmp_path: Path) -> None:
    """The words are those of the reference; a manifest without others of its kind stays."""
    table = _table(tmp_path, "2")
    for number in range(5):
        table.append(_rows(number))
    table.delete("id = 2", strategy="copy-on-write")
    table.append(_rows(9))
    table.delete_by_keys(pa.table({"id": pa.array([4], pa.int32())}))
    before = table.snapshot
    table.rewrite_manifests(properties={"why": "nightly"})
    assert before is not None
    assert table.snapshot is not None
    summary = table.snapshot.summary
    assert {name: summary[name] for name in summary if "manifests" in name or name.startswith("entries")} == {
        "manifests-created": "1",
        "manifests-replaced": "5",
        "manifests-kept": "1",
        "entries-processed": "5",
    }
    assert (summary["operation"], summary["why"], summary["changed-partition-count"]) == ("replace", "nightly", "0")
    assert {name: summary[name] for name in summary if name.startswith("total")} == {
        name: before.summary[name] for name in before.summary if name.startswith("total")
    }


def _sizes(table: IcebergTable) -> list[int]:
    return [one for (one,) in _listed(table, "manifest_length")]


def test_which_are_rewritten(tmp_path: Path) -> None:
    """Small ones, if there are enough; large ones are divided; and what is in order stays unless all are asked for."""
    table = _table(tmp_path, properties={"commit.manifest-merge.enabled": "false"})
    for number in range(6):
        table.append(_rows(number, p=number))
    length = max(_sizes(table))
    assert table.rewrite_manifests(min_manifests=7, dry_run=True).rewritten_manifests == 0
    planned = table.rewrite_manifests(min_manifests=6, dry_run=True)
    assert (planned.rewritten_manifests, planned.added_manifests, planned.entries) == (6, 1, 6)
    assert (planned.commit, len(table.snapshots)) == (None, 6)
    # Of the target size each, and each with a partition of its own.
    assert table.rewrite_manifests(target_size=length).rewritten_manifests == 0
    # All are asked for; each becomes one of as many entries.
    done = table.rewrite_manifests(target_size=length, rewrite_all=True)
    assert (done.rewritten_manifests, done.added_manifests) == (6, 6)
    assert _listed(table, "existing_files_count") == [(1,)] * 6
    done = table.rewrite_manifests()
    assert (done.rewritten_manifests, done.added_manifests) == (6, 1)
    # One that is much too large is divided.
    half = table.rewrite_manifests(target_size=_sizes(table)[0] // 2)
    assert (half.rewritten_manifests, half.added_manifests) in {(1, 2), (1, 3)}
    with pytest.raises(InvalidArgumentError, match="no partition spec 7"):
        table.rewrite_manifests(spec_id=7)
    assert table.rewrite_manifests(spec_id=0, rewrite_all=True).rewritten_manifests == half.added_manifests
    for wrong in ({"min_manifests": 1}, {"target_size": 0}, {"rewrite_all": 1}, {"spec_id": "0"}, {"dry_run": None}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            table.rewrite_manifests(**wrong)


@pytest.mark.parametrize("nulls", [False, True])
def test_manifests_of_the_same_partitions(tmp_path: Path, nulls: bool) -> None:
    """Where each holds all partitions, they are sorted, so that a filter reads one of them; ends may be shared."""
    table = _table(tmp_path, properties={"commit.manifest-merge.enabled": "false"})
    for number in range(6):
        ids = [*range(8 * number, 8 * number + 8)]
        parts = [None if nulls and at == 0 else at for at in range(8)]
        table.append(pa.table({"id": ids, "p": parts, "name": ["x"] * 8}, _COLUMNS))
    size = min(_sizes(table))
    planned = table.rewrite_manifests(target_size=size, dry_run=True)
    assert planned.rewritten_manifests == 6
    done = table.rewrite_manifests(target_size=size)
    source = _source(table)
    ranges = []
    for row in source.manifests.to_pylist():
        (found,) = source.reader.read([row], WHOLE_ENTRIES)
        values = [-1 if one["p"] is None else one["p"] for one in found.table["partition"].to_pylist()]
        assert values == sorted(values)
        ranges.append((values[0], values[-1]))
    assert len(ranges) == done.added_manifests
    assert all(one[1] <= other[0] for one, other in pairwise(ranges))
    assert table.rewrite_manifests(target_size=size).rewritten_manifests == 0
    # A late file of an old partition is no reason to write the others again.
    table.append(_rows(100, p=3))
    assert table.rewrite_manifests(target_size=size, min_manifests=9).rewritten_manifests == 0


def test_entries_that_memory_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sorted on disk, and give the same manifests."""
    table = _table(tmp_path, partition_by=["name", "p"], properties={"commit.manifest-merge.enabled": "false"})
    for number in range(7):
        table.append(_rows(*range(11 * number, 11 * number + 11)))
    before = _entries(table)
    monkeypatch.setattr(regrouped_entries, "_SORTED", 1)
    monkeypatch.setattr(regrouped_entries, "_BATCH", 3)
    monkeypatch.setattr(regrouped_entries, "_DECODED", 1)
    done = table.rewrite_manifests(target_size=sum(_sizes(table)) // 3)
    assert done.entries == len(before) == 77
    source = _source(table)
    values = []
    for row in source.manifests.to_pylist():
        (found,) = source.reader.read([row], WHOLE_ENTRIES)
        values += [(one["name"], one["p"]) for one in found.table["partition"].to_pylist()]
        assert len(found.table) <= -(-77 // done.added_manifests)
    assert values == sorted(values)
    assert _entries(table) == {key: {**one, "status": EXISTING} for key, one in before.items()}


def _meanwhile(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Let other commits come between the plan and the commit, as long as there are any."""
    left, regroup = list(changes), regrouped_entries.RegroupedManifests.regroup

    def after(self: Any, *arguments: Any) -> Any:
        found = regroup(self, *arguments)
        if left:
            left.pop(0)()
        return found

    monkeypatch.setattr(regrouped_entries.RegroupedManifests, "regroup", after)


def test_files_that_are_added_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written again, and their manifest stays."""
    table = _table(tmp_path)
    for number in range(4):
        table.append(_rows(number))
    _meanwhile(monkeypatch, lambda: IcebergTable(table.location).append(_rows(7, 8)))
    done = table.rewrite_manifests()
    assert done.commit is not None
    assert (done.rewritten_manifests, done.commit.retries, done.commit.committed) == (4, 1, True)
    assert table.snapshot is not None
    assert table.snapshot.summary["manifests-kept"] == "1"
    assert [row["id"] for row in _rows_of(table)] == [0, 1, 2, 3, 7, 8]
    # The new manifest was written once, and the list of the attempt that came too late is gone.
    folder = tmp_path / "t/metadata"
    assert len([*folder.glob("*-m*.avro")]) == 6
    assert len([*folder.glob("snap-*.avro")]) == 6


def test_a_table_that_is_upgraded_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are written again with what the later version knows, such as row ids that were given meanwhile."""
    table = _table(tmp_path, "2")
    for number in range(4):
        table.append(_rows(number))

    def change() -> None:
        other = IcebergTable(table.location)
        other.alter().set({"format-version": "3"}).commit()
        other.append(_rows(9))

    _meanwhile(monkeypatch, change)
    table.rewrite_manifests()
    then = IcebergTable(table.location, snapshot_id=table.snapshots[-2].snapshot_id)
    assert _rows_of(table) == _rows_of(then)
    assert {one["first_row_id"] for one in _entries(table).values()} != {None}


def test_a_manifest_that_goes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewrite is planned anew, and where that is not allowed it has left nothing."""
    table = _table(tmp_path)
    for number in range(4):
        table.append(_rows(number))
    _meanwhile(monkeypatch, lambda: IcebergTable(table.location).delete("id = 1"))
    done = table.rewrite_manifests()
    assert (done.rewritten_manifests, done.entries) == (3, 3)
    assert [row["id"] for row in _rows_of(table)] == [0, 2, 3]
    table.append(_rows(5))

    def replace() -> None:
        other = IcebergTable(table.location)
        other.overwrite(_rows(6))
        other.append(_rows(7))

    _meanwhile(monkeypatch, replace, replace)
    folder = tmp_path / "t/metadata"
    with pytest.raises(ConcurrentDeleteReadError, match="replaced 2 manifests"):
        table.rewrite_manifests(policy=CommitPolicy(retries=1))
    other = IcebergTable(table.location)
    assert [row["id"] for row in _rows_of(other)] == [6, 7]
    named = set(other.inspect("all_manifests")["path"].to_pylist())
    assert {str(path) for path in folder.glob("*-m*.avro")} == named
    assert len([*folder.glob("snap-*.avro")]) == len(other.snapshots)


@pytest.mark.parametrize("lost", ["read", "written"])
def test_a_lost_entry_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """Nothing is committed, and nothing stays of it, if there are other files than the list says."""
    table = _table(tmp_path)
    for number in range(4):
        table.append(_rows(number))
    before = sorted((tmp_path / "t").rglob("*"))
    name = "merged_entries" if lost == "read" else "_divided"
    known_one = getattr(regrouped_entries, name)

    def losing(*arguments: Any) -> Any:
        found = known_one(*arguments)
        return found.slice(1) if lost == "read" else (one.slice(1) for one in found)

    monkeypatch.setattr(regrouped_entries, name, losing)
    with pytest.raises(CorruptMetadataError, match=r"hold . live files, .* counts 4, and 3 were"):
        table.rewrite_manifests()
    assert sorted((tmp_path / "t").rglob("*")) == before
    monkeypatch.undo()
    assert table.refresh().rewrite_manifests().entries == 4


def test_branches(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(3):
        table.append(_rows(number))
    table.alter().create_branch("audit").commit()
    main = table.snapshot_id
    done = table.rewrite_manifests(branch="audit")
    assert (done.rewritten_manifests, table.refresh().snapshot_id) == (3, main)
    assert len(IcebergTable(table.location, ref="audit").inspect("manifests")) == 1
    empty = _table(tmp_path / "empty")
    assert empty.rewrite_manifests(rewrite_all=True).commit is None


@pytest.mark.parametrize(("bytes_", "entries"), [(12, 100), (100, 6)])
def test_manifests_are_decoded_together_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, bytes_: int, entries: int
) -> None:
    """Of manifests of four bytes and two entries, three have what a limit allows, and a larger one comes alone."""
    monkeypatch.setattr(regrouped_entries, "_DECODED", bytes_)
    monkeypatch.setattr(regrouped_entries, "_DECODED_ENTRIES", entries)

    def row(size: int, count: int) -> dict[str, Any]:
        return {
            "manifest_length": size,
            "added_files_count": count - 1,
            "existing_files_count": None,
            "deleted_files_count": 1,
        }

    rows = [row(4, 2)] * 7 + [row(200, 200), row(4, 2)]
    assert [len(part) for part in regrouped_entries._parts(rows)] == [3, 3, 1, 1, 1]
    # One byte and one entry more than the limits.
    assert [len(part) for part in regrouped_entries._parts([row(4, 2)] * 2 + [row(5, 3)])] == [2, 1]
