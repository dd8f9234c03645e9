"""A REST catalog on loopback, small and scripted: it serves tables that lie on the disk, and misbehaves as told."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["Asked", "RestServer", "error_body", "running"]


@dataclass
class Asked:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Message
    body: str


Answer = tuple[int, dict[str, str], Any]


def error_body(status: int, kind: str, message: str) -> dict[str, Any]:
    """Return the body of an error, as the protocol has it."""
    return {"error": {"message": message, "type": kind, "code": status}}


@dataclass
class RestServer:
    """What the catalog holds, and what it says."""

    uri: str = ""
    #: Levels of a table to its newest metadata file.
    tables: dict[tuple[str, ...], Path] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=lambda: {"defaults": {}, "overrides": {}})
    #: What comes with each table, beside its metadata.
    extra: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""
    page: int = 1000
    #: The tokens that are taken; None for no authentication at all.
    tokens: list[str] | None = None
    #: Answers to requests for tokens, the last of which stays.
    grants: list[Answer] = field(default_factory=list)
    #: Answers to give first for a path.
    scripted: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    asked: list[Asked] = field(default_factory=list)
    #: How many connections were made.
    connections: int = 0

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [one.path for one in self.asked]

    def answer(self, asked: Asked) -> Answer:
        """Answer a request."""
        self.asked.append(asked)
        if self.scripted[asked.path]:
            return self.scripted[asked.path].pop(0)
        if asked.path == "/v1/oauth/tokens":
            return self.grants.pop(0) if len(self.grants) > 1 else self.grants[0]
        sent = asked.headers.get("Authorization", "")
        if self.tokens is not None and sent.removeprefix("Bearer ") not in self.tokens:
            return 401, {}, error_body(401, "NotAuthorizedException", f"Not authorized: {sent}")
        if asked.path == "/v1/config":
            return 200, {}, self.config
        parts = asked.path.removeprefix(f"/v1/{self.prefix}".rstrip("/") + "/").split("/")
        return self._of_namespaces([unquote(part) for part in parts], asked)

    def _of_namespaces(self, parts: list[str], asked: Asked) -> Answer:
        if parts == ["namespaces"]:
            parent = tuple(part for part in asked.query.get("parent", [""])[0].split("\x1f") if part)
            return self._list("namespaces", self._children(parent), parent, asked)
        levels = tuple(parts[1].split("\x1f"))
        if len(parts) == 3:
            found = [{"namespace": list(one[:-1]), "name": one[-1]} for one in self.tables if one[:-1] == levels]
            return self._list("identifiers", found, levels, asked)
        file = self.tables.get((*levels, parts[3]))
        if file is None:
            body = error_body(404, "NoSuchTableException", f"Table does not exist: {'.'.join(levels)}.{parts[3]}")
            return 404, {}, body
        if asked.method == "HEAD":
            return 204, {}, None
        tag = f'"{file.name}"'
        if asked.headers.get("If-None-Match") == tag:
            return 304, {"ETag": tag}, None
        body = {"metadata-location": file.as_uri(), "metadata": json.loads(file.read_text())} | self.extra
        return 200, {"ETag": tag}, body

    def _children(self, parent: tuple[str, ...]) -> list[Any]:
        depth = len(parent)
        found = {one[: depth + 1] for one in self.tables if one[:depth] == parent and len(one) > depth + 1}
        return [list(one) for one in sorted(found, reverse=True)]

    def _list(self, name: str, every: list[Any], levels: tuple[str, ...], asked: Asked) -> Answer:
        if levels and not any(one[: len(levels)] == levels and len(one) > len(levels) for one in self.tables):
            return 404, {}, error_body(404, "NoSuchNamespaceException", f"Namespace does not exist: {levels}")
        start = int(asked.query.get("pageToken", ["0"])[0] or 0)
        stop = start + int(asked.query.get("pageSize", [str(self.page)])[0])
        token = {"next-page-token": str(stop)} if stop < len(every) else {"next-page-token": None}
        return 200, {}, {name: every[start:stop]} | token


_Server = TypeVar("_Server", bound=RestServer)


@contextmanager
def running(state: _Server) -> Iterator[_Server]:
    """Serve a catalog on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            state.connections += 1

        def handle(self) -> None:
            # Whoever has seen enough goes away.
            with suppress(ConnectionError):
                super().handle()

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            query = parse_qs(parts.query, keep_blank_values=True)
            status, headers, answer = state.answer(Asked(self.command, parts.path, query, self.headers, body))
            data = answer if isinstance(answer, bytes) else b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
                # An answer that says another length than it has is one that breaks off with its connection.
                self.close_connection |= headers.get("Content-Length", str(len(data))) != str(len(data))

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that http.server wants

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.uri = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
