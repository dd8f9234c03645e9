"""Requests over HTTP, bounded in time, size and attempts. Redirects are not followed: they lead elsewhere."""

from __future__ import annotations

import io
import json
import random
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from deltaberg.errors import CommitUnknownError, DeltabergError, InvalidArgumentError, StorageError

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
    headers: Message
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
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects(), _HTTPHandler()]
        if _origin(url)[0] == "https":
            context = _context(self.cabundle, self.certificate, self.key)
            handlers.append(_HTTPSHandler(context))
        opener = urllib.request.build_opener(*handlers)
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)  # noqa: S310 - checked_url
        if repeatable is None:
            repeatable = method in _IDEMPOTENT
        waited = 0.0
        for attempt in range(self.retries + 1):
            is_last = not repeatable or attempt == self.retries
            answer: Answer | None = None
            try:
                answer = self._once(opener, request)
            except (OSError, HTTPException, ValueError) as error:
                delay = _delay(None, attempt)
                if is_last or not _is_broken(error) or waited + delay > _MOST_WAITING:
                    raise _failure(error, request, repeatable) from None
            if answer is not None:
                delay = _delay(answer.headers.get("Retry-After"), attempt)
                if is_last or answer.status not in _BUSY or waited + delay > _MOST_WAITING:
                    return answer
            _wait(delay)
            waited += delay
        raise AssertionError("the last attempt ends the loop")

    def _once(self, opener: urllib.request.OpenerDirector, request: urllib.request.Request) -> Answer:
        try:
            with opener.open(request, timeout=self.timeout) as response:
                answer = Answer(response.status, response.headers, _body(response, _MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, _body(error, _MOST_ERROR_BYTES, cut=True))
        if _is_cut(answer):
            raise _IncompleteError("the catalog's answer is incomplete")
        return answer


def _is_broken(error: Exception) -> bool:
    """Return whether a connection broke that was there, as it does when a gateway restarts.

    A server that does not speak HTTP, or cannot be connected to, is not what the address should lead to.
    """
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return isinstance(reason, (ConnectionError, IncompleteRead, _IncompleteError))


def _failure(error: Exception, request: urllib.request.Request, repeatable: bool) -> Exception:
    """Return what is raised if there is no complete answer."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    said = _reason(reason)
    if isinstance(reason, HTTPException) and not _is_broken(error):
        said = f"what answers is not an HTTP server, or is a broken one: {said.strip()}"
    server = "{}://{}:{}".format(*_origin(request.full_url))
    if not repeatable and not isinstance(reason, _NotConnectedError):
        return CommitUnknownError(
            f"the catalog does not say whether it carried out a request: {said}",
            hint="look at the table before you repeat the operation, and delete nothing until then",
            server=server,
        )
    if isinstance(error, StorageError):
        return StorageError(error.message, server=server)
    return StorageError(
        f"the catalog cannot be reached: {said}",
        hint="check the scheme, the host and the port of the address, and the proxies that the environment names",
        server=server,
    )


def _reason(error: BaseException | str) -> str:
    """Return what an error says, in words for people."""
    if isinstance(error, DeltabergError):
        return error.message
    if isinstance(error, IncompleteRead):
        return "the connection broke before the end of the answer"
    text = str(error).strip()
    return text or _WORDS.get(type(error), "the connection failed")


class _IncompleteError(StorageError):
    """The connection broke before the end of the answer."""


class _TooSlowError(StorageError):
    """The answer comes in parts that are too small, or too late."""


class _NotConnectedError(OSError):
    """There is no connection, so that no server received the request.

    The same errors of the system prove nothing later: a route can disappear while the server carries a request out.
    """


@contextmanager
def _connecting() -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException) as error:
        raise _NotConnectedError(_reason(error)) from error


class _BoundedReader(io.RawIOBase):
    """What a server sends, until it has taken too long.

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
    response_class = _Response

    def connect(self) -> None:
        with _connecting():
            super().connect()


class _TLSConnection(HTTPSConnection):
    response_class = _Response

    def connect(self) -> None:
        with _connecting():
            super().connect()


class _HTTPHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._certificates = context

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_TLSConnection, req, context=self._certificates)


@lru_cache(maxsize=16)
def _context(cabundle: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """Load certificates, which takes longer than a request."""
    try:
        context = ssl.create_default_context(cafile=cabundle)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"the certificates cannot be used: {error}", hint="check ssl.cabundle, ssl.client.cert and ssl.client.key"
        ) from None
    return context


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Returns redirects as answers: to follow one would send credentials to whatever server it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _body(response: Any, most: int, cut: bool = False) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read(_CHUNK if most > _CHUNK else most + 1):
        size += len(part)
        if size > most:
            if cut:
                break
            raise StorageError(f"the catalog answered with more than {most >> 20} MiB")
        parts.append(part)
    if not cut and getattr(response, "length", None):
        # Reading in parts, Python's client takes a connection that breaks for the end of the body.
        raise _IncompleteError("the catalog's answer is incomplete")
    return b"".join(parts)


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
    text = (said or "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        when = parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        when = None
    if when is not None:
        return max(when - time.time(), 0.0)
    return min(0.5 * 2.0**attempt, 10.0) * random.uniform(0.5, 1.0)  # noqa: S311 - it only spreads clients out
