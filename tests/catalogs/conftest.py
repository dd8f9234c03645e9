"""What the tests of catalogs share: an environment without configuration, and tables that pyiceberg writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltaberg
from tests.catalogs.rest_server import RestServer, running
from tests.catalogs.rest_writer import WritableServer
from tests.catalogs.written import peer_sql, publish, write_orders


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the configuration of whoever runs the tests, and give the directory that stands for their home."""
    import os

    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(home)
    # A proxy of this machine has no business with loopback.
    monkeypatch.setenv("no_proxy", "*")
    for name in list(os.environ):
        if name.lower().startswith("pyiceberg"):
            monkeypatch.delenv(name)
    return home


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The address of a database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'catalog.db'}"


@pytest.fixture
def peer(sqlite: str, tmp_path: Path) -> Iterator[Any]:
    """pyiceberg's SQL catalog in that database, under the name ``shop``."""
    catalog = peer_sql("shop", sqlite, tmp_path / "warehouse")
    yield catalog
    catalog.engine.dispose()


@pytest.fixture
def server() -> Iterator[RestServer]:
    """An empty REST catalog on loopback."""
    with running(RestServer()) as state:
        yield state


@pytest.fixture
def writable(peer: Any) -> Iterator[WritableServer]:
    """A REST catalog that takes commits, with the namespace ``sales``."""
    peer.create_namespace("sales")
    with running(WritableServer(peer=peer)) as state:
        yield state


@pytest.fixture
def catalog(sqlite: str, tmp_path: Path) -> Any:
    """Our SQL catalog, with the namespace ``db``."""
    catalog: Any = deltaberg.load_catalog("shop", type="sql", uri=sqlite, warehouse=str(tmp_path / "w"))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def orders(server: RestServer, peer: Any) -> Any:
    """The table ``sales.orders`` of pyiceberg, which the REST catalog has too."""
    written = write_orders(peer)
    publish(server, written)
    return written


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited between attempts; none of them pass."""
    waited: list[float] = []
    monkeypatch.setattr("deltaberg.catalogs.rest.transport._wait", waited.append)
    return waited
