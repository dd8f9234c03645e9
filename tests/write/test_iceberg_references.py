"""Branches and tags of Iceberg tables, staged snapshots, and ways back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from deltaberg import find_commit, open_table, write_table
from deltaberg.errors import CommitConflictError, ConcurrentAppendError, InvalidArgumentError, VersionNotFoundError
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from deltaberg.iceberg.refs.cherry_pick import about_pick, cherry_pick
from tests.support.below_verbs import engine_of
from tests.support.snapshot_log import faults_of_directory
from tests.write.small_iceberg import as_pyiceberg_reads as _as_pyiceberg_reads
from tests.write.small_iceberg import ids_of as _ids
from tests.write.small_iceberg import new_table as _new
from tests.write.small_iceberg import rows_of as _rows

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_branches_and_tags(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version)
    with pytest.raises(InvalidArgumentError, match="no snapshot yet"):
        table.alter().create_branch("b")
    with pytest.raises(InvalidArgumentError, match="no snapshot yet"):
        table.alter().set_current_snapshot(ref="main")
    first = table.append(_rows(1)).snapshot_id
    table.alter().create_branch("b", min_snapshots_to_keep=2).create_tag("v1", first, max_ref_age_ms=9).commit()
    done = table.append(_rows(2), branch="b")
    assert _ids(table) == [1]
    branch = open_table(tmp_path / "t", "iceberg", ref="b")
    assert _ids(branch) == [1, 2]
    branch.append(_rows(3))
    assert _ids(branch) == [1, 2, 3]
    table.refresh()
    assert [row["id"] for row in _as_pyiceberg_reads(table, snapshot_id=branch.snapshot_id)] == [1, 2, 3]
    with pytest.raises(CommitConflictError, match="'b' has snapshots that 'v1' does not have"):
        table.alter().fast_forward("b", "v1")
    table.alter().fast_forward("main", "b").commit()
    assert _ids(table) == [1, 2, 3]
    assert _ids(open_table(tmp_path / "t", "iceberg", ref="v1")) == [1]
    with pytest.raises(InvalidArgumentError, match="'v1' is a tag"):
        table.append(_rows(4), branch="v1")
    with pytest.raises(InvalidArgumentError, match="that of another branch or tag"):
        table.alter().create_tag("b")
    table.alter().drop_branch("b").drop_tag("v1").commit()
    assert set(table.metadata.all_refs) == {"main"}
    with pytest.raises(InvalidArgumentError, match="no tag 'v1'"):
        table.alter().drop_tag("v1")
    found = find_commit(tmp_path / "t", done.token)
    assert found is not None
    assert (found.snapshot_id, found.added_rows, found.operation) == (done.snapshot_id, 1, "append")
    assert find_commit(tmp_path / "t", "12") is None


_UNKNOWN = 12
#: A change, the error that it raises, and what that says.
_Wrong: TypeAlias = "tuple[Callable[[Any], object], type[Exception], str]"


def test_a_branch_that_others_create_meanwhile_is_left_alone(tmp_path: Path) -> None:
    table = _new(tmp_path, "2")
    first = table.append(_rows(1)).snapshot_id
    behind, other = (open_table(tmp_path / "t", "iceberg") for _ in range(2))
    table.append(_rows(2))
    table.alter().create_branch("b", max_snapshot_age_ms=5).create_tag("t").commit()
    known = dict(table.refs)
    done = behind.alter().create_branch("b", first, if_exists="ignore").create_branch("c", if_exists="ignore").commit()
    assert done.committed
    assert {name: behind.refs[name] for name in known} == known
    assert behind.refs["c"].snapshot_id == first
    with pytest.raises(CommitConflictError, match="the reference t names the snapshot"):
        other.alter().create_branch("t", if_exists="ignore").commit()


@pytest.mark.parametrize("version", ["1", "3"])
def test_references_are_replaced_retained_and_renamed(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version)
    first, second = (table.append(_rows(number)).snapshot_id for number in (1, 2))
    table.alter().create_branch("b", first, max_snapshot_age_ms=5).create_tag("t", first, max_ref_age_ms=9).commit()
    table.alter().create_branch("b", min_snapshots_to_keep=3, if_exists="replace").create_tag(
        "t", if_exists="ignore"
    ).set_retention("main", max_snapshot_age_ms=7).set_retention("t", max_ref_age_ms=8).commit()
    kept = (SnapshotRef(second or 0, "branch", 3, 5), SnapshotRef(first or 0, "tag", None, None, 8))
    assert (table.refs["b"], table.refs["t"]) == kept
    table.append(_rows(3))
    assert table.refs["main"] == SnapshotRef(table.snapshot_id or 0, "branch", None, 7)
    with table.transaction() as transaction:
        transaction.append(_rows(4))
        transaction.alter().set_retention("main", min_snapshots_to_keep=2)
    assert table.refs["main"] == SnapshotRef(table.snapshot_id or 0, "branch", 2, 7)
    table.alter().rename_branch("b", "c").create_tag("t", second, if_exists="replace").commit()
    assert (set(table.refs), table.refs["c"]) == ({"main", "c", "t"}, kept[0])
    assert table.refs["t"].snapshot_id == second
    assert (
        not table.alter()
        .create_tag("t", second, if_exists="replace")
        .set_retention("t", max_ref_age_ms=8)
        .commit()
        .committed
    )
    wrong: list[_Wrong] = [
        (lambda to: to.create_branch("t", if_exists="replace"), InvalidArgumentError, "that of another branch or tag"),
        (lambda to: to.create_branch("x", if_exists="maybe"), InvalidArgumentError, "if_exists must be"),
        (lambda to: to.create_branch("x", _UNKNOWN), VersionNotFoundError, "there is no snapshot 12"),
        (lambda to: to.create_branch("x", max_ref_age_ms=0), InvalidArgumentError, "not a positive number: 0"),
        (lambda to: to.set_retention("t", min_snapshots_to_keep=1), InvalidArgumentError, "has no min_snapshots"),
        (lambda to: to.set_retention("x"), InvalidArgumentError, "no branch or tag 'x'"),
        (lambda to: to.rename_branch("main", "x"), InvalidArgumentError, "main is the state of the table"),
        (lambda to: to.rename_branch("c", "t"), InvalidArgumentError, "that of another branch or tag"),
        (lambda to: to.fast_forward("t", "main"), InvalidArgumentError, "no branch 't'"),
    ]
    for change, error, message in wrong:
        with pytest.raises(error, match=message):
            change(table.alter())
    table.alter().fast_forward("new", "t").fast_forward("c", "main").commit()
    assert (table.refs["new"].snapshot_id, table.refs["c"].snapshot_id) == (second, table.snapshot_id)


@pytest.mark.req("ICE-META-14", half="writer")
@pytest.mark.parametrize("version", ["1", "3"])
def test_tables_go_back(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version)
    with pytest.raises(VersionNotFoundError, match="has no snapshot"):
        table.alter().rollback_to_timestamp("2020-01-01")
    first, second, third = (table.append(_rows(number)).snapshot_id or 0 for number in (1, 2, 3))
    table.alter().create_branch("side", second).commit()
    side = table.append(_rows(9), branch="side").snapshot_id or 0
    log = [entry.snapshot_id for entry in table.metadata.snapshot_log]
    assert not table.alter().rollback_to_snapshot(third).commit().committed
    done = table.alter().rollback_to_snapshot(first).commit()
    assert (done.snapshot_id, _ids(table), done.operation) == (first, [1], "rollback")
    assert [row["id"] for row in _as_pyiceberg_reads(table)] == [1]
    assert [entry.snapshot_id for entry in table.metadata.snapshot_log] == [*log, first]
    for number in (third, side):
        with pytest.raises(InvalidArgumentError, match=f"the snapshot {number} is not an ancestor"):
            table.alter().rollback_to_snapshot(number)
    table.alter().set_current_snapshot(third).commit()
    assert _ids(table) == [1, 2, 3]
    moment = dt.datetime.fromtimestamp(table.metadata.snapshots[third].timestamp_ms / 1000, dt.timezone.utc)
    table.alter().rollback_to_timestamp(moment).commit()
    older = [one for one in (first, second) if table.metadata.snapshots[one].timestamp_ms < moment.timestamp() * 1000]
    assert table.snapshot_id == older[-1]
    table.alter().set_current_snapshot(ref="side").commit()
    assert _ids(table) == [1, 2, 9]
    behind = open_table(tmp_path / "t", "iceberg", ref="side")
    behind.alter().rollback_to_snapshot(first).commit()
    assert (behind.snapshot_id, table.refresh().snapshot_id) == (first, side)
    with table.transaction() as transaction:
        transaction.alter().set_current_snapshot(second)
        transaction.overwrite(_rows(5), where="id = 2", check=False)
    assert _ids(table) == [1, 5]
    with table.transaction() as transaction:
        transaction.append(_rows(6))
        with pytest.raises(InvalidArgumentError, match="has changed rows of 'main' before"):
            transaction.alter().rollback_to_snapshot(first)
    assert _ids(table) == [1, 5, 6]
    late = table.alter().rollback_to_snapshot(first)
    open_table(tmp_path / "t", "iceberg").append(_rows(7))
    with pytest.raises(CommitConflictError, match="the reference main names the snapshot"):
        late.commit()
    wrong: list[_Wrong] = [
        (lambda to: to.rollback_to_snapshot(_UNKNOWN), VersionNotFoundError, "there is no snapshot 12"),
        (lambda to: to.set_current_snapshot(_UNKNOWN), VersionNotFoundError, "there is no snapshot 12"),
        (lambda to: to.set_current_snapshot(ref="x"), VersionNotFoundError, "no branch or tag 'x'"),
        (lambda to: to.set_current_snapshot(), InvalidArgumentError, "needs snapshot_id or ref"),
        (lambda to: to.set_current_snapshot("7"), InvalidArgumentError, "snapshot_id must be"),
        (lambda to: to.rollback_to_timestamp("1970-01-02"), VersionNotFoundError, "no snapshot from before 1970"),
    ]
    for change, error, message in wrong:
        with pytest.raises(error, match=message):
            change(table.alter())


@pytest.mark.parametrize("version", ["2", "3"])
def test_snapshots_are_picked(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by="id")
    table.append(_rows(1, 2, 3))
    table.alter().create_branch("side").commit()
    other = open_table(tmp_path / "t", "iceberg")
    added = table.append(_rows(4), branch="side").snapshot_id or 0
    replaced = table.overwrite(_rows(2, 2), dynamic=True, branch="side").snapshot_id or 0
    changed = table.overwrite(_rows(3, 3), dynamic=True, branch="side").snapshot_id or 0
    gone = table.delete("id = 1", branch="side").snapshot_id or 0
    assert table.metadata.snapshots[replaced].summary["replace-partitions"] == "true"
    table.refresh().append(_rows(3))
    with pytest.raises(CommitConflictError, match="replaces files of a snapshot that is not an ancestor"):
        table.cherrypick_snapshot(replaced)
    with pytest.raises(CommitConflictError, match="of the operation delete"):
        table.cherrypick_snapshot(gone)
    rival = open_table(tmp_path / "t", "iceberg")
    for picker in (table, rival):
        pick = engine_of(picker.transaction(properties=about_pick(picker.metadata.snapshots[added])))
        cherry_pick(pick, picker.metadata.snapshots[added])
        if picker is table:
            pick.commit()
    with pytest.raises(CommitConflictError, match="has the changes of the snapshot"):
        pick.commit()
    assert _ids(table.refresh()) == [1, 2, 3, 3, 4]
    summary = table.snapshot.summary if table.snapshot else {}
    assert (summary["source-snapshot-id"], "published-wap-id" in summary) == (str(added), False)
    for number in (added, table.snapshot_id or 0):
        with pytest.raises(CommitConflictError, match="has the changes of the snapshot"):
            table.cherrypick_snapshot(number)
    with pytest.raises(VersionNotFoundError, match="there is no snapshot 12"):
        table.cherrypick_snapshot(_UNKNOWN)

    # Overwrites of partitions that follow on an ancestor.
    base = table.snapshot_id or 0
    table.alter().create_branch("a", base).create_branch("b", base).create_branch("c", base).commit()
    two = table.overwrite(_rows(2, 2), dynamic=True, branch="a", properties={}).snapshot_id or 0
    three = table.overwrite(_rows(3), dynamic=True, branch="b").snapshot_id or 0
    seven = table.overwrite(_rows(7), dynamic=True, branch="c").snapshot_id or 0
    assert table.metadata.snapshots[seven].operation == "overwrite"
    table.append(_rows(3, 7))
    table.cherrypick_snapshot(two)
    assert [row["id"] for row in _as_pyiceberg_reads(table)] == [1, 2, 2, 3, 3, 3, 4, 7] == _ids(table)
    for number in (three, seven):
        with pytest.raises(ConcurrentAppendError, match="another commit added"):
            table.cherrypick_snapshot(number)
    other.refresh().alter().create_branch("d", base).commit()
    assert other.cherrypick_snapshot(three, branch="d").snapshot_id == three
    assert faults_of_directory(tmp_path / "t") == []
    assert changed != gone


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_snapshots_are_staged_and_published(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by="id")
    table.append(_rows(1))
    staged = table.append(_rows(2), properties={"wap.id": "w"})
    assert staged.committed
    assert table.metadata.current_snapshot_id != staged.snapshot_id
    assert _ids(table) == [1]
    assert _ids(open_table(tmp_path / "t", "iceberg", snapshot_id=staged.snapshot_id)) == [1, 2]
    late = table.append(_rows(5), properties={"wap.id": "late"})
    gone = table.delete("id = 1", properties={"wap.id": "gone"})
    assert table.publish("w").snapshot_id == staged.snapshot_id
    assert _ids(table) == [1, 2]
    with pytest.raises(CommitConflictError, match="published already"):
        table.publish("w")
    with pytest.raises(CommitConflictError, match="of the operation delete"):
        table.publish("gone")
    with pytest.raises(InvalidArgumentError, match="no snapshot is staged"):
        table.publish("other")
    for _ in range(2):
        table.append(_rows(6), properties={"wap.id": "twice"})
    with pytest.raises(InvalidArgumentError, match=r"2 snapshots are staged under the wap\.id 'twice'"):
        table.publish("twice")
    published = table.publish("late")
    assert published.snapshot_id not in (late.snapshot_id, gone.snapshot_id)
    assert [row["id"] for row in _as_pyiceberg_reads(table)] == [1, 2, 5] == _ids(table)
    summary = table.snapshot.summary if table.snapshot else {}
    assert summary is not None
    assert (summary["published-wap-id"], summary["source-snapshot-id"]) == ("late", str(late.snapshot_id))
    with pytest.raises(CommitConflictError, match="published already"):
        table.publish("late")
    staged = table.append(_rows(6), properties={"wap.id": "overtaken"})
    open_table(tmp_path / "t", "iceberg").append(_rows(7))
    assert table.publish("overtaken").snapshot_id != staged.snapshot_id
    assert _ids(table) == [1, 2, 5, 6, 7]
    gone = table.delete("id = 6", properties={"wap.id": "gone again"})
    open_table(tmp_path / "t", "iceberg").delete("id = 7")
    with pytest.raises(CommitConflictError, match="of the operation delete"):
        table.publish("gone again")
    assert (_ids(table), gone.committed) == ([1, 2, 5, 6], True)
    table.delete("id = 6")
    table.append(_rows(8), properties={"wap.branch": "audit"})
    table.append(_rows(9), properties={"wap.branch": "audit"})
    assert _ids(table) == [1, 2, 5]
    assert _ids(open_table(tmp_path / "t", "iceberg", ref="audit")) == [1, 2, 5, 8, 9]
    if version == "3":
        ids = table.scan(columns=["_row_id"]).to_arrow()["_row_id"].to_pylist()
        assert len(set(ids)) == 3
    with pytest.raises(InvalidArgumentError, match=r"wap.branch is 'x', which is empty, or named beside wap.id"):
        table.append(_rows(1), properties={"wap.branch": "x", "wap.id": "y"})


def test_a_branch_that_the_commit_itself_drops_is_created_again(tmp_path: Path) -> None:
    """It is not one that others have created, which would be left alone."""
    write_table(tmp_path / "t", _rows(1), format="iceberg")
    table = open_table(tmp_path / "t", "iceberg")
    table.alter().create_branch("b").create_tag("g").commit()
    table.append(_rows(2))
    table.alter().drop_branch("b").create_branch("b", if_exists="ignore").commit()
    table.alter().drop_tag("g").create_tag("g", if_exists="ignore").commit()
    assert [_ids(open_table(tmp_path / "t", "iceberg", ref=name)) for name in ("b", "g")] == [[1, 2], [1, 2]]
    table.alter().rename_branch("b", "c").create_branch("b", if_exists="ignore").commit()
    assert {"b", "c"} <= open_table(tmp_path / "t", "iceberg").metadata.all_refs.keys()
