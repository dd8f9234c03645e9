"""The REST catalog against the reference server, which keeps its tables by Java's JdbcCatalog."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import ConcurrentAppendError, NamespaceNotFoundError, TableNotFoundError
from tests.catalogs.written import ids, write_orders
from tests.support import rest_reference, untried

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The folder of the server, with its warehouse and its database."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture(scope="module")
def uri(folder: Path) -> Iterator[str]:
    """The address of the server."""
    reason = rest_reference.missing()
    if reason is not None:
        untried.REST_SERVER.skip(reason)
    with rest_reference.running(folder) as found:
        yield found


@pytest.fixture(scope="module")
def written(uri: str, folder: Path) -> Any:
    """A table that pyiceberg wrote through the server, with neighbours."""
    from pyiceberg.catalog.rest import RestCatalog

    peer = RestCatalog("far", uri=uri)
    for number in range(5):
        peer.create_namespace(f"n{number}")
    peer.create_namespace("sales")
    peer.create_namespace(("sales", "eu west"))
    table = write_orders(peer)
    peer.create_table(("sales", "eu west", "items"), table.schema())
    for number in range(5):
        peer.create_table(f"n0.t{number}", table.schema())
    return table


@pytest.mark.parametrize("properties", [{}, {"credential": "admin:secret"}, {"rest-page-size": "2"}])
def test_names_are_listed(properties: dict[str, str], uri: str, written: Any) -> None:
    catalog = deltaberg.load_catalog("far", uri=uri, **properties)
    assert catalog.list_namespaces() == [("n0",), ("n1",), ("n2",), ("n3",), ("n4",), ("sales",)]
    assert catalog.list_namespaces("sales") == [("sales", "eu west")]
    assert catalog.list_tables("n0") == [("n0", f"t{number}") for number in range(5)]
    assert catalog.list_tables(("sales", "eu west")) == [("sales", "eu west", "items")]
    assert catalog.table_exists(("sales", "eu west", "items"))
    assert not catalog.table_exists("sales.items")
    assert not catalog.table_exists("nowhere.items")
    with pytest.raises(NamespaceNotFoundError, match="Namespace does not exist"):
        catalog.list_tables("nowhere")
    with pytest.raises(TableNotFoundError, match="Table does not exist"):
        catalog.load_table("sales.returns")


def test_a_table_is_read_and_refreshed(uri: str, written: Any) -> None:
    table = deltaberg.load_catalog("far", uri=uri, credential="admin:secret").load_table("sales.orders")
    assert ids(table) == [1, 2, 3, 4, 5]
    assert table.refresh() is table
    written.append(pa.table({"id": pa.array([6], pa.int64()), "name": ["f"]}))
    assert ids(table.refresh()) == [1, 2, 3, 4, 5, 6]
    assert table.metadata_location == written.metadata_location.removeprefix("file:")


def test_the_database_of_the_server_is_a_sql_catalog(uri: str, written: Any, folder: Path) -> None:
    """Its layout is the one of Java's JdbcCatalog."""
    catalog = deltaberg.load_catalog("rest_backend", uri=f"sqlite:///{folder / 'catalog.db'}")
    assert catalog.list_namespaces("sales") == [("sales", "eu west")]
    assert catalog.list_tables("n0") == [("n0", f"t{number}") for number in range(5)]
    assert ids(catalog.load_table("sales.orders"))[:5] == [1, 2, 3, 4, 5]


def test_two_tables_change_at_once(uri: str, written: Any) -> None:
    catalog = deltaberg.load_catalog("far", uri=uri)
    for name in "ab":
        catalog.create_table(("n1", name), pa.schema({"id": pa.int64()})).append(pa.table({"id": [0]}))
    with catalog.transaction() as several:
        several.table("n1.a").append(pa.table({"id": [1]}))
        several.table("n1.b").delete("id = 0")
    assert [ids(catalog.load_table(("n1", name))) for name in "ab"] == [[0, 1], []]
    several = catalog.transaction()
    several.table("n1.a").append(pa.table({"id": [2]}))
    several.table("n1.b").overwrite(pa.table({"id": [2]}))
    catalog.load_table("n1.b").append(pa.table({"id": [9]}))
    with pytest.raises(ConcurrentAppendError, match="another commit added data files that may hold rows to be"):
        several.commit()
    assert [ids(catalog.load_table(("n1", name))) for name in "ab"] == [[0, 1], [9]]


def test_what_a_table_had_before_is_chosen_again(uri: str, written: Any) -> None:
    """Java's server knows of nothing that was added last where an equal schema, spec or sort order is there already."""
    catalog = deltaberg.load_catalog("far", uri=uri)
    table = catalog.create_table("n2.back", pa.schema({"id": pa.int64(), "part": pa.string()}))
    table.append(pa.table({"id": [1], "part": ["a"]}))
    for partition_by, sort_by in ((["part"], ["id"]), ([], []), (["part"], ["id"])):
        table.alter().partition_by(*partition_by).sort_by(*sort_by).commit()
        assert [field.name for field in table.spec.fields] == partition_by
        assert len(table.sort_order.fields) == len(sort_by)
    table.alter().rename("part", "parts").commit()
    table.alter().rename("parts", "part").commit()
    assert (table.arrow_schema.names, table.metadata.current_schema_id) == (["id", "part"], 0)
    again = deltaberg.create_table("n2.back", pa.schema({"id": pa.int64()}), catalog=catalog, if_exists="replace")
    assert ids(again) == []
    again.append(pa.table({"id": [2]}))
    assert ids(catalog.load_table("n2.back")) == [2]
