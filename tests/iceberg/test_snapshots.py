"""Snapshots, branches and tags, their logs, and time travel."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptMetadataError, VersionNotFoundError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from tests.iceberg.metadata_json import SNAPSHOT, document, parse_with, write_metadata

pytestmark = pytest.mark.one_backend

_LOG = [{"timestamp-ms": 100, "snapshot-id": 10}, {"timestamp-ms": 200, "snapshot-id": 20}]


def _without(*names: str, **members: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SNAPSHOT, **members}.items() if name not in names}


def _second(**members: Any) -> dict[str, Any]:
    return {**SNAPSHOT, "snapshot-id": 20, "parent-snapshot-id": 10, "sequence-number": 2, **members}


def _history(**members: Any) -> TableMetadata:
    return parse_with(**{**_history_members(), **members})


def _history_members() -> dict[str, Any]:
    return {"snapshots": [SNAPSHOT, _second()], "current_snapshot_id": 20, "snapshot_log": _LOG}


@pytest.mark.req("ICE-SNAP-01", half="reader")
def test_members_of_snapshots() -> None:
    first, second = _history().snapshots.values()
    assert (first.parent_snapshot_id, second.parent_snapshot_id) == (None, 10)
    assert (first.sequence_number, second.sequence_number) == (1, 2)
    assert (first.timestamp_ms, first.manifest_list) == (100, SNAPSHOT["manifest-list"])
    assert (first.summary, first.operation) == ({"operation": "append"}, "append")
    (old,) = parse_with(1, snapshots=[_without("sequence-number", "summary")]).snapshots.values()
    assert (old.sequence_number, old.summary, old.operation) == (0, {}, None)
    (old,) = parse_with(1, snapshots=[SNAPSHOT]).snapshots.values()
    assert old.sequence_number == 0


@pytest.mark.req("ICE-SNAP-01", half="reader")
@pytest.mark.parametrize("version", [2, 3])
def test_manifest_lists_are_required_since_version_2(version: int) -> None:
    for found in (_without("manifest-list"), _without("manifest-list", manifests=["s3://b/m0.avro"])):
        with pytest.raises(CorruptMetadataError, match="has no manifest-list"):
            parse_with(version, snapshots=[found])


@pytest.mark.parametrize("name", ["snapshot-id", "timestamp-ms"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_snapshots_lack_nothing(version: int, name: str) -> None:
    with pytest.raises(CorruptMetadataError, match=f"has no {name}"):
        parse_with(version, snapshots=[_without(name)])


def test_manifests_of_version_1() -> None:
    listed = _without("manifest-list", manifests=["s3://b/m0.avro", "s3://b/m1.avro"])
    (found,) = parse_with(1, snapshots=[listed]).snapshots.values()
    assert (found.manifest_list, found.manifests) == (None, ("s3://b/m0.avro", "s3://b/m1.avro"))
    with pytest.raises(CorruptMetadataError, match="neither manifest-list nor manifests"):
        parse_with(1, snapshots=[_without("manifest-list")])
    for wrong in ({"a": 1}, ["s3://b/m0.avro", 1]):
        with pytest.raises(CorruptMetadataError, match="manifests"):
            parse_with(1, snapshots=[_without("manifest-list", manifests=wrong)])


@pytest.mark.parametrize("version", [2, 3])
def test_snapshots_from_before_an_upgrade(version: int) -> None:
    """Iceberg's Java library omits members that version 1 does not have."""
    old = _without("sequence-number", "summary")
    found = parse_with(version, snapshots=[old, _second()], current_snapshot_id=20)
    assert [snapshot.sequence_number for snapshot in found.snapshots.values()] == [0, 2]
    assert found.snapshots[10].operation is None


def test_members_of_version_3() -> None:
    members = {"first-row-id": 7, "added-rows": 3, "key-id": "k1", "schema-id": 0}
    (found,) = parse_with(3, snapshots=[{**SNAPSHOT, **members}]).snapshots.values()
    assert (found.first_row_id, found.added_rows, found.key_id, found.schema_id) == (7, 3, "k1", 0)


@pytest.mark.req("ICE-SNAP-08")
def test_travel_in_time(tmp_path: Path) -> None:
    write_metadata(tmp_path, "v1.metadata.json", document(**_history_members()))
    assert open_table(tmp_path, "iceberg").snapshot_id == 20
    assert open_table(tmp_path, "iceberg", snapshot_id=10).snapshot_id == 10
    for millis, expected in ((100, 10), (150, 10), (199, 10), (200, 20)):
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)
        assert open_table(tmp_path, "iceberg", timestamp=moment).snapshot_id == expected
        assert _history().snapshot_as_of(millis).snapshot_id == expected
    early = dt.datetime(1970, 1, 1, 0, 0, 0, 50_000, tzinfo=dt.timezone.utc)
    with pytest.raises(VersionNotFoundError, match=r"at 1970-01-01 00:00:00\.050\+00:00") as caught:
        open_table(tmp_path, "iceberg", timestamp=early)
    known = "the snapshot log covers 1970-01-01 00:00:00.100+00:00 to 1970-01-01 00:00:00.200+00:00"
    assert caught.value.hint == known
    with pytest.raises(VersionNotFoundError, match=r"00:00:00\.201\+00:00 is after the last snapshot") as caught:
        open_table(tmp_path, "iceberg", timestamp="1970-01-01T00:00:00.201Z")
    assert caught.value.hint == f"{known}; leave the time out for the newest"
    with pytest.raises(VersionNotFoundError, match="no snapshot 11"):
        open_table(tmp_path, "iceberg", snapshot_id=11)


def test_time_travel_follows_rollbacks() -> None:
    log = [*_LOG, {"timestamp-ms": 300, "snapshot-id": 10}]
    found = _history(snapshot_log=log, current_snapshot_id=10)
    assert [found.snapshot_as_of(millis).snapshot_id for millis in (250, 300)] == [20, 10]


def test_time_travel_to_what_expired() -> None:
    found = _history(snapshot_log=[{"timestamp-ms": 50, "snapshot-id": 5}, *_LOG])
    with pytest.raises(VersionNotFoundError, match="no snapshot 5"):
        found.snapshot_as_of(60)
    with pytest.raises(VersionNotFoundError, match="no snapshot log"):
        _history(snapshot_log=[]).snapshot_as_of(60)


def _refs(**members: Any) -> dict[str, Any]:
    return {
        "main": {"snapshot-id": 20, "type": "branch"},
        "test": {"snapshot-id": 10, "type": "branch", "min-snapshots-to-keep": 2, "max-snapshot-age-ms": 5, **members},
        "end of year": {"snapshot-id": 10, "type": "tag", "max-ref-age-ms": 9},
    }


@pytest.mark.req("BEY-26", half="reader")
def test_branches_and_tags(tmp_path: Path) -> None:
    write_metadata(tmp_path, "v1.metadata.json", document(**_history_members(), refs=_refs()))
    table = open_table(tmp_path, "iceberg", ref="test")
    assert (table.snapshot_id, open_table(tmp_path, "iceberg").snapshot_id) == (10, 20)
    assert open_table(tmp_path, "iceberg", ref="main").snapshot_id == 20
    assert open_table(tmp_path, "iceberg", ref="end of year").snapshot_id == 10
    kept = table.refs["test"]
    assert (kept.type, kept.min_snapshots_to_keep, kept.max_snapshot_age_ms, kept.max_ref_age_ms) == (
        "branch",
        2,
        5,
        None,
    )
    assert (table.refs["end of year"].type, table.refs["end of year"].max_ref_age_ms) == ("tag", 9)
    with pytest.raises(VersionNotFoundError, match="end of year, main, test"):
        open_table(tmp_path, "iceberg", ref="other")


@pytest.mark.req("BEY-26", half="reader")
def test_a_table_without_references_has_main() -> None:
    metadata = _history()
    assert (metadata.refs, metadata.all_refs) == ({}, {"main": SnapshotRef(20, "branch")})
    assert metadata.snapshot_of_ref("main") is metadata.snapshots[20]
    assert parse_with().all_refs == {}
    assert parse_with().snapshot_of_ref("main") is None
    with pytest.raises(VersionNotFoundError, match="'test'"):
        metadata.snapshot_of_ref("test")


@pytest.mark.req("BEY-26", half="reader")
def test_main_is_the_current_snapshot() -> None:
    with pytest.raises(CorruptMetadataError, match="main"):
        _history(refs=_refs(), current_snapshot_id=10)


@pytest.mark.parametrize(
    "ref",
    [
        {"type": "branch"},
        {"snapshot-id": 10},
        {"snapshot-id": 10, "type": "leaf"},
        {"snapshot-id": "10", "type": "tag"},
        5,
    ],
)
def test_broken_references(ref: Any) -> None:
    with pytest.raises(CorruptMetadataError, match="reference"):
        _history(refs={"a": ref})


def test_a_reference_to_a_snapshot_that_is_gone() -> None:
    found = _history(refs={"a": {"snapshot-id": 5, "type": "tag"}})
    with pytest.raises(VersionNotFoundError, match="no snapshot 5"):
        found.snapshot_of_ref("a")


def test_ancestors() -> None:
    found = _history()
    assert [one.snapshot_id for one in found.ancestors(found.snapshots[20])] == [20, 10]
    expired = _history(snapshots=[_second()])
    assert [one.snapshot_id for one in expired.ancestors(expired.snapshots[20])] == [20]
    ring = _history(snapshots=[{**SNAPSHOT, "parent-snapshot-id": 20}, _second()])
    assert [one.snapshot_id for one in ring.ancestors(ring.snapshots[20])] == [20, 10]


def test_the_schema_of_a_snapshot() -> None:
    found = _history(snapshots=[{**SNAPSHOT, "schema-id": 0}, _second(**{"schema-id": 9})])
    assert found.schema_of(found.snapshots[10]) is found.schemas[0]
    assert found.schema_of(found.snapshots[20]) is found.current_schema
    assert found.schema_of(None) is found.current_schema
