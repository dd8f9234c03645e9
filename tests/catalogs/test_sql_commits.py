"""Commits through SQL catalogs and catalogs of directories, and what they do with tables and namespaces."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.catalogs.base import table_pointer
from deltaberg.catalogs.outcome import UnsettledError
from deltaberg.catalogs.swap_commit import SwapCommitter
from deltaberg.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    CommitUnknownError,
    ConstraintViolationError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    ObjectNotFoundError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.transaction.table_commit import Committed
from deltaberg.iceberg.updates import updates as changes
from deltaberg.iceberg.updates.new_table import new_metadata
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import ClockedPolicy
from tests.catalogs.written import FIRST, SECOND, ids, peer_sql
from tests.support.iceberg_commits import commit_table

pytestmark = pytest.mark.one_backend

_POLICY = ClockedPolicy(retries=4, wait=lambda _: None)


def _set(committer: Any, name: str, *, retries: int = 4) -> Committed:
    policy = ClockedPolicy(retries=retries, wait=lambda _: None)
    return commit_table(committer, lambda _: ([changes.SetProperties({name: "1"})], None), policy=policy)


@pytest.mark.parametrize("typed", [True, False])
def test_pyiceberg_and_we_commit_in_turns(sqlite: str, tmp_path: Path, typed: bool) -> None:
    """In both layouts of the database: the older one does not say what is a table and what is a view."""
    catalog: Any = deltaberg.load_catalog("shop", uri=sqlite, warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("sales", {"owner": "me"})
    if not typed:
        connection = sqlite3.connect(sqlite.removeprefix("sqlite:///"))
        connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
        connection.close()
    made = catalog.create_table("sales.orders", FIRST.schema, properties={"a": "b", "x": 4})
    assert made.properties == {"a": "b", "x": "4"}
    assert made.location == str(tmp_path / "warehouse" / "sales" / "orders")
    with pytest.raises(TableExistsError, match="there is a table already"):
        catalog.create_table("sales.orders", FIRST.schema)
    peer = peer_sql("shop", sqlite, tmp_path / "elsewhere")
    theirs = peer.load_table("sales.orders")
    assert theirs.schema().column_names == FIRST.schema.names
    theirs.append(FIRST)
    committer = table_pointer(catalog, "sales.orders").committer()
    assert _set(committer, "ours").retries == 0
    theirs.refresh().append(SECOND)
    assert theirs.properties["ours"] == "1"
    _set(committer, "again")
    table = catalog.load_table("sales.orders")
    assert (ids(table), table.properties["again"]) == ([1, 2, 3, 4, 5], "1")
    names = [Path(entry.metadata_file).name for entry in table.metadata.metadata_log]
    assert [int(name[:5]) for name in names] == [0, 1, 2, 3]
    assert Path(table.metadata_location).name.startswith("00004-")
    assert [entry.metadata_file for entry in theirs.refresh().metadata.metadata_log] == [
        entry.metadata_file for entry in table.metadata.metadata_log
    ]
    peer.engine.dispose()


def test_tables_of_pyiceberg_objects(sqlite: str, tmp_path: Path) -> None:
    from pyiceberg import types as kinds
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema as PeerSchema
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.transforms import BucketTransform, IdentityTransform

    schema = PeerSchema(
        kinds.NestedField(11, "id", kinds.LongType(), required=True), kinds.NestedField(7, "name", kinds.StringType())
    )
    layout = {
        "partition_spec": PartitionSpec(PartitionField(7, 1000, BucketTransform(4), "name_bucket")),
        "sort_order": SortOrder(SortField(11, transform=IdentityTransform())),
    }
    peer = peer_sql("shop", sqlite, tmp_path / "warehouse")
    peer.create_namespace("sales")
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    with pytest.raises(InvalidArgumentError, match="no directory for new tables"):
        catalog.create_table("sales.ours", schema)
    where = str(tmp_path / "ours")
    catalog.create_table("sales.ours", schema, where, properties={"format-version": 2}, **layout)
    theirs = peer.create_table("sales.theirs", schema, **layout)
    ours = peer.load_table("sales.ours")
    parts = ("schema", "spec", "sort_order")
    assert [getattr(ours, name)() for name in parts] == [getattr(theirs, name)() for name in parts]
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    ours.append(pa.table({"id": [1], "name": ["a"]}, schema=arrow))
    assert ids(catalog.load_table("sales.ours")) == [1]
    odd = PartitionSpec(PartitionField(9, 1000, BucketTransform(4), "x"))
    for wrong, error, message in (
        ({"partition_spec": ["id"]}, InvalidArgumentError, "the partition spec is of type list"),
        ({"sort_order": "id"}, InvalidArgumentError, "the sort order is of type str"),
        ({"partition_spec": odd}, ColumnNotFoundError, "the column with the id 9, which does not exist"),
        ({"properties": {"format-version": "4"}}, InvalidArgumentError, "the format version is '4'"),
        ({"properties": {"uuid": "x"}}, InvalidArgumentError, "the property uuid is reserved"),
    ):
        with pytest.raises(error, match=message):
            catalog.create_table("sales.wrong", schema, where, **wrong)
    assert peer.list_tables("sales") == [("sales", "ours"), ("sales", "theirs")]
    peer.engine.dispose()


def test_a_namespace_that_loses_its_last_property_stays(sqlite: str, tmp_path: Path) -> None:
    catalog: Any = deltaberg.load_catalog("shop", uri=sqlite, warehouse=str(tmp_path))
    catalog.create_namespace("a", {"owner": "x"})
    catalog.update_namespace_properties("a", removals=["owner"])
    assert "owner" not in catalog.load_namespace_properties("a")
    peer = peer_sql("shop", sqlite, tmp_path)
    assert peer.namespace_exists("a")
    catalog.create_table("a.t", FIRST.schema)
    catalog.rename_table("a.t", "a.u")
    catalog.drop_table("a.u")
    assert ("a",) in catalog.list_namespaces()
    peer.engine.dispose()


def test_properties_that_others_set_at_the_same_time_are_a_conflict(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that takes no lock for rows that are not there lets both delete nothing, and one insert."""
    catalog: Any = deltaberg.load_catalog("shop", uri=sqlite, warehouse=str(tmp_path))
    catalog.create_namespace("a", {"old": "1"})
    monkeypatch.setattr(catalog, "_change", lambda *_: None)
    with pytest.raises(CommitConflictError, match="at the same time"):
        catalog.update_namespace_properties("a", removals=["old"], updates={"owner": "b"})
    monkeypatch.undo()
    assert catalog.load_namespace_properties("a") == {"old": "1"}


def test_tables_and_namespaces_come_and_go(sqlite: str, tmp_path: Path) -> None:
    catalog: Any = deltaberg.load_catalog("shop", uri=sqlite, warehouse=str(tmp_path))
    catalog.create_namespace("sales.eu", {"owner": "me", "x": "1"})
    catalog.create_namespace(("stock",))
    peer = peer_sql("shop", sqlite, tmp_path)
    assert peer.load_namespace_properties("sales.eu") == {"owner": "me", "x": "1"}
    catalog.update_namespace_properties("sales.eu", {"x", "gone"}, {"owner": "you", "location": str(tmp_path / "eu")})
    found = {"owner": "you", "location": str(tmp_path / "eu")}
    assert peer.load_namespace_properties("sales.eu") == catalog.load_namespace_properties("sales.eu") == found
    table = catalog.create_table("sales.eu.orders", FIRST.schema)
    assert table.location == str(tmp_path / "eu" / "orders")
    moved = catalog.rename_table("sales.eu.orders", "stock.items")
    assert (moved.metadata_location, catalog.list_tables("sales.eu")) == (table.metadata_location, [])
    assert peer.load_table("stock.items").metadata.table_uuid is not None
    other = catalog.register_table("stock.copy", moved.metadata_location)
    assert catalog.list_tables("stock") == [("stock", "copy"), ("stock", "items")]
    assert other.metadata.table_uuid == moved.metadata.table_uuid
    with pytest.raises(TableExistsError, match="a table or a view of this name"):
        catalog.rename_table("stock.items", "stock.copy")
    with pytest.raises(TableExistsError, match="a table or a view of this name already"):
        catalog.register_table("stock.items", moved.metadata_location)
    with pytest.raises(NamespaceNotFoundError, match="no such namespace"):
        catalog.rename_table("stock.items", "nowhere.items")
    with pytest.raises(ConstraintViolationError, match="the namespace is not empty"):
        catalog.drop_namespace("stock")
    catalog.drop_table("stock.copy")
    assert Path(moved.metadata_location).exists()
    missing_calls: list[Callable[[], Any]] = [
        lambda: catalog.drop_table("stock.copy"),
        lambda: catalog.rename_table("stock.copy", "stock.other"),
    ]
    for missing in missing_calls:
        with pytest.raises(TableNotFoundError, match="the catalog has no such table"):
            missing()
    with pytest.raises(ObjectNotFoundError, match="there is no such file"):
        catalog.register_table("stock.copy", str(tmp_path / "no.metadata.json"))
    with pytest.raises(ConstraintViolationError, match="the namespace is not empty"):
        catalog.drop_namespace("sales")
    catalog.drop_namespace("sales.eu")
    assert catalog.list_namespaces() == [("stock",)]
    wrong_calls: list[Callable[[], Any]] = [
        lambda: catalog.create_namespace("stock"),
        lambda: catalog.update_namespace_properties("stock", {"a"}, {"a": "b"}),
    ]
    for wrong in wrong_calls:
        with pytest.raises(
            InvalidArgumentError,
            match=r"is to be removed and to be set|there is a namespace",
        ):
            wrong()
    unknown_calls: list[Callable[[], Any]] = [
        lambda: catalog.create_table("no.t", FIRST.schema),
        lambda: catalog.drop_namespace("no"),
    ]
    for unknown in unknown_calls:
        with pytest.raises(NamespaceNotFoundError, match="no such namespace"):
            unknown()
    peer.engine.dispose()


def test_catalogs_of_directories(tmp_path: Path) -> None:
    catalog: Any = deltaberg.load_catalog("local", type="hadoop", warehouse=str(tmp_path))
    table = catalog.create_table("sales.orders", FIRST.schema)
    assert table.metadata_location == str(tmp_path / "sales" / "orders" / "metadata" / "v1.metadata.json")
    _set(table_pointer(catalog, "sales.orders").committer(), "a")
    assert catalog.load_table("sales.orders").properties == {"a": "1"}
    refused_calls: list[Callable[[], Any]] = [
        lambda: catalog.drop_table("sales.orders"),
        lambda: catalog.rename_table("sales.orders", "sales.x"),
        lambda: catalog.register_table("sales.x", table.metadata_location),
        lambda: catalog.create_namespace("x"),
        lambda: catalog.drop_namespace("sales"),
        lambda: catalog.load_namespace_properties("sales"),
        lambda: catalog.update_namespace_properties("sales", (), {"a": "b"}),
    ]
    for refused in refused_calls:
        with pytest.raises(UnsupportedFeatureError, match="are directories"):
            refused()
    with pytest.raises(InvalidArgumentError, match="with location_map cannot be written to"):
        deltaberg.load_catalog("shop", uri="sqlite:///x.db")._pointer(("a", "b"), "auto").committer()


@dataclass
class _Row:
    """The row of one table, whose swaps are answered as told."""

    location: str | None = None
    #: What happens at the next swaps: whether it is carried out, whether that is answered, and what comes before.
    script: list[tuple[bool, bool, Callable[[], object]]] = field(default_factory=list)

    def swap(self, old: str | None, new: str) -> bool:
        """Replace the location if it is the expected one."""
        lands, answers, before = self.script.pop(0) if self.script else (True, True, lambda: None)
        before()
        swapped = lands and self.location == old
        if swapped:
            self.location = new
        if not answers:
            raise UnsettledError("the connection broke")
        return swapped

    def committer(self) -> SwapCommitter:
        """Return what commits to the table."""
        return SwapCommitter(lambda: self.location, self.swap, StoreSpec())


def _nothing() -> None: ...


@pytest.fixture
def row(tmp_path: Path) -> _Row:
    """The row of a new table."""
    row = _Row()
    raw = new_metadata(Schema(Struct((Field("id", Primitive("long")),))), location=str(tmp_path / "t"), now_ms=5)
    committer = row.committer()
    commit_table(committer, lambda _: ([], None), staged=committer.stage(raw), policy=_POLICY)
    return row


def _files(row: _Row) -> list[str]:
    return sorted(file.name for file in Path(row.location or "").parent.iterdir())


@pytest.mark.req("ICE-COM-11", half="writer")
def test_a_stale_swap_fails_and_the_loser_reads_again(row: _Row) -> None:
    first = row.location
    assert not row.swap("stale", "new")
    row.script.append((True, True, lambda: _set(row.committer(), "theirs")))
    result = _set(row.committer(), "ours")
    assert (result.retries, result.committed) == (1, True)
    assert result.loaded.metadata.properties == {"theirs": "1", "ours": "1"}
    assert str(result.loaded.file) == row.location
    # The file of the lost attempt is gone.
    assert [name[:5] for name in _files(row)] == ["00000", "00001", "00002"]
    pattern = r"\d{5}-[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\.metadata\.json"
    assert all(re.fullmatch(pattern, name) for name in _files(row))
    assert result.loaded.metadata.metadata_log[0].metadata_file == first


@pytest.mark.parametrize(
    "script",
    [
        [(True, False, _nothing)],
        [(False, False, _nothing), (False, False, _nothing), (True, True, _nothing)],
        [(False, False, _nothing), (True, False, _nothing)],
    ],
    ids=["landed, no reply", "landed at the third", "landed at the second, no reply"],
)
@pytest.mark.parametrize("later", [False, True])
def test_a_swap_is_there_once(row: _Row, script: list[Any], later: bool) -> None:
    row.script += script
    if later:
        # Another writer commits on top before we can look.
        lands, answers, _ = row.script.pop()
        row.script.append((lands, answers, _nothing))
        committer = row.committer()
        real = committer.find

        def find() -> str | None:
            if row.location != first and not done:
                done.append(1)
                _set(row.committer(), "theirs")
            return real()

        first, done = row.location, list[int]()
        committer.find = find
        found = _set(committer, "ours")
    else:
        found = _set(row.committer(), "ours")
    assert (found.committed, found.retries) == (True, 0)
    assert len(_files(row)) == 2 + (later and not script[-1][1])


@pytest.mark.req("ICE-COM-12", half="writer")
def test_no_file_is_deleted_while_nobody_knows(row: _Row) -> None:
    row.script += [(False, False, _nothing)] * 6
    with pytest.raises(CommitUnknownError, match="it is not known"):
        _set(row.committer(), "ours")
    assert [name[:5] for name in _files(row)] == ["00000", "00001"]

    def drop() -> None:
        row.location = None

    row.script = [(False, False, drop)]
    with pytest.raises(CommitUnknownError, match="the table shows neither it nor what took its place"):
        _set(row.committer(), "ours")


def test_a_table_that_goes_while_we_look_for_our_change(row: _Row) -> None:
    """The catalog names another file first, and then none."""
    committer = row.committer()
    real = committer.find

    def find() -> str | None:
        found = real()
        if found == "theirs":
            row.location = None
        return found

    committer.find = find
    row.script = [(False, False, lambda: setattr(row, "location", "theirs"))]
    with pytest.raises(CommitUnknownError, match="it is not known"):
        _set(committer, "ours")
    assert row.location is None


def test_a_table_that_is_created_twice(row: _Row, tmp_path: Path) -> None:
    other = _Row()
    raw = new_metadata(Schema(Struct((Field("id", Primitive("long")),))), location=str(tmp_path / "u"), now_ms=5)

    def taken() -> None:
        other.location = row.location

    committer = other.committer()
    other.script.append((True, True, taken))
    with pytest.raises(TableExistsError, match="there is a table already"):
        commit_table(committer, lambda _: ([], None), staged=committer.stage(raw), policy=_POLICY)
    assert len(_files(row)) == 1
    assert not any((tmp_path / "u").rglob("*.json"))
