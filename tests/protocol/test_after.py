"""The version that a commit of our own makes: known from its bytes, without listing or reading the log."""

from __future__ import annotations

import json
import os
import pickle
from typing import Any

import pytest

from deltaberg import DeltaTable, kernels, open_table
from deltaberg.errors import CorruptLogError, InvalidArgumentError, UnsupportedFeatureError, VersionNotFoundError
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.recorder import Recorder
from tests.support.rows import ID, every_checkpoint, ids, ids_of, live_files, tombstones


def _committed(builder: DeltaBuilder, table: DeltaTable, *actions: Any) -> DeltaTable:
    """Commit actions as our own writer would: the table moves on by the bytes that were put."""
    version = builder.commit(*actions)
    table._set(table._snapshot.after(version, (builder.log / commit_name(version)).read_bytes()))
    return table


def _state(table: DeltaTable) -> tuple[Any, ...]:
    return (
        *(table.version, table.protocol, table.metadata, table.schema, table.features, table.active_features),
        *(table.transactions, table.domain_metadata, live_files(table), tombstones(table)),
        *(table.partition_columns, ids_of(table), ids_of(table, filter="id > 100")),
        sorted(table.scan().files()["record_count"].to_pylist()),
    )


@every_checkpoint
@pytest.mark.parametrize("looks", [True, False])
def test_it_is_what_a_new_table_is(builder: DeltaBuilder, kind: dict[str, Any], looks: bool) -> None:
    """For every kind of action, on top of every kind of checkpoint."""
    adds = [builder.add(ids(number, 100 + number), path=f"f{number}.parquet", stats="full") for number in range(6)]
    protocol = builder.features("deletionVectors", "v2Checkpoint", writer_only=["domainMetadata"])
    builder.create(ID, *adds, {"txn": {"appId": "a", "version": 1}}, protocol=protocol)
    builder.commit(builder.remove(adds[0]))
    builder.checkpoint(1, **kind)
    table = open_table(builder.root, "delta")
    assert isinstance(table, DeltaTable)
    with_vector = {"add": {**adds[1]["add"], "deletionVector": builder.vector([0])}}
    domain = {"domain": "d", "configuration": "x", "removed": False}
    steps: list[list[Any]] = [
        [builder.features("deletionVectors", "v2Checkpoint", "timestampNtz", writer_only=["domainMetadata"])],
        [builder.metadata(ID, configuration={"delta.enableDeletionVectors": "true"}, name="renamed")],
        [builder.add(ids(7, 107), path="f7.parquet", stats="full")],
        [builder.remove(adds[1]), with_vector],
        [builder.remove(adds[2]), {"txn": {"appId": "a", "version": 2}}, {"txn": {"appId": "b", "version": 1}}],
        [adds[2], adds[0]],
        [{"domainMetadata": domain}, {"domainMetadata": {**domain, "domain": "e"}}],
        [{"domainMetadata": {**domain, "removed": True}}],
        [{"commitInfo": {"operation": "WRITE"}}],
    ]
    for step in steps:
        _committed(builder, table, *step)
        if looks:
            assert _state(table) == _state(open_table(builder.root, "delta"))
    assert _state(table) == _state(open_table(builder.root, "delta"))


def test_nothing_is_listed_or_read(builder: DeltaBuilder, recorder: Recorder) -> None:
    """The bytes are kept for statistics, too."""
    builder.create(ID, builder.add(ids(0), path="f0.parquet", stats="full"))
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    actions = [builder.add(ids(number), path=f"f{number}.parquet", stats="full") for number in (1, 2)]
    version = builder.commit(*actions)
    data = (builder.log / commit_name(version)).read_bytes()
    recorder.clear()
    table._set(table._snapshot.after(version, data))
    assert len(table.scan(filter="id = 2").files()) == 1
    assert (recorder.read, recorder.listings) == ([], [])
    assert ids_of(table, filter="id = 2") == [2]


@pytest.mark.parametrize("kept", [1 << 20, 0])
def test_our_own_commit_is_not_taken_for_a_replaced_log(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, recorder: Recorder, kept: int
) -> None:
    """Its listing has another time than was assumed; also where its bytes are too many to be kept."""
    monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", kept)
    builder.create(ID, builder.add(ids(0), stats="full"))
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    _committed(builder, table, builder.add(ids(1), stats="full"))
    os.utime(builder.log / commit_name(1), (1, 1))
    recorder.clear()
    assert table.refresh().version == 1
    assert recorder.read == [commit_name(1)]
    recorder.clear()
    assert table.refresh().version == 1
    assert recorder.read == []
    builder.commit(builder.add(ids(2), stats="full"))
    assert ids_of(table.refresh()) == [0, 1, 2]
    _committed(builder, table, builder.add(ids(3), stats="full"))
    builder.commit(builder.add(ids(4), stats="full"))
    assert ids_of(table.refresh()) == [0, 1, 2, 3, 4]
    assert [ids_of(table, filter=f"id = {number}") for number in range(5)] == [[number] for number in range(5)]


@pytest.mark.parametrize("kept", [1 << 20, 0])
def test_a_log_replaced_after_our_own_commit_is_noticed(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", kept)
    builder.create(ID, builder.add(ids(0)))
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    _committed(builder, table, builder.add(ids(1)))
    builder.commit(builder.add(ids(9)), version=1)
    builder.commit(builder.add(ids(2)))
    with pytest.raises(VersionNotFoundError, match="was replaced"):
        table.refresh()
    assert (table.version, ids_of(table)) == (1, [0, 1])


def test_our_own_commit_is_known_after_pickling(builder: DeltaBuilder, recorder: Recorder) -> None:
    """The bytes are left behind, but not their digest."""
    builder.create(ID, builder.add(ids(0), stats="full"))
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    _committed(builder, table, builder.add(ids(1), stats="full"))
    other = pickle.loads(pickle.dumps(table))
    recorder.clear()
    assert other.refresh().version == 1
    assert recorder.read == [commit_name(1)]
    assert ids_of(other) == [0, 1]
    third = pickle.loads(pickle.dumps(table))
    builder.commit(builder.add(ids(9)), version=1)
    with pytest.raises(VersionNotFoundError, match="was replaced"):
        third.refresh()


def test_a_compaction_that_appears_later_changes_no_statistics(builder: DeltaBuilder) -> None:
    """Two later snapshots of one table may know a version by a commit and by a compaction, with other places."""
    builder.create(ID, builder.add(ids(0), path="f0.parquet", stats="full"))
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    for number in (1, 2):
        builder.commit(builder.add(ids(number), path=f"f{number}.parquet", stats="full"))
    by_commits = table._snapshot.newer()
    lines = [(builder.log / commit_name(number)).read_text() for number in (1, 2)]
    (builder.log / f"{1:020d}.{2:020d}.compacted.json").write_text("".join(lines))
    by_compaction = table._snapshot.newer()
    for snapshot in (by_commits, by_compaction, by_commits):
        table._set(snapshot)
        assert [ids_of(table, filter=f"id = {number}") for number in range(3)] == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("sizes", "removes"),
    [
        pytest.param([1], True, marks=pytest.mark.full, id="one-True"),
        pytest.param([1], False, marks=pytest.mark.full, id="one-False"),
        pytest.param([0, 1, 5], True, id="few-True"),
        pytest.param([0, 1, 5], False, marks=pytest.mark.full, id="few-False"),
        pytest.param(list(range(15, 0, -1)), True, marks=pytest.mark.full, id="falling-True"),
        pytest.param(list(range(15, 0, -1)), False, id="falling-False"),
    ],
)
def test_many_commits_leave_few_chunks(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, sizes: list[int], removes: bool
) -> None:
    """Masking costs time for each chunk. Yet the files that were there before are not copied again and again."""
    add = builder.add(ids(0), path="f0.parquet", stats="full")["add"]
    builder.create(ID, *({"add": {**add, "path": f"old{number}.parquet"}} for number in range(9000)))
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    snapshot = table._snapshot
    base = snapshot.live.table.column("path").chunks[-1].buffers()[2].address
    masked: list[int] = []
    reconcile = kernels.reconcile

    def counted(adds: Any, removes: Any, older: Any, role: str, threads: int) -> Any:
        masked.append(len(older))
        return reconcile(adds, removes, older, role, threads)

    monkeypatch.setattr(kernels, "reconcile", counted)
    written: list[str] = []
    for version in range(1, 301):
        paths = [f"f{version}-{number}.parquet" for number in range(sizes[version % len(sizes)])]
        lines = [{"add": {**add, "path": path}} for path in paths]
        if removes:
            lines += [{"remove": {"path": path, "dataChange": True}} for path in written[::7]]
            del written[::7]
        written += paths
        snapshot = snapshot.after(version, "".join(json.dumps(line) + "\n" for line in lines).encode())
    live = snapshot.live.table.column("path")
    assert sorted(live.to_pylist()) == sorted([*written, *(f"old{number}.parquet" for number in range(9000))])
    assert live.num_chunks <= 10
    assert max(masked) <= 10
    if not removes:
        assert live.chunks[-1].buffers()[2].address == base


def test_what_does_not_follow_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)))
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    for version in (0, 2):
        with pytest.raises(InvalidArgumentError, match=f"version {version} does not follow version 0"):
            table._snapshot.after(version, b"")
    with pytest.raises(CorruptLogError) as caught:
        table._snapshot.after(1, b"{")
    assert caught.value.context["file"] == commit_name(1)
    with pytest.raises(UnsupportedFeatureError, match="fooFeature"):
        _committed(builder, table, builder.features("fooFeature"))
    assert (table.version, ids_of(table)) == (0, [0])
