"""Deep clones: files of their own, and what is copied again (Part 4 of the requirements, DL-OPS-07)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import CloneResult, DeltaTable
from deltaberg.delta.log.commit import put_entry
from deltaberg.delta.maintain.cloning import clone
from deltaberg.delta.maintain.cloning.clone_files import is_copy
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.transaction import log_change
from deltaberg.errors import (
    CommitConflictError,
    CorruptTableError,
    DataFileNotFoundError,
    TableExistsError,
)
from deltaberg.storage.local import LocalOutput
from deltaberg.table.maintain.cloning import copies
from tests.support.clones import note_copies, with_vectors
from tests.support.rows import ids, ids_of
from tests.support.vacuums import FEED, MANY, VECTORS, age, files, new_table


@pytest.mark.req("DL-OPS-07")
def test_a_deep_clone_has_files_and_vectors_of_its_own(tmp_path: Path) -> None:
    table = with_vectors(tmp_path / "t")
    expected = ids_of(table)
    result = table.clone(tmp_path / "clone")
    copied = files(tmp_path / "clone")
    assert (result.copied_files, len(copied)) == (3, 3)
    assert result.copied_bytes == sum((tmp_path / "clone" / path).stat().st_size for path in copied)
    shutil.rmtree(tmp_path / "t")
    cloned = DeltaTable(tmp_path / "clone")
    assert ids_of(cloned) == expected
    assert cloned.verify(depth="footers").is_clean
    assert cloned.vacuum(0, dry_run=False, enforce_retention_duration=False, untracked_hours=0).deleted_files == 0
    assert files(tmp_path / "clone") == copied


@pytest.mark.req("DL-OPS-07")
def test_a_deep_clone_that_is_repeated_copies_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, root = with_vectors(tmp_path / "t", **FEED), tmp_path / "clone"
    table.clone(root)
    copied = note_copies(monkeypatch)
    again = table.clone(root)
    assert (again.copied_files, again.commit and again.commit.committed, copied) == (0, False, [])
    table.append(ids(-2))
    result = table.clone(root)
    assert (result.copied_files, result.removed_files, len(copied)) == (1, 0, 1)
    # Another vector of a file is copied without the file.
    table.delete("id % 3 = 1", strategy="merge-on-read")
    copied.clear()
    result = table.clone(root)
    assert result.copied_files == len(copied) == 1
    assert copied[0].endswith(".bin")
    cloned = DeltaTable(root)
    assert ids_of(cloned) == ids_of(table)
    feed = cloned.changes(cloned.version).to_arrow()
    kinds = {"delete" if number >= 0 else "insert" for number in feed["id"].to_pylist()}
    assert kinds == {"delete"}
    assert set(feed["_change_type"].to_pylist()) == {"delete"}
    # Columns, properties and domains follow.
    table.alter().add("v", pa.int64()).set({"owner": "ada", "delta.feature.domainMetadata": "supported"}).commit()
    table.overwrite(pa.table({"id": [1], "v": [2]}))
    table.checkpoint()
    with table.transaction() as transaction:
        transaction.set_domain("own", "7")
    table.clone(root)
    cloned.refresh()
    assert cloned.schema.names == ["id", "v"]
    assert cloned.scan().to_arrow().to_pylist() == [{"id": 1, "v": 2}]
    assert (cloned.properties["owner"], cloned.domain_metadata) == ("ada", {"own": "7"})
    # And so they do where the source goes back: nothing is named again that a vacuum may take.
    old = cloned.live_files.column("path").to_pylist()
    table.restore(3)
    copied.clear()
    table.clone(root)
    assert ids_of(cloned.refresh()) == ids_of(table)
    assert len(copied) == 3
    removed = set(cloned.tombstones.column("path").to_pylist())
    assert set(old) <= removed
    assert not removed & set(cloned.live_files.column("path").to_pylist())


@pytest.mark.req("DL-OPS-07")
def test_what_others_did_to_a_clone_is_given_up_only_if_asked(tmp_path: Path) -> None:
    table, root = new_table(tmp_path / "t", **VECTORS), tmp_path / "clone"
    for number in range(4):
        table.append(ids(number))
    table.clone(root)
    # A vacuum and a compaction change no row.
    cloned = DeltaTable(root)
    cloned.compact()
    cloned.vacuum(dry_run=False)
    table.append(ids(10))
    assert table.clone(root).copied_files == 5
    cloned.refresh().append(ids(99))
    with pytest.raises(CommitConflictError, match="others changed it since version") as raised:
        table.clone(root)
    assert "replace=True" in str(raised.value)
    assert ids_of(DeltaTable(root)) == [0, 1, 2, 3, 10, 99]
    assert table.clone(root, replace=True).removed_files == 1
    assert ids_of(DeltaTable(root)) == [0, 1, 2, 3, 10]
    other = new_table(tmp_path / "other")
    other.append(ids(5))
    with pytest.raises(TableExistsError, match="no deep clone of this one"):
        other.clone(root)
    other.clone(root, replace=True)
    assert ids_of(DeltaTable(root)) == [5]
    assert "there was nothing to do" in repr(other.clone(root))
    # Its own history stays, and it is another table still.
    assert DeltaTable(root).metadata.id == cloned.metadata.id


class _KilledError(BaseException):
    """Stands for the end of the process."""


def _killed(*_: object) -> None:
    raise _KilledError


def _kill(table: DeltaTable, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """End a clone after its files were copied."""
    with monkeypatch.context() as patched:
        patched.setattr(log_change, "put_entry", _killed)
        with pytest.raises(_KilledError):
            table.clone(root)


@pytest.mark.req("DL-OPS-07")
@pytest.mark.parametrize("is_new", [True, False])
def test_a_clone_that_is_killed_and_run_again_copies_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    table, root = with_vectors(tmp_path / "t"), tmp_path / "clone"
    if not is_new:
        table.clone(root)
        table.append(ids(-2))
        table.append(ids(-3))
    copied = note_copies(monkeypatch)
    _kill(table, root, monkeypatch)
    assert len(copied) == (3 if is_new else 2)
    copied.clear()
    result = table.clone(root)
    # The size of a vector's file is recorded nowhere, so that it is copied again.
    assert [path for path in copied if not path.endswith(".bin")] == []
    assert (result.found_files, result.copied_files) == ((2, 1) if is_new else (2, 0))
    assert ids_of(DeltaTable(root)) == ids_of(table)
    assert len(files(root)) == (3 if is_new else 5)


@pytest.mark.req("DL-OPS-07")
def test_old_leftovers_are_not_relied_upon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, root = new_table(tmp_path / "t"), tmp_path / "clone"
    table.append(ids(1))
    _kill(table, root, monkeypatch)
    (left,) = files(root)
    age(root / left, 0.6)
    assert table.clone(root).copied_files == 1
    cloned = DeltaTable(root)
    assert cloned.live_files.column("path").to_pylist() != [left]
    age(root / left, 8)
    assert cloned.vacuum(dry_run=False).deleted_files == 1
    assert ids_of(cloned) == [1]
    # The next clone knows the copy by its name.
    assert table.clone(root).copied_files == 0


@pytest.mark.req("DL-OPS-07")
def test_of_two_clones_at_a_time_one_wins_and_none_deletes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, root = with_vectors(tmp_path / "t"), tmp_path / "clone"
    put, winner = put_entry, list[CloneResult]()

    def beaten(*arguments: Any) -> Any:
        if not winner:
            winner.append(CloneResult("", None))
            winner[0] = DeltaTable(tmp_path / "t").clone(root)
        return put(*arguments)

    monkeypatch.setattr(log_change, "put_entry", beaten)
    with pytest.raises(TableExistsError, match="there is a table already"):
        table.clone(root)
    assert winner[0].commit is not None
    assert ids_of(DeltaTable(root)) == ids_of(table)
    assert DeltaTable(root).verify().is_clean


def _append_to(root: Path) -> object:
    return DeltaTable(root).append(ids(77))


def _vacuum(root: Path) -> object:
    return DeltaTable(root).vacuum(dry_run=False)


@pytest.mark.req("DL-OPS-07")
@pytest.mark.parametrize(("meanwhile", "wins"), [(_vacuum, True), (_append_to, False)])
def test_a_commit_to_the_clone_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Path], object], wins: bool
) -> None:
    table, root = new_table(tmp_path / "t"), tmp_path / "clone"
    table.append(ids(1))
    table.clone(root)
    table.append(ids(2))
    planned, done = recorded_adds, list[object]()

    def interrupted(*arguments: Any) -> Any:
        if not done:
            done.append(meanwhile(root))
        return planned(*arguments)

    monkeypatch.setattr(clone, "recorded_adds", interrupted)
    copied = note_copies(monkeypatch)
    if wins:
        assert table.clone(root).found_files == 1
    else:
        with pytest.raises(CommitConflictError, match="version 1 was committed meanwhile"):
            table.clone(root)
    assert len(copied) == 1
    assert ids_of(DeltaTable(root)) == ([1, 2] if wins else [1, 77])


@pytest.mark.req("DL-OPS-07")
def test_copies_that_a_vacuum_takes_before_the_commit_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, root = new_table(tmp_path / "t"), tmp_path / "clone"
    table.append(ids(1))
    planned = recorded_adds

    def lose(*arguments: Any) -> Any:
        for path in files(root):
            (root / path).unlink()
        return planned(*arguments)

    monkeypatch.setattr(clone, "recorded_adds", lose)
    with pytest.raises(DataFileNotFoundError, match="1 files that were copied do not exist any more"):
        table.clone(root)
    assert not (root / "_delta_log").exists()


@pytest.mark.req("DL-OPS-07")
def test_a_deep_clone_of_a_shallow_one_and_hostile_names(tmp_path: Path) -> None:
    root = tmp_path / "a b%20+ü"
    table = deltaberg.create_table(
        str(root), pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"], properties=VECTORS
    )
    values = ["a/b", "ü", None, "%20", "x y"]
    table.append(pa.table({"id": list(range(3000)), "p": values * 600}))
    table.delete("id % 2 = 1 AND p = 'ü'", strategy="merge-on-read")
    table.clone(tmp_path / "shallow", shallow=True)
    DeltaTable(tmp_path / "shallow").clone(tmp_path / "deep")
    table.clone(tmp_path / "direct")
    expected = table.scan().to_arrow().sort_by("id").to_pylist()
    shutil.rmtree(root)
    for place in ("deep", "direct"):
        cloned = DeltaTable(tmp_path / place)
        assert cloned.scan().to_arrow().sort_by("id").to_pylist() == expected
        # Some engines take partition values from directories.
        assert all("p=" in path for path in files(tmp_path / place) if path.endswith(".parquet"))
        assert cloned.verify(depth="footers").is_clean


@pytest.mark.req("DL-OPS-07")
def test_between_stores_and_inside_of_one(tmp_path: Path) -> None:
    table = with_vectors(tmp_path / "t")
    first, second = (f"memory://clones-{tmp_path.name}/{name}" for name in ("first", "second"))
    table.clone(first)
    there = DeltaTable(first)
    there.clone(second)
    DeltaTable(second).clone(tmp_path / "back")
    for place in (first, second, tmp_path / "back"):
        assert ids_of(DeltaTable(place)) == ids_of(table)
        assert DeltaTable(place).verify().is_clean


def test_a_file_of_another_size_is_notnote_copies(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(ids(1))
    (path,) = files(tmp_path / "t")
    with (tmp_path / "t" / path).open("ab") as file:
        file.write(b"x")
    with pytest.raises(CorruptTableError, match="and the table says"):
        table.clone(tmp_path / "clone")
    assert not (tmp_path / "clone").exists()
    (tmp_path / "t" / path).unlink()
    with pytest.raises(DataFileNotFoundError, match="a file that the table names is gone"):
        table.clone(tmp_path / "clone")


def test_copies_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is copied has the name of a copy only when all of it is there."""
    table, root = new_table(tmp_path / "t"), tmp_path / "clone"
    table.append(MANY)
    monkeypatch.setattr("deltaberg.table.maintain.cloning.file_copy._PIECE", 100)
    seen = list[set[str]]()
    write = LocalOutput.write

    def watched(self: LocalOutput, data: bytes) -> int:
        seen.append(files(root))
        return write(self, data)

    monkeypatch.setattr(LocalOutput, "write", watched)
    table.clone(root)
    assert len(seen) > 10
    assert not any(is_copy(path) and ".tmp" not in path for found in seen for path in found)
    assert copies.name_of_copy("a", "b") == copies.name_of_copy("a", "b") != copies.name_of_copy("b", "b")


def test_what_is_no_clone_is_not_written_over(tmp_path: Path) -> None:
    """A table may have the properties of a clone without being it."""
    table = new_table(tmp_path / "t")
    table.append(ids(1))
    table.clone(tmp_path / "clone")
    properties = DeltaTable(tmp_path / "clone").properties
    deltaberg.write_table(tmp_path / "other", ids(99), properties=properties)
    with pytest.raises(TableExistsError, match="which is no deep clone of this one"):
        table.clone(tmp_path / "other")
    assert ids_of(DeltaTable(tmp_path / "other")) == [99]


def test_what_others_say_of_a_clone_is_not_undone(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", **{"delta.feature.domainMetadata": "supported"})
    table.append(ids(1))
    table.clone(tmp_path / "clone")
    with DeltaTable(tmp_path / "clone").transaction() as transaction:
        transaction.set_domain("app.note", "kept")
    table.append(ids(2))
    with pytest.raises(CommitConflictError, match="others changed it"):
        table.clone(tmp_path / "clone")
    assert DeltaTable(tmp_path / "clone").domain_metadata["app.note"] == "kept"


@pytest.mark.req("DL-OPS-07")
def test_a_clone_whose_source_begins_to_track_rows_goes_on(tmp_path: Path) -> None:
    """The files that the clone has already get row ids of its own."""
    table, root = with_vectors(tmp_path / "t"), tmp_path / "clone"
    table.clone(root)
    tracked = {"delta.enableRowTracking": "true"}
    table.alter().set(tracked).commit()
    assert table.clone(root).copied_files == 0
    table.append(ids(-1, -2))
    table.clone(root)
    cloned = DeltaTable(root, validate=True)
    assert ids_of(cloned) == ids_of(table)
    row_ids = cloned.scan(columns=["_metadata.row_id"]).to_arrow()["_metadata"].combine_chunks().field("row_id")
    assert (row_ids.null_count, len(row_ids.unique())) == (0, len(row_ids))
    assert cloned.verify().is_clean
    # What a later state of the source has no need of stays, and begins again.
    table.drop_feature("rowTracking")
    table.clone(root)
    assert "rowTracking" not in DeltaTable(root).active_features
    table.alter().set(tracked).commit()
    table.clone(root)
    assert ids_of(DeltaTable(root, validate=True)) == ids_of(table)
