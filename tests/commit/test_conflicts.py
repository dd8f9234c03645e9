"""Which commits that come first make a transaction fail: every cell of the conflict matrix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentDomainError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from tests.support.below_verbs import begin
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.rows import ids, ids_of, live_files

pytestmark = pytest.mark.one_backend

_SCHEMA = [
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
    {"name": "p", "type": "string", "nullable": True, "metadata": {}},
]
_LEVELS = ("Serializable", "WriteSerializable", "SnapshotIsolation")


class _House:
    """A table of two partitions with a file each, its own transactions, and commits of others."""

    def __init__(self, builder: DeltaBuilder) -> None:
        self.builder = builder
        self.adds = {name: self.add(name) for name in ("a", "b")}
        protocol = builder.features("deletionVectors", writer_only=["domainMetadata"])
        builder.create(_SCHEMA, *self.adds.values(), partition_by=["p"], protocol=protocol)
        self.table = DeltaTable(builder.root)

    def add(self, partition: str, number: int = 1) -> Action:
        return self.builder.add(
            ids(number), partition={"p": partition}, stats="full", path=f"p={partition}/{number}-{self._next()}.parquet"
        )

    def _next(self) -> int:
        self.count = getattr(self, "count", 0) + 1
        return self.count

    def rows(self, transaction: Transaction, partition: str) -> Any:
        live = transaction.snapshot.live.table
        path = self.adds[partition]["add"]["path"]
        return live.take([live.column("path").to_pylist().index(path)])

    def own(self, transaction: Transaction) -> None:
        """Add a file."""
        transaction.add_actions([LogAction("add", self.add("a")["add"])])


@pytest.fixture
def house(builder: DeltaBuilder) -> _House:
    """The table."""
    return _House(builder)


def _blind(house: _House, tx: Transaction) -> None:
    house.own(tx)


def _read_all(house: _House, tx: Transaction) -> None:
    tx.read()
    house.own(tx)


def _read_a(house: _House, tx: Transaction) -> None:
    tx.read("p = 'a'")
    house.own(tx)


def _read_ids(house: _House, tx: Transaction) -> None:
    tx.read("id > 100")
    house.own(tx)


def _remove_a(house: _House, tx: Transaction) -> None:
    tx.remove_files(house.rows(tx, "a"))


def _metadata(_: _House, tx: Transaction) -> None:
    tx.set_metadata(tx.snapshot.metadata.with_members({"description": "mine"}))


def _metadata_read_a(house: _House, tx: Transaction) -> None:
    tx.read("p = 'a'")
    _metadata(house, tx)


def _protocol(_: _House, tx: Transaction) -> None:
    features = ["deletionVectors", "domainMetadata", "appendOnly"]
    tx.set_protocol(tx.snapshot.protocol.with_members({"writerFeatures": features}))


def _txn(_: _House, tx: Transaction) -> None:
    tx.set_transaction("app", 7)


def _domain(_: _House, tx: Transaction) -> None:
    tx.set_domain("com.example", "mine")


_OWN: dict[str, Callable[[_House, Transaction], None]] = {
    "blind append": _blind,
    "reads all": _read_all,
    "reads p = a": _read_a,
    "reads id > 100": _read_ids,
    "removes file a": _remove_a,
    "changes metadata": _metadata,
    "changes metadata, reads p = a": _metadata_read_a,
    "changes protocol": _protocol,
    "records progress": _txn,
    "sets a domain": _domain,
}


def _info(**members: Any) -> Action:
    return {"commitInfo": {"operation": "OTHER", **members}}


def _remove(house: _House, partition: str, **members: Any) -> Action:
    return house.builder.remove(house.adds[partition], **members)


_WINNERS: dict[str, Callable[[_House], list[Action]]] = {
    "nothing": lambda _: [_info()],
    "blind append to a": lambda house: [_info(isBlindAppend=True), house.add("a")],
    "blind append to b": lambda house: [_info(isBlindAppend=True), house.add("b")],
    "append to a that is not blind": lambda house: [_info(isBlindAppend=False), house.add("a")],
    "append to a that does not say": lambda house: [house.add("a")],
    "append of id 200 to b": lambda house: [_info(isBlindAppend=True), house.add("b", 200)],
    "remove a": lambda house: [_remove(house, "a")],
    "remove b": lambda house: [_remove(house, "b")],
    "compact a": lambda house: [
        _remove(house, "a", dataChange=False),
        {"add": {**house.add("a")["add"], "dataChange": False}},
    ],
    "metadata": lambda house: [house.builder.metadata(_SCHEMA, ["p"], name="theirs")],
    "protocol": lambda house: [house.builder.features("deletionVectors", writer_only=["domainMetadata", "invariants"])],
    "progress of the application": lambda _: [{"txn": {"appId": "app", "version": 3}}],
    "progress of another one": lambda _: [{"txn": {"appId": "other", "version": 7}}],
    "the domain": lambda _: [{"domainMetadata": {"domain": "com.example", "configuration": "x", "removed": False}}],
    "the domain is removed": lambda _: [
        {"domainMetadata": {"domain": "com.example", "configuration": "x", "removed": True}}
    ],
    "another domain": lambda _: [{"domainMetadata": {"domain": "com.other", "configuration": "x", "removed": False}}],
}

_ALL = frozenset(_OWN)
_APPEND_READERS = {"reads all", "reads p = a", "changes metadata, reads p = a"}


def _expected(own: str, winner: str, level: str) -> type[CommitConflictError] | None:
    """The matrix, as the reference implementation has it."""
    beside = {
        "metadata": (MetadataChangedError, _ALL),
        "protocol": (ProtocolChangedError, _ALL),
        "progress of the application": (ConcurrentTransactionError, {"records progress"}),
        "the domain": (ConcurrentDomainError, {"sets a domain"}),
        "the domain is removed": (ConcurrentDomainError, {"sets a domain"}),
    }
    if winner in beside:
        error, losers = beside[winner]
        return error if own in losers else None
    if _misses_append(own, winner, level):
        return ConcurrentAppendError
    return _misses_removal(own, winner)


def _misses_append(own: str, winner: str, level: str) -> bool:
    appends = {
        "blind append to a": _APPEND_READERS,
        "blind append to b": {"reads all"},
        "append to a that is not blind": _APPEND_READERS,
        "append to a that does not say": _APPEND_READERS,
        "append of id 200 to b": {"reads all", "reads id > 100"},
        "compact a": _APPEND_READERS,
    }
    is_blind = winner in ("blind append to a", "blind append to b", "append of id 200 to b")
    tolerated = level == "WriteSerializable" and is_blind and own != "changes metadata, reads p = a"
    return own in appends.get(winner, ()) and level != "SnapshotIsolation" and not tolerated


def _misses_removal(own: str, winner: str) -> type[CommitConflictError] | None:
    if winner in ("remove a", "compact a"):
        if own == "removes file a":
            return ConcurrentDeleteDeleteError
        return ConcurrentDeleteReadError if own in _APPEND_READERS else None
    return ConcurrentDeleteReadError if winner == "remove b" and own == "reads all" else None


@pytest.mark.req("DL-LOG-07", half="writer")
@pytest.mark.req("DL-DOM-08", half="writer")
@pytest.mark.req("BEY-19")
@pytest.mark.parametrize("level", _LEVELS)
@pytest.mark.parametrize("winner", _WINNERS)
@pytest.mark.parametrize("own", _OWN)
def test_every_cell(house: _House, own: str, winner: str, level: str) -> None:
    builder = house.builder
    transaction = begin(house.table, isolation=level)
    _OWN[own](house, transaction)
    builder.commit(*_WINNERS[winner](house))
    before = sorted(path.name for path in builder.log.iterdir())
    expected = _expected(own, winner, level)
    if expected is None:
        result = transaction.commit("TEST")
        assert (result.version, result.committed) == (2, True)
        written = [json.loads(line) for line in (builder.log / f"{2:020d}.json").read_text().splitlines()]
        assert [line["commitInfo"]["readVersion"] for line in written if "commitInfo" in line] == [0]
        assert house.table.version == 2
        assert live_files(house.table) == live_files(DeltaTable(builder.root))
    else:
        with pytest.raises(CommitConflictError) as caught:
            transaction.commit("TEST")
        assert type(caught.value) is expected
        assert caught.value.context["winner"] == 1
        assert house.table.version == 0
        assert sorted(path.name for path in builder.log.iterdir()) == before


def test_every_winner_is_checked_in_turn(house: _House) -> None:
    """A conflict with the second of three commits is found, and named."""
    transaction = begin(house.table)
    _remove_a(house, transaction)
    house.builder.commit(house.add("a"))
    house.builder.commit(_remove(house, "a"), info={"operation": "DELETE"})
    house.builder.commit(house.add("b"))
    with pytest.raises(ConcurrentDeleteDeleteError, match=r"version 2 .*removed a file") as caught:
        transaction.commit("TEST")
    assert caught.value.context["operation"] == "DELETE"
    assert caught.value.context["file"] == house.adds["a"]["add"]["path"]


def test_the_level_is_the_tables(builder: DeltaBuilder) -> None:
    builder.create(ids(1).schema, builder.add(ids(1)), configuration={"delta.isolationLevel": "WriteSerializable"})
    table = DeltaTable(builder.root)
    for expected, arguments in (("WriteSerializable", {}), ("Serializable", {"isolation": "serializable"})):
        transaction = begin(table, **arguments)
        transaction.read()
        transaction.add_actions([LogAction("add", builder.add(ids(2))["add"])])
        builder.version = table.version
        builder.commit(builder.add(ids(3)), info={"isBlindAppend": True})
        if expected == "Serializable":
            with pytest.raises(ConcurrentAppendError, match="the whole table"):
                transaction.commit()
        else:
            transaction.commit()
            assert table.history()[0].info["isolationLevel"] == expected


@pytest.mark.parametrize("name", ["delta.rowTracking", "delta.clustering"])
def test_the_highest_row_id_of_others_is_no_conflict(house: _House, name: str) -> None:
    """Every commit of new rows raises it, and a later one goes on from there; other domains of the protocol collide."""
    texts = [json.dumps({"rowIdHighWaterMark": number, "clusteringColumns": []}) for number in (5, 9)]
    transaction = begin(house.table)
    transaction.set_domain(name, texts[0], system=True)
    house.builder.commit({"domainMetadata": {"domain": name, "configuration": texts[1], "removed": False}})
    if name == "delta.rowTracking":
        assert transaction.commit().version == 2
        return
    with pytest.raises(ConcurrentDomainError, match="changed the domain"):
        transaction.commit()


def test_what_changes_no_data_gets_snapshot_isolation(house: _House) -> None:
    """As in the reference, compaction does not mind appends, but it minds that its files are removed."""
    transaction = begin(house.table)
    transaction.read()
    transaction.remove_files(house.rows(transaction, "a"), data_change=False)
    transaction.add_actions([LogAction("add", {**house.add("a")["add"], "dataChange": False})])
    house.builder.commit(house.add("a"))
    assert transaction.commit("OPTIMIZE").version == 2
    assert house.table.history()[0].info["isolationLevel"] == "SnapshotIsolation"


def test_a_new_constraint_holds_whatever_level_the_table_asks_for(tmp_path: Path) -> None:
    for level in ("SnapshotIsolation", "WriteSerializable", "Serializable"):
        root = tmp_path / level
        create_table(root, ids(1).schema, properties={"delta.isolationLevel": level})
        late = DeltaTable(root).alter().add_constraint("positive", "id > 0")
        DeltaTable(root).append(ids(-5))
        with pytest.raises(ConcurrentAppendError, match="the whole table"):
            late.commit()
    # Rows that only move do not mind rows that are added.
    table = create_table(tmp_path / "moved", ids(1).schema, properties={"delta.isolationLevel": "SnapshotIsolation"})
    table.append(ids(1))
    with table.transaction() as tx:
        tx.delete("id = 1")
        DeltaTable(tmp_path / "moved").append(ids(1, 2))
    assert ids_of(DeltaTable(tmp_path / "moved")) == [1, 2]


@pytest.mark.req("DL-ACT-25")
def test_the_same_progress_is_recorded_once(house: _House) -> None:
    """Two writers of one batch: the second finds it recorded, and commits nothing."""
    first, second = (begin(house.table, txn=("app", 7)) for _ in range(2))
    for transaction in (first, second):
        house.own(transaction)
    assert first.commit().committed
    result = second.commit()
    assert (result.committed, result.version) == (False, 1)
    later = begin(house.table, txn=("app", 6))
    assert later.is_done
    house.own(later)
    assert not later.commit().committed
    assert DeltaTable(house.builder.root).version == 1
    assert house.table.transactions["app"].version == 7


@pytest.mark.req("DL-ACT-26", half="writer")
def test_progress_may_go_back(house: _House) -> None:
    for version in (10, 7):
        with house.table.transaction() as transaction:
            transaction.set_transaction("app", version)
    assert DeltaTable(house.builder.root).transactions["app"].version == 7
