"""Maintenance: what a table needs, in the safe order, and nothing of what is in order already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable, MaintenancePolicy, create_table
from deltaberg.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    InvalidArgumentError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.maintain.manifest_rewriting.regrouped_entries import RegroupedManifests
from deltaberg.iceberg.maintain.rewriting import delete_rewrite
from deltaberg.storage.local import LocalStorage
from deltaberg.table.change import changed_rows
from deltaberg.table.write.write import write_files
from tests.support.rows import ID, ids, ids_of
from tests.support.vacuums import DAY, Clock


def _table(root: Path, count: int, **arguments: Any) -> Any:
    table = create_table(root, ID, **arguments)
    for number in range(count):
        table.append(ids(number))
    return table


def _age(root: Path, days: int) -> None:
    """Let all files be some days older."""
    for path in root.rglob("*"):
        if path.is_file():
            time = path.stat().st_mtime - days * DAY
            os.utime(path, (time, time))


def _state(root: Path) -> list[tuple[Path, int]]:
    return [(path, path.stat().st_mtime_ns) for path in sorted(root.rglob("*"))]


def test_all_steps_and_nothing_twice(tmp_path: Path, clock: Clock) -> None:
    table = _table(tmp_path, 12)
    before = _state(tmp_path)
    planned = table.maintain()
    assert (planned.dry_run, planned.is_due, _state(tmp_path)) == (True, True, before)
    assert [one.step for one in planned.steps] == ["compact", "vacuum", "checkpoint", "cleanup_metadata"]
    assert [one.is_due for one in planned.steps] == [True, False, False, False]
    done = table.maintain(dry_run=False)
    assert planned["compact"].numbers.keys() == done["compact"].numbers.keys()
    for name in ("commits", "removed_files", "added_files", "removed_bytes"):
        assert planned["compact"].numbers[name] == done["compact"].numbers[name]
    assert (table.version, len(table.live_files), ids_of(table)) == (13, 1, list(range(12)))
    # A week later, the files that the compaction has removed may go; no version within the retention needs them.
    clock.ahead = 8 * DAY
    with_checkpoint = MaintenancePolicy(max_commits=3)
    assert [one.is_due for one in table.maintain(with_checkpoint).steps] == [False, True, True, False]
    planned, done = table.maintain(with_checkpoint), table.maintain(with_checkpoint, dry_run=False)
    assert planned["vacuum"].numbers == done["vacuum"].numbers
    assert done["vacuum"].numbers["deleted_files"] == 12
    assert done["checkpoint"].result.version == table.version == 15
    before = _state(tmp_path)
    assert not table.maintain(with_checkpoint, dry_run=False).is_due
    assert _state(tmp_path) == before
    assert ids_of(DeltaTable(tmp_path)) == list(range(12))
    assert not table.verify().findings


def test_the_log_is_cleaned_up(tmp_path: Path) -> None:
    """Commits do it with their checkpoints; here a commit follows that makes none."""
    table = _table(tmp_path, 11, properties={"delta.logRetentionDuration": "interval 3 days"})
    _age(tmp_path / "_delta_log", 9)
    planned = table.maintain(MaintenancePolicy(steps=["cleanup_metadata"]))
    assert planned["cleanup_metadata"].numbers["deleted_files"] == 10
    found = table.cleanup_metadata(dry_run=True)
    assert (len(found.files), found.first_version, found.dry_run) == (10, 10, True)
    done = table.maintain(dry_run=False)
    assert done["cleanup_metadata"].result.first_version == 10
    assert done["cleanup_metadata"].numbers == planned["cleanup_metadata"].numbers
    assert ids_of(DeltaTable(tmp_path)) == list(range(11))
    kept = _table(tmp_path / "kept", 11, properties={"delta.enableExpiredLogCleanup": "false"})
    _age(tmp_path / "kept/_delta_log", 90)
    (step,) = kept.maintain(MaintenancePolicy(steps=["cleanup_metadata"]), dry_run=False).steps
    assert (step.is_due, step.why) == (False, "delta.enableExpiredLogCleanup is false")
    assert len(list((tmp_path / "kept/_delta_log").glob("*.json"))) == 12


def test_an_iceberg_table_is_compacted_and_cleaned_up(tmp_path: Path) -> None:
    properties = {"history.expire.max-snapshot-age-ms": "1"}
    table = _table(tmp_path, 6, format="iceberg", properties=properties)
    (tmp_path / "data" / "lost.parquet").write_bytes(b"x")
    os.utime(tmp_path / "data" / "lost.parquet", (0, 0))
    assert repr(table.maintain()).startswith(
        "MaintenanceResult(would do: convert_equality_deletes: nothing to do; compact: commits 1, removed files 6,"
    )
    done = table.maintain(dry_run=False)
    steps = ["convert_equality_deletes", "compact", "rewrite_position_delete_files"]
    assert [one.step for one in done.steps] == [*steps, "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]
    assert done["expire_snapshots"].numbers["snapshots"] == 6
    assert done["remove_orphan_files"].numbers["deleted_files"] == 1
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    assert (done["compact"].result.removed_files, table.scan().files().num_rows, ids_of(table)) == (6, 1, [*range(6)])
    assert not table.maintain().is_due
    table.alter().set({"gc.enabled": "false"}).commit()
    assert "expire_snapshots: nothing to do (gc.enabled is not true" in repr(table.maintain())
    for policy in (MaintenancePolicy(steps=["compact", "vacuum"]), MaintenancePolicy(retention_hours=200)):
        with pytest.raises(UnsupportedFeatureError, match="no vacuum"):
            table.maintain(policy, dry_run=False)
    with pytest.raises(KeyError, match="vacuum"):
        done["vacuum"]


def test_manifests_are_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are as many small ones as there would have to be files; a conflict is told."""
    table = _table(tmp_path, 5, format="iceberg")
    policy = MaintenancePolicy(steps=["rewrite_manifests"])
    assert not table.maintain(MaintenancePolicy(steps=["rewrite_manifests"], min_files=6)).is_due
    planned, known = table.maintain(policy), table.snapshot_id
    assert planned["rewrite_manifests"].numbers == {"rewritten_manifests": 5, "added_manifests": 1, "entries": 5}
    assert table.refresh().snapshot_id == known

    def refuse(*_: Any) -> Any:
        raise ConcurrentDeleteReadError("another commit came first")

    with monkeypatch.context() as patch:
        patch.setattr(RegroupedManifests, "regroup", refuse)
        failed = table.maintain(policy, dry_run=False)["rewrite_manifests"]
        assert (failed.is_due, failed.why) == (True, "another commit came first")
    assert table.maintain(policy, dry_run=False)["rewrite_manifests"].numbers == planned["rewrite_manifests"].numbers
    assert not table.maintain(policy, dry_run=False).is_due
    assert ids_of(table) == [*range(5)]


@pytest.mark.parametrize("version", ["2", "3"])
def test_deletes_of_an_iceberg_table_are_put_in_order(tmp_path: Path, version: str) -> None:
    """A day of CDC by keys: afterwards no keys have to be compared, and a second run finds nothing to do."""
    properties = {"write.delete.granularity": "partition"}
    table = _table(tmp_path, 1, format="iceberg", properties=properties)
    table.overwrite(ids(*range(100, 200)))
    for number in range(100, 106):
        table.delete(f"id = {number}", strategy="merge-on-read")
    table.alter().set({"format-version": version}).commit()
    for number in range(150, 152):
        table.delete_by_keys(ids(number))
    # Too few rows are deleted for a file to be written anew, where their number is known.
    policy = MaintenancePolicy(max_deleted=0.2)
    planned = table.maintain(policy)
    assert (planned.dry_run, planned["convert_equality_deletes"].numbers["removed_files"]) == (True, 2)
    done = table.maintain(policy, dry_run=False)
    assert done["convert_equality_deletes"].numbers["removed_files"] >= 2
    assert not done["compact"].is_due
    assert table.inspect("delete_files")["content"].to_pylist() == [1]
    assert ids_of(table) == [one for one in range(106, 200) if one not in (150, 151)]
    assert not table.maintain(policy).is_due


def test_deletes_that_others_keep_from_being_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path, 1, format="iceberg")
    table.delete_by_keys(ids(0))

    def fail(*_: object, **__: object) -> None:
        raise ConcurrentAppendError("another commit was faster")

    monkeypatch.setattr(delete_rewrite, "rewrite_deletes", fail)
    done = table.maintain(MaintenancePolicy(steps=["convert_equality_deletes"]), dry_run=False)
    (step,) = done.steps
    assert (step.is_due, step.why, step.numbers) == (True, "another commit was faster", {})


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_conflict_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Literal["delta", "iceberg"]
) -> None:
    """The other steps go on."""
    table = _table(tmp_path, 5, format=format)

    def written(*arguments: Any, **named: Any) -> pa.Table:
        found = write_files(*arguments, **named)
        monkeypatch.undo()
        deltaberg.open_table(tmp_path).overwrite(ids(7))
        return found

    monkeypatch.setattr(changed_rows, "write_files", written)
    done = table.maintain(MaintenancePolicy(max_commits=1), dry_run=False)
    assert done["compact"].numbers["commits"] == 0
    assert done["compact"].why
    assert format == "iceberg" or done["checkpoint"].is_due
    assert ids_of(deltaberg.open_table(tmp_path)) == [7]


def test_a_step_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error names the step and those that are done; it can be repeated."""
    table = _table(tmp_path, 11)
    open_output = LocalStorage.open_output

    def failing(store: LocalStorage, path: str) -> Any:
        if "checkpoint" in path:
            raise StorageError("no space")
        return open_output(store, path)

    monkeypatch.setattr(LocalStorage, "open_output", failing)
    policy = MaintenancePolicy(max_commits=2)
    with pytest.raises(StorageError, match="no space") as raised:
        table.maintain(policy, dry_run=False)
    context = raised.value.context
    assert (context["maintained"], context["step"]) == ("compact, vacuum", "checkpoint")
    monkeypatch.undo()
    done = DeltaTable(tmp_path).maintain(policy, dry_run=False)
    assert [one.is_due for one in done.steps] == [False, False, True, False]


def test_what_a_policy_refuses(tmp_path: Path) -> None:
    """Nothing is done before all of it is known to be right."""
    table = _table(tmp_path, 6)
    wrong: list[dict[str, Any]] = [
        {"steps": ["clean"]},
        {"steps": "clean"},
        {"steps": {"compact": 1}},
        {"steps": []},
        {"min_files": 1},
        {"max_deleted": 2},
        {"target_file_size": 0},
        {"max_commits": 0},
    ]
    for arguments in wrong:
        with pytest.raises(InvalidArgumentError, match=next(iter(arguments)).rstrip("s")):
            MaintenancePolicy(**arguments)
    for hours in (1, -1, "a"):
        with pytest.raises(InvalidArgumentError, match=r"retention_hours must be|files would be deleted"):
            table.maintain(MaintenancePolicy(retention_hours=hours), dry_run=False)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="must be of the type MaintenancePolicy"):
        table.maintain({"min_files": 3})
    with pytest.raises(InvalidArgumentError, match="the table was opened with version, and cannot be written"):
        DeltaTable(tmp_path, version=3).maintain()
    assert table.refresh().version == 6
