"""SQL catalogs: the layout that pyiceberg and Java share, in SQLite."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.catalogs.base import Catalog
from deltaberg.catalogs.sql.sql_engine import open_engine
from deltaberg.errors import (
    CorruptMetadataError,
    InvalidArgumentError,
    MissingDependencyError,
    NamespaceNotFoundError,
    StorageError,
    TableNotFoundError,
)
from tests.catalogs.written import FIRST, SECOND, ids, peer_sql, write_orders
from tests.support.recorder import Recorder

pytestmark = pytest.mark.one_backend


def _database(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri.removeprefix("sqlite:///"))


def _change(uri: str, *statements: str) -> None:
    connection = _database(uri)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_a_table_of_pyiceberg_reads_back_equal(peer: Any, sqlite: str) -> None:
    written = write_orders(peer)
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    assert isinstance(catalog, Catalog)
    table = catalog.load_table("sales.orders")
    wanted = pa.concat_tables([FIRST, SECOND]).sort_by("id")
    assert table.scan().to_arrow().sort_by("id").to_pydict() == wanted.to_pydict()
    assert table.metadata_location == written.metadata_location.removeprefix("file://")
    assert table.snapshot_id == written.current_snapshot().snapshot_id


def test_a_table_is_opened_as_of_the_past(peer: Any, sqlite: str) -> None:
    first = write_orders(peer).history()[0]
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    assert ids(catalog.load_table(("sales", "orders"), snapshot_id=first.snapshot_id)) == [1, 2, 3]
    assert ids(catalog.load_table("sales.orders", ref="main")) == [1, 2, 3, 4, 5]
    with pytest.raises(deltaberg.errors.VersionNotFoundError, match="no snapshot was current") as caught:
        catalog.load_table("sales.orders", timestamp="2001-01-01T00:00:00")
    assert caught.value.context["catalog"] == "shop"


def test_namespaces_and_tables_are_listed(peer: Any, sqlite: str) -> None:
    for name in ("sales.orders", "sales.eu.west.orders", "sales.eu.items", "stock.items"):
        write_orders(peer, name)
    peer.create_namespace("empty.inside")
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    assert catalog.list_namespaces() == [("empty",), ("sales",), ("stock",)]
    assert catalog.list_namespaces("sales") == [("sales", "eu")]
    assert catalog.list_namespaces(("sales", "eu")) == [("sales", "eu", "west")]
    assert catalog.list_namespaces("stock") == []
    assert catalog.list_tables("sales") == [("sales", "orders")]
    assert catalog.list_tables("sales.eu") == [("sales", "eu", "items")]
    assert catalog.list_tables("empty") == catalog.list_tables("empty.inside") == []
    assert catalog.table_exists("sales.eu.west.orders")
    assert not catalog.table_exists("sales.eu.orders")
    # A name that begins as another does is not a level below it.
    for question in (catalog.list_tables, catalog.list_namespaces):
        with pytest.raises(NamespaceNotFoundError, match="no such namespace"):
            question("sal")


def test_catalogs_of_other_names_in_the_database_are_not_seen(peer: Any, sqlite: str, tmp_path: Path) -> None:
    write_orders(peer)
    other = peer_sql("other", sqlite, tmp_path / "elsewhere")
    write_orders(other, "sales.returns")
    other.engine.dispose()
    assert deltaberg.load_catalog("other", uri=sqlite).list_tables("sales") == [("sales", "returns")]
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    assert catalog.list_tables("sales") == [("sales", "orders")]
    with pytest.raises(TableNotFoundError, match=r"no such table \(table: sales\.returns, catalog: shop\)"):
        catalog.load_table("sales.returns")


@pytest.mark.parametrize("typed", [True, False])
def test_both_layouts_are_read(typed: bool, peer: Any, sqlite: str) -> None:
    """Java's older layout has no column for what a row is; in the younger one null means a table."""
    write_orders(peer)
    if typed:
        copied = "SELECT catalog_name, table_namespace, {}, metadata_location, NULL, {} FROM iceberg_tables"
        _change(
            sqlite,
            "INSERT INTO iceberg_tables " + copied.format("'typed'", "'TABLE'"),
            "UPDATE iceberg_tables SET iceberg_type = NULL WHERE table_name = 'orders'",
            "INSERT INTO iceberg_tables " + copied.format("'view'", "'VIEW'") + " WHERE table_name = 'orders'",
        )
    else:
        _change(sqlite, "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    names = ["orders", "typed"] if typed else ["orders"]
    assert catalog.list_tables("sales") == [("sales", name) for name in names]
    assert ids(catalog.load_table(("sales", names[-1]))) == [1, 2, 3, 4, 5]
    assert not catalog.table_exists("sales.view")
    with pytest.raises(TableNotFoundError, match="the catalog has no such table"):
        catalog.load_table("sales.view")


def test_a_catalog_without_properties_of_namespaces_is_read(peer: Any, sqlite: str) -> None:
    write_orders(peer)
    _change(sqlite, "DROP TABLE iceberg_namespace_properties")
    assert deltaberg.load_catalog("shop", uri=sqlite).list_namespaces() == [("sales",)]


def test_refresh_asks_the_database(peer: Any, sqlite: str, recorder: Recorder) -> None:
    written = write_orders(peer)
    table = deltaberg.load_catalog("shop", uri=sqlite).load_table("sales.orders")
    recorder.clear()
    assert table.refresh() is table
    assert recorder.read == []
    written.append(pa.table({"id": pa.array([6], pa.int64()), "name": ["f"]}))
    # A file that the catalog does not name is not the table's, however new it is.
    newest = Path(written.metadata_location.removeprefix("file://"))
    (newest.parent / "99999-ffffffff-0000-0000-0000-000000000000.metadata.json").write_text("{}")
    assert ids(table.refresh()) == [1, 2, 3, 4, 5, 6]
    peer.drop_table("sales.orders")
    with pytest.raises(TableNotFoundError, match="the catalog has no such table"):
        table.refresh()


def test_another_table_of_the_same_name_is_not_taken_for_it(peer: Any, sqlite: str) -> None:
    write_orders(peer)
    table = deltaberg.load_catalog("shop", uri=sqlite).load_table("sales.orders")
    peer.drop_table("sales.orders")
    write_orders(peer)
    with pytest.raises(CorruptMetadataError, match="table-uuid changed"):
        table.refresh()


@pytest.mark.parametrize("how", ["auto", "prefix"])
def test_a_warehouse_that_moved_is_read(how: str, peer: Any, sqlite: str, tmp_path: Path) -> None:
    write_orders(peer)
    old, new = tmp_path / "warehouse", tmp_path / "moved"
    old.rename(new)
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    location_map: Any = {old.as_uri(): str(new)}
    if how == "auto":
        # The rows were moved too.
        _change(sqlite, f"UPDATE iceberg_tables SET metadata_location = replace(metadata_location, '{old}', '{new}')")
        location_map = "auto"
    table = catalog.load_table("sales.orders", location_map=location_map)
    assert ids(table) == [1, 2, 3, 4, 5]
    assert table.location.startswith(str(new))
    assert table.refresh() is table


def test_metadata_apart_from_the_table(peer: Any, sqlite: str, tmp_path: Path) -> None:
    """A table is where its metadata says, not where the metadata file lies."""
    written = write_orders(peer)
    apart = tmp_path / "apart" / "metadata"
    apart.mkdir(parents=True)
    found = Path(written.metadata_location.removeprefix("file://"))
    (apart / found.name).write_bytes(found.read_bytes())
    _change(sqlite, f"UPDATE iceberg_tables SET metadata_location = '{apart / found.name}'")
    table = deltaberg.load_catalog("shop", uri=sqlite).load_table("sales.orders")
    assert table.location == written.location().removeprefix("file://")
    assert ids(table) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("value", ["NULL", "''"])
def test_a_row_without_a_location_is_refused(value: str, peer: Any, sqlite: str) -> None:
    write_orders(peer)
    _change(sqlite, f"UPDATE iceberg_tables SET metadata_location = {value}")
    with pytest.raises(CorruptMetadataError, match="no metadata_location"):
        deltaberg.load_catalog("shop", uri=sqlite).load_table("sales.orders")


@pytest.mark.parametrize("value", ["ftp://h/t/metadata/v1.metadata.json", "file:///a/../b/metadata/v1.metadata.json"])
def test_a_row_that_leads_astray_is_refused(value: str, peer: Any, sqlite: str) -> None:
    write_orders(peer)
    _change(sqlite, f"UPDATE iceberg_tables SET metadata_location = '{value}'")
    with pytest.raises(
        (InvalidArgumentError, deltaberg.errors.UnsafePathError), match=r"no store for ftp|contains '\.\.'"
    ):
        deltaberg.load_catalog("shop", uri=sqlite).load_table("sales.orders")


def test_text_with_quotes_and_wildcards_is_text(peer: Any, sqlite: str) -> None:
    write_orders(peer)
    catalog = deltaberg.load_catalog("shop", uri=sqlite)
    for name in ("sales.' OR '1'='1", "sales.%", "sales.order_"):
        assert not catalog.table_exists(name)
    assert deltaberg.load_catalog("' OR '1'='1", uri=sqlite).list_namespaces() == []


def test_nothing_is_created(sqlite: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such database"):
        deltaberg.load_catalog(uri=sqlite).list_namespaces()
    assert not (tmp_path / "catalog.db").exists()
    _change(sqlite, "CREATE TABLE other (id INTEGER)")
    with pytest.raises(StorageError, match="no table iceberg_tables"):
        deltaberg.load_catalog(uri=sqlite).table_exists("a.b")
    connection = _database(sqlite)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("other",)]
    connection.close()


def test_a_file_that_is_no_database_is_said(sqlite: str, tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StorageError, match="file is not a database"):
        deltaberg.load_catalog(uri=sqlite).list_namespaces()


@pytest.mark.parametrize(("query", "seconds"), [("", 60), ("?timeout=7", 7)])
def test_a_locked_file_is_waited_for(query: str, seconds: int, sqlite: str) -> None:
    """Another process may be held up for seconds while it holds the lock; SQLite by itself waits for five."""
    with open_engine(f"{sqlite}{query}").connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == seconds * 1000


def test_passwords_are_not_shown() -> None:
    # Nothing listens on port 1 of this machine.
    catalog = deltaberg.load_catalog("far", uri="postgresql+psycopg://me:hush-hush@127.0.0.1:1/db")
    assert "hush" not in repr(catalog)
    assert "127.0.0.1" in repr(catalog)
    with pytest.raises(StorageError, match="the database failed") as caught:
        catalog.list_namespaces()
    assert "hush" not in repr(caught.value)


@pytest.mark.parametrize("query", ["user=me&password=hush-hush", "sslpassword=hush-hush", "application_name=hush-hush"])
def test_what_the_query_of_an_address_says_is_not_shown(query: str) -> None:
    catalog = deltaberg.load_catalog("far", uri=f"postgresql+psycopg://127.0.0.1:1/db?{query}")
    assert "hush" not in repr(catalog)
    assert "127.0.0.1:1/db" in repr(catalog)


def test_what_a_driver_repeats_of_the_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlalchemy

    catalog: Any = deltaberg.load_catalog("far", uri="postgresql+psycopg://me:hush-1@127.0.0.1:1/db?sslpassword=hush-2")

    def fail(*_: Any) -> None:
        raise sqlalchemy.exc.OperationalError("q", {}, Exception("no login for me with hush-1 and hush-2"))

    monkeypatch.setattr(catalog._engine, "connect", fail)
    with pytest.raises(StorageError, match=r"no login for me with \*\*\* and \*\*\*") as caught:
        catalog.list_namespaces()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("uri", ["postgres://me:hush@h/db", "mysql+nosuchdriver://me:hush@h/db"])
def test_an_address_of_another_spelling_is_corrected(uri: str) -> None:
    with pytest.raises(MissingDependencyError) as caught:
        deltaberg.load_catalog("far", uri=uri)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(("begin uri with postgresql+psycopg://", "begin uri with mysql+pymysql://"))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("jdbc:postgresql://h/db?password=hush", InvalidArgumentError, "a JDBC address"),
        ("://hush@", InvalidArgumentError, "not the address of a database"),
        ("postgresql://me:hush@h:port/db", InvalidArgumentError, "not the address of a database"),
        ("nosuchbase://me:hush@h/db", MissingDependencyError, "has no dialect"),
        ("mysql+nosuchdriver://me:hush@h/db", MissingDependencyError, "has no dialect"),
        ("mssql+pymssql://me:hush@h/db", MissingDependencyError, "driver of the database is not installed: pymssql"),
    ],
)
def test_odd_addresses_are_refused(uri: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        deltaberg.load_catalog(type="sql", uri=uri)
    assert "hush" not in str(caught.value)


def test_sqlalchemy_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingDependencyError, match="SQL catalogs need SQLAlchemy") as caught:
        deltaberg.load_catalog(uri="sqlite:///catalog.db")
    assert caught.value.hint == "pip install 'deltaberg[sql-catalog]'"


@pytest.mark.parametrize("identifier", ["", (), 7, None, "a..b", ".a", "a.", ("a", ""), ("a", 1), "a.b\n"])
def test_names_with_empty_levels_are_refused(identifier: Any, peer: Any, sqlite: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"is not the name of a namespace or table|name of a table is empty"):
        deltaberg.load_catalog("shop", uri=sqlite).load_table(identifier)


def test_a_catalog_travels_by_its_address(
    peer: Any, sqlite: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_orders(peer)
    file = Path(sqlite.removeprefix("sqlite:///"))
    monkeypatch.chdir(file.parent)
    packed = pickle.dumps(deltaberg.load_catalog("shop", uri=f"sqlite:///{file.name}"))
    monkeypatch.chdir(tmp_path)
    assert ids(pickle.loads(packed).load_table("sales.orders")) == [1, 2, 3, 4, 5]
    with pytest.raises(InvalidArgumentError, match="in the memory of this process"):
        pickle.dumps(deltaberg.load_catalog("shop", type="sql", uri="sqlite://"))
