"""Every change of a SQL catalog, where the database gives no answer, or one that does not tell whether it was made."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

import deltaberg
from deltaberg.errors import CommitConflictError, CommitUnknownError, DeltabergError, StorageError
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_CHANGES: dict[str, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
    "drop a table": (lambda catalog: catalog.drop_table("s.a"), lambda catalog: not catalog.table_exists("s.a")),
    "rename a table": (
        lambda catalog: catalog.rename_table("s.a", "s.c"),
        lambda catalog: catalog.table_exists("s.c") and not catalog.table_exists("s.a"),
    ),
    "register a table": (
        lambda catalog: catalog.register_table("s.c", catalog.load_table("s.a").metadata_location),
        lambda catalog: catalog.table_exists("s.c"),
    ),
    "create a namespace": (
        lambda catalog: catalog.create_namespace("new", {"x": "y"}),
        lambda catalog: ("new",) in catalog.list_namespaces(),
    ),
    "drop a namespace": (
        lambda catalog: catalog.drop_namespace("empty"),
        lambda catalog: ("empty",) not in catalog.list_namespaces(),
    ),
    "change a namespace": (
        lambda catalog: catalog.update_namespace_properties("s", ["old"], {"x": "y"}),
        lambda catalog: catalog.load_namespace_properties("s") == {"x": "y"},
    ),
    "append": (
        lambda catalog: catalog.load_table("s.a").append(ids(1)),
        lambda catalog: ids_of(catalog.load_table("s.a")) == [0, 1],
    ),
}


@pytest.fixture
def catalog(sqlite: str, tmp_path: Path) -> Any:
    """A catalog with a table and an empty namespace."""
    catalog: Any = deltaberg.load_catalog("shop", type="sql", uri=sqlite, warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("s", {"old": "1"})
    catalog.create_namespace("empty")
    quick = {f"commit.retry.{name}-wait-ms": "0" for name in ("min", "max")}
    catalog.create_table("s.a", pa.schema({"id": pa.int64()}), properties=quick).append(ids(0))
    return catalog


def _files(tmp_path: Path) -> set[Path]:
    return {file for file in tmp_path.rglob("*") if file.suffix in (".parquet", ".avro", ".json")}


def _run(catalog: Any, what: str) -> DeltabergError | None:
    try:
        _CHANGES[what][0](catalog)
    except DeltabergError as error:
        return error
    return None


@pytest.mark.parametrize("what", _CHANGES)
@pytest.mark.parametrize("lands", [True, False])
def test_a_transaction_without_an_answer(
    lands: bool, what: str, catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = sa.Connection.commit
    before = _files(tmp_path)
    # The tables of the database come first, if they are not there.
    others = [1] if what == "create a namespace" else []

    def lost(self: sa.Connection) -> None:
        if others:
            others.pop()
            return commit(self)
        commit(self) if lands else self.rollback()
        raise sa.exc.OperationalError("COMMIT", {}, Exception("the server closed the connection"))

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "commit", lost)
        error = _run(catalog, what)
    assert bool(_CHANGES[what][1](catalog)) == lands
    if lands:
        assert error is None
        return
    assert isinstance(error, CommitUnknownError)
    assert "the server closed the connection" in str(error)
    assert bool(_files(tmp_path) - before) == (what == "append")


@pytest.mark.parametrize("what", sorted(_CHANGES.keys() - {"append"}))
def test_a_statement_that_fails(what: str, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was changed, and that is said. A swap of an append is sent again instead."""
    execute = sa.Connection.execute

    def failing(self: sa.Connection, statement: Any, *values: Any, **named: Any) -> Any:
        if not isinstance(statement, sa.Select):
            raise sa.exc.OperationalError("x", {}, Exception("permission denied"))
        return execute(self, statement, *values, **named)

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "execute", failing)
        error = _run(catalog, what)
    assert isinstance(error, StorageError)
    assert "permission denied" in str(error)
    assert not _CHANGES[what][1](catalog)


class _DriverError(Exception):
    """An error of a driver: of PostgreSQL with a state, of MySQL with a number."""

    def __init__(self, *said: object, state: str | None = None) -> None:
        super().__init__(*said)
        self.sqlstate = state


_GONE = _DriverError("server closed the connection", state="08006")
_ERRORS: list[tuple[type[sa.exc.DBAPIError], BaseException, type[DeltabergError], int]] = [
    (sa.exc.ProgrammingError, _DriverError("permission denied", state="42501"), StorageError, 1),
    (sa.exc.ProgrammingError, _DriverError("no such table", state="42P01"), StorageError, 1),
    (sa.exc.DataError, _DriverError("value too long", state="22001"), StorageError, 1),
    (sa.exc.IntegrityError, _DriverError("violates a check", state="23514"), StorageError, 1),
    (sa.exc.OperationalError, _DriverError("disk full", state="53100"), StorageError, 1),
    (sa.exc.OperationalError, _DriverError(1142, "UPDATE command denied"), StorageError, 1),
    (sa.exc.OperationalError, sqlite3.OperationalError("attempt to write a readonly database"), StorageError, 1),
    (sa.exc.OperationalError, sqlite3.OperationalError("no such table: iceberg_tables"), StorageError, 1),
    (sa.exc.OperationalError, _DriverError("deadlock detected", state="40P01"), CommitConflictError, 3),
    (sa.exc.OperationalError, _DriverError(1213, "deadlock found"), CommitConflictError, 3),
    (sa.exc.OperationalError, sqlite3.OperationalError("database is locked"), CommitConflictError, 3),
    (sa.exc.OperationalError, _GONE, CommitUnknownError, 6),
    (sa.exc.OperationalError, _DriverError(2013, "lost connection"), CommitUnknownError, 6),
    (sa.exc.OperationalError, _DriverError(1053, "server shutdown in progress"), CommitUnknownError, 6),
    (sa.exc.InterfaceError, _DriverError("no words"), CommitUnknownError, 6),
]


@pytest.mark.parametrize(
    ("kind", "cause", "raised", "sends", "on_commit"),
    [*((*one, False) for one in _ERRORS), *((*one, True) for one in _ERRORS[::3])],
)
def test_what_an_error_tells_of_a_swap(
    kind: type[sa.exc.DBAPIError],
    cause: BaseException,
    raised: type[DeltabergError],
    sends: int,
    on_commit: bool,
    catalog: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a connection that broke leaves it open whether the swap took place."""
    if on_commit and raised is StorageError and isinstance(cause, sqlite3.Error):
        # The library raises such an error also when the disk fails.
        raised, sends = CommitUnknownError, 6
    table = catalog.load_table("s.a")
    table.alter().set({"commit.retry.num-retries": "2"}).commit()
    before, sent = _files(tmp_path), 0
    execute = sa.Connection.execute

    def fail() -> None:
        nonlocal sent
        sent += 1
        raise kind("x", {}, cause)

    def failing(self: sa.Connection, statement: Any, *values: Any, **named: Any) -> Any:
        return execute(self, statement, *values, **named) if isinstance(statement, sa.Select) else fail()

    with monkeypatch.context() as patch:
        if on_commit:
            patch.setattr(sa.Connection, "commit", lambda _: fail())
        else:
            patch.setattr(sa.Connection, "execute", failing)
        with pytest.raises(raised) as caught:
            table.append(ids(1))
    assert type(caught.value) is raised
    assert sent == sends
    assert str(cause.args[-1]) in str(caught.value)
    assert (_files(tmp_path) == before) == (raised is not CommitUnknownError)
    assert ids_of(catalog.load_table("s.a")) == [0]


def test_a_trigger_that_refuses_the_swap(catalog: Any, tmp_path: Path) -> None:
    table, before = catalog.load_table("s.a"), _files(tmp_path)
    with catalog._engine.begin() as connection:
        connection.execute(
            sa.text("CREATE TRIGGER guard BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'frozen'); END")
        )
    with pytest.raises(StorageError, match="frozen") as caught:
        table.append(ids(1))
    assert type(caught.value) is StorageError
    assert _files(tmp_path) == before


@pytest.mark.parametrize("what", ["append", "drop a table", "rename a table", "register a table"])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_driver_that_does_not_count_rows(
    is_done: bool, what: str, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-1 is no number of rows: the catalog is looked at."""
    execute = sa.Connection.execute

    class _Uncounted:
        rowcount = -1

    def uncounted(self: sa.Connection, statement: Any, *values: Any, **named: Any) -> Any:
        if isinstance(statement, sa.Select):
            return execute(self, statement, *values, **named)
        if is_done:
            execute(self, statement, *values, **named)
        return _Uncounted()

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "execute", uncounted)
        error = _run(catalog, what)
    assert bool(_CHANGES[what][1](catalog)) == is_done
    assert isinstance(error, CommitUnknownError) == (not is_done)


def test_a_swap_that_is_refused_though_nothing_changed(
    catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database says that it changed no row: that is final, so it ends as a conflict, and no file stays."""
    before = _files(tmp_path)
    execute, sent = sa.Connection.execute, list[Any]()

    class _None:
        rowcount = 0

    def refusing(self: sa.Connection, statement: Any, *values: Any, **named: Any) -> Any:
        if isinstance(statement, sa.Select):
            return execute(self, statement, *values, **named)
        sent.append(statement)
        return _None()

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "execute", refusing)
        error = _run(catalog, "append")
    assert type(error) is CommitConflictError
    assert len(sent) == 5
    assert _files(tmp_path) == before
