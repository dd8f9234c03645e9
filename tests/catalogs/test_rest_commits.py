"""Commits through REST catalogs: what is sent, and what becomes of replies that are lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.catalogs.base import table_pointer
from deltaberg.catalogs.rest.rest_commit import RestAttempt
from deltaberg.errors import (
    CommitUnknownError,
    ConstraintViolationError,
    InvalidArgumentError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from deltaberg.iceberg.location.committer import is_applied_below
from deltaberg.iceberg.location.directory_commit import DirectoryAttempt
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.transaction.table_commit import Committed, find_commit
from deltaberg.iceberg.updates import updates as changes
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.table.commit.commit import ClockedPolicy, Fate
from tests.catalogs.rest_server import error_body
from tests.catalogs.rest_writer import WritableServer
from tests.catalogs.written import FIRST
from tests.support.iceberg_commits import commit_table
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_POLICY = ClockedPolicy(retries=4, wait=lambda _: None)
_PATH = "/v1/namespaces/sales/tables/orders"


@pytest.fixture
def catalog(writable: WritableServer) -> Any:
    """Our client of the catalog, with the table ``sales.orders``."""
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)
    catalog.create_table("sales.orders", FIRST.schema)
    return catalog


def _commit(catalog: Any, updates: Any, snapshot_id: int | None = None) -> Committed:
    committer = table_pointer(catalog, "sales.orders").committer()
    make = updates if callable(updates) else lambda _: (updates, None)
    return commit_table(committer, make, snapshot_id=snapshot_id, policy=_POLICY)


def _adding(number: int) -> Callable[[TableMetadata], Any]:
    def make(metadata: TableMetadata) -> Any:
        added = Snapshot(
            number,
            metadata.last_updated_ms,
            metadata.last_sequence_number + 1,
            metadata.current_snapshot_id,
            f"{metadata.location}/metadata/snap-{number}.avro",
            summary={"operation": "append"},
            schema_id=0,
        )
        return [changes.AddSnapshot(added), changes.SetSnapshotRef("main", SnapshotRef(number, "branch"))], None

    return make


def test_a_table_is_created_in_stages(writable: WritableServer, peer: Any) -> None:
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)
    table = catalog.create_table("sales.orders", FIRST.schema, properties={"a": "b"})
    assert table.properties == {"a": "b"}
    assert [field.name for field in peer.load_table("sales.orders").schema().fields] == FIRST.schema.names
    staged, committed = (json.loads(one.body) for one in writable.asked if one.method == "POST")
    assert (staged["stage-create"], "location" in staged) == (True, False)
    assert committed["requirements"] == [{"type": "assert-create"}]
    assert [update["action"] for update in committed["updates"]][:2] == ["assign-uuid", "upgrade-format-version"]
    with pytest.raises(TableExistsError, match="Table already exists"):
        catalog.create_table("sales.orders", FIRST.schema)


@pytest.mark.parametrize("fault", ["lost", "cut", "never", "busy", "doubled"])
def test_a_table_is_created_once(writable: WritableServer, fault: str) -> None:
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)
    committer = table_pointer(catalog, "sales.orders").committer()
    writable.faults.append(fault)
    from deltaberg.catalogs.arguments import as_schema
    from deltaberg.iceberg.updates.new_table import new_metadata

    staged = committer.stage(new_metadata(as_schema(FIRST.schema, 2), location="", now_ms=5))
    found = commit_table(committer, _adding(7), snapshot_id=7, staged=staged, policy=_POLICY)
    assert (found.committed, found.loaded.metadata.current_snapshot_id) == (True, 7)
    assert found.loaded.metadata.table_uuid == staged.metadata.table_uuid


@pytest.mark.parametrize(
    "faults", [["lost"], ["cut"], ["never", "busy"], ["doubled"], ["garbled"], ["refused"], ["never", "lost"]]
)
@pytest.mark.parametrize("adds", [True, False])
def test_a_commit_is_there_once(writable: WritableServer, catalog: Any, faults: list[str], adds: bool) -> None:
    writable.faults += faults
    updates = _adding(7) if adds else [changes.SetProperties({"a": "b"})]
    result = _commit(catalog, updates, 7 if adds else None)
    # What was surely refused is made again; what nobody knows is sent again.
    assert (result.committed, result.retries) == (True, faults.count("refused"))
    metadata = catalog.load_table("sales.orders").metadata
    assert (metadata.current_snapshot_id, metadata.properties) == ((7, {}) if adds else (None, {"a": "b"}))
    # To set a property twice does no harm, so that no requirement stands in its way.
    assert len(metadata.metadata_log) == (2 if faults == ["doubled"] and not adds else 1)
    assert result.loaded.metadata.raw == metadata.raw


@pytest.mark.parametrize(
    "fault",
    [
        "lost",
        "late",
        *(pytest.param(one, marks=pytest.mark.full) for one in ("cut", "doubled", "never", "refused", "garbled")),
    ],
)
def test_rows_are_written_once(writable: WritableServer, fault: str) -> None:
    """Whatever becomes of the requests of a write, its rows are there once, and all files of the table."""
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)
    quick = {f"commit.retry.{name}-wait-ms": "1" for name in ("min", "max")}
    hiding = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    table = catalog.create_table("sales.days", pa.schema({"id": pa.int64()}), properties={**quick, **hiding})
    table.append(ids(0, 1))

    def several() -> None:
        with table.transaction() as transaction:
            transaction.append(ids(5))
            transaction.delete("id = 3")
            transaction.alter().add("note", pa.string())

    steps: list[tuple[Callable[[], object], list[int]]] = [
        (lambda: table.append(ids(2, 3)), [0, 1, 2, 3]),
        (lambda: table.delete("id = 0"), [1, 2, 3]),
        (lambda: table.overwrite(ids(4), where="id = 1", check=False), [2, 3, 4]),
        (several, [2, 4, 5]),
        (lambda: table.update({"id": "id + 10"}, "id > 3"), [2, 14, 15]),
        (table.compact, [2, 14, 15]),
    ]
    for number, (step, wanted) in enumerate(steps, start=2):
        writable.faults.append(fault)
        step()
        assert writable.faults == []
        assert ids_of(table) == ids_of(catalog.load_table("sales.days")) == wanted
        assert len(table.history()) == number
    # What a gateway held back comes at the end, and finds that the table has moved on.
    table.alter().set({"a": "b"}).commit()
    assert (writable.held, table.properties["a"], ids_of(table.refresh())) == ([], "b", [2, 14, 15])


@pytest.mark.parametrize("retries", [0, 4])
@pytest.mark.parametrize("fault", ["late", "never"])
def test_a_late_request_and_a_change_without_a_snapshot(writable: WritableServer, fault: str, retries: int) -> None:
    """What the request requires still holds, so that it is not lost: it is sent again, and no file is deleted."""
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)
    table = catalog.create_table("sales.days", pa.schema({"id": pa.int64()}))
    table.append(ids(1))
    writable.faults.append(fault)
    writable.before.append(lambda: catalog.load_table("sales.days").alter().set({"owner": "ada"}).commit())
    with table.transaction(policy=ClockedPolicy(retries=retries, wait=lambda _: None)) as transaction:
        transaction.append(ids(2))
    assert (transaction.result.committed, transaction.result.retries) == (True, 0)
    table.alter().set({"a": "b"}).commit()
    assert (writable.held, len(table.history())) == ([], 2)
    assert ids_of(catalog.load_table("sales.days")) == [1, 2]


def test_the_catalog_fails_after_the_commit(writable: WritableServer, catalog: Any) -> None:
    """An answer that is no answer, and a table that does not tell: nobody knows, the reason is said, and files stay."""
    table = catalog.load_table("sales.orders")
    failure: Any = 400, {}, error_body(400, "BadRequestException", "down for a while")
    writable.faults.append("garbled")
    writable.before.append(lambda: writable.scripted[_PATH].extend([failure] * 20))
    with (
        pytest.raises(CommitUnknownError, match="down for a while") as caught,
        table.transaction(policy=_POLICY) as one,
    ):
        one.append(FIRST)
    writable.scripted.clear()
    after = catalog.load_table("sales.orders")
    assert str(after.metadata.current_snapshot_id) == caught.value.context["token"]
    assert after.scan().to_arrow().num_rows == FIRST.num_rows


@pytest.mark.parametrize("fault", ["", "never"])
@pytest.mark.parametrize("theirs", ["snapshot", "property"])
def test_a_race_that_is_lost(writable: WritableServer, catalog: Any, fault: str, theirs: str) -> None:
    """The reply is lost in one case, so that the table alone tells that another commit came first."""
    other = _adding(8) if theirs == "snapshot" else [changes.SetProperties({"b": "c"})]
    writable.before += [lambda: _commit(catalog, other, 8 if theirs == "snapshot" else None), lambda: None]
    writable.faults += ["", fault] if not fault else [fault]
    found = _commit(catalog, _adding(7), 7)
    # A change of a property does not stand in the way of a snapshot: the same request is sent again.
    assert found.retries == (1 if theirs == "snapshot" else 0)
    metadata = catalog.load_table("sales.orders").metadata
    wanted = [8, 7] if theirs == "snapshot" else [7]
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == wanted
    assert metadata.properties == ({} if theirs == "snapshot" else {"b": "c"})


@pytest.mark.req("ICE-COM-12", half="writer")
def test_nobody_knows(writable: WritableServer, catalog: Any, peer: Any) -> None:
    writable.faults += ["never"] * 6
    with pytest.raises(CommitUnknownError) as caught:
        _commit(catalog, _adding(7), 7)
    committer = table_pointer(catalog, "sales.orders").committer()
    assert find_commit(committer, caught.value.context["token"]) is None
    writable.faults.append("lost")
    assert _commit(catalog, _adding(7), 7).committed
    assert find_commit(committer, "7") is not None
    peer.drop_table("sales.orders")
    writable.faults.append("never")
    writable.before.append(writable.tables.clear)
    with pytest.raises(CommitUnknownError, match="the table shows neither it nor what took its place"):
        _commit(catalog, [changes.SetProperties({"a": "b"})])
    with pytest.raises(TableNotFoundError, match="does not exist any more under its name"):
        _commit(catalog, [changes.SetProperties({"a": "b"})])


def test_a_refusal_is_no_conflict(writable: WritableServer, catalog: Any) -> None:
    for status, kind, error in ((400, "ValidationException", StorageError), (403, "Forbidden", StorageError)):
        writable.scripted[_PATH].append((200, {}, _answer(writable)))
        writable.scripted[_PATH].append((status, {}, error_body(status, kind, "not like this")))
        with pytest.raises(error, match="not like this"):
            _commit(catalog, [changes.SetProperties({"a": "b"})])
    with pytest.raises(InvalidArgumentError, match="with location_map cannot be written to"):
        catalog._pointer(("sales", "orders"), "auto").committer()


def _answer(writable: WritableServer) -> Any:
    file = writable.tables["sales", "orders"]
    return {"metadata-location": file.as_uri(), "metadata": json.loads(Path(file).read_text())}


def test_repeated_requests_carry_one_key(writable: WritableServer) -> None:
    writable.config["idempotency-key-lifetime"] = "PT30M"
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)
    catalog.create_table("sales.orders", FIRST.schema)
    writable.faults += ["never", "never"]
    _commit(catalog, [changes.SetProperties({"a": "b"})])
    _commit(catalog, [changes.SetProperties({"c": "d"})])
    sent = [one.headers.get("Idempotency-Key") for one in writable.asked if one.method == "POST" and one.path == _PATH]
    assert [key is None for key in sent] == [False] * 5
    assert [sent.count(key) for key in sent] == [1, 3, 3, 3, 1]
    assert all(key[14] == "7" and key[19] in "89ab" for key in sent if key)
    # They begin with the time in milliseconds.
    minute = 60_000
    now = time.time_ns() // 1_000_000
    assert all(now - minute < int(key[:13].replace("-", ""), 16) <= now for key in sent if key)


def test_tables_and_namespaces(writable: WritableServer, waits: list[float]) -> None:
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)

    def sent(work: Callable[[], object], path: str, *answers: Any) -> tuple[str, Any]:
        writable.scripted[f"/v1/{path}"] += answers
        work()
        asked = next(one for one in reversed(writable.asked) if one.path == f"/v1/{path}")
        return asked.method, json.loads(asked.body) if asked.body else None

    done: Any = (204, {}, None)
    assert sent(lambda: catalog.drop_table("a.t"), "namespaces/a/tables/t", done) == ("DELETE", None)
    assert writable.asked[-1].query == {"purgeRequested": ["false"]}
    namespace = {"namespace": ["a", "b"], "properties": {"x": "y"}}
    changed = {"updated": ["y"], "removed": ["x"], "missing": []}
    assert sent(lambda: catalog.create_namespace("a.b", {"x": "y"}), "namespaces", (200, {}, namespace)) == (
        "POST",
        namespace,
    )
    assert sent(lambda: catalog.drop_namespace("a.b"), "namespaces/a%1Fb", done) == ("DELETE", None)
    assert sent(
        lambda: catalog.update_namespace_properties("a", ["x"], {"y": "z"}),
        "namespaces/a/properties",
        (200, {}, changed),
    ) == ("POST", {"removals": ["x"], "updates": {"y": "z"}})
    writable.scripted["/v1/namespaces/a"].append((200, {}, namespace))
    assert catalog.load_namespace_properties("a") == {"x": "y"}
    conflicts: list[tuple[Callable[[], Any], str, str, type[Exception], str]] = [
        (
            lambda: catalog.create_namespace("a"),
            "namespaces",
            "AlreadyExistsException",
            InvalidArgumentError,
            "there is a namespace of this name already",
        ),
        (
            lambda: catalog.drop_namespace("a"),
            "namespaces/a",
            "NamespaceNotEmptyException",
            ConstraintViolationError,
            "^no ",
        ),
        (
            lambda: catalog.rename_table("a.t", "a.u"),
            "tables/rename",
            "AlreadyExistsException",
            TableExistsError,
            "^no ",
        ),
        (lambda: catalog.register_table("a.t", "s3://b/m"), "namespaces/a/register", "Other", TableExistsError, "^no "),
    ]
    for work, path, kind, error, message in conflicts:
        writable.scripted[f"/v1/{path}"].append((409, {}, error_body(409, kind, "no")))
        with pytest.raises(error, match=message):
            work()
    # The table that is still there may be dropped later, and one that is gone was dropped.
    writable.scripted["/v1/namespaces/a/tables/t"] += [(502, {}, None), (200, {}, {"metadata": {}})]
    with pytest.raises(CommitUnknownError, match="does not say whether it carried out"):
        catalog.drop_table("a.t")
    writable.scripted["/v1/namespaces/a/tables/t"].append((502, {}, None))
    catalog.drop_table("a.t")


#: Moves of a branch, the branch, and the rows that it has once the row 8 was appended on top.
_MOVES: dict[str, tuple[Callable[[Any], object], str, set[int]]] = {
    "publish": (lambda table: table.publish("later"), "main", {0, 1, 2, 8}),
    "publish to a branch": (lambda table: table.publish("later", branch="b"), "b", {0, 1, 2, 8}),
    "fast-forward": (lambda table: table.alter().fast_forward("b", "ahead").commit(), "b", {0, 1, 2, 8}),
    "rollback": (
        lambda table: table.alter().rollback_to_snapshot(table.snapshots[0].snapshot_id).commit(),
        "main",
        {0, 8},
    ),
}


@pytest.mark.parametrize("move", _MOVES)
@pytest.mark.parametrize("kind", [RestAttempt, DirectoryAttempt])
def test_a_branch_that_others_go_on_with_shows_a_move_without_an_answer(
    catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: str, kind: Any
) -> None:
    """A move adds no snapshot that would tell. It is no conflict, and to make it again would undo what came on top."""
    root = str(tmp_path / "t")
    of_catalog = kind is RestAttempt
    table = (catalog if of_catalog else deltaberg).create_table(
        *(("sales.moved",) if of_catalog else (root,)), ids().schema, **({} if of_catalog else {"format": "iceberg"})
    )

    def opened(**state: Any) -> Any:
        return catalog.load_table("sales.moved", **state) if of_catalog else deltaberg.open_table(root, **state)

    for number in (0, 1):
        table.append(ids(number))
    table.append(ids(2), properties={"wap.id": "later"})
    table.alter().create_branch("b").create_branch("ahead", table.snapshots[-1].snapshot_id).commit()
    change, branch, expected = _MOVES[move]
    send, look = kind.send, kind.look

    def send_without_answer(attempt: Any) -> PutResult:
        send(attempt)
        if of_catalog:
            attempt.note(PutOutcome.UNKNOWN)
        return PutResult(PutOutcome.UNKNOWN)

    def look_after_others(attempt: Any) -> Fate:
        monkeypatch.undo()
        opened().append(ids(8), branch=branch)
        fate: Fate = look(attempt)
        return fate

    monkeypatch.setattr(kind, "send", send_without_answer)
    monkeypatch.setattr(kind, "look", look_after_others)
    change(table)
    assert set(ids_of(opened(ref=branch))) == expected


@pytest.mark.parametrize("branch", ["main", "made"])
def test_a_branch_that_others_have_moved_proves_no_move(catalog: Any, branch: str) -> None:
    """They moved it, or made it, at a snapshot that was there before, and leads to the one that was asked for."""
    table = catalog.create_table("sales.moved", ids().schema)
    for number in range(3):
        table.append(ids(number))
    first, second, _ = (snapshot.snapshot_id for snapshot in table.snapshots)

    def metadata() -> TableMetadata:
        return table_pointer(catalog, "sales.moved").load().metadata

    base, asked = metadata(), (changes.SetSnapshotRef(branch, SnapshotRef(first, "branch")),)
    alteration = catalog.load_table("sales.moved").alter()
    alteration = (
        alteration.rollback_to_snapshot(second) if branch == "main" else alteration.create_branch(branch, second)
    )
    alteration.commit()
    assert not is_applied_below(asked, base, metadata())
    catalog.load_table("sales.moved").append(ids(8), branch=branch)
    assert not is_applied_below(asked, base, metadata())
