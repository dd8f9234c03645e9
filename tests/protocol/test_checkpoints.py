"""Checkpoints: which one is read (DL-CKPT)."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, open_table
from deltaberg.delta.log.names import LogFile, classify
from deltaberg.errors import CorruptCheckpointError, CorruptLogError
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.recorder import Recorder
from tests.support.roads import Road, by_every_road
from tests.support.rows import (
    CHECKPOINT_KINDS,
    ID,
    every_checkpoint,
    ids,
    ids_of,
    live_files,
    numbered_commits,
    tombstones,
)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def _checkpoints_read(recorder: Recorder) -> set[str]:
    return {name for name in recorder.read if ".checkpoint." in name}


@by_every_road
@pytest.mark.req("DL-CKPT-02", half="reader")
def test_the_newest_checkpoint_is_used(builder: DeltaBuilder, recorder: Recorder) -> None:
    numbered_commits(builder, 22, 10, 20)
    table = open_table(builder.root)
    assert ids_of(table) == list(range(23))
    assert _checkpoints_read(recorder) == {f"{20:020d}.checkpoint.parquet"}
    assert recorder.commits == [22, 21]
    recorder.clear()
    assert ids_of(open_table(builder.root, version=19)) == list(range(20))
    assert _checkpoints_read(recorder) == {f"{10:020d}.checkpoint.parquet"}
    assert recorder.commits == list(range(19, 10, -1))


@by_every_road
@pytest.mark.req("DL-CKPT-05", half="reader")
@every_checkpoint
def test_tombstones_of_checkpoints(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    """A checkpoint keeps tombstones until a later one drops them."""
    add = builder.add(ids(1), path="f.parquet", vector=builder.vector([0], "i"))
    builder.create(ID, add, builder.add(ids(2), path="g.parquet"), protocol=builder.features("deletionVectors"))
    builder.commit(builder.remove(add))
    builder.checkpoint(**kind)
    builder.commit(builder.add(ids(3), path="h.parquet"))
    table = open_table(builder.root)
    snapshot = open_table(builder.root, "delta")._snapshot
    keys = {role: snapshot.read_keys(role, pa.concat_tables).to_pylist() for role in ("add", "remove")}
    assert not snapshot.is_live_known
    assert tombstones(table) == [("f.parquet", add["add"]["deletionVector"]["pathOrInlineDv"])]
    assert live_files(table) == [("g.parquet", 0), ("h.parquet", 0)]
    assert sorted(one["path"] for one in keys["add"]) == ["g.parquet", "h.parquet"]
    (gone,) = keys["remove"]
    assert (gone["path"], gone["deletionVector"]) == ("f.parquet", {**add["add"]["deletionVector"], "offset": None})
    assert gone["deletionTimestamp"] == snapshot.tombstones["deletionTimestamp"][0].as_py()
    kept = [action for action in builder.table_actions(2) if "remove" not in action]
    builder.checkpoint(actions=kept, **kind)
    table = open_table(builder.root)
    assert tombstones(table) == []
    assert live_files(table) == [("g.parquet", 0), ("h.parquet", 0)]


@pytest.mark.req("DL-CKPT-06", half="reader")
def test_a_table_needs_no_checkpoint(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)))
    add = builder.add(ids(0))
    for version in range(1, 250):
        builder.commit({"add": {**add["add"], "path": f"part-{version}.parquet"}})
    table = open_table(builder.root, "delta")
    assert table.version == 249
    assert len(table.live_files) == 250
    assert open_table(builder.root, "delta", version=123).version == 123


@pytest.mark.req("DL-CKPT-07", half="reader")
@pytest.mark.req("DL-CKPT-08", half="reader")
@pytest.mark.req("DL-CKPT-09", half="reader")
def test_names_of_checkpoints() -> None:
    classic = "00000000000000000010.checkpoint.parquet"
    assert classify(classic) == LogFile("classic", 10, classic)
    for version, form in ((10, "json"), (20, "parquet")):
        name = f"{version:020d}.checkpoint.{UUID}.{form}"
        assert classify(name) == LogFile("uuid", version, name)
    for part in (1, 2, 3):
        name = f"00000000000000000010.checkpoint.000000000{part}.0000000003.parquet"
        assert classify(name) == LogFile("multipart", 10, name, part=part, parts=3)
    for wrong in (
        "10.checkpoint.parquet",
        "00000000000000000010.checkpoint.json",
        "00000000000000000010.checkpoint.avro",
        f"00000000000000000010.checkpoint.{UUID[:-1]}.parquet",
        f"00000000000000000010.checkpoint.{UUID}.avro",
        "00000000000000000010.checkpoint.0000000001.0000000001.parquet",
        "00000000000000000010.checkpoint.0000000000.0000000003.parquet",
        "00000000000000000010.checkpoint.0000000004.0000000003.parquet",
        "00000000000000000010.checkpoint.1.3.parquet",
        "00000000000000000010.checkpoint.0000000001.0000000003.json",
    ):
        assert classify(wrong) is None, wrong


@pytest.mark.req("DL-CKPT-07", half="reader")
@pytest.mark.req("DL-CKPT-08", half="reader")
@pytest.mark.req("DL-CKPT-09", half="reader")
@every_checkpoint
def test_checkpoints_of_every_name_are_read(builder: DeltaBuilder, kind: dict[str, Any], road: Road) -> None:
    """The log entries are gone, so that the checkpoint alone knows."""
    add = builder.add(ids(1, 2), stats="full")
    builder.create(ID, add, builder.add(ids(3, 4), vector=builder.vector([0])), protocol=builder.features("x"))
    builder.commit(builder.protocol(3, 7, ["v2Checkpoint", "deletionVectors"], ["v2Checkpoint", "deletionVectors"]))
    builder.commit(builder.remove(add), *(builder.add(ids(number)) for number in (5, 6, 7)))
    paths = builder.checkpoint(**kind)
    assert all(classify(path.name) is not None for path in paths)
    for version in range(3):
        (builder.log / f"{version:020d}.json").unlink()
    assert road.column(open_table(builder.root).scan(), "id") == [4, 5, 6, 7]


@by_every_road
@pytest.mark.req("DL-CKPT-10")
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_checkpoint_with_a_missing_part_is_ignored(builder: DeltaBuilder, recorder: Recorder, missing: int) -> None:
    numbered_commits(builder, 12, 5)
    builder.checkpoint(10, kind="multipart", parts=3)[missing].unlink()
    assert ids_of(open_table(builder.root)) == list(range(13))
    assert _checkpoints_read(recorder) == {f"{5:020d}.checkpoint.parquet"}
    assert recorder.commits == list(range(12, 5, -1))
    for version in range(6):
        (builder.log / f"{version:020d}.json").unlink()
    (builder.log / f"{5:020d}.checkpoint.parquet").unlink()
    with pytest.raises(CorruptLogError, match="missing"):
        open_table(builder.root)


def test_parts_of_two_checkpoints_do_not_make_one(builder: DeltaBuilder, recorder: Recorder) -> None:
    """One checkpoint in two parts and one in three, each without a part."""
    numbered_commits(builder, 6)
    builder.checkpoint(5, kind="multipart", parts=3)[1].unlink()
    builder.checkpoint(5, kind="multipart", parts=2)[0].unlink()
    assert ids_of(open_table(builder.root)) == list(range(7))
    assert _checkpoints_read(recorder) == set()
    builder.checkpoint(5, kind="multipart", parts=2)
    recorder.clear()
    assert ids_of(open_table(builder.root)) == list(range(7))
    assert {(file.part, file.parts) for name in _checkpoints_read(recorder) if (file := classify(name))} == {
        (1, 2),
        (2, 2),
    }


@by_every_road
@pytest.mark.req("DL-CKPT-13", half="reader")
def test_forms_and_specifications(builder: DeltaBuilder) -> None:
    """Both specifications in classic files, V1 in parts, V2 by UUID; not V1 by UUID, nor V2 in parts."""
    numbered_commits(builder, 3)
    table_actions = builder.table_actions(3)
    metadata = {"checkpointMetadata": {"version": 3}}
    for version in range(4):
        (builder.log / f"{version:020d}.json").unlink()
    valid: list[tuple[list[Any], dict[str, Any]]] = [
        (table_actions, {"kind": "classic"}),
        ([metadata, *table_actions], {"kind": "classic"}),
        (table_actions, {"kind": "multipart", "parts": 2}),
        ([metadata, *table_actions], {"kind": "uuid-parquet"}),
        ([metadata, *table_actions], {"kind": "uuid-json"}),
    ]
    # Given a classic name to write with, no checkpointMetadata is put in.
    without = {"kind": "classic", "name": f"{3:020d}.checkpoint.{UUID}.parquet"}
    parts = {"kind": "multipart", "parts": 2}
    invalid: list[tuple[list[Any], dict[str, Any], str]] = [
        (table_actions, without, "UUID"),
        ([metadata, *table_actions], parts, "V2"),
    ]
    for actions, options in valid:
        paths = builder.checkpoint(3, actions=actions, **options)
        assert ids_of(open_table(builder.root)) == [0, 1, 2, 3]
        for path in paths:
            path.unlink()
    for actions, options, message in invalid:
        paths = builder.checkpoint(3, actions=actions, **options)
        with pytest.raises(CorruptCheckpointError, match=message):
            open_table(builder.root)
        for path in paths:
            path.unlink()


@by_every_road
@pytest.mark.req("DL-CKPT-14")
def test_any_checkpoint_of_a_version_will_do(builder: DeltaBuilder, recorder: Recorder) -> None:
    vector = builder.vector([1])
    gone, kept = builder.add(ids(100)), builder.add(ids(200, 201), vector=vector)
    numbered_commits(builder, 8)
    builder.commit(gone, kept, {"txn": {"appId": "app", "version": 3}})
    builder.commit(builder.remove(gone))
    paths = [path for kind in CHECKPOINT_KINDS for path in builder.checkpoint(10, **kind)]
    builder.commit(builder.add(ids(300)))
    seen = []
    for kind in CHECKPOINT_KINDS:
        for path in builder.log.glob("*.checkpoint.*"):
            path.unlink()
        chosen = builder.checkpoint(10, **kind)
        recorder.clear()
        table = open_table(builder.root, "delta")
        seen.append((live_files(table), tombstones(table), table.transactions, table.metadata, ids_of(table)))
        assert _checkpoints_read(recorder) == {path.name for path in chosen}
        assert recorder.commits == [11]
    assert seen[0][-1] == [*range(9), 200, 300]
    assert all(one == seen[0] for one in seen)
    assert len(paths) == 9


def test_another_checkpoint_of_the_version_stands_in_for_a_damaged_one(
    builder: DeltaBuilder, recorder: Recorder
) -> None:
    numbered_commits(builder, 6)
    good = builder.checkpoint(5, kind="uuid-parquet")
    builder.checkpoint(5)[0].write_bytes(b"PAR1")
    for version in range(6):
        (builder.log / f"{version:020d}.json").unlink()
    assert ids_of(open_table(builder.root)) == list(range(7))
    assert good[0].name in recorder.read


@by_every_road
@pytest.mark.req("DL-CKPT-41")
@every_checkpoint
def test_commits_are_replayed_on_top(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    f = builder.add(ids(1), path="f.parquet")
    builder.create(ID, f, builder.add(ids(2), path="g.parquet"), protocol=builder.features("v2Checkpoint"))
    for _ in range(10):
        builder.commit()
    builder.checkpoint(10, **kind)
    builder.commit(builder.remove(f))
    assert live_files(open_table(builder.root, version=10)) == [("f.parquet", 0), ("g.parquet", 0)]
    table = open_table(builder.root)
    assert live_files(table) == [("g.parquet", 0)]
    assert ids_of(table) == [2]
    assert tombstones(table) == [("f.parquet", None)]


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(builder: DeltaBuilder, recorder: Recorder) -> None:
    numbered_commits(builder, 12, 3, 6, 9)
    for version, damage in ((9, b""), (6, b"PAR1" + bytes(100) + b"PAR1")):
        (builder.log / f"{version:020d}.checkpoint.parquet").write_bytes(damage)
    assert ids_of(open_table(builder.root)) == list(range(13))
    assert recorder.read.count(f"{3:020d}.checkpoint.parquet")
    (builder.log / f"{3:020d}.checkpoint.parquet").write_bytes(b"")
    assert ids_of(open_table(builder.root)) == list(range(13))
    (builder.log / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptCheckpointError, match=f"{9:020d}.checkpoint.parquet"):
        open_table(builder.root)


def test_a_checkpoint_whose_file_has_another_uuid_spelling(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 2)
    name = f"{2:020d}.checkpoint.{str(uuid.uuid4()).upper()}.parquet"
    builder.checkpoint(2, kind="uuid-parquet", name=name)
    for version in range(3):
        (builder.log / f"{version:020d}.json").unlink()
    assert ids_of(open_table(builder.root)) == [0, 1, 2]


def test_unknown_members_of_table_actions_are_kept(builder: DeltaBuilder) -> None:
    """A newer writer may store columns of ``metaData`` and ``protocol`` that this library does not know."""
    builder.create(ID, builder.add(ids(0), path="f0.parquet"), protocol=builder.protocol(3, 7, [], []))
    (path,) = builder.checkpoint(0)
    stored = pq.read_table(path)
    fresh: list[tuple[str, pa.DataType, Any]] = [
        ("text", pa.string(), "ü"),
        ("count", pa.int64(), 7),
        ("nothing", pa.string(), None),
        ("names", pa.list_(pa.string()), ["a", None]),
        ("inner", pa.struct([("map", pa.map_(pa.string(), pa.string()))]), {"map": [("k", None)]}),
        ("empty", pa.map_(pa.string(), pa.int64()), []),
        ("list", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.bool_())])), [{"a": 1, "b": None}]),
        ("bytes", pa.binary(), b"no JSON"),
    ]
    for name in ("metaData", "protocol"):
        column = stored.column(name).combine_chunks()
        arrays = [column.field(number) for number in range(column.type.num_fields)]
        arrays += [pa.array([value] * len(column), kind) for _, kind, value in fresh]
        fields = [*column.type, *(pa.field(member, kind) for member, kind, _ in fresh)]
        made = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
        stored = stored.set_column(stored.schema.get_field_index(name), name, made)
    pq.write_table(stored, path)
    (builder.log / commit_name(0)).unlink()
    table = open_table(builder.root)
    assert isinstance(table, DeltaTable)
    kept = {
        "text": "ü",
        "count": 7,
        "names": ["a", None],
        "inner": {"map": {"k": None}},
        "empty": {},
        "list": [{"a": 1}],
    }
    for action in (table.metadata.with_members({"name": "new"}).action, table.protocol.action):
        members = json.loads(action.to_json())[action.name]
        assert {name: members[name] for name, _, _ in fresh if name in members} == kept
    assert ids_of(table) == [0]
