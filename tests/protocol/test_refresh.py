"""Refreshing an open table: what is read, and what happens to the log meanwhile."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from deltaberg import kernels, open_table
from deltaberg.errors import CorruptLogError
from tests.support.delta_builder import DeltaBuilder
from tests.support.recorder import Recorder
from tests.support.rows import ID, every_checkpoint, ids, ids_of, live_files, numbered_commits, tombstones


def _log_reads(recorder: Recorder) -> list[str]:
    return [name for name in recorder.read if not name.startswith("part-")]


@every_checkpoint
def test_only_what_is_new_is_read(builder: DeltaBuilder, recorder: Recorder, kind: dict[str, Any]) -> None:
    numbered_commits(builder, 10)
    builder.checkpoint(8, pointer=True, **kind)
    table = open_table(builder.root, "delta")
    assert ids_of(table) == list(range(11))
    builder.commit(builder.add(ids(11)))
    builder.commit(builder.add(ids(12)))
    recorder.clear()
    assert table.refresh().version == 12
    assert ids_of(table) == list(range(13))
    assert _log_reads(recorder) == [f"{12:020d}.json", f"{11:020d}.json"]
    assert recorder.listings == [("_delta_log", f"{10:020d}.")]
    recorder.clear()
    assert table.refresh().version == 12
    assert _log_reads(recorder) == []
    assert recorder.listings == [("_delta_log", f"{12:020d}.")]


def test_a_new_checkpoint_is_not_read(builder: DeltaBuilder, recorder: Recorder) -> None:
    numbered_commits(builder, 3)
    table = open_table(builder.root)
    for version in range(4, 8):
        builder.commit(builder.add(ids(version)))
    builder.checkpoint(6, pointer=True)
    recorder.clear()
    assert ids_of(table.refresh()) == list(range(8))
    assert sorted(_log_reads(recorder)) == [f"{version:020d}.json" for version in (4, 5, 6, 7)]


@pytest.mark.parametrize("last", [None, 12])
def test_a_checkpoint_leads_over_cleaned_commits(builder: DeltaBuilder, last: int | None) -> None:
    """Also where the checkpoint is all that is left of what came after."""
    numbered_commits(builder, 3)
    table = open_table(builder.root, "delta")
    for version in range(4, 11):
        builder.commit(builder.add(ids(version)))
    builder.checkpoint(10)
    for version in range(11):
        (builder.log / f"{version:020d}.json").unlink()
    for version in range(11, (last or 10) + 1):
        builder.commit(builder.add(ids(version)))
    assert table.refresh().version == (last or 10)
    assert ids_of(table) == list(range((last or 10) + 1))


def test_a_hole_after_the_snapshot_is_corruption(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 2)
    table = open_table(builder.root, "delta")
    builder.commit(builder.add(ids(4)), version=4)
    with pytest.raises(CorruptLogError, match="version 3 is missing"):
        table.refresh()
    assert (table.version, ids_of(table)) == (2, [0, 1, 2])
    builder.commit(builder.add(ids(3)), version=3)
    assert ids_of(table.refresh()) == [0, 1, 2, 3, 4]


@every_checkpoint
def test_a_refreshed_table_is_what_a_new_one_is(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    adds = [builder.add(ids(number, 100 + number), path=f"f{number}.parquet", stats="count") for number in range(6)]
    protocol = builder.features("deletionVectors", "v2Checkpoint")
    builder.create(ID, *adds, {"txn": {"appId": "a", "version": 1}}, protocol=protocol)
    builder.commit(builder.remove(adds[0]))
    builder.checkpoint(1, **kind)
    table = open_table(builder.root, "delta")
    vector = builder.vector([0])
    with_vector = {"add": {**adds[1]["add"], "deletionVector": vector}}
    steps: list[list[Any]] = [
        [builder.remove(adds[1]), with_vector, {"txn": {"appId": "a", "version": 2}}],
        [builder.remove(with_vector), adds[0], builder.metadata(ID, name="renamed")],
        [builder.remove(adds[2]), {"domainMetadata": {"domain": "d", "configuration": "x", "removed": False}}],
        [adds[2], builder.remove(adds[0])],
    ]
    for number, step in enumerate(steps):
        builder.commit(*step)
        if number % 2:
            ids_of(table)
        table.refresh()
    fresh = open_table(builder.root, "delta")
    assert (live_files(table), tombstones(table)) == (live_files(fresh), tombstones(fresh))
    assert ids_of(table) == ids_of(fresh)
    assert ids_of(table, filter="id > 100") == ids_of(fresh, filter="id > 100") == [102, 103, 104, 105]
    assert (table.transactions, table.metadata, table.domain_metadata) == (
        fresh.transactions,
        fresh.metadata,
        fresh.domain_metadata,
    )


def test_scans_keep_their_snapshot(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 1)
    table = open_table(builder.root)
    before = table.scan()
    builder.commit(builder.add(ids(2)))
    after = table.refresh().scan()
    assert sorted(before.to_arrow()["id"].to_pylist()) == [0, 1]
    assert sorted(after.to_arrow()["id"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("every", [1, 7, 10_000])
def test_many_refreshes(builder: DeltaBuilder, every: int) -> None:
    """A table that is looked at after each refresh, now and then, or at last: no recursion, no past that is kept."""
    add = builder.add(ids(0), path="f.parquet")
    builder.create(ID, add)
    table = open_table(builder.root, "delta")
    past = []
    for version in range(1, 500):
        builder.commit({"add": {**add["add"], "modificationTime": version}})
        past.append(weakref.ref(table._snapshot))
        table.refresh()
        if version % every == 0:
            assert table.live_files["modificationTime"].to_pylist() == [version]
            past.append(weakref.ref(table._snapshot.live.table))
            past.append(weakref.ref(table.tombstones))
    table.refresh()
    builder.commit({"add": {**add["add"], "modificationTime": 500}})
    assert table.refresh().live_files["modificationTime"].to_pylist() == [500]
    assert len(table.tombstones) == 0
    gc.collect()
    assert [one() for one in past] == [None] * len(past)


def test_few_refreshes_wait_to_be_worked_out(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is refreshed and never looked at does not keep what every commit said."""
    replays = []
    original = kernels.replay

    def replay(commits: Any) -> kernels.Replay:
        found = original(commits)
        replays.append(weakref.ref(found.adds))
        return found

    monkeypatch.setattr(kernels, "replay", replay)
    add = builder.add(ids(0), path="f.parquet")
    builder.create(ID, add)
    table = open_table(builder.root, "delta")
    for version in range(1, 301):
        builder.commit({"add": {**add["add"], "modificationTime": version}})
        table.refresh()
    gc.collect()
    assert len(replays) == 301
    assert sum(one() is not None for one in replays) < 100
    assert table.live_files["modificationTime"].to_pylist() == [300]


def test_threads_may_share_a_table(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 20, 10)
    table = open_table(builder.root, "delta", version=5)
    start = threading.Barrier(4)
    seen: list[Any] = []

    def work() -> None:
        start.wait()
        for _ in range(5):
            table.refresh()
            seen.append((ids_of(table), len(table.tombstones)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(list(range(21)), 0)] * 20
