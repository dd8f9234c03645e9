"""Transactions: what they record, what they refuse, and that they become a version as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, find_commit
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import Format, Metadata, Protocol
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import (
    CommitConflictError,
    ConstraintViolationError,
    CorruptLogError,
    InvalidArgumentError,
    TableExistsError,
    UnsupportedFeatureError,
)
from deltaberg.storage.base import PutResult
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import ClockedPolicy
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.rows import ID, ids, ids_of, live_files

pytestmark = pytest.mark.one_backend


def _action(builder: DeltaBuilder, *values: int, **fields: Any) -> LogAction:
    return LogAction("add", builder.add(ids(*values), stats="full", **fields)["add"])


def _entry(builder: DeltaBuilder, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (builder.log / commit_name(version)).read_text("utf-8").splitlines()]


def _written(*paths: str, rows: int = 1) -> pa.Table:
    """Return the rows that describe written files of the column ``id``."""
    none = pa.array([{}] * len(paths), pa.struct([]))
    bounds = pa.array([{"0": number} for number in range(len(paths))], pa.struct([("0", pa.int64())]))
    return pa.table(
        {
            "path": list(paths),
            "format": ["parquet"] * len(paths),
            "size": pa.array([10] * len(paths), pa.int64()),
            "record_count": pa.array([rows] * len(paths), pa.int64()),
            "modified": pa.array([1_700_000_000_000] * len(paths), pa.int64()),
            "partition": none,
            "lower": bounds,
            "upper": bounds,
            "null_count": bounds,
            "nan_count": none,
        }
    )


@pytest.fixture
def table(builder: DeltaBuilder) -> DeltaTable:
    """A table of one file, whose protocol has domains."""
    builder.create(ID, builder.add(ids(1), stats="full"), protocol=builder.features(writer_only=["domainMetadata"]))
    return DeltaTable(builder.root)


@pytest.mark.req("DL-GEN-04", "DL-LOG-02")
@pytest.mark.req("DL-LOG-01", "DL-FILE-05", half="writer")
def test_several_changes_become_one_version(builder: DeltaBuilder, table: DeltaTable) -> None:
    with begin(table) as transaction:
        transaction.add_actions([_action(builder, 2), _action(builder, 3)])
        transaction.set_metadata(table.metadata.with_members({"description": "one\ntwo"}))
        transaction.set_transaction("app", 5)
        transaction.set_domain("com.example", "line\nline")
        assert table.version == 0
    assert transaction.result is not None
    assert (transaction.result.version, transaction.result.added_files, transaction.result.added_rows) == (1, 2, 2)
    lines = (builder.log / commit_name(1)).read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert sorted(name for line in lines for name in json.loads(line)) == sorted(
        ["commitInfo", "metaData", "txn", "domainMetadata", "add", "add"]
    )
    opened = DeltaTable(builder.root)
    for found in (table, opened):
        assert (found.version, ids_of(found)) == (1, [1, 2, 3])
        assert found.metadata.description == "one\ntwo"
        assert found.domain_metadata == {"com.example": "line\nline"}
        assert found.transactions["app"].version == 5
    assert live_files(table) == live_files(opened)


@pytest.mark.req("DL-LOG-03", half="writer")
def test_an_exception_never_commits(builder: DeltaBuilder, table: DeltaTable) -> None:
    class _OurError(Exception):
        pass

    def fail() -> None:
        with begin(table) as transaction:
            transaction.add_actions([_action(builder, 2)])
            raise _OurError

    with pytest.raises(_OurError):
        fail()
    with table.transaction() as unused:
        pass
    assert unused.result is not None
    assert (unused.result.committed, unused.result.version) == (False, 0)
    assert DeltaTable(builder.root).version == 0


def test_later_changes_see_earlier_ones(builder: DeltaBuilder, table: DeltaTable) -> None:
    with begin(table) as transaction:
        transaction.add_actions([_action(builder, 2)])
        live = transaction.snapshot.live.table
        assert len(live) == 2
        transaction.remove_files(live)
        assert len(transaction.snapshot.live.table) == 0
        transaction.set_metadata(transaction.snapshot.metadata.with_members({"description": "a"}))
        transaction.set_metadata(transaction.snapshot.metadata.with_members({"name": "b"}))
    names = [name for action in _entry(builder, 1) for name in action]
    # What was added and removed at once is not recorded at all.
    assert sorted(names) == ["commitInfo", "metaData", "remove"]
    assert (table.metadata.description, table.metadata.name) == ("a", "b")
    assert ids_of(table) == []


@pytest.mark.req("DL-ACT-18", "DL-ACT-19", "DL-ACT-20", "DL-ACT-22", half="writer")
def test_a_removal_repeats_what_was_added(builder: DeltaBuilder) -> None:
    vector = builder.vector([0])
    add = builder.add(ids(1, 2), stats="full", vector=vector, tags={"k": "v"}, baseRowId=7, defaultRowCommitVersion=3)
    builder.create(ID, add, protocol=builder.features("deletionVectors", writer_only=["rowTracking", "domainMetadata"]))
    table = DeltaTable(builder.root)
    other = builder.vector([1])
    with begin(table) as transaction:
        transaction.remove_files(transaction.snapshot.live.table)
        transaction.add_actions([LogAction("add", {**add["add"], "deletionVector": other})])
    (remove,) = [action["remove"] for action in _entry(builder, 1) if "remove" in action]
    assert remove.pop("deletionTimestamp") > 1_700_000_000_000
    kept = ("path", "partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    assert remove == {**{name: add["add"][name] for name in kept}, "dataChange": True, "extendedFileMetadata": True}
    assert ids_of(DeltaTable(builder.root)) == [1]


@pytest.mark.req("DL-LOG-09", "DL-ACT-23", "DL-ACT-07", "DL-ACT-10", "DL-PART-11", half="writer")
def test_what_one_entry_must_not_hold(builder: DeltaBuilder, table: DeltaTable) -> None:
    transaction = begin(table)
    added = _action(builder, 2, path="f.parquet")
    transaction.add_actions([added])
    with pytest.raises(InvalidArgumentError, match="adds a file only once"):
        transaction.add_actions([added.with_members({"deletionVector": builder.vector([0])})])
    live = table._snapshot.live.table
    transaction.remove_files(live)
    with pytest.raises(InvalidArgumentError, match="removes a file only once"):
        transaction.remove_files(live)
    old = LogAction("add", builder.commits[0][-1]["add"])
    with pytest.raises(InvalidArgumentError, match="remove a file and add it as it was"):
        transaction.add_actions([old])
    for name in ("path", "size", "modificationTime", "dataChange"):
        with pytest.raises(InvalidArgumentError, match=f"has no {name}"):
            transaction.add_actions([_action(builder, 3).with_members({name: None})])
    for values in ({"p": "1"}, {"q": None}):
        with pytest.raises(InvalidArgumentError, match="exactly the partition columns"):
            transaction.add_actions([_action(builder, 3).with_members({"partitionValues": values})])
    with pytest.raises(InvalidArgumentError, match="adds no file"):
        transaction.add_actions([LogAction("sidecar", {"path": "x"})])
    assert transaction.commit().version == 1
    with pytest.raises(InvalidArgumentError, match="committed already"):
        transaction.add_actions([_action(builder, 4)])
    with pytest.raises(InvalidArgumentError, match="committed already"):
        transaction.commit()


@pytest.mark.req("DL-DOM-05", "DL-DOM-06", "DL-DOM-07", "DL-DOM-02")
def test_domains(builder: DeltaBuilder, table: DeltaTable) -> None:
    for configuration in ("A", "B"):
        with begin(table) as transaction:
            transaction.set_domain("com.example.x", configuration)
    with begin(table) as transaction:
        transaction.set_domain("com.example.x", None)
    (removal,) = [action["domainMetadata"] for action in _entry(builder, 3) if "domainMetadata" in action]
    assert removal == {"domain": "com.example.x", "configuration": "B", "removed": True}
    assert table.domain_metadata == {}
    for name in ("delta.rowTracking", "delta.unknown"):
        with pytest.raises(InvalidArgumentError, match="belongs to the protocol"):
            table.transaction().set_domain(name, "x")
    plain = DeltaBuilder(builder.root.parent / "plain")
    plain.create(ID)
    lacking = DeltaTable(plain.root).transaction()
    lacking.set_domain("com.example.x", "A")
    with pytest.raises(InvalidArgumentError, match="needs the table feature domainMetadata"):
        lacking.commit()


@pytest.mark.req("DL-FEAT-15", "DL-FEAT-20")
@pytest.mark.req("DL-FEAT-03", "DL-FEAT-04", "DL-FEAT-06", "DL-FEAT-07", half="writer")
def test_the_protocol_only_rises(builder: DeltaBuilder, table: DeltaTable) -> None:
    refused: list[tuple[Protocol, type[Exception], str]] = [
        (Protocol(1, 2), InvalidArgumentError, r"the protocol \(1, 2\) is lower than the table's \(3, 7\)"),
        (Protocol(3, 7, (), ()), InvalidArgumentError, "lacks features of the table: domainMetadata"),
        (
            Protocol(3, 7, ("appendOnly",), ("appendOnly", "domainMetadata")),
            InvalidArgumentError,
            "lists appendOnly in readerFeatures, but only writers need to support it",
        ),
        (
            Protocol(3, 7, ("deletionVectors",), ("domainMetadata",)),
            CorruptLogError,
            "lists deletionVectors in readerFeatures but not in writerFeatures",
        ),
        (Protocol(3, 5, (), None), CorruptLogError, "reader version 3 needs writer version 7"),
        (Protocol(4, 7, (), ("domainMetadata",)), UnsupportedFeatureError, "needs reader version 4"),
    ]
    for protocol, error, message in refused:
        with pytest.raises(error, match=message):
            begin(table).set_protocol(protocol)
    with begin(table) as transaction:
        transaction.set_protocol(Protocol(3, 7, ("deletionVectors",), ("domainMetadata", "deletionVectors")))
    assert DeltaTable(builder.root).features == {"domainMetadata", "deletionVectors"}


@pytest.mark.req("DL-FEAT-09", "DL-FEAT-10")
def test_features_that_are_not_written(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fooFeature"]}, "fooFeature"),
        (
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["coordinatedCommits-preview"]},
            "coordinated",
        ),
        ({"minReaderVersion": 1, "minWriterVersion": 8}, "writer version 8"),
    ]
    for number, (protocol, named) in enumerate(cases):
        builder = DeltaBuilder(tmp_path / str(number))
        builder.create(ID, builder.add(ids(1)), protocol={"protocol": protocol})
        table = DeltaTable(builder.root)
        assert ids_of(table) == [1]
        with pytest.raises(UnsupportedFeatureError, match=named):
            table.transaction()


@pytest.mark.req("DL-FEAT-16")
def test_a_table_that_only_grows(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), configuration={"delta.appendOnly": "true"})
    table = DeltaTable(builder.root)
    transaction = begin(table)
    transaction.remove_files(transaction.snapshot.live.table)
    with pytest.raises(ConstraintViolationError, match="only grows"):
        transaction.commit()
    assert DeltaTable(builder.root).version == 0
    # Rows that only move are still there.
    with begin(table) as moving:
        moving.remove_files(moving.snapshot.live.table, data_change=False)
        moving.add_actions([_action(builder, 1).with_members({"dataChange": False})])
    assert ids_of(table) == [1]
    with begin(table) as changing:
        changing.set_metadata(table.metadata.with_properties({"delta.appendOnly": None}))
    with begin(table) as removing:
        removing.remove_files(removing.snapshot.live.table)
    assert ids_of(table) == []


@pytest.mark.req("DL-LOG-08", half="writer")
def test_creating_a_table(tmp_path: Path) -> None:
    log = LogDirectory(parse_location(tmp_path / "new"), StoreSpec())
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    metadata = Metadata("b1b8b6b4", Format("parquet"), schema, (), {})
    incomplete = Transaction(log, None)
    incomplete.set_protocol(Protocol(1, 2))
    with pytest.raises(InvalidArgumentError, match="needs a protocol and metadata"):
        incomplete.commit()
    first, second = Transaction(log, None), Transaction(log, None)
    for transaction in (first, second):
        transaction.set_protocol(Protocol(1, 2))
        transaction.set_metadata(metadata)
        transaction.add_files(_written("a b%.parquet"))
    assert first.commit("CREATE TABLE").version == 0
    with pytest.raises(TableExistsError, match="there is a table already"):
        second.commit("CREATE TABLE")
    table = DeltaTable(tmp_path / "new")
    assert table.live_files.column("path").to_pylist() == ["a%20b%25.parquet"]
    assert table.history()[0].operation == "CREATE TABLE"
    found = find_commit(tmp_path / "new", first.token)
    assert found is not None
    assert found.version == 0


@pytest.mark.req("DL-RT-09", "DL-RT-10", "DL-RT-12", "DL-RT-15", "DL-RT-23")
@pytest.mark.req("DL-RT-11", half="writer")
def test_fresh_row_ids(builder: DeltaBuilder) -> None:
    protocol = builder.features(writer_only=["rowTracking", "domainMetadata"])
    builder.create(ID, protocol=protocol)
    table = DeltaTable(builder.root)
    with begin(table) as transaction:
        transaction.add_files(_written("a", rows=100))
    with begin(table) as transaction:
        for name, rows in (("b", 10), ("c", 5), ("d", 1)):
            transaction.add_files(_written(name, rows=rows))
    adds = [action["add"] for action in _entry(builder, 2) if "add" in action]
    assert [(add["path"], add["baseRowId"], add["defaultRowCommitVersion"]) for add in adds] == [
        ("b", 100, 2),
        ("c", 110, 2),
        ("d", 115, 2),
    ]
    (domain,) = [action["domainMetadata"] for action in _entry(builder, 2) if "domainMetadata" in action]
    assert domain == {
        "domain": "delta.rowTracking",
        "configuration": '{"rowIdHighWaterMark":115}',
        "removed": False,
    }
    assert _entry(builder, 2)[0]["commitInfo"]["tags"] == {"delta.rowTracking.preserved": "true"}
    with begin(table) as transaction:
        transaction.remove_files(transaction.snapshot.live.table)
    assert not [action for action in _entry(builder, 3) if "domainMetadata" in action]
    transaction = begin(table)
    transaction.add_actions([_action(builder, 2).with_members({"stats": None})])
    with pytest.raises(InvalidArgumentError, match="number of its rows"):
        transaction.commit()


@pytest.mark.req("DL-RT-13")
def test_row_ids_are_given_again_on_a_retry(builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.features(writer_only=["rowTracking", "domainMetadata"]))
    tables = [DeltaTable(builder.root) for _ in range(2)]
    transactions = [begin(table) for table in tables]
    for name, transaction in zip("ab", transactions, strict=True):
        transaction.add_files(_written(name, rows=10))
    results = [transaction.commit() for transaction in transactions]
    assert [result.version for result in results] == [1, 2]
    adds = [action["add"] for version in (1, 2) for action in _entry(builder, version) if "add" in action]
    assert [(add["baseRowId"], add["defaultRowCommitVersion"]) for add in adds] == [(0, 1), (10, 2)]
    assert DeltaTable(builder.root).row_id_high_water_mark == 19


def test_in_commit_timestamps_only_rise(builder: DeltaBuilder) -> None:
    """They are later than the parent's even where the clock goes back, and say since when they are recorded."""
    builder.create(ID, protocol=builder.features(writer_only=["inCommitTimestamp"]), millis=1000)
    table = DeltaTable(builder.root)
    clock = iter([5000, 5000, 5000, 4000, 4000, 9000, 9000])
    policy = ClockedPolicy(now=lambda: next(clock, 9000))
    enabled = table.metadata.with_properties({"delta.enableInCommitTimestamps": "true"})
    steps: list[Callable[[Transaction], None]] = [
        lambda transaction: transaction.set_metadata(enabled),
        lambda transaction: transaction.add_files(_written("a")),
        lambda transaction: transaction.add_files(_written("b")),
    ]
    for step in steps:
        with begin(table, policy=policy) as transaction:
            step(transaction)
    infos = [_entry(builder, version)[0]["commitInfo"] for version in (1, 2, 3)]
    times = [info["inCommitTimestamp"] for info in infos]
    assert times == sorted(set(times))
    assert times[0] == 5000
    assert times[1] == 5001
    properties = DeltaTable(builder.root).properties
    assert properties["delta.inCommitTimestampEnablementVersion"] == "1"
    assert properties["delta.inCommitTimestampEnablementTimestamp"] == "5000"
    opened = DeltaTable(builder.root)
    assert [int(commit.timestamp.timestamp() * 1000) for commit in opened.history(3)] == times[::-1]


def test_what_the_history_says(builder: DeltaBuilder, table: DeltaTable) -> None:
    transaction = begin(table, user_metadata="nightly")
    transaction.read()
    transaction.add_files(_written("a", "b", rows=4))
    transaction.remove_files(table._snapshot.live.table)
    result = transaction.commit("WRITE", {"mode": "Overwrite"}, metrics={"numThings": 3})
    info = dict(_entry(builder, 1)[0]["commitInfo"])
    assert abs(info.pop("timestamp") - table.timestamp.timestamp() * 1000) < 10_000
    assert info.pop("engineInfo").startswith("deltaberg/")
    assert info == {
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite"},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {
            "numFiles": "2",
            "numOutputBytes": "20",
            "numOutputRows": "8",
            "numRemovedFiles": "1",
            "numRemovedBytes": str(builder.commits[0][-1]["add"]["size"]),
            "numThings": "3",
        },
        "txnId": result.token,
        "userMetadata": "nightly",
    }


def test_tables_that_are_not_written_to(builder: DeltaBuilder, table: DeltaTable) -> None:
    builder.commit(builder.add(ids(2)))
    for arguments in ({"version": 0}, {"timestamp": table.timestamp}, {"location_map": {"file:/old": "file:/new"}}):
        with pytest.raises(InvalidArgumentError, match=f"opened with {next(iter(arguments))}"):
            DeltaTable(builder.root, **arguments).transaction()


@pytest.mark.req("DL-LOG-06")
def test_a_hole_that_clean_up_left_is_not_filled(builder: DeltaBuilder, table: DeltaTable) -> None:
    """The version after the one that was read is free again, but it is not the next one."""
    transaction = begin(table)
    transaction.add_actions([_action(builder, 2)])
    for number in range(3, 7):
        builder.commit(builder.add(ids(number)))
    builder.checkpoint()
    for version in range(4):
        (builder.log / commit_name(version)).unlink()
    before = sorted(path.name for path in builder.log.iterdir())
    with pytest.raises(CommitConflictError, match="were cleaned up meanwhile"):
        transaction.commit()
    assert sorted(path.name for path in builder.log.iterdir()) == before
    with begin(table.refresh()) as again:
        again.add_actions([_action(builder, 2)])
    assert ids_of(DeltaTable(builder.root)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("fate", ["hole", "history"])
def test_a_writer_that_slept(
    builder: DeltaBuilder, table: DeltaTable, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    """Between listing and put the process is stopped for long: the put may succeed on a version that is dead."""
    clock = [1_000_000]
    transaction = begin(table, policy=ClockedPolicy(now=lambda: clock[0]))
    transaction.add_actions([_action(builder, 2, path="mine.parquet")])
    put = LocalStorage.put

    def slow(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        if fate == "history":
            result = put(self, path, data, if_absent=if_absent)
            builder.commits[1] = [json.loads(line) for line in data.splitlines()]
            builder.version = 1
        for number in range(3, 7):
            builder.commit(builder.add(ids(number)))
        builder.checkpoint()
        for version in range(3 if fate == "hole" else 1):
            (builder.log / commit_name(version)).unlink()
        clock[0] += 60_000
        return put(self, path, data, if_absent=if_absent) if fate == "hole" else result

    monkeypatch.setattr(LocalStorage, "put", slow)
    if fate == "history":
        assert transaction.commit().version == 1
        assert ids_of(DeltaTable(builder.root)) == [1, 2, 3, 4, 5, 6]
    else:
        with pytest.raises(CommitConflictError, match="committed and cleaned up by others"):
            transaction.commit()
        assert ids_of(DeltaTable(builder.root)) == [1, 3, 4, 5, 6]


def test_other_writers_that_are_always_faster(builder: DeltaBuilder, table: DeltaTable) -> None:
    """The budget ends; the pauses before grow, and are not waited in tests."""
    waited: list[float] = []

    def lose(seconds: float) -> None:
        waited.append(seconds)
        builder.commit(builder.add(ids(100 + len(waited))))

    transaction = begin(table, policy=ClockedPolicy(retries=5, wait=lose))
    transaction.add_actions([_action(builder, 2)])
    builder.commit(builder.add(ids(100)))
    assert transaction.commit().version == 2
    assert waited == []
    again = begin(table, policy=ClockedPolicy(retries=4, pause=0.01, longest_pause=0.05, wait=lose))
    again.add_actions([_action(builder, 3)])
    policy_calls = len(waited)
    put = LocalStorage.put

    def late(self: LocalStorage, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        builder.version = int(Path(path).stem) - 1
        builder.commit(builder.add(ids(200)))
        return put(self, path, data, if_absent=if_absent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStorage, "put", late)
        with pytest.raises(CommitConflictError, match="5 times in a row"):
            again.commit()
    pauses = waited[policy_calls:]
    assert len(pauses) == 5
    # Each is twice as long as the one before, up to the longest, and half of it is drawn.
    for seconds, longest in zip(pauses, (0.01, 0.02, 0.04, 0.05, 0.05), strict=True):
        assert longest / 2 <= seconds <= longest


def test_a_store_that_overwrites_is_refused(
    builder: DeltaBuilder, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "probe_conditional_put", lambda *_: False)
    with pytest.raises(UnsupportedFeatureError, match="two writers would lose commits") as caught:
        table.transaction()
    assert "unsafe_single_writer=True" in (caught.value.hint or "")
    with begin(table, unsafe_single_writer=True) as transaction:
        transaction.add_actions([_action(builder, 2)])
    assert ids_of(table) == [1, 2]
