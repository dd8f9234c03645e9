"""REST catalogs that answer with what no catalog should: our exceptions only, in bounded time and memory."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import deltaberg
from deltaberg.catalogs.rest import transport
from deltaberg.errors import CorruptMetadataError, DeltabergError, StorageError, UnsafePathError
from tests.catalogs.rest_server import RestServer

pytestmark = pytest.mark.one_backend

_TABLE = "/v1/namespaces/sales/tables/orders"
_DEEP = b'{"a":' * 100_000


def _load(server: RestServer) -> Any:
    return deltaberg.load_catalog("far", type="rest", uri=server.uri)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"7", b"[]", b"null", b'"x"', b"\xff\xfe", _DEEP, b"9" * 5000, b"{}x"]
)
@pytest.mark.parametrize("path", ["/v1/config", "/v1/namespaces", _TABLE])
def test_answers_that_are_no_json_objects(path: str, body: bytes, server: RestServer, orders: Any) -> None:
    server.scripted[path] = [(200, {}, body)]
    catalog = _load(server)
    with pytest.raises(StorageError, match="is not a JSON object") as caught:
        catalog.load_table("sales.orders") if path == _TABLE else catalog.list_namespaces()
    assert caught.value.hint is not None


@pytest.mark.parametrize("body", [b"", b"<html>", _DEEP, b"[1]", b'{"error": 7}', b'{"error": {"message": {}}}'])
def test_errors_that_are_no_json(body: bytes, server: RestServer, orders: Any) -> None:
    server.scripted[_TABLE] = [(500, {}, body)]
    with pytest.raises(StorageError, match="gives no reason"):
        _load(server).load_table("sales.orders")


def test_messages_of_errors_are_cut_and_cleaned(server: RestServer, orders: Any) -> None:
    message = "\x1b[31mred\r\n" + "x" * 5000
    server.scripted[_TABLE] = [(500, {}, {"error": {"message": message, "type": "T"}})]
    with pytest.raises(StorageError) as caught:
        _load(server).load_table("sales.orders")
    assert caught.value.message.startswith("the catalog failed:  [31mred xxx")
    assert len(caught.value.message) < 600
    # The answer itself may be longer than what is read of it.
    server.scripted[_TABLE] = [(500, {}, b" " * 200_000)]
    with pytest.raises(StorageError, match="gives no reason"):
        _load(server).load_table("sales.orders")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "the disk is full", "stack": ["' + b"x" * 200_000, '"message": "the disk is full"'),
        (b"<html>\n <title>502 Bad Gateway</title>" + b"<p>nginx</p>" * 20_000, " 502 Bad Gateway nginx nginx"),
        (b"<html><title>Sign in</title></html>", " Sign in"),
    ],
)
def test_the_beginning_of_a_long_error_is_said(body: bytes, said: str, server: RestServer, orders: Any) -> None:
    server.scripted[_TABLE] = [(500, {}, body)]
    with pytest.raises(StorageError) as caught:
        _load(server).load_table("sales.orders")
    assert caught.value.message.startswith("the catalog failed: ")
    assert said in caught.value.message
    assert len(caught.value.message) < 600
    assert caught.value.context["status"] == 500


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"namespaces": None}, "answer has no namespaces"),
        ({"namespaces": {}}, "namespaces of the catalog's answer has an unexpected type"),
        ({"namespaces": ["a"]}, "'a' in the catalog's answer is not a namespace"),
        ({"namespaces": [[]]}, r"\[\] in the catalog's answer is not a namespace"),
        ({"namespaces": [[1]]}, r"\[1\] in the catalog's answer is not a namespace"),
        ({"namespaces": [[""]]}, r"\[''\] in the catalog's answer is not a namespace"),
        ({"namespaces": [], "next-page-token": 7}, "next-page-token of the catalog's answer has an unexpected type"),
    ],
)
def test_odd_lists(answer: Any, message: str, server: RestServer) -> None:
    server.scripted["/v1/namespaces"] = [(200, {}, answer)]
    with pytest.raises(StorageError, match=message):
        _load(server).list_namespaces()


@pytest.mark.parametrize(
    "entry", [7, {}, {"namespace": ["a"]}, {"namespace": "a", "name": "t"}, {"namespace": ["a"], "name": 1}]
)
def test_odd_tables_in_lists(entry: Any, server: RestServer) -> None:
    server.scripted["/v1/namespaces/a/tables"] = [(200, {}, {"identifiers": [entry]})]
    with pytest.raises(StorageError) as caught:
        _load(server).list_tables("a")
    assert caught.value.hint == "check that uri is the address of a REST catalog"


def test_pages_that_do_not_end(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    same: Any = (200, {}, {"namespaces": [["a"]], "next-page-token": "again"})
    server.scripted["/v1/namespaces"] = [same] * 5
    with pytest.raises(StorageError, match="does not end"):
        _load(server).list_namespaces()
    assert server.paths.count("/v1/namespaces") == 2
    monkeypatch.setattr("deltaberg.catalogs.rest_catalog._MOST_PAGES", 20)
    pages: list[Any] = [(200, {}, {"namespaces": [], "next-page-token": str(number)}) for number in range(30)]
    server.scripted["/v1/namespaces"] = pages
    with pytest.raises(StorageError, match="does not end"):
        _load(server).list_namespaces()
    assert len(pages) == 10


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"defaults": 7}, StorageError, "defaults of the configuration has an unexpected type"),
        ({"defaults": {"a": 7}}, StorageError, "defaults of the configuration"),
        ({"overrides": ["a"]}, StorageError, "overrides of the configuration has an unexpected type"),
        ({"overrides": {"prefix": "../../admin"}}, CorruptMetadataError, r"prefix of .* contains '\.\.'"),
        ({"overrides": {"uri": "http://[x"}}, UnsafePathError, "redirects its clients to another server"),
        ({"overrides": {"uri": "//elsewhere.example"}}, UnsafePathError, "redirects its clients to another server"),
        ({"endpoints": {}}, CorruptMetadataError, "endpoints of the configuration has an unexpected type"),
    ],
)
def test_odd_configurations(config: Any, error: type[Exception], message: str, server: RestServer) -> None:
    server.config = config
    with pytest.raises(error, match=message):
        _load(server).list_namespaces()


def test_a_prefix_stays_in_its_path(server: RestServer, orders: Any) -> None:
    server.config["overrides"]["prefix"] = "a?b#c d\r\n"
    server.prefix = "a%3Fb%23c%20d%0D%0A"
    assert _load(server).table_exists("sales.orders")
    assert server.paths[-1] == "/v1/a%3Fb%23c%20d%0D%0A/namespaces/sales/tables/orders"


@pytest.mark.parametrize(
    "extra",
    [
        {"metadata": None},
        {"metadata": []},
        {"metadata": {"format-version": "2"}},
        {"metadata-location": 7},
        {"metadata-location": "file:///a/../../b/metadata/v1.metadata.json"},
        {"config": []},
        {"config": {"s3.region": 7}},
        {"storage-credentials": {}},
        {"storage-credentials": [7]},
        {"storage-credentials": [{"prefix": 7, "config": {}}]},
        {"storage-credentials": [{"prefix": "s3://b/", "config": 7}]},
    ],
)
def test_odd_tables(extra: Any, server: RestServer, orders: Any) -> None:
    server.extra = extra
    with pytest.raises(DeltabergError) as caught:
        _load(server).load_table("sales.orders").scan().to_arrow()
    assert caught.value.context["table"]


def test_changed_answers_give_our_exceptions_only(
    server: RestServer, orders: Any, rng: random.Random, waits: list[float]
) -> None:
    extra = {
        "config": {"s3.region": "r", "s3.session-token-expires-at-ms": "99999999999999"},
        "storage-credentials": [{"prefix": "s3://b/", "config": {"s3.access-key-id": "k"}}],
    }
    file = server.tables[("sales", "orders")]
    whole: dict[str, Any] = {"metadata-location": str(file), "metadata": json.loads(file.read_text()), **extra}
    plain = json.dumps(whole).encode()
    catalog = _load(server)
    for _ in range(150):
        changed = bytearray(plain)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(changed))
            if rng.random() < 0.5:
                changed[at] = rng.randrange(256)
            else:
                del changed[at : at + rng.randrange(1, 40)]
        server.scripted[_TABLE] = [(200, {}, bytes(changed))]
        try:
            catalog.load_table("sales.orders")
        except DeltabergError:
            continue


def test_answers_have_a_greatest_size(server: RestServer, orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MOST_BYTES", 1 << 20)
    server.scripted[_TABLE] = [(200, {}, b" " * (1 << 20))]
    with pytest.raises(StorageError, match="is not a JSON object"):
        _load(server).load_table("sales.orders")
    server.scripted[_TABLE] = [(200, {}, b" " * ((1 << 20) + 1))]
    with pytest.raises(StorageError, match="more than 1 MiB"):
        _load(server).load_table("sales.orders")


@contextmanager
def _saying(data: bytes, close: bool = True) -> Iterator[str]:
    """Serve the same bytes to everybody; without closing, nothing more ever comes."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            # Whoever has seen enough goes away.
            with suppress(OSError):
                peer.recv(65536)
                peer.sendall(data)
            if close:
                peer.close()
            else:
                held.append(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for peer in held:
            peer.close()


@pytest.mark.parametrize(
    ("data", "may_heal", "message"),
    [
        (b"", True, "cannot be reached"),
        (b"no HTTP at all\r\n\r\n", False, "answers is not an HTTP server, or is a broken one: no HTTP at all"),
        # What a server that speaks TLS answers to a request without it.
        (b"\x15\x03\x01\x00\x02\x02\x46", False, "answers is not an HTTP server"),
        (b"HTTP/1.1 999999 X\r\n\r\n", False, "answers is not an HTTP server"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", True, "incomplete"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}x", False, "JSON"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", True, "incomplete"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n", False, "answers is not an HTTP server"),
        (b"HTTP/1.1 200 " + b"x" * 100_000, False, "answers is not an HTTP server"),
    ],
)
def test_broken_http(data: bytes, may_heal: bool, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are sent again only where a connection broke, so that a wrong port is noticed at once."""
    waits: list[float] = []
    monkeypatch.setattr(transport, "_wait", waits.append)
    with _saying(data) as uri, pytest.raises(StorageError, match=message):
        deltaberg.load_catalog(type="rest", uri=uri).list_namespaces()
    assert len(waits) == (5 if may_heal else 0)


def test_a_silent_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"
    properties = {"rest.client.socket-timeout-ms": "50"}
    for data in (b"", answer):
        with _saying(data, close=False) as uri, pytest.raises(StorageError, match="timed out"):
            deltaberg.load_catalog(type="rest", uri=uri, **properties).list_namespaces()
    # An answer that trickles in is cut off too, here in time: each look at the clock comes after all timeouts.
    times = iter(range(0, 100_000, 700))
    monkeypatch.setattr(transport, "_monotonic", lambda: float(next(times)))
    with _saying(answer + b"}        x") as uri, pytest.raises(StorageError, match="too slowly"):
        deltaberg.load_catalog(type="rest", uri=uri).list_namespaces()
