"""SQL catalogs in a real PostgreSQL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import NamespaceNotFoundError, StorageError, TableNotFoundError
from tests.catalogs.written import ids, peer_sql, write_orders
from tests.races.race import Race, race_on_disk
from tests.support import postgres, untried

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of an empty database."""
    programs = postgres.binaries()
    if programs is None:
        untried.POSTGRES.skip("its programs are not there")
    # The folders of pytest belong to one user, and the server may have to be another's.
    with tempfile.TemporaryDirectory() as folder, postgres.running(Path(folder), programs) as uri:
        yield uri


def test_a_catalog_in_postgres(database: str, tmp_path: Path) -> None:
    empty = deltaberg.load_catalog("shop", uri=database)
    with pytest.raises(StorageError, match="no table iceberg_tables"):
        empty.list_namespaces()
    peer = peer_sql("shop", database, tmp_path / "warehouse")
    written = write_orders(peer)
    write_orders(peer, "sales.eu.orders")
    catalog = deltaberg.load_catalog("shop", uri=database)
    assert catalog.list_namespaces() == [("sales",)]
    assert catalog.list_namespaces("sales") == [("sales", "eu")]
    assert catalog.list_tables("sales") == [("sales", "orders")]
    assert catalog.table_exists("sales.eu.orders")
    with pytest.raises(NamespaceNotFoundError, match="no such namespace"):
        catalog.list_tables("nowhere")
    with pytest.raises(TableNotFoundError, match="the catalog has no such table"):
        catalog.load_table("sales.returns")
    table = catalog.load_table("sales.orders")
    assert ids(table) == [1, 2, 3, 4, 5]
    assert table.refresh() is table
    written.append(pa.table({"id": pa.array([6], pa.int64()), "name": ["f"]}))
    assert ids(table.refresh()) == [1, 2, 3, 4, 5, 6]
    peer.engine.dispose()


def test_a_wrong_password_is_said_and_not_shown(database: str) -> None:
    catalog = deltaberg.load_catalog("shop", uri=database.replace("secret-pg", "hush-hush"))
    with pytest.raises(StorageError, match="password authentication failed") as caught:
        catalog.list_namespaces()
    assert "hush" not in str(caught.value) + repr(catalog)


@pytest.mark.full
def test_eight_processes_commit_at_once(database: str, tmp_path: Path, seed: int) -> None:
    tally = race_on_disk(tmp_path, Race(3, seed, kind="postgres", uri=database, least=1), "race in PostgreSQL")
    print(tally)
    assert tally.faults == []
    assert tally.tried >= 8
    assert "retries" in tally.note


def test_connections_are_not_kept(database: str, tmp_path: Path) -> None:
    """A process that was forked from one that has asked can ask too."""
    peer = peer_sql("fork", database, tmp_path / "warehouse")
    write_orders(peer)
    peer.engine.dispose()
    catalog = deltaberg.load_catalog("fork", uri=database)
    assert catalog.table_exists("sales.orders")
    child = os.fork()
    if child == 0:
        os._exit(0 if catalog.table_exists("sales.orders") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert catalog.table_exists("sales.orders")
