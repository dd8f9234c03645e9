"""What is in a checkpoint: columns, statistics, and actions that are incomplete (DL-CKPT)."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptCheckpointError, CorruptLogError, SpecViolationError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import rewrite, with_column, without_column
from tests.support.delta_schemas import field
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, every_checkpoint, ids, ids_of, numbered_commits, tombstones


@by_every_road
@pytest.mark.req("DL-CKPT-17")
def test_missing_columns_are_null(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    (path,) = builder.checkpoint()
    rewrite(path, lambda table: without_column(table, "add", "baseRowId"))
    names = pq.read_schema(path).names
    assert {"txn", "domainMetadata", "remove", "sidecar", "checkpointMetadata"}.isdisjoint(names)
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.root, "delta")
    assert table.live_files["baseRowId"].to_pylist() == [None]
    assert (table.transactions, table.domain_metadata) == ({}, {})
    assert len(table.tombstones) == 0
    assert ids_of(table) == [1]


_OPTIONAL = ["stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"]


@by_every_road
@pytest.mark.req("DL-CKPT-17")
@pytest.mark.parametrize("name", [*_OPTIONAL, "dataChange", "modificationTime"])
def test_a_missing_field_of_adds_is_null(builder: DeltaBuilder, name: str) -> None:
    builder.create(ID, builder.add(ids(1)), builder.add(ids(2)))
    (path,) = builder.checkpoint()
    rewrite(path, lambda table: without_column(table, "add", name))
    table = open_table(builder.root, "delta")
    if name != "stats":
        assert table.live_files[name].to_pylist() == [None, None]
    assert ids_of(table) == [1, 2]


@by_every_road
@pytest.mark.req("DL-CKPT-16", half="reader")
@every_checkpoint
def test_a_row_is_one_action(builder: DeltaBuilder, kind: dict[str, Any]) -> None:
    """Each action counts, wherever it is; the validating reader says how many rows hold more."""
    builder.create(ID, builder.add(ids(1)), builder.add(ids(2)), protocol=builder.features("v2Checkpoint"))
    paths = builder.checkpoint(0, **kind)
    if kind["kind"] != "multipart":
        assert open_table(builder.root, "delta", validate=True).version == 0
    path = paths[-1]
    if path.suffix == ".json":
        lines = path.read_text().splitlines()
        merged = {**json.loads(lines[-1]), "txn": {"appId": "app", "version": 1}}
        path.write_text("\n".join([*lines[:-1], json.dumps(merged)]))
    else:
        last = {"appId": "app", "version": 1}
        rewrite(path, lambda table: table.append_column("txn", pa.array([None] * (len(table) - 1) + [last])))
    (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.root, "delta")
    assert table.transactions["app"].version == 1
    assert ids_of(table) == [1, 2]
    with pytest.raises(SpecViolationError, match="1 rows with more than one action"):
        open_table(builder.root, "delta", validate=True)


@by_every_road
@pytest.mark.req("DL-CKPT-16", half="reader")
def test_a_row_of_a_sidecar_is_one_action(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), builder.add(ids(2)), protocol=builder.features("v2Checkpoint"))
    builder.checkpoint(0, kind="uuid-parquet", sidecars=1)
    (sidecar,) = (builder.log / "_sidecars").iterdir()
    removes = pa.array([{"path": "gone.parquet", "dataChange": True}, None])
    rewrite(sidecar, lambda table: table.append_column("remove", removes))
    table = open_table(builder.root)
    assert tombstones(table) == [("gone.parquet", None)]
    assert ids_of(table) == [1, 2]
    with pytest.raises(SpecViolationError, match="1 rows with more than one action"):
        open_table(builder.root, validate=True)


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
    table = open_table(builder.root, "delta")
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


@by_every_road
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
    table = open_table(builder.root, "delta")
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


@by_every_road
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


@pytest.mark.parametrize("missing", ["metaData", "protocol"])
@pytest.mark.parametrize("kind", ["classic", "uuid-json"])
def test_a_checkpoint_without_metadata_is_refused(builder: DeltaBuilder, missing: str, kind: str) -> None:
    numbered_commits(builder, 2)
    builder.checkpoint(2, actions=[one for one in builder.table_actions(2) if missing not in one], kind=kind)
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
    numbered_commits(builder, 2)
    name = next(iter(broken))
    kept = [one for one in builder.table_actions(2) if name not in one]
    builder.checkpoint(2, actions=[{"checkpointMetadata": {"version": 2}}, *kept, broken])
    table = open_table(builder.root, "delta")
    assert ids_of(table) == [0, 1, 2]
    assert (table.transactions, table.domain_metadata) == ({}, {})
    (builder.log / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptCheckpointError, match=name):
        open_table(builder.root, "delta")
