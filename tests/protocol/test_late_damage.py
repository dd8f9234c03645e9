"""A checkpoint whose damage shows late: when its tombstones or statistics are read, after its live files were."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, open_table
from deltaberg.errors import CorruptCheckpointError
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.rows import ID, every_checkpoint, ids, ids_of, tombstones

#: Forms of a checkpoint with several Parquet files, and with one.
_KINDS: list[dict[str, Any]] = [
    {"kind": "classic"},
    {"kind": "multipart", "parts": 2},
    {"kind": "uuid-parquet", "sidecars": 2},
]
every_kind = pytest.mark.parametrize("kind", _KINDS, ids=["classic", "multipart", "sidecars"])


def _damage(path: Path, name: str) -> bool:
    """Overwrite the pages of a column, so that every other column can still be read."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    for column in columns:
        if column.path_in_schema == name:
            start = column.dictionary_page_offset or column.data_page_offset
            data = bytearray(path.read_bytes())
            data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
            path.write_bytes(data)
            return True
    return False


def _table(builder: DeltaBuilder, kind: dict[str, Any], damaged: str = "remove.path", **options: Any) -> list[Path]:
    """Write files of the ids 0 to 5 and a removed one, with checkpoints 1 and 2 that list them in opposite orders.

    A column of checkpoint 2 is damaged. Returns the Parquet files in which it is.
    """
    adds = [builder.add(ids(number), path=f"f{number}.parquet", stats="full") for number in range(6)]
    gone = [builder.add(ids(90 + number), path=f"gone{number}.parquet", stats="full") for number in range(2)]
    builder.create(ID, *adds, *gone, protocol=builder.features("v2Checkpoint"))
    builder.commit(*map(builder.remove, gone))
    builder.commit()
    actions = builder.table_actions(2)
    files = [action for action in actions if {"add", "remove"} & set(action)]
    rest = [action for action in actions if not {"add", "remove"} & set(action)]
    builder.checkpoint(1, kind="classic", actions=[*rest, *reversed(files)])
    written = builder.checkpoint(2, actions=[*rest, *files], **kind, **options)
    parquet = [*written, *(builder.log / "_sidecars").glob("*.parquet")]
    hit = [path for path in parquet if _damage(path, damaged)]
    assert hit
    return hit


@every_kind
@pytest.mark.parametrize("fallback", ["checkpoint", "log"])
def test_statistics_belong_to_the_live_files(builder: DeltaBuilder, kind: dict[str, Any], fallback: str) -> None:
    """The live files name parts and rows of the checkpoint that they were read from, not of the one for tombstones."""
    _table(builder, kind)
    if fallback == "log":
        (builder.log / f"{1:020d}.checkpoint.parquet").unlink()
    table = open_table(builder.root)
    assert ids_of(table) == list(range(6))
    before = table.scan(filter="id = 1")
    assert [path for path, _ in tombstones(table)] == ["gone0.parquet", "gone1.parquet"]
    for number in range(6):
        assert ids_of(table, filter=f"id = {number}") == [number]
        assert len(table.scan(filter=f"id = {number}").files()) == 1
    assert before.to_arrow().column("id").to_pylist() == [1]


@every_kind
def test_tombstones_first(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    """Nothing is read any more of a checkpoint that is known to be damaged."""
    _table(builder, kind)
    table = open_table(builder.root, "delta")
    assert table.base_checkpoint is not None
    assert table.base_checkpoint.version == 2
    assert len(tombstones(table)) == 2
    assert table.base_checkpoint is not None
    assert table.base_checkpoint.version == 1
    assert [ids_of(table, filter=f"id = {number}") for number in range(6)] == [[number] for number in range(6)]


@every_kind
@pytest.mark.parametrize("fallback", ["checkpoint", "log"])
def test_keys_that_are_streamed(builder: DeltaBuilder, kind: dict[str, Any], fallback: str) -> None:
    """Where the damage shows after some of them, all come again from an older checkpoint, or from the log."""
    _table(builder, kind, "add.path")
    if fallback == "log":
        (builder.log / f"{1:020d}.checkpoint.parquet").unlink()
    builder.commit(builder.add(ids(6), path="f6.parquet"), builder.remove(builder.add(path="f0.parquet")))
    snapshot = open_table(builder.root, "delta")._snapshot
    calls: list[int] = []

    def paths(tables: Iterator[pa.Table]) -> list[str]:
        calls.append(1)
        return sorted(path for some in tables for path in some["path"].to_pylist())

    assert snapshot.read_keys("add", paths) == [f"f{number}.parquet" for number in range(1, 7)]
    assert len(calls) == 2
    assert not snapshot.is_live_known or fallback == "log"
    assert snapshot.read_keys("remove", paths) == ["f0.parquet", "gone0.parquet", "gone1.parquet"]
    live = snapshot.live.table
    assert (
        snapshot.read_keys("add", lambda some: pa.concat_tables(some)["path"].to_pylist()) == live["path"].to_pylist()
    )


@every_kind
def test_later_versions_after_damage(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    """A refreshed table stands on the checkpoint that proved sound, and so does one refreshed before that was known."""
    _table(builder, kind)
    early, late = open_table(builder.root, "delta"), open_table(builder.root, "delta")
    assert ids_of(early) == ids_of(late) == list(range(6))
    assert len(tombstones(late)) == 2
    builder.commit(builder.add(ids(6), path="f6.parquet", stats="full"))
    for table in (early, late):
        assert table.refresh().version == 3
        assert len(tombstones(table)) == 2
        assert [ids_of(table, filter=f"id = {number}") for number in range(7)] == [[number] for number in range(7)]


@every_kind
def test_threads_find_the_damage_together(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    _table(builder, kind)
    table = open_table(builder.root)
    start = threading.Barrier(8)
    answers: list[Any] = []

    def work(number: int) -> None:
        start.wait()
        if number % 2:
            answers.append(len(tombstones(table)) == 2)
        answers.extend(ids_of(table, filter=f"id = {one}") == [one] for one in range(6))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * (4 + 8 * 6)


def test_a_pickled_scan_of_changes_after_damage(builder: DeltaBuilder) -> None:
    _table(builder, _KINDS[0])
    table = open_table(builder.root, "delta")
    assert len(tombstones(table)) == 2
    changes = pickle.loads(pickle.dumps(table.changes(1, derived=True, columns=["id", "_change_type"])))
    assert sorted(row["id"] for row in changes.to_arrow().to_pylist()) == [90, 91]


@every_kind
def test_damage_that_nothing_makes_up_for(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    """The live files can still be read; the tombstones cannot, and the error names the file."""
    damaged = _table(builder, kind)
    (builder.log / f"{1:020d}.checkpoint.parquet").unlink()
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.root)
    for _ in range(2):
        with pytest.raises(CorruptCheckpointError) as caught:
            tombstones(table)
        assert caught.value.context["file"] in map(str, damaged)
        assert ids_of(table, filter="id = 3") == [3]


@every_kind
@pytest.mark.parametrize(
    ("damaged", "stats"), [("add.stats", "json"), ("add.stats_parsed.minValues.id", "struct"), ("add.stats", "both")]
)
def test_damaged_statistics_are_unknown(builder: DeltaBuilder, kind: dict[str, Any], damaged: str, stats: str) -> None:
    """They are hints: without them more files are read, and the rows are the same."""
    _table(builder, kind, damaged, stats=stats)
    table = open_table(builder.root)
    scan = table.scan(filter="id < 2")
    assert sorted(scan.to_arrow().column("id").to_pylist()) == [0, 1]
    assert len(scan.files()) == (2 if stats == "both" else 6)
    assert table.scan().count() == 6


@every_checkpoint
@pytest.mark.parametrize("damage", ["delete", "truncate", "overwrite"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_checkpoint_that_is_gone_or_replaced_costs_only_statistics(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], damage: str, is_kept: bool
) -> None:
    """Clean-up of the log deletes checkpoints under open tables. The bytes of JSON may be kept."""
    if not is_kept:
        monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", 0)
    adds = [builder.add(ids(number), path=f"f{number}.parquet", stats="full") for number in range(3)]
    builder.create(ID, *adds, protocol=builder.features("v2Checkpoint"))
    builder.checkpoint(0, **kind)
    table = open_table(builder.root)
    assert ids_of(table) == [0, 1, 2]
    for path in [*builder.log.glob("*checkpoint*"), *(builder.log / "_sidecars").glob("*")]:
        data = path.read_bytes()
        if damage == "delete":
            path.unlink()
        else:
            path.write_bytes(data[: len(data) // 2] if damage == "truncate" else b"\xff" * len(data))
    assert [ids_of(table, filter=f"id = {number}") for number in range(3)] == [[0], [1], [2]]
    inside_json = kind["kind"] == "uuid-json" and "sidecars" not in kind
    assert len(table.scan(filter="id = 1").files()) == (1 if is_kept and inside_json else 3)


@pytest.mark.parametrize("from_checkpoint", [True, False])
@pytest.mark.parametrize("kept", [1 << 20, 0])
def test_other_bytes_in_place_of_those_that_were_read(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, from_checkpoint: bool, kept: int
) -> None:
    """Statistics are read again at places in a file. In another file other bounds may lie there."""
    monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", kept)
    adds = [builder.add(ids(number), path=f"f{number}.parquet", stats="full") for number in range(3)]
    builder.create(ID, *adds, protocol=builder.features("v2Checkpoint"))
    path = builder.log / commit_name(0)
    if from_checkpoint:
        (path,) = builder.checkpoint(0, kind="uuid-json")
    table = open_table(builder.root)
    assert ids_of(table) == [0, 1, 2]
    assert isinstance(table, DeltaTable)
    elsewhere = pickle.loads(pickle.dumps(table._snapshot.live.log_bytes))
    assert list(elsewhere.again([0])) == [(0, path.read_bytes())]
    assert len(table.scan(filter="id = 1").files()) == 1
    changed = path.read_bytes().replace(b'\\"id\\": 1', b'\\"id\\": 7').replace(b'\\"id\\":1', b'\\"id\\":7')
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    assert ids_of(table, filter="id = 1") == [1]
    assert len(table.scan(filter="id = 1").files()) == (1 if kept else 3)
    assert list(elsewhere.again([0])) == [(0, None)]
