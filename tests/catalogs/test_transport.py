"""Which requests are sent again, and what is said of one whose answer is lost."""

from __future__ import annotations

import errno
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from deltaberg.catalogs.rest import transport
from deltaberg.catalogs.rest.transport import Transport
from deltaberg.errors import CommitUnknownError, StorageError
from deltaberg.workers import map_in_order
from tests.catalogs.rest_server import RestServer
from tests.support import faulty_proxy
from tests.support.faulty_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.one_backend

_PATH = "/v1/namespaces/sales/tables/orders"
_CHANGES = ("POST", "DELETE", "PUT")


@pytest.fixture
def proxy(server: RestServer) -> Iterator[FaultyProxy]:
    """A gateway before the catalog."""
    with faulty_proxy.running(server.uri) as found:
        yield found


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, which do not pass."""
    found: list[float] = []
    monkeypatch.setattr(transport, "_wait", found.append)
    return found


def _send(proxy: FaultyProxy, method: str, *, timeout: float = 60.0, repeatable: bool | None = None) -> int:
    body = None if method in ("GET", "HEAD") else b"{}"
    sender = Transport(timeout=timeout, retries=3)
    return sender.send(method, f"{proxy.endpoint}{_PATH}", {}, body, repeatable=repeatable).status


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["GET", "HEAD", *_CHANGES])
def test_what_changes_something_is_sent_once(method: str, status: int, proxy: FaultyProxy, waits: list[float]) -> None:
    proxy.faults.append(Fault(times=2, forwards=0, answer=status))
    if method in _CHANGES:
        # Whoever sent it has to find out whether it took effect.
        assert _send(proxy, method) == status
        assert (len(proxy.seen), waits) == (1, [])
    else:
        assert _send(proxy, method) == 404
        assert (len(proxy.seen), len(waits)) == (3, 2)


def test_what_is_harmless_is_sent_again(proxy: FaultyProxy, server: RestServer, waits: list[float]) -> None:
    proxy.faults.append(Fault(times=2, forwards=0, answer=503))
    server.scripted[_PATH] = [(200, {}, {})]
    assert _send(proxy, "POST", repeatable=True) == 200
    assert len(proxy.seen) == 3


@pytest.mark.parametrize("answer", [503, "none"])
def test_attempts_end_once_they_have_waited_for_a_minute(answer: Any, proxy: FaultyProxy, waits: list[float]) -> None:
    proxy.faults.append(Fault(times=99, forwards=0, answer=answer))
    with nullcontext() if answer == 503 else pytest.raises(StorageError):
        Transport(retries=99).send("GET", f"{proxy.endpoint}{_PATH}", {})
    # A wait takes at most ten seconds.
    assert 50 < sum(waits) <= 60


@pytest.mark.parametrize(
    "fault",
    [Fault(answer="none"), Fault(answer="cut"), Fault(answer="late"), Fault(forwards=0, answer="none")],
    ids=repr,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_that_is_lost(
    method: str, fault: Fault, proxy: FaultyProxy, server: RestServer, waits: list[float]
) -> None:
    fault.times = 1
    proxy.faults.append(fault)
    server.scripted[_PATH] = [(200, {}, b"x" * 100)] * 2
    if method == "GET" and fault.answer != "late":
        # What only reads is sent again if the connection breaks, though not if it is slow.
        assert _send(proxy, method) == 200
        assert (len(proxy.seen), len(waits)) == (2, 1)
        return
    wanted = CommitUnknownError if method == "POST" else StorageError
    with pytest.raises(wanted) as caught:
        _send(proxy, method, timeout=3.0 if fault.answer == "late" else 60.0)
    proxy.settle(times=1)
    assert caught.value.context["server"] == proxy.endpoint
    assert len(proxy.seen) == 1
    # Code that cleans up after a failure must not take this one for such.
    assert isinstance(caught.value, StorageError) == (method == "GET")


def test_an_answer_that_is_too_long(proxy: FaultyProxy, server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MOST_BYTES", 50)
    for method, wanted in (("GET", StorageError), ("POST", CommitUnknownError)):
        server.scripted[_PATH] = [(200, {}, b"x" * 100)]
        with pytest.raises(wanted, match="answered with more than"):
            _send(proxy, method)


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNREFUSED, errno.ETIMEDOUT])
@pytest.mark.parametrize("step", ["getresponse", "endheaders"])
def test_a_route_that_is_lost_after_the_request(
    number: int, step: str, proxy: FaultyProxy, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error proves that nothing was sent only if it comes from the attempt to connect."""
    work = getattr(HTTPConnection, step)

    def lost(self: HTTPConnection, *values: Any, **named: Any) -> Any:
        work(self, *values, **named)
        raise OSError(number, os.strerror(number))

    server.scripted[_PATH] = [(200, {}, {})]
    with monkeypatch.context() as patch:
        patch.setattr(HTTPConnection, step, lost)
        with pytest.raises(CommitUnknownError, match=os.strerror(number)):
            _send(proxy, "POST")
    if step == "getresponse":
        assert len(proxy.seen) == 1


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNREFUSED, errno.ETIMEDOUT])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_is_never_made(number: int, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("urllib3.util.connection.create_connection", refused)
    with pytest.raises(StorageError, match=f"cannot be reached: .*{os.strerror(number)}"):
        Transport(timeout=5.0).send("POST", f"{scheme}://127.0.0.1:1/x", {}, b"{}")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "http://nowhere.invalid/x"])
def test_a_request_that_reached_nobody_is_a_plain_failure(method: str, url: str) -> None:
    with pytest.raises(StorageError, match="cannot be reached"):
        Transport(timeout=5.0).send(method, url, {}, None if method == "GET" else b"{}")


def test_requests_share_a_connection(server: RestServer) -> None:
    server.scripted[_PATH] = [(404, {}, {}), *[(304, {}, b"")] * 20]
    for number in range(50):
        method = ("GET", "HEAD", "POST")[number % 3]
        Transport().send(method, f"{server.uri}/v1/config", {}, b"{}" if method == "POST" else None)
    assert [Transport().send("GET", f"{server.uri}{_PATH}", {}).status for _ in range(21)] == [404, *[304] * 20]
    assert len(server.asked) == 71
    # A connection is not used again behind an answer without a body, of which there are 17 to HEAD.
    assert server.connections == 1 + 17


def test_a_connection_that_was_idle_is_not_used_again(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be about to close it, and then nobody would know whether a request took effect."""
    now = [100.0]
    monkeypatch.setattr(transport, "_monotonic", lambda: now[0])
    for wait in (0.0, 3.0, 3.0, 5.0, 1.0):
        now[0] += wait
        Transport().send("POST", f"{server.uri}/v1/config", {}, b"{}")
    assert server.connections == 2


def test_a_forked_process_makes_its_own_connections(server: RestServer) -> None:
    def send() -> None:
        Transport().send("GET", f"{server.uri}/v1/config", {})

    send()
    child = multiprocessing.get_context("fork").Process(target=send)
    child.start()
    child.join()
    send()
    assert child.exitcode == 0
    assert server.connections == 2


def test_threads_never_share_a_connection_at_once(server: RestServer) -> None:
    sent = map_in_order(8, lambda _: Transport().send("GET", f"{server.uri}/v1/config", {}).status, range(200))
    assert list(sent) == [200] * 200
    assert server.connections <= 8


def test_a_rest_of_an_error_does_not_become_the_next_answer(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_MOST_ERROR_BYTES", 10)
    server.scripted[_PATH] = [(404, {}, b"x" * 100_000)] * 2
    for _ in range(2):
        assert Transport().send("GET", f"{server.uri}{_PATH}", {}).status == 404
    assert server.connections == 2


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_proxies_of_the_environment(server: RestServer, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    address = server.uri.removeprefix("http://")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", f"{scheme}me:se%20cret@{address}")
    server.scripted["/v1/config"] = [(200, {}, {})]
    assert Transport().send("GET", "http://catalog.invalid/v1/config?a=b", {}).status == 200
    (asked,) = server.asked
    assert (asked.headers["Host"], asked.query) == ("catalog.invalid", {"a": ["b"]})
    assert asked.headers["Proxy-Authorization"] == "Basic bWU6c2UgY3JldA=="
    # A proxy that does not do what it should is told by its failure, without its password.
    monkeypatch.setenv("https_proxy", f"http://me:hush@{address}")
    with pytest.raises(StorageError, match="cannot be reached: Tunnel connection failed") as caught:
        Transport(timeout=5.0).send("POST", "https://catalog.invalid/v1/config", {}, b"{}")
    assert "hush" not in str(caught.value)
    monkeypatch.setenv("https_proxy", "socks5://h:1")
    with pytest.raises(StorageError, match=r"cannot be reached: .*unsupported scheme socks5"):
        Transport(timeout=5.0).send("POST", "https://catalog.invalid/v1/config", {}, b"{}")
    monkeypatch.setenv("no_proxy", "catalog.invalid")
    with pytest.raises(StorageError, match="cannot be reached"):
        Transport(timeout=5.0).send("GET", "http://catalog.invalid/v1/config", {})
    assert len(server.asked) == 1


@pytest.mark.parametrize("method", ["HEAD", "DELETE"])
def test_a_body_where_there_is_none_is_not_the_beginning_of_the_next_answer(method: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.send_response(204)
            self.end_headers()
            # The body arrives after the client took the connection for the next request.
            threading.Timer(0.05, self._finish).start()

        do_DELETE = do_HEAD  # noqa: N815 - the name that http.server wants

        def _finish(self) -> None:
            with suppress(OSError):
                self.connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")

        def do_GET(self) -> None:
            time.sleep(0.1)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        sender, url = Transport(timeout=5), f"http://127.0.0.1:{server.server_address[1]}/"
        assert sender.send(method, url, {}).status == 204
        assert sender.send("GET", url, {}).body == b"{}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
