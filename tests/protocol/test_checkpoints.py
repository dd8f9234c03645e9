"""Checkpoints: which one is read, and what is in it (DL-CKPT)."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.delta.names import LogFile, classify
from deltaberg.errors import CorruptCheckpointError, CorruptLogError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import rewrite, with_column, without_column
from tests.support.delta_schemas import field
from tests.support.recorder import Recorder
from tests.support.roads import Road
from tests.support.rows import ID, ids, ids_of, live_files, tombstones

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
KINDS: list[dict[str, Any]] = [
    {"kind": "classic"},
    {"kind": "classic", "sidecars": 2},
    {"kind": "multipart", "parts": 3},
    {"kind": "uuid-parquet"},
    {"kind": "uuid-parquet", "sidecars": 2},
    {"kind": "uuid-json"},
    {"kind": "uuid-json", "sidecars": 2},
]


def _name(kind: dict[str, Any]) -> str:
    return str(kind["kind"]) + ("-sidecars" if "sidecars" in kind else "")


every_kind = pytest.mark.parametrize("kind", KINDS, ids=_name)


def _commits(builder: DeltaBuilder, last: int, *checkpoints: int, **options: Any) -> None:
    """A table whose version ``n`` holds the rows 0 to n, each in a file of its own."""
    protocol = builder.features("v2Checkpoint", "deletionVectors")
    builder.create(ID, builder.add(ids(0)), protocol=protocol)
    for version in range(1, last + 1):
        builder.commit(builder.add(ids(version)))
        if version in checkpoints:
            builder.checkpoint(**options)


def _checkpoints_read(recorder: Recorder) -> set[str]:
    return {name for name in recorder.read if ".checkpoint." in name}


@pytest.mark.req("DL-CKPT-02", half="reader")
def test_the_newest_checkpoint_is_used(builder: DeltaBuilder, recorder: Recorder) -> None:
    _commits(builder, 22, 10, 20)
    table = open_table(builder.root)
    assert ids_of(table) == list(range(23))
    assert _checkpoints_read(recorder) == {f"{20:020d}.checkpoint.parquet"}
    assert recorder.commits == [22, 21]
    recorder.clear()
    assert ids_of(open_table(builder.root, version=19)) == list(range(20))
    assert _checkpoints_read(recorder) == {f"{10:020d}.checkpoint.parquet"}
    assert recorder.commits == list(range(19, 10, -1))


@pytest.mark.req("DL-CKPT-05", half="reader")
@every_kind
def test_tombstones_of_checkpoints(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    """A tombstone that a checkpoint holds is one; what a later checkpoint let go is none any more."""
    add = builder.add(ids(1), path="f.parquet", vector=builder.vector([0], "i"))
    builder.create(ID, add, builder.add(ids(2), path="g.parquet"), protocol=builder.features("deletionVectors"))
    builder.commit(builder.remove(add))
    builder.checkpoint(**kind)
    builder.commit(builder.add(ids(3), path="h.parquet"))
    table = open_table(builder.root)
    assert tombstones(table) == [("f.parquet", add["add"]["deletionVector"]["pathOrInlineDv"])]
    assert live_files(table) == [("g.parquet", 0), ("h.parquet", 0)]
    kept = [action for action in builder._table_actions(2) if "remove" not in action]
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
    table = open_table(builder.root)
    assert table.version == 249
    assert len(table.live_files) == 250
    assert open_table(builder.root, version=123).version == 123


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
@every_kind
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


@pytest.mark.req("DL-CKPT-10")
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_checkpoint_with_a_missing_part_is_ignored(builder: DeltaBuilder, recorder: Recorder, missing: int) -> None:
    _commits(builder, 12, 5)
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
    _commits(builder, 6)
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


@pytest.mark.req("DL-CKPT-13", half="reader")
def test_forms_and_specifications(builder: DeltaBuilder) -> None:
    """Both specifications in classic files, V1 in parts, V2 by UUID; not V1 by UUID, nor V2 in parts."""
    _commits(builder, 3)
    table_actions = builder._table_actions(3)
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


@pytest.mark.req("DL-CKPT-14")
def test_any_checkpoint_of_a_version_will_do(builder: DeltaBuilder, recorder: Recorder) -> None:
    vector = builder.vector([1])
    gone, kept = builder.add(ids(100)), builder.add(ids(200, 201), vector=vector)
    _commits(builder, 8)
    builder.commit(gone, kept, {"txn": {"appId": "app", "version": 3}})
    builder.commit(builder.remove(gone))
    paths = [path for kind in KINDS for path in builder.checkpoint(10, **kind)]
    builder.commit(builder.add(ids(300)))
    seen = []
    for kind in KINDS:
        for path in builder.log.glob("*.checkpoint.*"):
            path.unlink()
        chosen = builder.checkpoint(10, **kind)
        recorder.clear()
        table = open_table(builder.root)
        seen.append((live_files(table), tombstones(table), table.transactions, table.metadata, ids_of(table)))
        assert _checkpoints_read(recorder) == {path.name for path in chosen}
        assert recorder.commits == [11]
    assert seen[0][-1] == [*range(9), 200, 300]
    assert all(one == seen[0] for one in seen)
    assert len(paths) == 9


def test_another_checkpoint_of_the_version_stands_in_for_a_damaged_one(
    builder: DeltaBuilder, recorder: Recorder
) -> None:
    _commits(builder, 6)
    good = builder.checkpoint(5, kind="uuid-parquet")
    builder.checkpoint(5)[0].write_bytes(b"PAR1")
    for version in range(6):
        (builder.log / f"{version:020d}.json").unlink()
    assert ids_of(open_table(builder.root)) == list(range(7))
    assert good[0].name in recorder.read


@pytest.mark.req("DL-CKPT-17")
def test_missing_columns_are_null(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    (path,) = builder.checkpoint()
    rewrite(path, lambda table: without_column(table, "add", "baseRowId"))
    names = pq.read_schema(path).names
    assert {"txn", "domainMetadata", "remove", "sidecar", "checkpointMetadata"}.isdisjoint(names)
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.root)
    assert table.live_files["baseRowId"].to_pylist() == [None]
    assert (table.transactions, table.domain_metadata) == ({}, {})
    assert len(table.tombstones) == 0
    assert ids_of(table) == [1]


_OPTIONAL = ["stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"]


@pytest.mark.req("DL-CKPT-17")
@pytest.mark.parametrize("name", [*_OPTIONAL, "dataChange", "modificationTime"])
def test_a_missing_field_of_adds_is_null(builder: DeltaBuilder, name: str) -> None:
    builder.create(ID, builder.add(ids(1)), builder.add(ids(2)))
    (path,) = builder.checkpoint()
    rewrite(path, lambda table: without_column(table, "add", name))
    table = open_table(builder.root)
    if name != "stats":
        assert table.live_files[name].to_pylist() == [None, None]
    assert ids_of(table) == [1, 2]


def test_unknown_columns_are_ignored(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    (path,) = builder.checkpoint()

    def change(table: pa.Table) -> pa.Table:
        rows = len(table)
        more = with_column(table, "add", "nobodyKnows", pa.array([[1]] * rows))
        more = with_column(more, "metaData", "zzz", pa.array([{"a": {"b": 1.5}}] * rows))
        only = pa.array([{"path": "no.parquet", "size": 1}] + [None] * (rows - 1))
        return more.append_column("fooAction", only).append_column("commitInfo", pa.array(["x"] * rows))

    rewrite(path, change)
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.root)
    assert len(table.live_files) == 1
    assert ids_of(table) == [1]


def test_an_empty_vector_of_a_checkpoint_is_none(builder: DeltaBuilder) -> None:
    """Some writers give a struct of nulls where there is no deletion vector."""
    builder.create(ID, builder.add(ids(1, 2)), protocol=builder.features("deletionVectors"))
    (path,) = builder.checkpoint()
    fields = [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]

    def change(table: pa.Table) -> pa.Table:
        empty = pa.StructArray.from_arrays([pa.nulls(len(table), one.type) for one in fields], fields=fields)
        return with_column(table, "add", "deletionVector", empty)

    rewrite(path, change)
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.root)
    assert ids_of(table) == [1, 2]
    assert table.scan().count() == 2
    (add,) = builder.live().values()
    builder.commit(builder.remove(add))
    assert ids_of(table.refresh()) == []


@pytest.mark.req("DL-CKPT-21")
@pytest.mark.parametrize("stats", ["json", "struct", "both", "none"])
def test_statistics_may_be_text_or_struct_or_missing(builder: DeltaBuilder, stats: str, road: Road) -> None:
    for version, values in enumerate([(1, 2, 3), (10, 11), (20,)]):
        add = builder.add(ids(*values), path=f"f{version}.parquet", stats="full")
        if version:
            builder.commit(add)
        else:
            builder.create(ID, add)
    builder.checkpoint(stats=stats)
    for version in range(3):
        (builder.log / f"{version:020d}.json").unlink()
    table = open_table(builder.root)
    assert road.column(table.scan(), "id") == [1, 2, 3, 10, 11, 20]
    scan = table.scan(filter="id >= 10 and id < 15")
    assert road.column(scan, "id") == [10, 11]
    everything = ["f0.parquet", "f1.parquet", "f2.parquet"]
    kept = sorted(Path(path).name for path in scan.files()["file_path"].to_pylist())
    assert kept == (everything if stats == "none" else ["f1.parquet"])
    counts = sorted(table.scan().files()["record_count"].to_pylist(), key=repr)
    assert counts == ([None] * 3 if stats == "none" else [1, 2, 3])


_EXAMPLE = pa.schema(
    [
        ("date", pa.date32()),
        ("region", pa.string()),
        ("asset", pa.string()),
        ("quantity", pa.float64()),
        ("is_available", pa.bool_()),
    ]
)


def _example_adds(builder: DeltaBuilder) -> list[Any]:
    adds = []
    for number, (asset, quantity) in enumerate([("bond", 1.5), ("gold", 20.0), ("wheat", None)]):
        rows = pa.table({"asset": [asset], "quantity": pa.array([quantity], pa.float64()), "is_available": [True]})
        partition: dict[str, str | None] = {"date": f"2020-01-0{number + 1}", "region": "eu" if number else None}
        add = builder.add(rows, partition=partition, stats="full", path=f"f{number}.parquet")
        add["add"]["partitionValues_parsed"] = {
            "date": dt.date(2020, 1, number + 1),
            "region": partition["region"],
        }
        adds.append(add)
    return adds


@pytest.mark.req("DL-CKPT-23", half="reader")
@pytest.mark.parametrize("spelling", ["nullCount", "nullCounts"])
def test_the_example_of_a_checkpoint_schema(builder: DeltaBuilder, spelling: str) -> None:
    adds = _example_adds(builder)
    for add in adds:
        add["add"]["stats"] = add["add"]["stats"].replace("nullCount", spelling)
    partition_by = ["date", "region"]
    table_actions = [
        builder.features("v2Checkpoint"),
        builder.metadata(_EXAMPLE, partition_by, {"delta.checkpoint.writeStatsAsStruct": "true"}),
        {"txn": {"appId": "app", "version": 1}},
        {"remove": {"path": "gone.parquet", "deletionTimestamp": 1515488792485, "dataChange": True}},
        {"checkpointMetadata": {"version": 0, "tags": {"a": "b"}}},
    ]
    (path,) = builder.checkpoint(0, actions=[*table_actions, *adds], stats="both")
    stored = pq.read_schema(path)
    inside = {name: [one.name for one in stored.field(name).type] for name in stored.names}
    assert {"date", "region"} == {one.name for one in stored.field("add").type.field("partitionValues_parsed").type}
    parsed = stored.field("add").type.field("stats_parsed").type
    assert [one.name for one in parsed] == ["numRecords", "minValues", "maxValues", spelling]
    assert [one.name for one in parsed.field("minValues").type] == ["asset", "quantity"]
    assert inside["checkpointMetadata"] == ["version", "tags"]
    table = open_table(builder.root)
    assert table.transactions["app"].version == 1
    assert tombstones(table) == [("gone.parquet", None)]
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["date"])
    assert [(row["date"].day, row["region"], row["asset"], row["quantity"]) for row in rows] == [
        (1, None, "bond", 1.5),
        (2, "eu", "gold", 20.0),
        (3, "eu", "wheat", None),
    ]
    small = ["f0.parquet"] if spelling == "nullCount" else ["f0.parquet", "f2.parquet"]
    assert _names(table, "quantity < 10") == small
    assert _names(table, "asset = 'bond'") == ["f0.parquet"]
    assert _names(table, "date = '2020-01-03'") == ["f2.parquet"]
    assert _names(table, "is_available") == ["f0.parquet", "f1.parquet", "f2.parquet"]


def _names(table: Any, condition: str) -> list[str]:
    return sorted(Path(path).name for path in table.scan(filter=condition).files()["file_path"].to_pylist())


@pytest.mark.req("DL-CKPT-25", half="reader")
@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("stats", ["json", "struct"])
def test_checkpoints_of_mapped_tables_have_physical_names(builder: DeltaBuilder, mode: str, stats: str) -> None:
    physical = {
        "date": "col-798f4abc-c63f-444c-9a04-e2cf1ecba115",
        "region": "col-19034dc3-8e3d-4156-82fc-8e05533c088e",
        "asset": "col-b96921f0-2329-4cb3-8d79-184b2bdab23b",
        "quantity": "col-04ee4877-ee53-4cb9-b1fb-1a4eb74b508c",
    }
    types = {"date": "date", "region": "string", "asset": "string", "quantity": "double"}
    fields = [
        field(name, types[name], delta__columnMapping__id=number, delta__columnMapping__physicalName=physical[name])
        for number, name in enumerate(physical, start=1)
    ]
    adds = []
    for number, (asset, quantity) in enumerate([("bond", 1.5), ("gold", 20.0)]):
        stored = pa.schema(
            [
                pa.field(physical["asset"], pa.string(), metadata={"PARQUET:field_id": "3"}),
                pa.field(physical["quantity"], pa.float64(), metadata={"PARQUET:field_id": "4"}),
            ]
        )
        rows = pa.table([[asset], [quantity]], schema=stored)
        day = f"2020-01-0{number + 1}"
        partition: dict[str, str | None] = {physical["date"]: day, physical["region"]: None}
        typed = {physical["date"]: dt.date(2020, 1, number + 1), physical["region"]: None}
        add = builder.add(rows, partition=partition, stats="full", path=f"f{number}.parquet")
        adds.append({"add": {**add["add"], "partitionValues_parsed": typed}})
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "4"}
    table_actions = [builder.protocol(2, 5), builder.metadata(fields, ["date", "region"], configuration)]
    (path,) = builder.checkpoint(0, actions=[*table_actions, *adds], stats=stats)
    add_type = pq.read_schema(path).field("add").type
    assert {one.name for one in add_type.field("partitionValues_parsed").type} == {physical["date"], physical["region"]}
    if stats == "struct":
        bounds = add_type.field("stats_parsed").type.field("minValues").type
        assert {one.name for one in bounds} == {physical["asset"], physical["quantity"]}
    table = open_table(builder.root)
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["asset"])
    assert rows == [
        {"date": dt.date(2020, 1, 1), "region": None, "asset": "bond", "quantity": 1.5},
        {"date": dt.date(2020, 1, 2), "region": None, "asset": "gold", "quantity": 20.0},
    ]
    assert _names(table, "quantity < 10") == ["f0.parquet"]
    assert _names(table, "asset = 'bond'") == ["f0.parquet"]
    assert _names(table, "date = '2020-01-02'") == ["f1.parquet"]


@pytest.mark.req("DL-CKPT-41")
@every_kind
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
    _commits(builder, 12, 3, 6, 9)
    for version, damage in ((9, b""), (6, b"PAR1" + bytes(100) + b"PAR1")):
        (builder.log / f"{version:020d}.checkpoint.parquet").write_bytes(damage)
    assert ids_of(open_table(builder.root)) == list(range(13))
    assert recorder.read.count(f"{3:020d}.checkpoint.parquet")
    (builder.log / f"{3:020d}.checkpoint.parquet").write_bytes(b"")
    assert ids_of(open_table(builder.root)) == list(range(13))
    (builder.log / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptCheckpointError, match=f"{9:020d}.checkpoint.parquet"):
        open_table(builder.root)


@pytest.mark.parametrize("missing", ["metaData", "protocol"])
@pytest.mark.parametrize("kind", ["classic", "uuid-json"])
def test_a_checkpoint_without_metadata_is_refused(builder: DeltaBuilder, missing: str, kind: str) -> None:
    _commits(builder, 2)
    builder.checkpoint(2, actions=[one for one in builder._table_actions(2) if missing not in one], kind=kind)
    with pytest.raises(CorruptLogError, match=f"no {missing} action"):
        open_table(builder.root)
    builder.commit(builder.metadata(ID) if missing == "metaData" else builder.features())
    assert ids_of(open_table(builder.root)) == [0, 1, 2]


@pytest.mark.parametrize(
    "broken",
    [
        {"txn": {"appId": None, "version": 1}},
        {"txn": {"appId": "a", "version": None}},
        {"domainMetadata": {"domain": "d", "configuration": None, "removed": False}},
        {"protocol": {"minReaderVersion": None, "minWriterVersion": 2}},
        {"metaData": {"id": None, "format": {"provider": "parquet", "options": {}}}},
        {"sidecar": {"path": None, "sizeInBytes": 1, "modificationTime": 1}},
    ],
    ids=["txn-appId", "txn-version", "domain-configuration", "protocol", "metaData", "sidecar"],
)
def test_a_checkpoint_of_incomplete_actions_is_damaged(builder: DeltaBuilder, broken: dict[str, Any]) -> None:
    """It is passed over as long as the log entries are there."""
    _commits(builder, 2)
    name = next(iter(broken))
    kept = [one for one in builder._table_actions(2) if name not in one]
    builder.checkpoint(2, actions=[{"checkpointMetadata": {"version": 2}}, *kept, broken])
    table = open_table(builder.root)
    assert ids_of(table) == [0, 1, 2]
    assert (table.transactions, table.domain_metadata) == ({}, {})
    (builder.log / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptCheckpointError, match=name):
        open_table(builder.root)


def test_a_checkpoint_whose_file_has_another_uuid_spelling(builder: DeltaBuilder) -> None:
    _commits(builder, 2)
    name = f"{2:020d}.checkpoint.{str(uuid.uuid4()).upper()}.parquet"
    builder.checkpoint(2, kind="uuid-parquet", name=name)
    for version in range(3):
        (builder.log / f"{version:020d}.json").unlink()
    assert ids_of(open_table(builder.root)) == [0, 1, 2]
    assert json.loads(open_table(builder.root).metadata.schema_string or "")["type"] == "struct"
