"""Filesystem catalogs: directories of tables, on the disk and in a bucket."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.catalogs.base import Catalog
from deltaberg.errors import InvalidArgumentError, NamespaceNotFoundError, TableNotFoundError
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.catalogs.written import FIRST, ids
from tests.support.recorder import Recorder

pytestmark = pytest.mark.one_backend

_NAMES = ["orders", "sales/orders", "sales/eu/orders", "sales/eu/west/items"]


def _write(peer: Any, directory: Path) -> Any:
    peer.create_namespace_if_not_exists("written")
    table = peer.create_table(f"written.t{uuid.uuid4().hex}", FIRST.schema, location=str(directory))
    table.append(FIRST)
    return table


@pytest.fixture
def warehouse(peer: Any, tmp_path: Path) -> Path:
    """A directory of four tables, an empty namespace, and files that are neither."""
    root = tmp_path / "hadoop"
    for name in _NAMES:
        _write(peer, root / name)
    (root / "empty").mkdir()
    (root / "sales" / "README.txt").write_text("not a table")
    # A directory of this name makes no table by itself.
    (root / "stock" / "metadata").mkdir(parents=True)
    return root


@pytest.fixture(params=["disk", "bucket"])
def place(request: pytest.FixtureRequest, warehouse: Path) -> str:
    """Where the same warehouse is."""
    if request.param == "disk":
        return str(warehouse)
    url = f"memory://{uuid.uuid4().hex}/deep/warehouse"
    store = open_store(parse_location(url))
    for path in sorted(warehouse.rglob("*")):
        if path.is_file():
            store.put(f"deep/warehouse/{path.relative_to(warehouse).as_posix()}", path.read_bytes())
    # Buckets have no empty directories.
    store.put("deep/warehouse/empty/.keep", b"")
    store.put("deep/warehouse/stock/metadata/.keep", b"")
    return url


@pytest.mark.parametrize("kind", ["hadoop", "filesystem"])
def test_tables_are_loaded_by_name(kind: str, place: str) -> None:
    catalog = deltaberg.load_catalog("local", type=kind, warehouse=place)
    assert isinstance(catalog, Catalog)
    assert repr(catalog) == f"FilesystemCatalog('local', warehouse={place!r})"
    for name in _NAMES:
        # The files lie where the table was written; a bucket has a copy of all of them.
        assert ids(catalog.load_table(name.replace("/", "."), location_map="auto")) == [1, 2, 3]
    assert catalog.table_exists("sales.eu.orders")
    for missing in ("sales.eu", "stock", "sales.nothing", "empty.orders"):
        assert not catalog.table_exists(missing)
        with pytest.raises(TableNotFoundError) as caught:
            catalog.load_table(missing)
        assert caught.value.context["catalog"] == "local"


def test_namespaces_and_tables_are_listed(place: str) -> None:
    catalog = deltaberg.load_catalog(type="hadoop", warehouse=place)
    assert catalog.list_namespaces() == [("empty",), ("sales",), ("stock",)]
    assert catalog.list_tables(()) == [("orders",)]
    assert catalog.list_namespaces("sales") == [("sales", "eu")]
    assert catalog.list_tables("sales") == [("sales", "orders")]
    assert catalog.list_namespaces("sales.eu") == [("sales", "eu", "west")]
    assert catalog.list_tables("empty") == catalog.list_namespaces("empty") == []
    # A table is not a namespace, though it is a directory.
    for missing in ("nowhere", "sales.orders", "sales.nowhere"):
        for question in (catalog.list_tables, catalog.list_namespaces):
            with pytest.raises(NamespaceNotFoundError, match="no such namespace"):
                question(missing)


def test_a_warehouse_that_is_not_there_is_said(tmp_path: Path) -> None:
    catalog = deltaberg.load_catalog(type="hadoop", warehouse=str(tmp_path / "nowhere"))
    with pytest.raises(NamespaceNotFoundError, match="there is no such warehouse"):
        catalog.list_namespaces()
    assert not catalog.table_exists("a.b")


@pytest.mark.parametrize("level", ["..", ".", "a/b", "a\\b", "/etc"])
def test_names_do_not_climb_out(level: str, warehouse: Path) -> None:
    catalog = deltaberg.load_catalog(type="hadoop", warehouse=str(warehouse / "sales"))
    with pytest.raises(InvalidArgumentError, match="cannot be the name of a directory"):
        catalog.load_table((level, "orders"))
    with pytest.raises(InvalidArgumentError, match="cannot be the name of a directory"):
        catalog.list_tables((level,))


def test_refresh_reads_metadata_only_where_it_is_new(peer: Any, tmp_path: Path, recorder: Recorder) -> None:
    written = _write(peer, tmp_path / "hadoop" / "orders")
    table = deltaberg.load_catalog(type="hadoop", warehouse=str(tmp_path / "hadoop")).load_table("orders")
    recorder.clear()
    assert table.refresh() is table
    assert not [name for name in recorder.read if name.endswith(".json")]
    written.append(pa.table({"id": pa.array([9], pa.int64()), "name": ["i"]}))
    assert ids(table.refresh()) == [1, 2, 3, 9]
