"""`reorg(upgrade_iceberg_compat=…)`: in which order, what stays as it is, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import CompactResult, DeltaTable
from deltaberg.errors import CommitConflictError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table.maintain import compact
from tests.support.command_line import call, json_lines
from tests.support.rows import ids, ids_of

_SCHEMA = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64())), ("p", pa.string())])
_ALL_ON = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
}
_WITH_IDS = ["id", "l", "p", "_metadata.row_id", "_metadata.row_commit_version"]


def _rows(*numbers: int) -> pa.Table:
    return pa.table({"id": numbers, "l": [[one] for one in numbers], "p": ["ab"[one % 2] for one in numbers]}, _SCHEMA)


def _hidden(root: Path) -> Any:
    table = deltaberg.create_table(str(root), _SCHEMA, partition_by="p", properties=_ALL_ON)
    table.append(_rows(1, 2, 3, 4, 5, 6))
    table.append(_rows(7, 8, 9))
    table.delete("id IN (3, 7)", strategy="merge-on-read")
    table.append(_rows(10, 11))
    return table


def _tracked(table: Any) -> Any:
    return table.scan(columns=_WITH_IDS).to_arrow().sort_by("id").to_pylist()


def _is_upgraded(table: DeltaTable) -> None:
    assert {"icebergCompatV2", "columnMapping"} <= table.active_features
    assert "deletionVectors" not in table.active_features
    live = table.live_files
    assert live["deletionVector"].null_count == len(live)
    for path in live["path"].to_pylist():
        stored = pq.read_schema(Path(table.location) / path)
        assert {"id", "l", "p"} <= set(stored.names)
        assert b"PARQUET:field_id" in stored.field("l").type.value_field.metadata
    assert {dict(one)["ICEBERG_COMPAT_VERSION"] for one in live["tags"].to_pylist()} == {"2"}


def test_vectors_go_before_the_feature_comes_and_rows_stay(tmp_path: Path) -> None:
    table = _hidden(tmp_path)
    before, version = _tracked(table), table.version
    planned = table.reorg(upgrade_iceberg_compat=2, dry_run=True)
    assert [bool(one.properties) for one in planned.groups] == [True, False, True, False]
    assert (table.refresh().version, planned.commits) == (version, [])
    result = table.reorg(upgrade_iceberg_compat=2, user_metadata="upgrade")
    assert result.conflicts == []
    assert [one.version for one in result.commits] == list(range(version + 1, table.version + 1))
    assert {one.info.get("userMetadata") for one in table.history(len(result.commits))} == {"upgrade"}
    first, *_, second, _ = result.groups
    assert first.properties == {"delta.enableDeletionVectors": "false"}
    assert second.properties == {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"}
    # No version is compatible and has a vector.
    for one in range(version + 1, table.version + 1):
        at = DeltaTable(tmp_path, version=one)
        assert _tracked(at) == before
        vectors = at.live_files["deletionVector"]
        assert "icebergCompatV2" not in at.active_features or vectors.null_count == len(vectors)
    _is_upgraded(DeltaTable(tmp_path, validate=True))
    assert len(table.changes(version + 1).to_arrow()) == 0
    assert table.reorg(upgrade_iceberg_compat=2).groups == ()
    table.append(_rows(12))
    table.delete("id = 1")
    assert table.reorg(upgrade_iceberg_compat=2, dry_run=True).groups == ()
    assert ids_of(table) == [2, 4, 5, 6, 8, 9, 10, 11, 12]


def test_a_run_that_ended_early_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _hidden(tmp_path)
    before = _tracked(table)
    done, wrote = 0, compact._commit

    def ends_early(*arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done > 2:
            raise CommitConflictError("another commit came first")
        return wrote(*arguments)

    monkeypatch.setattr(compact, "_commit", ends_early)
    result = table.reorg(upgrade_iceberg_compat=2, group_size=1)
    assert len(result.conflicts) == len([one for one in result.groups if not one.properties]) - 2 > 0
    monkeypatch.undo()
    assert table.reorg(upgrade_iceberg_compat=2).conflicts == []
    _is_upgraded(DeltaTable(tmp_path))
    assert _tracked(table) == before


def test_deletes_that_stay_after_a_conflict_keep_the_feature_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _hidden(tmp_path)

    def conflicts(*_: Any) -> Any:
        raise CommitConflictError("another commit came first")

    monkeypatch.setattr(compact, "_commit", conflicts)
    assert len(table.reorg(upgrade_iceberg_compat=2).conflicts) == 1
    assert "icebergCompatV2" not in table.refresh().active_features


def test_version_1_needs_a_table_without_the_feature(tmp_path: Path) -> None:
    table = deltaberg.create_table(str(tmp_path), ids().schema, properties={"delta.enableDeletionVectors": "true"})
    table.append(ids(1, 2, 3))
    table.delete("id = 2", strategy="merge-on-read")
    before = table.version
    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match=r"exclude each other(.|\n)*drop_feature\('deletionVectors'\)"):
            table.reorg(upgrade_iceberg_compat=1, dry_run=dry_run)
    assert table.refresh().version == before
    table.drop_feature("deletionVectors")
    result = table.reorg(upgrade_iceberg_compat=1)
    assert (result.removed_files, len(result.commits)) == (0, 1)
    assert "icebergCompatV1" in table.active_features
    # From one version to the other.
    table.reorg(upgrade_iceberg_compat=2)
    assert {"icebergCompatV1", "icebergCompatV2"} & table.active_features == {"icebergCompatV2"}
    assert {dict(one)["ICEBERG_COMPAT_VERSION"] for one in table.live_files["tags"].to_pylist()} == {"2"}
    assert ids_of(table) == [1, 3]


def test_what_cannot_be_upgraded_is_refused_before_anything_changes(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("v", pa.null())])
    table: Any = deltaberg.create_table(str(tmp_path / "t"), columns)
    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match="does not allow columns of the type void"):
            table.reorg(upgrade_iceberg_compat=2, dry_run=dry_run)
    for wrong in (0, 3, True, "2", 2.0):
        with pytest.raises(InvalidArgumentError, match="upgrade_iceberg_compat must be 1 or 2, not"):
            table.reorg(upgrade_iceberg_compat=wrong)
    with pytest.raises(InvalidArgumentError, match="which is about the whole table"):
        table.reorg("id = 1", upgrade_iceberg_compat=2)
    assert table.refresh().version == 0
    other: Any = deltaberg.create_table(str(tmp_path / "i"), ids().schema, format="iceberg")
    with pytest.raises(UnsupportedFeatureError, match="applies only to Delta tables; this is an Iceberg table"):
        other.reorg(upgrade_iceberg_compat=2)


@pytest.mark.one_backend
def test_at_the_command_line(tmp_path: Path) -> None:
    table = _hidden(tmp_path)
    words = ["reorg", table.location, "--upgrade-iceberg-compat", "2"]
    ended = call(*words)
    assert ended.exit_code == 2
    assert "would set delta.enableIcebergCompatV2=true" in ended.stderr
    (done,) = json_lines(*words, "--yes")
    assert (done["commits"], done["conflicts"]) == (4, 0)
    wanted = "delta.enableDeletionVectors=false, delta.enableIcebergCompatV2=true, delta.columnMapping.mode=name"
    assert done["properties"] == wanted
    _is_upgraded(table.refresh())
    assert isinstance(table.reorg(dry_run=True), CompactResult)
    assert call(*words, "--yes").exit_code == 0
