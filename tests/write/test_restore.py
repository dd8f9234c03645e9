"""Restore: a table is as it was, and nothing that may not fall has fallen (Part 4 of the requirements, DL-OPS)."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable, IcebergTable
from deltaberg.delta.maintain import restore
from deltaberg.errors import (
    CommitConflictError,
    ConstraintViolationError,
    DataFileNotFoundError,
    InvalidArgumentError,
    MetadataChangedError,
    StorageError,
    VersionNotFoundError,
)
from deltaberg.storage.local import LocalStorage
from deltaberg.table.maintain.verifying import presence
from deltaberg.table.maintain.verifying.presence import Presence
from deltaberg.table.verbs.table import operations_of
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.vacuums import DAY, FEED, MANY, VECTORS, files, new_table

_TRACKED = {"delta.enableRowTracking": "true"}
_IDS = ["id", "_metadata.row_id", "_metadata.row_commit_version"]


def _tracked(table: Any, **state: Any) -> list[dict[str, Any]]:
    opened = DeltaTable(table.location, **state)
    rows: list[dict[str, Any]] = opened.scan(columns=_IDS).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.req("DL-OPS-01")
def test_rows_are_as_at_the_version_and_as_its_vector_says(tmp_path: Path) -> None:
    table = new_table(tmp_path, **VECTORS, **FEED)
    table.append(MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.delete("id % 3 = 1", strategy="merge-on-read")
    table.append(ids(-1))
    before, stored = ids_of(DeltaTable(tmp_path, version=2)), files(tmp_path)
    result = table.restore(2)
    assert ids_of(table) == ids_of(DeltaTable(tmp_path)) == before
    assert (result.state, result.restored_files, result.removed_files) == (2, 1, 2)
    assert result.commit is not None
    assert result.commit.version == table.version == 5
    assert files(tmp_path) == stored
    info = table.history()[0].info
    assert (info["operation"], info["operationParameters"]) == ("RESTORE", {"version": "2", "timestamp": "null"})
    metrics = {name: int(value) for name, value in info["operationMetrics"].items()}
    sizes = table.live_files.column("size").to_pylist()
    assert metrics == {
        "numRestoredFiles": 1,
        "restoredFilesSize": sizes[0],
        "numRemovedFiles": 2,
        "removedFilesSize": result.removed_bytes,
        "numOfFilesAfterRestore": 1,
        "tableSizeAfterRestore": sizes[0],
    }
    feed = table.changes(5).to_arrow()
    kinds = dict(zip(feed["id"].to_pylist(), feed["_change_type"].to_pylist(), strict=True))
    assert kinds == {
        -1: "delete",
        **{number: "insert" for number in range(3000) if number % 2 == 0 and number % 3 == 1},
    }
    table.restore(4)
    assert ids_of(table) == ids_of(DeltaTable(tmp_path, version=4))


def test_the_newest_version_is_restored_by_no_commit(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    result = table.restore(1)
    assert result.commit is not None
    assert (result.commit.committed, table.version) == (False, 1)
    assert repr(result) == "RestoreResult(to 1, 0 files restored, 0 files removed, there was nothing to do)"


def test_a_time_is_that_of_the_newest_version_then(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"delta.enableInCommitTimestamps": "true"})
    table.append(ids(1))
    table.append(ids(2))
    then = table.history()[1].timestamp
    result = table.restore(then)
    assert (result.state, ids_of(table)) == (1, [1])
    assert table.history()[0].info["operationParameters"]["version"] == "null"
    with pytest.raises(VersionNotFoundError, match="is before the first commit"):
        table.restore("1999-01-01")


def test_a_dry_run_says_what_would_be_done(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    table.overwrite(ids(2, 3))
    result = table.restore(1, dry_run=True)
    assert (result.dry_run, result.commit, result.restored_files, result.removed_files) == (True, None, 1, 1)
    assert (DeltaTable(tmp_path).version, ids_of(table)) == (2, [2, 3])


def _removed(builder: DeltaBuilder, days: float) -> DeltaTable:
    """Return a table of which version 1 has removed a file some days ago."""
    old, new = (builder.add(ids(number), path=f"{number}.parquet") for number in (1, 2))
    builder.create(ID, old, new)
    then = int((time.time() - days * DAY) * 1000)
    builder.commit(builder.remove(old, deletionTimestamp=then))
    return DeltaTable(builder.root)


@pytest.mark.req("DL-OPS-02")
@pytest.mark.parametrize("days", [8, 7 - 0.5 / 24])
def test_what_a_vacuum_may_take_is_not_restored(builder: DeltaBuilder, days: float) -> None:
    table = _removed(builder, days)
    with pytest.raises(InvalidArgumentError, match=r"a vacuum may be deleting them: '1\.parquet'") as raised:
        table.restore(0)
    assert "unsafe_expired=True" in str(raised.value)
    assert table.restore(0, unsafe_expired=True).restored_files == 1
    assert ids_of(table) == [1, 2]


@pytest.mark.req("DL-OPS-02")
def test_a_clock_that_is_behind_restores_no_more(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _removed(builder, 10)
    behind = time.time_ns() - int(7 * DAY * 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: behind)
    with pytest.raises(InvalidArgumentError, match="a vacuum may be deleting"):
        table.restore(0)


@pytest.mark.req("DL-OPS-02")
def test_what_no_vacuum_takes_is_restored(builder: DeltaBuilder) -> None:
    assert _removed(builder, 6.9).restore(0).restored_files == 1
    assert ids_of(DeltaTable(builder.root)) == [1, 2]


@pytest.mark.req("DL-OPS-02")
def test_a_tombstone_that_a_checkpoint_dropped_has_expired(builder: DeltaBuilder) -> None:
    table = _removed(builder, 8)
    table.checkpoint()
    with pytest.raises(InvalidArgumentError, match="a vacuum may be deleting"):
        DeltaTable(builder.root).restore(0)


@pytest.mark.req("DL-OPS-02")
def test_files_that_are_gone_are_left_out_on_request_only(builder: DeltaBuilder) -> None:
    table = _removed(builder, 1)
    (builder.root / "1.parquet").unlink()
    for dry_run in (True, False):
        with pytest.raises(DataFileNotFoundError, match="1 files of version 0 do not exist any more"):
            table.restore(0, dry_run=dry_run)
    result = table.restore(0, ignore_missing_files=True)
    assert (result.missing_files, result.restored_files) == (("1.parquet",), 0)
    assert ids_of(DeltaTable(builder.root)) == [2]


@pytest.mark.req("DL-OPS-02")
def test_a_lost_vector_does_not_bring_rows_back(tmp_path: Path) -> None:
    table = new_table(tmp_path, **VECTORS)
    table.append(MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.overwrite(ids(7))
    for vector in tmp_path.rglob("*.bin"):
        vector.unlink()
    with pytest.raises(DataFileNotFoundError, match="1 files of version 2 do not exist any more"):
        table.restore(2)
    result = table.restore(2, ignore_missing_files=True)
    assert len(result.missing_files) == 1
    assert ids_of(DeltaTable(tmp_path)) == []


@pytest.mark.req("DL-OPS-02")
def test_an_answer_of_the_store_that_says_nothing_ends_it(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _removed(builder, 1)

    def head(*_: object) -> Presence:
        raise StorageError("503 Slow Down")

    monkeypatch.setattr(LocalStorage, "head", head)
    for missing in (False, True):
        with pytest.raises(StorageError, match="503"):
            table.restore(0, ignore_missing_files=missing)
    assert DeltaTable(builder.root).version == 1


@pytest.mark.req("DL-OPS-02")
def test_many_files_are_looked_for_in_a_listing(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "_ASKED_AT_MOST", 0)
    table = _removed(builder, 1)
    (builder.root / "1.parquet").unlink()
    with pytest.raises(DataFileNotFoundError, match=r"1 files of version 0 do not exist any more: '1.parquet'"):
        table.restore(0)


@pytest.mark.req("DL-OPS-03")
def test_schema_properties_and_domains_return_and_marks_do_not_fall(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name", "delta.constraints.small": "id < 100", "deltaberg.keepVersions": "1"}
    table: Any = deltaberg.create_table(
        str(tmp_path), pa.schema([("id", pa.int64()), ("a", pa.string())]), properties=mapped, cluster_by=["id"]
    )
    table.append(pa.table({"id": [1], "a": ["x"]}))
    table.alter().add("b", pa.int32()).unset("delta.constraints.small").set(
        {"owner": "ada", "deltaberg.keepVersions": "1, 2"}
    ).commit()
    table.alter().cluster_by([]).commit()
    table.append(pa.table({"id": [200], "a": ["y"], "b": pa.array([1], pa.int32())}))
    table.alter().drop("a").commit()
    greatest, protocol = table.properties["delta.columnMapping.maxColumnId"], table.protocol
    table.restore(1)
    assert table.schema.names == ["id", "a"]
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "a": "x"}]
    assert table.check_constraints == {"small": "id < 100"}
    assert "owner" not in table.properties
    assert table.clustering_columns == DeltaTable(tmp_path, version=1).clustering_columns != []
    assert table.properties["delta.columnMapping.maxColumnId"] == greatest
    assert table.properties["deltaberg.keepVersions"] == "1, 2"
    assert table.protocol == protocol
    assert table.metadata.id == DeltaTable(tmp_path, version=0).metadata.id
    with pytest.raises(ConstraintViolationError, match="violates the CHECK constraint small: id=100"):
        table.append(pa.table({"id": [100], "a": ["z"]}))
    table.alter().add("b", pa.int32()).commit()
    assert table.schema.get("b").id > int(greatest)


@pytest.mark.req("DL-OPS-03")
@pytest.mark.parametrize("forgets", [False, True])
def test_no_id_is_given_twice_after_a_column_mapping_ended(tmp_path: Path, forgets: bool) -> None:
    mode, highest = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
    table: Any = deltaberg.create_table(tmp_path, {"id": pa.int64()}, properties={mode: "name"})
    table.append(ids(1))
    table.alter().add("a", pa.int64()).commit()
    table.alter().drop("a").set({mode: "none"}).commit()
    if forgets:
        # delta-spark removes the property when column mapping ends.
        with operations_of(table.transaction()).transaction as transaction:
            transaction.set_metadata(table.metadata.with_properties({highest: None}))
    assert (highest in table.properties) is not forgets
    table.restore(1)
    assert (table.properties[mode], table.properties[highest]) == ("name", "2")
    table.alter().add("b", pa.int64()).commit()
    assert (table.schema.get("b").id, ids_of(DeltaTable(tmp_path, validate=True))) == (3, [1])


@pytest.mark.req("DL-OPS-03")
@pytest.mark.parametrize("step", [1, -2])
def test_identity_values_go_on_behind_those_that_were_given(tmp_path: Path, step: int) -> None:
    fields = {
        "delta.identity.start": "5",
        "delta.identity.step": str(step),
        "delta.identity.allowExplicitInsert": "false",
    }
    schema = pa.schema([pa.field("n", pa.int64(), metadata=fields), ("id", pa.int64())])
    table: Any = deltaberg.create_table(str(tmp_path), schema)
    table.append(ids(1))
    table.append(ids(2, 3))
    table.restore(1)
    table.append(ids(4))
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == sorted([5, 5 + 3 * step])


@pytest.mark.req("DL-OPS-03")
@pytest.mark.parametrize("step", [1, -2])
@pytest.mark.parametrize("again", [False, True], ids=["dropped", "replaced"])
def test_identity_values_of_a_column_that_was_gone_go_on(tmp_path: Path, step: int, again: bool) -> None:
    """The mark goes with the column, and comes back from the log."""
    fields = {
        "delta.identity.start": "5",
        "delta.identity.step": str(step),
        "delta.identity.allowExplicitInsert": "false",
    }
    schema = pa.schema([pa.field("n", pa.int64(), metadata=fields), ("id", pa.int64())])
    table: Any = deltaberg.create_table(str(tmp_path), schema, properties={"delta.columnMapping.mode": "name"})
    for number in range(3):
        table.append(ids(number))
    table.alter().drop("n").commit()
    if again:
        table.alter().add("n", pa.int64()).commit()
    table.restore(1)
    table.append(ids(4))
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == sorted([5, 5 + 3 * step])


@pytest.mark.req("DL-OPS-03")
def test_a_protocol_stays_as_high_as_it_is(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    table.alter().set(VECTORS).commit()
    protocol = table.protocol
    table.restore(1)
    assert (table.protocol, "delta.enableDeletionVectors" in table.properties) == (protocol, False)


def test_a_feature_that_was_dropped_comes_back_with_the_version(tmp_path: Path) -> None:
    table: Any = deltaberg.create_table(str(tmp_path), ids().schema, cluster_by=["id"])
    table.append(ids(1))
    table.alter().cluster_by([]).drop_feature("clustering").commit()
    assert "clustering" not in table.features
    table.restore(1)
    assert "clustering" in table.features
    assert [len(path) for path in table.clustering_columns] == [1]


@pytest.mark.req("DL-OPS-03")
def test_timestamps_in_commits_go_on(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    table.alter().set({"delta.enableInCommitTimestamps": "true"}).commit()
    table.restore(0)
    assert table.properties["delta.inCommitTimestampEnablementVersion"] == "2"
    assert "inCommitTimestamp" in table.history()[0].info


@pytest.mark.req("DL-OPS-04")
@pytest.mark.req("DL-RT-24")
def test_ids_of_rows_return(tmp_path: Path) -> None:
    table = new_table(tmp_path, **_TRACKED)
    table.append(ids(1, 2))
    table.append(ids(3))
    before = _tracked(table, version=2)
    table.update({"id": "id + 10"}, "id = 1")
    table.overwrite(ids(8, 9))
    mark = table.row_id_high_water_mark
    table.restore(2)
    assert _tracked(table) == before
    assert table.row_id_high_water_mark == mark
    table.append(ids(5))
    (new,) = (row["_metadata"] for row in _tracked(table) if row["id"] == 5)
    assert new == {"row_id": (mark or 0) + 1, "row_commit_version": table.version}


@pytest.mark.req("DL-OPS-04")
@pytest.mark.parametrize("again", [False, True], ids=["dropped", "enabled again"])
def test_ids_of_rows_return_after_row_tracking_was_dropped(tmp_path: Path, again: bool) -> None:
    """The mark goes with the feature, and files that stay have lost their ids, or have others."""
    table = new_table(tmp_path, **_TRACKED)
    table.append(ids(1, 2))
    table.append(ids(3, 4, 5))
    before = _tracked(table, version=2)
    table.append(ids(6, 7))
    mark = table.row_id_high_water_mark
    assert mark == 6
    table.delete("id < 3", strategy="copy-on-write")
    table.drop_feature("rowTracking")
    if again:
        table.delete("id > 3", strategy="copy-on-write")
        table.alter().set(_TRACKED).commit()
        assert (table.row_id_high_water_mark or 0) < mark
    table.restore(2)
    assert _tracked(table) == before
    assert table.row_id_high_water_mark == mark
    table.append(ids(8))
    (new,) = (row["_metadata"]["row_id"] for row in _tracked(table) if row["id"] == 8)
    assert new == mark + 1
    assert table.verify().findings == ()


def test_files_from_before_row_tracking_get_ids(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(ids(1, 2))
    table.overwrite(ids(3))
    table.alter().set(_TRACKED).commit()
    table.restore(1)
    table.alter().set(_TRACKED).commit()
    assert len({row["_metadata"]["row_id"] for row in _tracked(table)}) == 2


def _meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let another writer commit once, when a restore has been planned."""
    apply, done = restore._Plan.apply, list[bool]()

    def applied(plan: Any, transaction: Any) -> None:
        apply(plan, transaction)
        if not done:
            done.append(True)
            change()

    monkeypatch.setattr(restore._Plan, "apply", applied)


@pytest.mark.req("DL-OPS-05")
@pytest.mark.parametrize("kind", ["append", "delete", "alter"])
def test_a_change_meanwhile_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    table.append(ids(2))
    other = DeltaTable(tmp_path)
    changes: dict[str, Callable[[], object]] = {
        "append": lambda: other.append(ids(3)),
        "delete": lambda: other.delete("id = 2"),
        "alter": lambda: other.alter().set({"a": "b"}).commit(),
    }
    _meanwhile(monkeypatch, changes[kind])
    with pytest.raises(
        MetadataChangedError if kind == "alter" else CommitConflictError, match="version 3 was committed meanwhile"
    ):
        table.restore(1)
    assert DeltaTable(tmp_path).history()[0].operation != "RESTORE"
    table.restore(1)
    assert ids_of(DeltaTable(tmp_path)) == [1]


@pytest.mark.req("DL-OPS-05")
@pytest.mark.parametrize("kind", ["compact", "vacuum"])
def test_what_only_rearranges_meanwhile_is_no_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = new_table(tmp_path)
    for number in (1, 2, 3):
        table.append(ids(number))
    other = DeltaTable(tmp_path)
    changes: dict[str, Callable[[], object]] = {
        "compact": other.compact,
        "vacuum": lambda: other.vacuum(dry_run=False),
    }
    _meanwhile(monkeypatch, changes[kind])
    result = table.restore(2)
    assert ids_of(DeltaTable(tmp_path)) == [1, 2]
    assert result.commit is not None
    assert (result.commit.committed, table.version) == (True, 5 if kind == "compact" else 6)


def test_rows_stay_in_a_table_that_only_grows(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"delta.appendOnly": "true"})
    table.append(ids(1))
    table.append(ids(2))
    with pytest.raises(ConstraintViolationError, match="the table only grows"):
        table.restore(1)


def test_progress_is_recorded_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(ids(1))
    table.append(ids(2))
    assert table.restore(1, txn=("job", 1)).commit is not None
    table.append(ids(3))
    again = table.restore(1, txn=("job", 1)).commit
    assert again is not None
    assert not again.committed
    assert ids_of(DeltaTable(tmp_path)) == [1, 3]


def test_an_iceberg_table_is_rolled_back(tmp_path: Path) -> None:
    table: Any = deltaberg.create_table(str(tmp_path), ids().schema, format="iceberg")
    table.append(ids(1))
    first, then = table.snapshot_id, dt.datetime.fromtimestamp(table.snapshot.timestamp_ms / 1000, dt.timezone.utc)
    time.sleep(0.002)
    table.append(ids(2))
    planned = table.restore(first, dry_run=True)
    assert (planned.state, planned.commit, ids_of(table)) == (first, None, [1, 2])
    result = table.restore(first)
    assert (result.state, result.restored_files) == (first, None)
    assert ids_of(IcebergTable(tmp_path)) == [1]
    table.append(ids(3))
    assert table.restore(then).state == first
    for flag in ("unsafe_expired", "ignore_missing_files"):
        with pytest.raises(InvalidArgumentError, match=f"{flag} is for Delta tables"):
            table.restore(first, **{flag: True})
    with pytest.raises(VersionNotFoundError, match="there is no snapshot 17: it was expired, or never"):
        table.restore(17)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_only_numbers_and_times_are_taken(tmp_path: Path, format: Any) -> None:
    table: Any = deltaberg.create_table(str(tmp_path), ids().schema, format=format)
    for target in (True, 1.0, None, -1, "tomorrow", [1]):
        with pytest.raises(
            InvalidArgumentError,
            match=r"not a timestamp|target must be a 64-bit integer",
        ):
            table.restore(target)
    with pytest.raises(VersionNotFoundError, match=r"no version 99|no snapshot 99"):
        table.restore(99)
    table.append(ids(1))
    for dry_run in (True, False):
        with pytest.raises(VersionNotFoundError, match=r"9999-12-31.* is after the last (commit|snapshot)"):
            table.restore("9999-12-31", dry_run=dry_run)
