"""What the log entries of our commits say, to the letter of the protocol's sections about actions."""

from __future__ import annotations

import json
import random
import shutil
import time
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import Format, Metadata, Protocol
from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.log.encode import check_unique
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import (
    ConstraintViolationError,
    CorruptLogError,
    InvalidArgumentError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec, open_store
from deltaberg.table.write import places, write
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of, live_files, tombstones
from tests.support.written_checkpoints import forget_before

pytestmark = pytest.mark.one_backend

_SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def _lines(root: Path, version: int) -> list[str]:
    return (root / "_delta_log" / commit_name(version)).read_text("utf-8").splitlines()


@pytest.mark.req("DL-GEN-02", half="writer")
def test_the_state_after_three_commits(tmp_path: Path) -> None:
    """Create, append two files, and delete one of them with the progress of an application."""
    table = create_table(tmp_path / "t", ID)
    table.append(pa.concat_tables([ids(*range(5000)), ids(*range(5000))]), target_file_size=20_000)
    files = len(table.live_files)
    with begin(table, txn=("app", 3)) as transaction:
        transaction.remove_files(transaction.snapshot.live.table.slice(1))
    last: dict[str, dict[Any, Any]] = {}
    for version in range(3):
        for line in _lines(tmp_path / "t", version):
            ((name, body),) = json.loads(line).items()
            key = body.get("path", body.get("appId"))
            last.setdefault(name, {})[key] = body
            if name == "remove":
                del last["add"][key]
    counts = {name: len(found) for name, found in last.items() if name != "commitInfo"}
    assert counts == {"protocol": 1, "metaData": 1, "add": 1, "remove": files - 1, "txn": 1}
    assert (len(table.live_files), len(table.tombstones), table.transactions["app"].version) == (1, files - 1, 3)


@pytest.mark.req("DL-GEN-06", half="writer")
def test_a_moved_table_is_the_same_table(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([*ID, ("p", pa.string())]), partition_by="p")
    table.append(pa.table({"id": [1, 2], "p": ["a b", "c%d"]}))
    with begin(table) as transaction:
        transaction.remove_files(transaction.snapshot.live.table.slice(0, 1))
    table.append(pa.table({"id": [3], "p": [None]}, schema=table.scan().to_arrow().schema))
    table.checkpoint()
    rows = table.scan().to_arrow()
    shutil.move(tmp_path / "t", tmp_path / "moved")
    moved = DeltaTable(tmp_path / "moved")
    assert (moved.version, moved.scan().to_arrow()) == (3, rows)
    assert moved.append(pa.table({"id": [4], "p": ["x"]})).version == 4


@pytest.mark.req("DL-FILE-02", half="writer")
def test_directories_mean_nothing(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("date", pa.date32())])
    table = create_table(tmp_path / "t", columns, partition_by="date")
    add = {
        "path": "date=2099-01-01/f.parquet",
        "partitionValues": {"date": "2017-12-10"},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    with begin(table) as transaction:
        transaction.add_actions([LogAction("add", add)])
    assert named_actions(tmp_path / "t", 1, "add") == [add]
    # What rewrites the action, a checkpoint and a removal, keeps the value and the path.
    table.checkpoint()
    forget_before(tmp_path / "t" / "_delta_log", 1)
    copied = DeltaTable(tmp_path / "t")
    with begin(copied) as transaction:
        transaction.remove_files(transaction.snapshot.live.table)
    (remove,) = named_actions(tmp_path / "t", 2, "remove")
    assert (remove["path"], remove["partitionValues"]) == (add["path"], add["partitionValues"])


@pytest.mark.req("DL-FILE-07", half="writer")
def test_a_thousand_files_have_a_thousand_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, root = open_store(parse_location(str(tmp_path))), str(tmp_path)
    spec = WriteSpec(Struct((Field("id", Primitive("long")),)))
    names = {places.file_place(spec, (), 0).path for _ in range(1000)}
    assert len(names) == 1000
    (path,) = write_files(ids(1), spec, store, root).column("path").to_pylist()
    before = (tmp_path / path).read_bytes()
    monkeypatch.setattr(write, "file_place", lambda *_: places.FilePlace(path, True))
    with pytest.raises(StorageError, match="a data file of this name exists, and is never"):
        write_files(ids(2), spec, store, root)
    assert (tmp_path / path).read_bytes() == before


@pytest.mark.req("DL-FILE-09", "DL-ACT-02", half="writer")
def test_the_format_is_parquet(tmp_path: Path, builder: DeltaBuilder) -> None:
    create_table(tmp_path / "t", ID)
    (metadata,) = named_actions(tmp_path / "t", 0, "metaData")
    assert metadata["format"] == {"provider": "parquet", "options": {}}
    assert '"format":{"provider":"parquet","options":{}}' in "\n".join(_lines(tmp_path / "t", 0))
    builder.commit(builder.protocol(), builder.metadata(ID, format={"provider": "csv", "options": {}}))
    with pytest.raises(UnsupportedFeatureError, match="unsupported format provider csv"):
        DeltaTable(builder.root).append(ids(1))


@pytest.mark.req("DL-LOG-04", half="writer")
def test_the_order_of_lines_does_not_matter(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1, 2, 3), stats="full", path="a.parquet")
    builder.create(ID, add, protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    vector = builder.vector([1])
    with begin(table) as transaction:
        transaction.remove_files(transaction.snapshot.live.table)
        transaction.add_actions([LogAction("add", {**add["add"], "deletionVector": vector})])
        transaction.set_transaction("app", 4)
    lines = _lines(builder.root, 1)
    assert len(lines) == 4
    for order in permutations(lines):
        builder.commit_text("".join(f"{line}\n" for line in order), 1)
        found = DeltaTable(builder.root)
        assert (ids_of(found), live_files(found), found.transactions["app"].version) == ([1, 3], [("a.parquet", 1)], 4)
        assert tombstones(found) == [("a.parquet", None)]


@pytest.mark.req("DL-LOG-11", half="writer")
def test_actions_of_checkpoints_stay_out_of_log_entries(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": 2})
    for number in range(6):
        table.append(ids(number))
    assert any(b"checkpointMetadata" in path.read_bytes() for path in (tmp_path / "t/_delta_log").glob("*.checkpoint*"))
    names = {name for version in range(7) for line in _lines(tmp_path / "t", version) for name in json.loads(line)}
    assert names == {"commitInfo", "protocol", "metaData", "add"}
    for name in ("sidecar", "checkpointMetadata"):
        with pytest.raises(InvalidArgumentError, match=name), begin(table) as transaction:
            transaction.add_actions([LogAction(name, {"path": "x", "version": 1})])


@pytest.mark.req("DL-ACT-01", "DL-ACT-03", half="writer")
def test_members_of_metadata(tmp_path: Path) -> None:
    members: dict[str, Any] = {
        "id": "af23c9d7-fff1-4a5a-a2c8-55c59bd782aa",
        "name": "orders",
        "description": 'all\n"of" them',
        "format": {"provider": "parquet", "options": {"a": "b"}},
        "schemaString": _SCHEMA,
        "partitionColumns": [],
        "configuration": {"owner": "ada"},
        "createdTime": 1_515_491_537_026,
    }
    table = create_table(tmp_path / "t", ID)
    with begin(table) as transaction:
        transaction.set_metadata(table.metadata.with_members(members))
    assert named_actions(tmp_path / "t", 1, "metaData") == [members]
    (line,) = [line for line in _lines(tmp_path / "t", 1) if "metaData" in line]
    assert '"schemaString":"{\\"type\\":\\"struct\\",' in line
    assert json.loads(json.loads(line)["metaData"]["schemaString"])["type"] == "struct"
    optional = ("name", "description", "createdTime")
    with begin(table) as transaction:
        transaction.set_metadata(table.metadata.with_members(dict.fromkeys(optional)))
    assert named_actions(tmp_path / "t", 2, "metaData") == [{k: v for k, v in members.items() if k not in optional}]
    found = DeltaTable(tmp_path / "t").metadata
    assert (found.name, found.description, found.created_time) == (None, None, None)


@pytest.mark.req("DL-ACT-01", half="writer")
@pytest.mark.parametrize("member", ["id", "format", "schemaString", "partitionColumns", "configuration"])
def test_metadata_without_a_required_member_is_not_written(tmp_path: Path, member: str) -> None:
    table = create_table(tmp_path / "t", ID)
    with (
        pytest.raises((InvalidArgumentError, CorruptLogError), match=member),
        begin(table) as transaction,
    ):
        transaction.set_metadata(table.metadata.with_members({"description": "changed", member: None}))
    assert DeltaTable(tmp_path / "t").version == 0


@pytest.mark.req("DL-ACT-04", half="writer")
def test_properties_are_texts(tmp_path: Path) -> None:
    properties = {"delta.appendOnly": True, "delta.checkpointInterval": 7, "delta.columnMapping.mode": "name"}
    columns = pa.schema([(name, pa.int64()) for name in "abcd"])
    table = create_table(tmp_path / "t", columns, properties=properties)
    (metadata,) = named_actions(tmp_path / "t", 0, "metaData")
    wanted = {"delta.appendOnly": "true", "delta.checkpointInterval": "7", "delta.columnMapping.maxColumnId": "4"}
    assert {**metadata["configuration"], **wanted} == metadata["configuration"]
    table.alter().set({"delta.appendOnly": False}).add("e", pa.int64()).commit()
    (metadata,) = named_actions(tmp_path / "t", 1, "metaData")
    assert metadata["configuration"]["delta.appendOnly"] == "false"
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "5"


@pytest.mark.req("DL-ACT-05", half="writer")
def test_metadata_replaces_all_of_it(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, name="orders", properties={"a": "1"})
    with begin(table) as transaction:
        transaction.set_metadata(table.metadata.with_members({"name": None, "configuration": {}}))
    for found in (table, DeltaTable(tmp_path / "t")):
        assert (found.properties, found.metadata.name) == ({}, None)
    (metadata,) = named_actions(tmp_path / "t", 1, "metaData")
    assert (metadata["configuration"], metadata.get("name")) == ({}, None)
    table.alter().set({"b": "2"}).commit()
    # What stays is repeated.
    assert named_actions(tmp_path / "t", 2, "metaData")[0]["schemaString"] == metadata["schemaString"]


@pytest.mark.req("DL-ACT-06", half="writer")
def test_the_example_of_metadata_keeps_no_rows(builder: DeltaBuilder) -> None:
    identity = "af23c9d7-fff1-4a5a-a2c8-55c59bd782aa"
    log = LogDirectory(parse_location(builder.root), StoreSpec())
    with Transaction(log, None) as transaction:
        transaction.set_protocol(Protocol(1, 2))
        transaction.set_metadata(Metadata(identity, Format("parquet"), _SCHEMA, (), {"appendOnly": "true"}))
    table = DeltaTable(builder.root)
    assert (table.metadata.id, table.is_append_only) == (identity, False)
    table.append(ids(1))
    table.overwrite(ids(2))
    table.alter().set({"delta.appendOnly": True}).commit()
    assert table.is_append_only
    with pytest.raises(ConstraintViolationError, match="the table only grows"):
        table.overwrite(ids(3))
    assert ids_of(DeltaTable(builder.root)) == [2]


@pytest.mark.req("DL-ACT-15", half="writer")
def test_an_add_of_a_live_file_replaces_what_is_known_of_it(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(*range(6)), path="f", stats={"numRecords": 5}))
    table = DeltaTable(builder.root)
    (add,) = recorded_adds(table._snapshot.live, pa.array([0], pa.int64()))
    with begin(table) as transaction:
        transaction.add_actions([add.with_members({"dataChange": False, "stats": '{"numRecords":6}'})])
    for found in (table, DeltaTable(builder.root)):
        assert found.scan().files()["record_count"].to_pylist() == [6]
    (line,) = named_actions(builder.root, 1, "add")
    assert (line["stats"], line["dataChange"]) == ('{"numRecords":6}', False)
    table.checkpoint()
    forget_before(builder.log, 1)
    assert DeltaTable(builder.root).scan().files()["record_count"].to_pylist() == [6]


@pytest.mark.req("DL-ACT-24", half="writer")
@pytest.mark.req("DL-ACT-27", half="writer")
def test_progress_and_infos_of_any_shape(builder: DeltaBuilder) -> None:
    """A commit goes on top of others whose ``commitInfo`` is missing, the protocol's example, or anything else."""
    builder.create(ID, builder.add(ids(1)))
    table = DeltaTable(builder.root)
    builder.commit(builder.add(ids(2)))
    builder.commit(builder.add(ids(3)), info={"a": [1, {"b": None}]})
    builder.commit(
        builder.add(ids(4)),
        info={
            "timestamp": 1515491537026,
            "userId": "100121",
            "userName": "michael@example.com",
            "operation": "INSERT",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "notebook": {"notebookId": "4443029", "notebookPath": "Users/michael/notebook"},
            "clusterId": "1027-202406-pooh991",
        },
    )
    identity = "3ba13872-2d47-4e17-86a0-21afd2a22395"
    assert table.append(ids(5), txn=(identity, 364475)).version == 4
    (txn,) = named_actions(builder.root, 4, "txn")
    assert (txn["appId"], txn["version"], type(txn["lastUpdated"])) == (identity, 364475, int)
    (info,) = named_actions(builder.root, 4, "commitInfo")
    assert (info["operation"], info["readVersion"]) == ("WRITE", 0)
    builder.commit({"txn": {"appId": "other", "version": 1}}, version=5)
    table.refresh().checkpoint()
    forget_before(builder.log, 5)
    found = DeltaTable(builder.root).transactions
    assert (found[identity].version, found[identity].last_updated) == (364475, txn["lastUpdated"])
    assert (found["other"].version, found["other"].last_updated) == (1, None)


@pytest.mark.req("DL-ACT-21", half="writer")
def test_tombstones_expire(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1), path="old")
    timeless = builder.add(ids(1), path="timeless")
    builder.create(ID, add, timeless, builder.add(ids(2)))
    removed = builder.remove(timeless)
    del removed["remove"]["deletionTimestamp"]
    builder.commit(builder.remove(add, deletionTimestamp=1515488792485), removed)
    for at, kept in ((1516093592485, ["old"]), (1516093592486, [])):
        write_checkpoint(DeltaTable(builder.root)._snapshot, at=at)
        (path,) = builder.log.glob("*.checkpoint.parquet")
        table = pq.read_table(path, columns=["remove"])
        assert [row["path"] for row in table["remove"].to_pylist() if row] == kept
        path.unlink()


@pytest.mark.req("DL-DOM-01", "DL-DOM-04", "DL-DOM-09", half="writer")
def test_domains(tmp_path: Path, rng: random.Random) -> None:
    properties = {"delta.feature.domainMetadata": "supported"}
    table = create_table(tmp_path / "t", ID, properties=properties)
    text = '{"key1":"value1"}'
    unknown = {"domain": "delta.deltaTableFeatureX", "configuration": text, "removed": False}
    with begin(table) as transaction:
        transaction.set_domain("delta.deltaTableFeatureX", text, system=True)
    assert named_actions(tmp_path / "t", 1, "domainMetadata") == [unknown]
    for _ in range(9):
        table.append(ids(rng.randrange(10)))
    assert (tmp_path / "t/_delta_log" / f"{10:020d}.checkpoint.parquet").exists()
    forget_before(tmp_path / "t/_delta_log", 10)
    opened = DeltaTable(tmp_path / "t")
    assert opened.domain_metadata == {"delta.deltaTableFeatureX": text}
    # Of one domain a commit holds one action, whatever is set before.
    with begin(opened) as transaction:
        transaction.set_domain("a.b", "1")
        transaction.set_domain("a.b", "2")
    assert named_actions(tmp_path / "t", 11, "domainMetadata") == [
        {"domain": "a.b", "configuration": "2", "removed": False}
    ]
    twice = [LogAction("domainMetadata", {"domain": "a.b", "configuration": str(n), "removed": False}) for n in (1, 2)]
    with pytest.raises(InvalidArgumentError, match=r"at most one action domainMetadata of a\.b"):
        check_unique(twice)


@pytest.mark.req("DL-STAT-15", half="writer")
def test_removals_with_statistics_and_without(builder: DeltaBuilder) -> None:
    """Ours have none; those of others may have some, and what follows them does not need any."""
    adds = [builder.add(ids(number), path=f"f{number}", stats="full") for number in range(3)]
    builder.create(ID, *adds)
    builder.commit(builder.remove(adds[0], stats='{"numRecords":1}', deletionTimestamp=time.time_ns() // 10**6))
    table = DeltaTable(builder.root)
    with begin(table) as transaction:
        transaction.remove_files(transaction.snapshot.live.table.slice(0, 1))
    (remove,) = named_actions(builder.root, 2, "remove")
    assert "stats" not in remove
    table.checkpoint()
    forget_before(builder.log, 2)
    assert sorted(path for path, _ in tombstones(DeltaTable(builder.root))) in (["f0", "f1"], ["f0", "f2"])


@pytest.mark.req("DL-STAT-03", half="writer")
def test_a_file_with_a_vector_needs_its_number_of_rows(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1, 2, 3), path="a", stats="count")
    builder.create(ID, add, protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    vector = builder.vector([1])
    for stats in (None, "{}", '{"numRecords":null}'):
        members = {**add["add"], "deletionVector": vector, "stats": stats}
        action = LogAction("add", {name: value for name, value in members.items() if value is not None})
        transaction = begin(table)
        transaction.remove_files(transaction.snapshot.live.table)
        with pytest.raises(InvalidArgumentError, match="number of its rows"):
            transaction.add_actions([action])
    assert DeltaTable(builder.root).version == 0
    with begin(table) as transaction:
        transaction.remove_files(transaction.snapshot.live.table)
        transaction.add_actions([LogAction("add", {**add["add"], "deletionVector": vector})])
    assert ids_of(DeltaTable(builder.root, validate=True)) == [1, 3]
