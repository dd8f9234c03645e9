"""REST catalogs: configuration, names, pages, tables, and what errors mean."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.catalogs.base import Catalog
from deltaberg.errors import (
    AuthenticationError,
    CorruptMetadataError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from deltaberg.lossless_json import write_json
from tests.catalogs.rest_server import RestServer, error_body
from tests.catalogs.written import ids, publish
from tests.support.recorder import Recorder

pytestmark = pytest.mark.one_backend

_TABLE = "/v1/namespaces/sales/tables/orders"
_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}"


def _load(server: RestServer, **properties: str) -> Any:
    return deltaberg.load_catalog("far", type="rest", uri=server.uri, **properties)


def test_a_table_is_loaded_by_name(server: RestServer, orders: Any) -> None:
    catalog = _load(server)
    assert isinstance(catalog, Catalog)
    assert repr(catalog) == f"RestCatalog('far', uri='{server.uri}')"
    assert server.asked == []
    table = catalog.load_table("sales.orders")
    assert ids(table) == [1, 2, 3, 4, 5]
    assert table.metadata_location == orders.metadata_location.removeprefix("file://")
    assert table.location == orders.location().removeprefix("file://")
    assert server.paths == ["/v1/config", _TABLE]
    assert server.asked[1].headers["X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert server.asked[1].headers["User-Agent"].startswith("deltaberg/")
    assert ids(catalog.load_table("sales.orders", snapshot_id=orders.history()[0].snapshot_id)) == [1, 2, 3]


def test_the_metadata_is_not_read_from_the_store(server: RestServer, orders: Any, recorder: Recorder) -> None:
    _load(server).load_table("sales.orders")
    assert recorder.read == []


def test_the_metadata_keeps_what_nobody_understands(server: RestServer, orders: Any) -> None:
    text = '{"w":1.10,"big":1e400,"f":0.30000000000000000001,"half":"\\ud800","n":[-0,1.0,12345678901234567890]}'
    own = orders.metadata.model_dump_json()
    server.scripted[_TABLE] = [(200, {}, f'{{"metadata":{own[:-1]},"new":{text}}}}}'.encode())]
    table = _load(server).load_table("sales.orders")
    assert write_json(table.metadata.raw["new"]) == text
    assert ids(table) == [1, 2, 3, 4, 5]


def test_refresh_asks_the_catalog(server: RestServer, orders: Any, recorder: Recorder) -> None:
    table = _load(server).load_table("sales.orders")
    recorder.clear()
    assert table.refresh() is table
    assert server.asked[-1].headers["If-None-Match"] == f'"{orders.metadata_location.rpartition("/")[2]}"'
    orders.append(pa.table({"id": pa.array([6], pa.int64()), "name": ["f"]}))
    assert table.refresh() is table, "the catalog does not know of it yet"
    assert recorder.read == []
    publish(server, orders)
    assert ids(table.refresh()) == [1, 2, 3, 4, 5, 6]
    server.tables.clear()
    with pytest.raises(TableNotFoundError, match=r"Table does not exist: sales.orders"):
        table.refresh()


def test_the_entity_tag_is_that_of_the_table_that_is_known(server: RestServer, orders: Any) -> None:
    table = _load(server).load_table("sales.orders")
    assert table._pointer.load().metadata == table.metadata
    assert "If-None-Match" not in server.asked[-1].headers


def test_a_catalog_without_entity_tags_is_asked_too(server: RestServer, orders: Any) -> None:
    full = server.answer
    server.answer = lambda asked: (full(asked)[0], {}, full(asked)[2])  # type: ignore[method-assign]
    table = _load(server).load_table("sales.orders")
    before = table.metadata
    assert table.refresh().metadata is before
    assert "If-None-Match" not in server.asked[-1].headers
    server.scripted[_TABLE] = [(304, {}, None)]
    with pytest.raises(StorageError, match="without an entity tag"):
        _load(server).load_table("sales.orders")


def test_a_table_without_a_metadata_location(server: RestServer, orders: Any) -> None:
    server.extra = {"metadata-location": None}
    table = _load(server).load_table("sales.orders")
    assert ids(table) == [1, 2, 3, 4, 5]
    orders.append(pa.table({"id": pa.array([6], pa.int64()), "name": ["f"]}))
    publish(server, orders)
    assert ids(table.refresh()) == [1, 2, 3, 4, 5, 6]


def test_a_warehouse_that_moved_is_read(server: RestServer, orders: Any, tmp_path: Any) -> None:
    old, new = tmp_path / "warehouse", tmp_path / "moved"
    old.rename(new)
    (key,) = server.tables
    server.tables[key] = new / server.tables[key].relative_to(old)
    server.extra = {"metadata-location": orders.metadata_location}
    table = _load(server).load_table("sales.orders", location_map={old.as_uri(): str(new)})
    assert ids(table) == [1, 2, 3, 4, 5]
    assert table.location.startswith(str(new))


@pytest.mark.parametrize("size", [None, "2", "3"])
def test_lists_come_in_pages(size: str | None, server: RestServer, orders: Any) -> None:
    file = server.tables[("sales", "orders")]
    server.page = 2
    for name in ("e", "d", "c", "b", "a"):
        server.tables[("sales", name)] = server.tables[(name, "x")] = server.tables[("sales", name, "y")] = file
    catalog = _load(server, **({"rest-page-size": size} if size else {}))
    assert catalog.list_tables("sales") == [("sales", name) for name in ("a", "b", "c", "d", "e", "orders")]
    asked = [one for one in server.asked if one.path.endswith("/tables")]
    assert len(asked) == (2 if size == "3" else 3)
    assert asked[0].query["pageToken"] == [""]
    assert asked[1].query["pageToken"] == [size or "2"]
    assert catalog.list_namespaces() == [(name,) for name in ("a", "b", "c", "d", "e", "sales")]
    assert catalog.list_namespaces("sales") == [("sales", name) for name in "abcde"]


def test_names_are_encoded(server: RestServer, orders: Any) -> None:
    file = server.tables[("sales", "orders")]
    names: list[tuple[str, ...]] = [("a", "b c", "t/1"), ("a", "b.c", "ü%?#"), ("..", "x")]
    server.tables |= dict.fromkeys(names, file)
    catalog = _load(server)
    for levels in list(server.tables):
        assert catalog.table_exists(levels)
        assert ids(catalog.load_table(levels)) == [1, 2, 3, 4, 5]
    assert "/v1/namespaces/a%1Fb%20c/tables/t%2F1" in server.paths
    assert catalog.list_namespaces(("a",)) == [("a", "b c"), ("a", "b.c")]


def test_the_catalog_says_where_paths_begin(server: RestServer, orders: Any) -> None:
    server.prefix = "ws/my%20lake"
    server.config = {"defaults": {"prefix": "unused", "other": None}, "overrides": {"prefix": "/ws/my lake/"}}
    catalog = _load(server, warehouse="lake & co", prefix="mine")
    assert ids(catalog.load_table("sales.orders")) == [1, 2, 3, 4, 5]
    assert server.asked[0].query == {"warehouse": ["lake & co"]}
    assert server.paths[1] == "/v1/ws/my%20lake/namespaces/sales/tables/orders"


def test_the_caller_counts_before_defaults(server: RestServer, orders: Any) -> None:
    server.prefix = "mine"
    server.config = {"defaults": {"prefix": "unused"}, "overrides": {}}
    assert _load(server, prefix="mine").table_exists("sales.orders")


def test_the_separator_of_namespaces_can_be_another(server: RestServer, orders: Any) -> None:
    server.config["overrides"]["namespace-separator"] = "%2E"
    server.scripted["/v1/namespaces/a.b/tables/t"] = [(404, {}, error_body(404, "NoSuchTableException", "no"))]
    assert not _load(server).table_exists("a.b.t")
    assert server.paths[-1] == "/v1/namespaces/a.b/tables/t"


@pytest.mark.parametrize("head", [True, False])
def test_existence_is_asked_by_head_where_the_catalog_knows_that(head: bool, server: RestServer, orders: Any) -> None:
    server.config["endpoints"] = [_EXISTS] if head else ["GET /v1/{prefix}/namespaces", 7]
    catalog = _load(server)
    assert catalog.table_exists("sales.orders")
    assert server.asked[-1].method == ("HEAD" if head else "GET")
    assert server.asked[-1].query == ({} if head else {"snapshots": ["refs"]})
    assert not catalog.table_exists("sales.returns")
    assert not catalog.table_exists("nowhere.returns")
    server.scripted[_TABLE] = [(500, {}, None)]
    with pytest.raises(StorageError, match="the catalog failed"):
        catalog.table_exists("sales.orders")


def test_dots_alone_are_a_name_behind_a_proxy(server: RestServer, orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # As steps in the path, they would drop a namespace in the place of a table.
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", server.uri)
    server.scripted["/v1/namespaces/%2E%2E"] = [(404, {}, error_body(404, "NoSuchNamespaceException", "no"))]
    catalog = deltaberg.load_catalog("lake", type="rest", uri="http://catalog.invalid")
    for levels in (("sales", ".."), ("sales", "."), ("..", "orders")):
        with pytest.raises(TableNotFoundError, match="Table does not exist"):
            catalog.drop_table(levels)
    with pytest.raises(NamespaceNotFoundError, match=r"^no "):
        catalog.drop_namespace(("..",))
    assert [(one.method, one.path) for one in server.asked[1:]] == [
        ("DELETE", "/v1/namespaces/sales/tables/%2E%2E"),
        ("DELETE", "/v1/namespaces/sales/tables/%2E"),
        ("DELETE", "/v1/namespaces/%2E%2E/tables/orders"),
        ("DELETE", "/v1/namespaces/%2E%2E"),
    ]


def test_headers_of_the_caller_are_sent(server: RestServer, orders: Any) -> None:
    properties = {"header.X-Tenant": "me", "header.x-iceberg-access-delegation": "", "header.user-agent": "mine"}
    _load(server, **properties).table_exists("sales.orders")
    for asked in server.asked:
        assert asked.headers["X-Tenant"] == "me"
        assert asked.headers.get_all("User-Agent") == ["mine"]
        assert "X-Iceberg-Access-Delegation" not in asked.headers


@pytest.mark.parametrize(
    ("status", "kind", "error", "message"),
    [
        (404, "NoSuchTableException", TableNotFoundError, "it is not there"),
        (404, "NoSuchNamespaceException", TableNotFoundError, "it is not there"),
        (404, "NoSuchWarehouseException", StorageError, "catalog failed: it is not there"),
        (400, "BadRequestException", StorageError, "catalog failed: it is not there"),
        (401, "NotAuthorizedException", AuthenticationError, "denies access: it is not there"),
        (403, "ForbiddenException", AuthenticationError, "denies access: it is not there"),
        (419, "AuthenticationTimeoutException", AuthenticationError, "denies access: it is not there"),
        (406, "UnsupportedOperationException", UnsupportedFeatureError, "does not support this: it is not there"),
        (500, "InternalServerError", StorageError, "catalog failed: it is not there"),
        (201, "Odd", StorageError, "catalog failed: it is not there"),
    ],
)
def test_errors_become_ours(
    status: int, kind: str, error: type[Exception], message: str, server: RestServer, orders: Any
) -> None:
    server.scripted[_TABLE] = [(status, {}, error_body(status, kind, "it is not there"))]
    with pytest.raises(error, match=message) as caught:
        _load(server).load_table("sales.orders")
    assert type(caught.value) is error
    assert caught.value.context["status"] == status  # type: ignore[attr-defined]
    assert caught.value.context["catalog"] == server.uri  # type: ignore[attr-defined]


def test_namespaces_that_are_not_there(server: RestServer, orders: Any) -> None:
    catalog = _load(server)
    for question in (catalog.list_tables, catalog.list_namespaces):
        with pytest.raises(NamespaceNotFoundError, match="Namespace does not exist"):
            question("nowhere")


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_catalog_is_asked_again(status: int, server: RestServer, orders: Any, waits: list[float]) -> None:
    server.scripted[_TABLE] = [(status, {"Retry-After": "7"}, None), (status, {}, None), (status, {}, b"<html>")]
    assert _load(server).table_exists("sales.orders")
    assert server.paths.count(_TABLE) == 4
    assert waits[0] == 7.0
    # Without a wish of the server: twice as long each time, and spread.
    assert 0.5 <= waits[1] <= 1.0 <= waits[2] <= 2.0


def test_asking_again_ends(server: RestServer, orders: Any, waits: list[float]) -> None:
    catalog = _load(server, **{"rest.client.max-retries": "2"})
    server.scripted[_TABLE] = [(503, {}, error_body(503, "Busy", "come back later"))] * 9
    with pytest.raises(StorageError, match="come back later") as caught:
        catalog.table_exists("sales.orders")
    assert caught.value.context["status"] == 503
    assert len(waits) == 2
    # Nobody waits for an hour, and nobody for ever by steps of a minute.
    server.scripted[_TABLE] = [(429, {"Retry-After": "3600"}, None)]
    with pytest.raises(StorageError, match=r"the catalog failed.*status: 429"):
        catalog.table_exists("sales.orders")
    server.scripted[_TABLE] = [(429, {"Retry-After": "40"}, None)] * 2
    with pytest.raises(StorageError, match=r"the catalog failed.*status: 429"):
        catalog.table_exists("sales.orders")
    assert waits[2:] == [40.0]


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("-5", 0.25, 0.5),
        ("1e3", 0.25, 0.5),
        ("soon", 0.25, 0.5),
        ("9" * 400, 0.25, 0.5),
        ("", 0.25, 0.5),
    ],
)
def test_odd_wishes_for_a_wait(
    said: str, least: float, most: float, server: RestServer, orders: Any, waits: list[float]
) -> None:
    server.scripted[_TABLE] = [(503, {"Retry-After": said}, None)]
    assert _load(server).table_exists("sales.orders")
    assert least <= waits[0] <= most


def test_nobody_there_is_said(server: RestServer) -> None:
    # Nothing listens on port 1 of this machine.
    with pytest.raises(StorageError, match=r"cannot be reached: .*refused") as caught:
        deltaberg.load_catalog(type="rest", uri="http://127.0.0.1:1/api").list_namespaces()
    assert caught.value.context["server"] == "http://127.0.0.1:1"


def test_the_catalog_does_not_send_its_callers_elsewhere(server: RestServer, orders: Any) -> None:
    server.config["overrides"]["uri"] = "http://elsewhere.example/"
    with pytest.raises(UnsafePathError, match=r"another server: http://elsewhere\.example/"):
        _load(server).list_namespaces()
    server.config["overrides"]["uri"] = server.uri.replace("http", "HTTP") + "/"
    assert _load(server).list_namespaces() == [("sales",)]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int, server: RestServer, orders: Any) -> None:
    server.scripted["/v1/config"] = [(status, {"Location": f"{server.uri}{_TABLE}"}, None)]
    with pytest.raises(StorageError, match="gives no reason") as caught:
        _load(server, token="t").list_namespaces()
    assert caught.value.hint == "redirects are not followed: pass the final address as uri"
    assert server.paths == ["/v1/config"]


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"uri": "http://me:hush@h/"}, InvalidArgumentError, "uri contains a user or a password"),
        ({"uri": "ftp://h/"}, InvalidArgumentError, "uri is not the URL"),
        ({"uri": "http:///x"}, InvalidArgumentError, "uri is not the URL"),
        ({"uri": "http://h:99999/"}, InvalidArgumentError, "uri is not the URL"),
        ({"uri": "http://[h/"}, InvalidArgumentError, "uri is not the URL"),
        ({"uri": "http://h/?token=hush"}, InvalidArgumentError, "uri is not the URL"),
        ({"uri": "http://h/\r\nhush"}, InvalidArgumentError, "uri is not the URL"),
        (
            {"uri": "http://h", "oauth2-server-uri": "file:///hush"},
            InvalidArgumentError,
            "oauth2-server-uri is not the URL",
        ),
        ({"uri": "http://h", "token": "hush\r\nX: y"}, InvalidArgumentError, "property token cannot be sent"),
        ({"uri": "http://h", "token": "hush\u0151"}, InvalidArgumentError, "property token cannot be sent"),
        ({"uri": "http://h", "header.x": "hush\n"}, InvalidArgumentError, r"header\.x cannot be sent"),
        ({"uri": "http://h", "header.x y": "hush"}, InvalidArgumentError, r"header\.x y cannot be sent"),
        (
            {"uri": "http://h", "rest.client.max-retries": "many"},
            InvalidArgumentError,
            "max-retries must be a whole number from 0 to 999999999, not 'many'",
        ),
        ({"uri": "http://h", "rest.sigv4-enabled": "true"}, UnsupportedFeatureError, "SigV4"),
        ({"uri": "http://h", "auth.type": "google"}, UnsupportedFeatureError, "type 'google'"),
    ],
)
def test_odd_properties_are_refused(properties: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        deltaberg.load_catalog("c", type="rest", **properties)
    assert "hush" not in str(caught.value)


def test_certificates_that_cannot_be_used_are_said() -> None:
    catalog = deltaberg.load_catalog("c", uri="https://127.0.0.1:1", **{"ssl.cabundle": "/nowhere.pem"})
    with pytest.raises(InvalidArgumentError, match="certificates cannot be used"):
        catalog.list_namespaces()


def test_a_table_that_is_none_is_refused(server: RestServer, orders: Any) -> None:
    server.extra = {"metadata": {"format-version": 2}}
    with pytest.raises(CorruptMetadataError) as caught:
        _load(server).load_table("sales.orders")
    assert caught.value.context["table"] == "sales.orders"
