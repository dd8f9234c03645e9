"""Requests over HTTP, bounded in time, size and attempts. Redirects are not followed: they lead elsewhere."""

from __future__ import annotations

import io
import json
import math
import os
import random
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager, Retry, Timeout, make_headers
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from deltaberg.errors import CommitUnknownError, DeltabergError, InvalidArgumentError, StorageError
from deltaberg.storage.bounded import BoundedCache, fingerprint

__all__ = ["Answer", "Transport", "checked_header", "checked_url", "same_origin"]

#: The largest bodies that are read, in bytes. Table metadata is the largest that catalogs send.
_MOST_BYTES = 1 << 28
_MOST_ERROR_BYTES = 1 << 16
_CHUNK = 1 << 20
#: The statuses of a server that is busy, or away for a moment.
_BUSY = frozenset({429, 503})
#: How long the waits between the attempts of one request may take in all, in seconds.
_MOST_WAITING = 60.0
#: How long a response that trickles in may take, with its head, in timeouts.
_MOST_TIMEOUTS = 10
#: How many connections to one server are kept, and after how many idle seconds one is not used again. Many servers
#: close theirs after five: a request that is under way then is lost, and nobody knows whether it took effect.
_MOST_KEPT, _MOST_IDLE = 64, 4.0
#: Methods that change nothing.
_IDEMPOTENT = frozenset({"GET", "HEAD"})
#: What errors of the system mean that have no text.
_WORDS: dict[type[object], str] = {
    TimeoutError: "the server does not answer in time",
    BrokenPipeError: "the connection broke",
}
_HEADER = re.compile(r"[\x20-\x7e\t]*")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# Tests put their own in place of these.
_wait = time.sleep
_monotonic = time.monotonic


class Answer(NamedTuple):
    """A response: its status, its headers, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def checked_url(name: str, text: str) -> str:
    """Return the URL of a server without a trailing slash.

    Raises
    ------
    InvalidArgumentError
        If it is not a URL, or holds a password. Passwords belong in other properties, which no message shows.
    """
    try:
        parts = urlsplit(text)
        wrong = parts.scheme.lower() not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        parts, wrong = SplitResult("", "", "", "", ""), True
    if wrong or not re.fullmatch(r"[\x21-\x7e]+", text) or parts.query or parts.fragment:
        raise InvalidArgumentError(
            f"the property {name} is not the URL of a server", hint="write it like https://host/path"
        )
    if "@" in parts.netloc:
        raise InvalidArgumentError(
            f"the property {name} contains a user or a password", hint="use the properties credential or token"
        )
    return text.rstrip("/")


def checked_header(name: str, value: str, what: str) -> str:
    """Return the value of a header. One that cannot be sent is refused without being shown."""
    if not _TOKEN.fullmatch(name) or not _HEADER.fullmatch(value):
        raise InvalidArgumentError(f"{what} cannot be sent: it contains characters that headers cannot have")
    return value


def _origin(url: str) -> tuple[str, str, int]:
    """Return the scheme, the host and the port of a URL."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or (443 if scheme == "https" else 80)


def same_origin(url: str, other: str) -> bool:
    """Return whether two URLs lead to the same server; False where one of them is not a URL."""
    try:
        return _origin(url) == _origin(other)
    except ValueError:
        return False


@dataclass(frozen=True)
class Transport:
    """Sends requests.

    Parameters
    ----------
    timeout
        How many seconds the server may take to accept a connection, and between two parts of a response.
    retries
        How often a request is repeated when the server is too busy.
    cabundle, certificate, key
        Paths of files: the certificates to trust, the client's own certificate, and its key.
    """

    timeout: float = 60.0
    retries: int = 5
    cabundle: str | None = None
    certificate: str | None = None
    key: str | None = None

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        repeatable: bool | None = None,
    ) -> Answer:
        """Send a request, and return the answer.

        A request that changes something is sent once: a server that says it is busy, or whose connection breaks, may
        have carried it out.

        Parameters
        ----------
        method, url, headers, body
            The request.
        repeatable
            Whether the request may be sent again when the server is busy, or the connection breaks. By default, only
            ``GET`` and ``HEAD`` may.

        Raises
        ------
        StorageError
            If there is no complete answer, and the request is repeatable or surely did not reach the server.
        CommitUnknownError
            If there is no complete answer, and the request may have taken effect.
        """
        if repeatable is None:
            repeatable = method in _IDEMPOTENT
        waited = 0.0
        for attempt in range(self.retries + 1):
            is_last = not repeatable or attempt == self.retries
            answer: Answer | None = None
            try:
                answer = self._once(method, url, dict(headers), body)
            except (OSError, HTTPException, HTTPError, _NotConnectedError) as error:
                reason = _cause(error)
                delay = _delay(None, attempt)
                if is_last or not _is_broken(reason) or waited + delay > _MOST_WAITING:
                    raise _failure(reason, url, repeatable) from None
            if answer is not None:
                delay = _delay(answer.headers.get("Retry-After"), attempt)
                if is_last or answer.status not in _BUSY or waited + delay > _MOST_WAITING:
                    return answer
            _wait(delay)
            waited += delay
        raise AssertionError("the last attempt ends the loop")

    def _once(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        parts = urlsplit(url)
        with _connecting():
            manager = self._manager(parts)
            pool = manager.connection_from_url(url)
        # Proxies take whole URLs, unless they only pass on what is encrypted.
        is_whole = isinstance(manager, ProxyManager) and parts.scheme == "http"
        target = url if is_whole else parts._replace(scheme="", netloc="", path=parts.path or "/").geturl()
        response: Any = pool.urlopen(
            method,
            target,
            body,
            headers,
            retries=False,
            redirect=False,
            assert_same_host=False,
            timeout=Timeout(connect=self.timeout, read=self.timeout),
            preload_content=False,
            decode_content=False,
        )
        with closing(response):
            if not 200 <= response.status < 300:
                response.enforce_content_length = False
                return Answer(response.status, response.headers, _body(response, _MOST_ERROR_BYTES, cut=True))
            answer = Answer(response.status, response.headers, _body(response, _MOST_BYTES))
        if _is_cut(answer):
            raise _IncompleteError
        return answer

    def _manager(self, url: SplitResult) -> PoolManager:
        """Return the connections of this process; a forked one makes its own."""
        scheme = url.scheme.lower()
        proxy = None if proxy_bypass(url.netloc) else getproxies().get(scheme)

        def make() -> PoolManager:
            context = _context(self.cabundle, self.certificate, self.key) if scheme == "https" else None
            options: dict[str, Any] = {"maxsize": _MOST_KEPT, "ssl_context": context}
            if proxy is None:
                manager = PoolManager(**options)
            else:
                address = proxy if "://" in proxy else f"http://{proxy}"
                user, _, _ = urlsplit(address).netloc.rpartition("@")
                known = make_headers(proxy_basic_auth=unquote(user)) if user else {}
                manager = ProxyManager(address, proxy_headers=known, proxy_ssl_context=context, **options)
            manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
            return manager

        return _managers.get(fingerprint(os.getpid(), scheme, proxy, self.cabundle, self.certificate, self.key), make)


_managers: BoundedCache[PoolManager] = BoundedCache(16)


def _cause(error: BaseException) -> BaseException:
    """Return the error of the system that an error of the client wraps."""
    while isinstance(error, HTTPError) and (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return _IncompleteError() if isinstance(error, IncompleteRead) else error


def _is_broken(reason: BaseException) -> bool:
    """Return whether a connection broke that was there, as it does when a gateway restarts.

    A server that does not speak HTTP, or cannot be connected to, is not what the address should lead to.
    """
    return isinstance(reason, (ConnectionError, _IncompleteError))


def _failure(reason: BaseException, url: str, repeatable: bool) -> Exception:
    """Return the exception for an incomplete answer."""
    said = _reason(reason)
    if isinstance(reason, HTTPException) and not _is_broken(reason):
        said = f"what answers is not an HTTP server, or is a broken one: {said}"
    server = "{}://{}:{}".format(*_origin(url))
    if not repeatable and not isinstance(reason, _NotConnectedError):
        return CommitUnknownError(
            f"the catalog does not say whether it carried out a request: {said}",
            hint="look at the table before you repeat the operation, and delete nothing until then",
            server=server,
        )
    if isinstance(reason, StorageError):
        return StorageError(said, server=server)
    return StorageError(
        f"the catalog cannot be reached: {said}",
        hint="check the scheme, the host and the port of the address, and the proxies that the environment names",
        server=server,
    )


def _reason(error: BaseException) -> str:
    """Return what an error says, in words for people."""
    if isinstance(error, DeltabergError):
        return error.message
    return str(error).strip() or _WORDS.get(type(error), "the connection failed")


class _IncompleteError(StorageError):
    """The connection broke before the end of the answer."""

    def __init__(self) -> None:
        super().__init__("the catalog's answer is incomplete")


class _TooSlowError(StorageError):
    """The answer comes in parts that are too small, or too late."""


class _NotConnectedError(Exception):
    """There is no connection, so that no server received the request.

    The same errors of the system prove nothing later: a route can disappear while the server carries a request out.
    """


@contextmanager
def _connecting() -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException, HTTPError) as error:
        raise _NotConnectedError(_reason(_cause(error))) from error


class _BoundedReader(io.RawIOBase):
    """The bytes that a server sends, until it has taken too long.

    The timeout of a socket only bounds the time between two parts, of which each can be one byte.
    """

    def __init__(self, source: io.BufferedReader, seconds: float) -> None:
        self._source = source
        self._until = _monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, at most as much as fits."""
        if _monotonic() > self._until:
            raise _TooSlowError("the catalog answers too slowly")
        return self._source.raw.readinto(buffer) or 0

    def close(self) -> None:
        """Close the socket."""
        self._source.close()
        super().close()


class _Response(HTTPResponse):
    """An answer whose head and body together have a limit of time."""

    def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        seconds = sock.gettimeout()
        if seconds is not None:
            self.fp = io.BufferedReader(_BoundedReader(self.fp, seconds * _MOST_TIMEOUTS))


class _Connection(HTTPConnection):
    """A connection that is not used again once the server may be about to close it."""

    response_class = _Response
    _used_at = 0.0

    def connect(self) -> None:
        with _connecting():
            super().connect()

    @property
    def is_connected(self) -> bool:
        return super().is_connected and _monotonic() - self._used_at < _MOST_IDLE

    def getresponse(self) -> Any:
        response = super().getresponse()
        # Some servers send a body where there is none, which would be taken for the beginning of the next answer.
        # Behind a 304 all clients go on, and who polls a table gets little else.
        is_sure = response.length_remaining != 0 or response.status == HTTPStatus.NOT_MODIFIED
        self._used_at = _monotonic() if is_sure else -math.inf
        return response


class _TLSConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


def _context(cabundle: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=cabundle)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"the certificates cannot be used: {error}", hint="check ssl.cabundle, ssl.client.cert and ssl.client.key"
        ) from None
    return context


def _body(response: Any, most: int, cut: bool = False) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < most + 1 and (part := response.read(min(_CHUNK, most + 1 - size))):
        size += len(part)
        parts.append(part)
    if size > most and not cut:
        raise StorageError(f"the catalog answered with more than {most >> 20} MiB")
    return b"".join(parts)[:most]


def _is_cut(answer: Answer) -> bool:
    """Return whether an answer is the beginning of a JSON object.

    Where an answer ends with the connection, or a gateway counts what it has got of it, nothing else tells.
    """
    body = answer.body.strip()
    is_counted = "Content-Length" in answer.headers or "Transfer-Encoding" in answer.headers
    if not body.startswith(b"{") or (is_counted and body.endswith(b"}")):
        return False
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        return error.msg != "Extra data"
    except (ValueError, RecursionError):
        return False
    return False


def _delay(said: str | None, attempt: int) -> float:
    """Return how many seconds to wait: as many as the server asks for, else more each time."""
    with suppress(HTTPError, ValueError, OverflowError):
        # A date has 29 characters, and a longer number of seconds is no wish to take seriously.
        if said and len(said) < 40:
            return float(Retry().parse_retry_after(said))
    return min(0.5 * 2.0**attempt, 10.0) * random.uniform(0.5, 1.0)  # noqa: S311 - it only spreads clients out
