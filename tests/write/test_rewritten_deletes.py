"""Equality deletes that become positions or vectors, and position delete files that are joined: no row changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import RewriteDeletesResult, create_table, open_table
from deltaberg.errors import CommitConflictError, ConcurrentDeleteReadError, InvalidArgumentError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.change.write_deletes import write_vectors_of
from deltaberg.iceberg.location.directory_commit import DirectoryAttempt
from deltaberg.iceberg.maintain.rewriting import equality_conversion
from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeleteRewrite
from deltaberg.iceberg.maintain.rewriting.equality_conversion import EqualityConversion
from deltaberg.iceberg.maintain.rewriting.position_rewrite import PositionRewrite
from deltaberg.schema.arrow import with_columns
from deltaberg.table.verbs.table import operations_of
from tests.support.snapshot_log import faults_of_directory
from tests.write.small_iceberg import as_pyiceberg_reads

_COLUMNS = pa.schema([("id", pa.int32()), ("p", pa.int64()), ("kind", pa.string())])
_MODES = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}


def _rows(*ids: int, p: int | None = None) -> pa.Table:
    kinds = [None if one % 5 == 4 else "ab"[one % 2] for one in ids]
    return pa.table({"id": ids, "p": [one % 2 if p is None else p for one in ids], "kind": kinds}, _COLUMNS)


def _new(root: Path, version: int, *, granularity: str = "file", **more: Any) -> IcebergTable:
    properties = {**_MODES, "format-version": str(version), "write.delete.granularity": granularity}
    table: IcebergTable = create_table(root / "t", _COLUMNS, format="iceberg", properties=properties, **more)
    return table


def _ids(table: IcebergTable) -> list[int]:
    found = open_table(table.location, "iceberg", validate=True).scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def _deletes(table: IcebergTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.refresh().inspect("delete_files").to_pylist()
    return found


def _kinds(table: IcebergTable) -> Counter[tuple[int, str]]:
    return Counter((file["content"], file["file_format"]) for file in _deletes(table))


def _before_puts(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let something happen before each attempt to commit a rewrite, as long as there is something."""
    left, send = list(others), DirectoryAttempt.send

    def sent(attempt: DirectoryAttempt) -> Any:
        if left and b'"operation":"replace"' in attempt.data.replace(b" ", b""):
            left.pop(0)()
        return send(attempt)

    monkeypatch.setattr(DirectoryAttempt, "send", sent)


@pytest.mark.req("ICE-MNT-18")
@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_become_positions(tmp_path: Path, version: int) -> None:
    """Keys of one column and of two, nulls, and deletes of one partition and of all are compared as readers do."""
    table = _new(tmp_path, version, partition_by="p")
    table.append(_rows(*range(1, 11)))
    table.append(_rows(*range(11, 21)))
    table.delete("id IN (2, 3)")
    table.delete_by_keys(pa.table({"id": [3, 5, 99]}))
    table.delete_by_keys(pa.table({"id": [4, 6], "kind": pa.array([None, "b"])}))
    table.delete_by_keys(pa.table({"p": [1], "kind": pa.array([None], pa.string())}))
    # Rows that came after the keys stay.
    table.append(_rows(3, 4, 5))
    left = _ids(table)
    assert left == sorted([1, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20])
    planned = table.convert_equality_deletes(dry_run=True)
    assert (planned.dry_run, planned.removed_files, planned.data_files, planned.commit) == (True, 3, 4, None)
    assert len(_deletes(table)) == 5

    done = table.convert_equality_deletes()
    assert done.commit is not None
    assert done.commit.operation == "replace"
    assert _ids(table) == left
    assert set(_kinds(table)) == {(1, "PUFFIN" if version == 3 else "PARQUET")}
    assert done.data_files == done.added_files == 3
    # Both files of ids 1 to 10 had positions already, which are in the new files, too.
    assert done.removed_files == 5
    summary = (table.snapshot.summary or {}) if table.snapshot else {}
    assert (summary["removed-equality-delete-files"], summary["total-equality-deletes"]) == ("3", "0")
    sizes = [file["content_size_in_bytes"] or file["file_size_in_bytes"] for file in _deletes(table)]
    assert done.added_bytes == sum(sizes)
    if version == 2:
        assert sorted(row["id"] for row in as_pyiceberg_reads(table)) == left
    assert table.convert_equality_deletes() == RewriteDeletesResult()
    assert faults_of_directory(Path(table.location)) == []


@pytest.mark.req("ICE-MNT-18")
@pytest.mark.parametrize("version", [2, 3])
def test_evolved_columns_and_specs(tmp_path: Path, version: int) -> None:
    """A key column was renamed, promoted and dropped since; keys apply to files of several specs, or to one spec's."""
    table = _new(tmp_path, version, partition_by="p")
    table.append(_rows(1, 2, 3, 4))
    table.delete_by_keys(pa.table({"id": [1], "p": [1]}))
    table.alter().partition_by("p", "bucket(id, 4)").commit()
    table.append(_rows(1, 12, 13, 14))
    table.alter().rename("id", "number").widen("number", pa.int64()).commit()
    table.delete_by_keys(pa.table({"number": pa.array([2, 13], pa.int64())}))
    table.delete_by_keys(pa.table({"kind": pa.array([None], pa.string())}))
    table.alter().drop("kind").commit()
    table.alter().add("kind", pa.string()).commit()
    table.append(pa.table({"number": [2, 13], "p": [0, 1], "kind": ["x", None]}))
    left = table.scan(columns=["number", "kind"]).to_arrow().sort_by("number").to_pylist()
    assert [row["number"] for row in left] == [1, 2, 3, 12, 13]
    done = table.convert_equality_deletes()
    assert done.commit is not None
    found = open_table(table.location, "iceberg", validate=True)
    assert found.scan(columns=["number", "kind"]).to_arrow().sort_by("number").to_pylist() == left
    assert {file["content"] for file in _deletes(table)} == {1}


@pytest.mark.req("ICE-MNT-18")
def test_only_what_applies_to_nothing_goes(tmp_path: Path) -> None:
    """With a filter, equality deletes stay that also apply to other files; without one, idle ones go, too."""
    table = _new(tmp_path, 2, partition_by="p")
    table.append(_rows(1, 2, 3, 4))
    table.delete_by_keys(pa.table({"id": [1, 2]}))
    done = table.convert_equality_deletes("p = 0")
    assert (done.removed_files, done.added_files, _ids(table)) == (0, 1, [3, 4])
    assert _kinds(table) == {(1, "PARQUET"): 1, (2, "PARQUET"): 1}
    done = table.convert_equality_deletes("p = 1")
    assert (done.removed_files, done.added_files) == (0, 1)
    done = table.convert_equality_deletes()
    assert (done.removed_files, done.added_files, _ids(table)) == (1, 0, [3, 4])
    table.delete_by_keys(pa.table({"id": [77]}))
    assert table.convert_equality_deletes().removed_files == 1
    assert (_ids(table), _kinds(table)) == ([3, 4], {(1, "PARQUET"): 2})


@pytest.mark.req("ICE-MNT-18")
def test_keys_are_compared_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of one portion are held at a time; each finds its rows, and no row is counted twice."""
    table = _new(tmp_path, 3)
    table.append(_rows(*range(40)))
    for start in range(0, 20, 4):
        table.delete_by_keys(pa.table({"id": range(start, start + 5)}))
    found, portions = EqualityConversion._portions, list[set[int]]()

    def seen(self: EqualityConversion) -> Any:
        for numbers in found(self):
            portions.append(numbers)
            yield numbers

    monkeypatch.setattr(EqualityConversion, "_portions", seen)
    monkeypatch.setattr(equality_conversion, "_KEYS", 11)
    done = table.convert_equality_deletes()
    assert [len(numbers) for numbers in portions] == [2, 2, 1]
    assert (done.removed_files, done.added_files, _ids(table)) == (5, 1, list(range(21, 40)))
    assert [file["record_count"] for file in _deletes(table)] == [21]


@pytest.mark.req("ICE-MNT-17")
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_small_position_deletes_are_joined(tmp_path: Path, granularity: str) -> None:
    """Files of a partition are joined, as the table asks for: one of each data file, or one of each partition."""
    table = _new(tmp_path, 2, granularity="partition", partition_by="p")
    table.append(_rows(*range(20)))
    table.append(_rows(*range(20, 40)))
    for number in (0, 2, 4, 22, 24, 1):
        table.delete(f"id = {number}")
    table.alter().set({"write.delete.granularity": granularity}).commit()
    left = _ids(table)
    assert table.rewrite_position_delete_files(min_files=6).commit is None
    planned = table.rewrite_position_delete_files(dry_run=True)
    assert (planned.removed_files, planned.data_files, len(_deletes(table))) == (5, 2, 6)
    done = table.rewrite_position_delete_files()
    assert (done.removed_files, done.added_files, done.data_files) == (5, 2 if granularity == "file" else 1, 2)
    assert _ids(table) == left
    assert sorted(row["id"] for row in as_pyiceberg_reads(table)) == left
    named = [_paths_in(table, file) for file in _deletes(table) if file["record_count"] > 1]
    assert sorted(map(len, named)) == ([1, 1] if granularity == "file" else [2])
    assert table.rewrite_position_delete_files(min_files=2).commit is None
    assert table.rewrite_position_delete_files(rewrite_all=True).removed_files == len(named) + 1
    assert _ids(table) == left


def _paths_in(table: IcebergTable, file: dict[str, Any]) -> set[str]:
    return set(pq.read_table(file["file_path"].removeprefix("file:"))["file_path"].to_pylist())


@pytest.mark.req("ICE-MNT-17")
def test_deletes_of_files_that_are_gone_are_dropped(tmp_path: Path) -> None:
    """A file of which a part is about data files that are gone loses it; one that applies to nothing goes alone."""
    table = _new(tmp_path, 2, granularity="partition", partition_by="p")
    table.append(_rows(*range(0, 20, 2)))
    table.append(_rows(*range(20, 40, 2)))
    table.append(_rows(1, 3, 5))
    table.delete("id IN (0, 2, 22, 1)")
    table.delete("id IN (4, 24)")
    table.delete("id < 20 AND p = 0", strategy="copy-on-write")
    left = _ids(table)
    assert left == [3, 5, *(one for one in range(20, 40, 2) if one not in (22, 24))]
    live = set(table.refresh().inspect("data_files")["file_path"].to_pylist())
    assert any(_paths_in(table, file) - live for file in _deletes(table))
    done = table.rewrite_position_delete_files(min_files=2)
    assert (done.removed_files, done.added_files) == (2, 1)
    assert all(_paths_in(table, file) <= live for file in _deletes(table))
    assert _ids(table) == left
    table.delete("p = 1", strategy="copy-on-write")
    assert not [file for file in _deletes(table) if file["partition"]["p"] == 1] or (
        table.rewrite_position_delete_files().removed_files == 1
    )
    assert {file["partition"]["p"] for file in _deletes(table)} == {0}


@pytest.mark.req("ICE-MNT-17")
def test_a_vector_of_no_file_goes(tmp_path: Path) -> None:
    """Another writer left a deletion vector behind of a data file that is gone."""
    table = _new(tmp_path, 3)
    table.append(_rows(1, 2, 3))
    table.delete("id = 1")
    with table.transaction() as several:
        transaction = operations_of(several).transaction
        spec = transaction.metadata.specs[0]
        values = pa.StructArray.from_buffers(pa.struct([]), 1, [None])
        with transaction.operation("delete"):
            gone = [(f"{table.location}/data/gone.parquet", pa.array([0], pa.uint64()))]
            transaction.add_entries(write_vectors_of(transaction, spec, _no_columns(), values, gone))
    assert len(_deletes(table)) == 2
    assert table.rewrite_position_delete_files(dry_run=True).removed_files == 1
    assert table.rewrite_position_delete_files().removed_files == 1
    assert ([file["record_count"] for file in _deletes(table)], _ids(table)) == ([1], [2, 3])


def _no_columns() -> Any:
    from deltaberg.schema.types import Struct

    return Struct(())


@pytest.mark.req("ICE-MNT-17")
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_positions_become_vectors_after_an_upgrade(tmp_path: Path, granularity: str) -> None:
    """All position delete files go, those that a vector has superseded, too; the ids of rows stay."""
    table = _new(tmp_path, 2, granularity=granularity, partition_by="p")
    table.append(_rows(*range(20)))
    table.append(_rows(*range(20, 40)))
    table.delete("id IN (0, 2, 21, 23)")
    table.delete("id IN (4, 21)")
    table.alter().set({"format-version": "3"}).commit()
    table.append(_rows(50, 51))
    table.delete("id IN (6, 50)")
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    rows = open_table(table.location, "iceberg").scan(columns=columns).to_arrow().sort_by("id").to_pylist()
    done = table.rewrite_position_delete_files()
    assert done.removed_files > 0
    assert set(_kinds(table)) == {(1, "PUFFIN")}
    again = open_table(table.location, "iceberg", validate=True)
    assert again.scan(columns=columns).to_arrow().sort_by("id").to_pylist() == rows
    assert table.rewrite_position_delete_files().commit is None


@pytest.mark.req("ICE-MNT-23")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["equality", "position"])
def test_files_of_others_to_which_a_removed_delete_applies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    """A file that is older than it seems lands between plan and commit: the rewrite is planned anew."""
    table = _new(tmp_path, 2, granularity="partition", partition_by="p")
    table.append(_rows(1, 2, 3))
    if kind == "equality":
        table.delete_by_keys(pa.table({"id": [7, 1], "p": [1, 1]}))
    else:
        for number in (1, 3):
            table.append(_rows(number + 20, 1 + number + 30, p=1))
            table.delete(f"id IN ({number}, {number + 20})")
    if version == 3:
        table.alter().set({"format-version": "3"}).commit()
    left = _ids(table)
    plans: list[DeleteRewrite] = []
    rewrite = EqualityConversion if kind == "equality" else PositionRewrite
    begun = rewrite.write

    def planned(self: Any, keys: Any) -> Any:
        plans.append(self)
        return begun(self, keys)

    def land() -> None:
        """Add a file with the sequence number of the first snapshot, as a rewrite does."""
        with open_table(table.location, "iceberg").transaction() as several:
            several.append(_rows(7, 9))
            pending = operations_of(several).transaction.pending
            pending.added = [
                replace(files, entries=with_columns(files.entries, sequence_number=1)) for files in pending.added
            ]

    monkeypatch.setattr(rewrite, "write", planned)
    _before_puts(monkeypatch, land)
    if kind == "equality":
        table.convert_equality_deletes()
    else:
        table.rewrite_position_delete_files(min_files=2)
    assert len(plans) == 2
    # Only the key that was deleted by then hides a row of the new file.
    assert _ids(table) == sorted([*left, 9, *([] if kind == "equality" else [7])])
    assert {file["content"] for file in _deletes(table)} == {1}


@pytest.mark.req("ICE-MNT-23")
@pytest.mark.parametrize("version", [2, 3])
def test_a_rewrite_lands_before_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """It was planned before the keys were deleted, so that they apply to its files, too."""
    table = _new(tmp_path, version)
    table.append(_rows(1, 2, 3))
    table.append(_rows(4, 5, 6))
    early = open_table(table.location, "iceberg")
    table.delete_by_keys(pa.table({"id": [2, 6]}))
    _before_puts(monkeypatch, early.compact)
    done = table.convert_equality_deletes()
    assert (_ids(table), len(table.refresh().inspect("data_files"))) == ([1, 3, 4, 5], 1)
    assert (done.removed_files, done.added_files, done.data_files) == (1, 1, 1)


_OTHERS: dict[str, Callable[[IcebergTable], object]] = {
    "append": lambda table: table.append(_rows(2, 3, 90)),
    "delete rows": lambda table: table.delete("id IN (7, 13)"),
    "delete by keys": lambda table: table.delete_by_keys(pa.table({"id": [8, 14, 2]})),
    "compact": lambda table: table.compact(),
    "overwrite": lambda table: table.overwrite(_rows(70, 71)),
    "convert": lambda table: table.convert_equality_deletes(),
    "rewrite": lambda table: table.rewrite_position_delete_files(rewrite_all=True),
    "drop a partition": lambda table: table.delete("p = 1"),
}
_GONE = {"delete rows": {7, 13}, "delete by keys": {8, 14, 2}, "drop a partition": set(range(1, 20, 2))}


@pytest.mark.req("ICE-MNT-17")
@pytest.mark.req("ICE-MNT-18")
@pytest.mark.parametrize("verb", ["convert_equality_deletes", "rewrite_position_delete_files"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("other", _OTHERS)
def test_others_commit_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, version: int, other: str
) -> None:
    """Both stand: no deleted row comes back, and no row is lost."""
    table = _new(tmp_path, 2, granularity="partition", partition_by="p")
    table.append(_rows(*range(10)))
    table.append(_rows(*range(10, 20)))
    for number in (0, 10, 12):
        table.delete(f"id = {number}")
    if version == 3:
        table.alter().set({"format-version": "3"}).commit()
    table.delete_by_keys(pa.table({"id": [1, 4, 16]}))
    left = [one for one in range(20) if one not in (0, 10, 12, 1, 4, 16)]
    assert _ids(table) == left
    _before_puts(monkeypatch, lambda: _OTHERS[other](open_table(table.location, "iceberg")))
    more = {} if verb.startswith("convert") else {"rewrite_all": True}
    getattr(table, verb)(**more)
    wanted = {"overwrite": [70, 71], "append": [*left, 2, 3, 90]}.get(other)
    assert _ids(table) == sorted([one for one in left if one not in _GONE.get(other, ())] if wanted is None else wanted)
    assert faults_of_directory(Path(table.location)) == []


def test_a_rewrite_that_never_fits_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After ten plans the conflict is raised, and what was written is gone; a rollback is one at once."""
    table = _new(tmp_path, 3)
    table.append(_rows(*range(40)))
    table.delete_by_keys(pa.table({"id": [1]}))
    others = [lambda n=n: open_table(table.location, "iceberg").delete(f"id = {n}") for n in range(2, 30)]
    _before_puts(monkeypatch, *others)
    with pytest.raises(ConcurrentDeleteReadError, match="another commit deleted other rows of a file, which can"):
        table.convert_equality_deletes()
    assert _ids(table) == [0, *range(13, 40)]
    assert faults_of_directory(Path(table.location)) == []
    monkeypatch.undo()
    before = table.refresh().history()[1].snapshot_id
    _before_puts(
        monkeypatch, lambda: open_table(table.location, "iceberg").alter().rollback_to_snapshot(before).commit()
    )
    with pytest.raises(CommitConflictError, match="the snapshot that the change was planned on is no longer"):
        table.convert_equality_deletes()
    assert table.refresh().snapshot_id == before


@pytest.mark.parametrize("verb", ["convert_equality_deletes", "rewrite_position_delete_files"])
def test_a_rewrite_is_planned_anew_after_an_expiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """The snapshot that it was planned on is gone, and the rows of others stay."""
    table = _new(tmp_path, 2, granularity="partition", partition_by="p")
    for start in (0, 10):
        table.append(_rows(*range(start, start + 10)))
        table.delete(f"id = {start}")
    table.delete_by_keys(pa.table({"id": [1]}))

    def expire() -> None:
        other = open_table(table.location, "iceberg")
        other.append(_rows(90))
        other.expire_snapshots("9999-12-31", retain_last=1)

    _before_puts(monkeypatch, expire)
    more = {} if verb.startswith("convert") else {"rewrite_all": True}
    assert getattr(table, verb)(**more).commit is not None
    assert _ids(table) == [*range(2, 10), *range(11, 20), 90]
    assert faults_of_directory(Path(table.location)) == []


def test_states_and_arguments_that_are_refused(tmp_path: Path) -> None:
    table = _new(tmp_path, 2)
    assert table.convert_equality_deletes() == RewriteDeletesResult()
    assert table.rewrite_position_delete_files(dry_run=True) == RewriteDeletesResult(dry_run=True)
    first = table.append(_rows(1)).snapshot_id
    table.append(_rows(2))
    old = open_table(table.location, "iceberg", snapshot_id=first)
    for call in (old.convert_equality_deletes, old.rewrite_position_delete_files):
        with pytest.raises(InvalidArgumentError, match="snapshot"):
            call()
    with pytest.raises(InvalidArgumentError, match="min_files"):
        table.rewrite_position_delete_files(min_files=1)


_KEYS: list[tuple[str, ...]] = [("id",), ("id", "kind"), ("kind", "p"), ("p", "id")]


@pytest.mark.req("ICE-MNT-17")
@pytest.mark.req("ICE-MNT-18")
@pytest.mark.thorough
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_random_histories(tmp_path: Path, rng: Random, version: int, granularity: str, partitioned: bool) -> None:
    """Random deletes of all kinds, whose rows a list in Python has: rewrites leave them, and leave nothing to do."""
    table = _new(tmp_path, 2, granularity=granularity, **({"partition_by": "p"} if partitioned else {}))
    model: list[dict[str, Any]] = []
    for step in range(24):
        if step == 12 and version == 3:
            table.alter().set({"format-version": "3"}).commit()
        deed = rng.choice(["append", "delete", "keys", "keys", "convert", "rewrite", "compact"])
        if deed == "append" or not model:
            rows = _rows(*(rng.randrange(30) for _ in range(rng.randrange(1, 12))))
            table.append(rows)
            model += rows.to_pylist()
        elif deed == "delete":
            bound, rest = rng.randrange(30), rng.randrange(3)
            table.delete(f"id < {bound} AND id % 3 = {rest}")
            model = [row for row in model if not (row["id"] < bound and row["id"] % 3 == rest)]
        elif deed == "keys":
            names = rng.choice(_KEYS)
            chosen = _rows(*(rng.randrange(30) for _ in range(rng.randrange(1, 4)))).to_pylist()
            keys = [{name: row[name] for name in names} for row in chosen]
            table.delete_by_keys(pa.Table.from_pylist(keys, pa.schema([_COLUMNS.field(name) for name in names])))
            gone = {tuple(key.values()) for key in keys}
            model = [row for row in model if tuple(row[name] for name in names) not in gone]
        elif deed == "convert":
            table.convert_equality_deletes()
            assert {file["content"] for file in _deletes(table)} <= {1}
            assert table.convert_equality_deletes() == RewriteDeletesResult()
        elif deed == "rewrite":
            table.rewrite_position_delete_files(min_files=2, rewrite_all=rng.random() < 0.3)
            assert table.rewrite_position_delete_files(min_files=2) == RewriteDeletesResult()
        else:
            table.compact()
        found = open_table(table.location, "iceberg", validate=True).scan().to_arrow().to_pylist()
        assert Counter(map(_key, found)) == Counter(map(_key, model)), (step, deed)
    table.convert_equality_deletes()
    table.rewrite_position_delete_files(rewrite_all=True)
    assert Counter(map(_key, table.scan().to_arrow().to_pylist())) == Counter(map(_key, model))
    if version == 2:
        assert Counter(map(_key, as_pyiceberg_reads(table))) == Counter(map(_key, model))


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["id"], row["p"], row["kind"]
