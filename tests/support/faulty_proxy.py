"""A gateway on loopback before an HTTP store, which loses, delays, repeats and cuts requests and answers as told."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["Fault", "FaultyProxy", "Seen", "conditional_put", "running"]

#: For how many seconds the gateway waits for what is sure to come, before a test that hangs fails.
_PATIENCE = 120.0
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "server", "date"})


class Seen(NamedTuple):
    """A request of a client: its method, its path with the query, its headers in small letters, the body of a POST."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""


def conditional_put(seen: Seen) -> bool:
    """Return whether a request puts an object that must not exist."""
    return seen.method == "PUT" and "if-none-match" in seen.headers


def any_request(seen: Seen) -> bool:
    """Return True."""
    del seen
    return True


@dataclass
class Fault:
    """What happens to requests.

    Parameters
    ----------
    matches
        To which.
    times
        To how many of them.
    forwards
        How often the store receives the request: 0 loses it, 2 repeats it.
    before, after
        How many seconds pass before the store receives it, and before its answer goes back.
    until
        The store receives it once this is set.
    answer
        What is answered: the store's answer to the last forwarding, "none" closes the connection, "cut" sends half of
        it, "short" sends half of its body and does not count it, "late" keeps it until the client has given up, and a
        number is a status with the body ``body`` of the type ``kind``.
    without
        A header that is left out of what the store receives.
    """

    matches: Callable[[Seen], bool] = field(default=any_request, repr=False)
    times: int = 1
    forwards: int = 1
    before: float = 0.0
    after: float = 0.0
    until: threading.Event | None = field(default=None, repr=False)
    answer: str | int = "store"
    without: str = ""
    body: bytes = field(default=b"", repr=False)
    kind: str = "application/json"


@dataclass
class FaultyProxy:
    """A gateway in front of a store; without faults it only passes on, one conditional put after the other.

    The first of the faults that are left and match a request happens to it, else what ``trouble`` says.
    """

    upstream: str
    endpoint: str = ""
    faults: list[Fault] = field(default_factory=list)
    trouble: Callable[[Seen], Fault | None] | None = None
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        # Real stores decide who is first; the emulators look, and then write.
        self._one_put = threading.Lock()
        self._handling, self._handled = 0, threading.Condition()

    def reset(self) -> None:
        """Forget all faults and all requests."""
        with self._lock:
            self.faults.clear()
            self.seen.clear()
            self.trouble = None

    def count(self, matches: Callable[[Seen], bool]) -> int:
        """Return how many requests have come that match."""
        return sum(map(matches, list(self.seen)))

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Count a request as one that is being handled."""
        with self._handled:
            self._handling += 1
        try:
            yield
        finally:
            with self._handled:
                self._handling -= 1
                self._handled.notify_all()

    def settle(self, matches: Callable[[Seen], bool] = any_request, times: int = 0) -> None:
        """Wait until so many requests have come that match, and none of any kind is being handled any more."""
        with self._handled:
            is_over = self._handled.wait_for(lambda: not self._handling and self.count(matches) >= times, _PATIENCE)
        if not is_over:
            raise TimeoutError(f"the gateway was not done with its requests after {_PATIENCE:.0f} seconds")

    def fault_for(self, seen: Seen) -> Fault:
        """Record a request, and return what happens to it."""
        with self._lock:
            self.seen.append(seen)
            for fault in self.faults:
                if fault.times > 0 and fault.matches(seen):
                    fault.times -= 1
                    return fault
            found = self.trouble(seen) if self.trouble is not None else None
        return found or Fault()

    def forward(self, seen: Seen, body: bytes, without: str) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send a request to the store."""
        parts = urlsplit(self.upstream)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        headers = {name: value for name, value in seen.headers.items() if name not in (without, "connection")}
        if conditional_put(seen):
            self._one_put.acquire()
        try:
            connection.request(seen.method, seen.target, body=body, headers=headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            if conditional_put(seen):
                self._one_put.release()
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy

    def _serve(self) -> None:
        with self.proxy.handling():
            self._handle()

    def _handle(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        size = int(headers.get("content-length", 0))
        body = self.rfile.read(size)
        seen = Seen(self.command, self.path, headers, body if self.command == "POST" else b"")
        if len(body) < size:
            # The client gave up before all was sent: no store takes a part for the whole.
            self._break()
            return
        fault = self.proxy.fault_for(seen)
        time.sleep(fault.before)
        if fault.until is not None:
            fault.until.wait(_PATIENCE)
        status, answered, data = 500, list[tuple[str, str]](), b""
        for _ in range(fault.forwards):
            try:
                status, answered, data = self.proxy.forward(seen, body, fault.without)
            except (OSError, HTTPException):
                status, answered, data = 502, [], b""
        time.sleep(fault.after)
        if fault.answer == "late":
            self._outlast_the_client()
        if fault.answer in ("none", "late"):
            self._break()
            return
        if isinstance(fault.answer, int):
            status, answered, data = fault.answer, [("Content-Type", fault.kind)] if fault.body else [], fault.body
            # Without it, no client of a store takes a put for a success.
            answered += [("ETag", '"1"')] if status == 200 else []
        if fault.answer == "short":
            self._reply_short(status, data)
            return
        self._reply(status, answered, data, cut=fault.answer == "cut")

    def _reply_short(self, status: int, data: bytes) -> None:
        """Send half of a body, which ends with the connection."""
        with suppress(OSError):
            self.wfile.write(f"HTTP/1.1 {status} X\r\n\r\n".encode() + data[: (len(data) + 1) // 2])
            self.wfile.flush()
        self.close_connection = True

    def _reply(self, status: int, headers: list[tuple[str, str]], data: bytes, *, cut: bool) -> None:
        kept = [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
        if not any(name.lower() == "content-length" for name, _ in kept):
            kept.append(("Content-Length", str(len(data))))
        head = f"HTTP/1.1 {status} {'OK' if status < 300 else 'No'}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in kept) + "\r\n"
        whole = head.encode("latin-1") + (b"" if self.command == "HEAD" else data)
        try:
            # Half of a long body, else half of the head.
            self.wfile.write(whole[: len(whole) - max(len(data) // 2, 30)] if cut else whole)
            self.wfile.flush()
        except OSError:
            self.close_connection = True
        if cut:
            self._break()

    def _outlast_the_client(self) -> None:
        """Wait until the client has closed the connection. It sends nothing more before it has an answer."""
        with suppress(OSError):
            self.connection.settimeout(_PATIENCE)
            self.connection.recv(1, socket.MSG_PEEK)

    def _break(self) -> None:
        """Close the connection at once, as a gateway does that restarts."""
        self.close_connection = True
        try:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names that http.server wants

    def log_message(self, *_: object) -> None:
        """Keep the output of the tests clean."""


class _Server(ThreadingHTTPServer):
    # A request that is held back does not keep the test waiting at its end.
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Ignore clients that went away."""


@contextmanager
def running(upstream: str) -> Iterator[FaultyProxy]:
    """Serve on a free port before an endpoint, whose path stays the same."""
    proxy = FaultyProxy(upstream)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}{urlsplit(upstream).path}"
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
