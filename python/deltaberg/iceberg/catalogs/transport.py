"""Requests over HTTP, bounded in time, in size and in attempts. Redirects are not followed: they lead elsewhere."""

from __future__ import annotations

import random
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from deltaberg.errors import InvalidArgumentError, StorageError

__all__ = ["Answer", "Transport", "checked_header", "checked_url", "same_origin"]

#: What a response may have; metadata of tables is the largest there is.
_MOST_BYTES = 1 << 28
_MOST_ERROR_BYTES = 1 << 16
_CHUNK = 1 << 20
#: What a server says that is busy, or not there for a moment.
_BUSY = frozenset({429, 503})
#: How long all waiting between the attempts of one request may take, in seconds.
_MOST_WAITING = 60.0
#: How many times its timeout a response that trickles in may take.
_MOST_TIMEOUTS = 10
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
    """Give the URL of a server without a slash behind it.

    Raises
    ------
    InvalidArgumentError
        Where it is none, or holds a password: that belongs into other properties, which no message shows.
    """
    try:
        parts = urlsplit(text)
        wrong = parts.scheme.lower() not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        parts, wrong = SplitResult("", "", "", "", ""), True
    if wrong or not re.fullmatch(r"[\x21-\x7e]+", text) or parts.query or parts.fragment:
        raise InvalidArgumentError(f"the property {name} is no URL of a server", hint="as https://host/path")
    if "@" in parts.netloc:
        raise InvalidArgumentError(
            f"the property {name} has a user or a password in it", hint="use the properties credential or token"
        )
    return text.rstrip("/")


def checked_header(name: str, value: str, what: str) -> str:
    """Give the value of a header; one that cannot be sent is refused, and not shown."""
    if not _TOKEN.fullmatch(name) or not _HEADER.fullmatch(value):
        raise InvalidArgumentError(f"{what} cannot be sent in a header: it has characters that headers cannot have")
    return value


def _origin(url: str) -> tuple[str, str, int]:
    """Give the scheme, the host and the port of a URL."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or (443 if scheme == "https" else 80)


def same_origin(url: str, other: str) -> bool:
    """Say whether two URLs lead to the same server; what is no URL leads nowhere."""
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
        Seconds that the server may take to connect, and between two parts of a response.
    retries
        How many more times a request is sent that the server was too busy for.
    cabundle, certificate, key
        Files of certificates: those to trust, the client's own, and its key.
    """

    timeout: float = 60.0
    retries: int = 5
    cabundle: str | None = None
    certificate: str | None = None
    key: str | None = None

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send a request, again where the server is busy, and give its last answer.

        Raises
        ------
        StorageError
            Where there is no answer, or none that ends.
        """
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if _origin(url)[0] == "https":
            context = _context(self.cabundle, self.certificate, self.key)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        opener = urllib.request.build_opener(*handlers)
        waited = 0.0
        for attempt in range(self.retries + 1):
            answer = self._once(opener, method, url, headers, body)
            if answer.status not in _BUSY or attempt == self.retries:
                break
            delay = _delay(answer.headers.get("Retry-After"), attempt)
            if waited + delay > _MOST_WAITING:
                break
            _wait(delay)
            waited += delay
        return answer

    def _once(
        self,
        opener: urllib.request.OpenerDirector,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)  # noqa: S310 - checked_url
        until = _monotonic() + self.timeout * _MOST_TIMEOUTS
        try:
            try:
                with opener.open(request, timeout=self.timeout) as response:
                    return Answer(response.status, response.headers, _body(response, _MOST_BYTES, until))
            except urllib.error.HTTPError as error:
                with error:
                    return Answer(error.code, error.headers, _body(error, _MOST_ERROR_BYTES, until, cut=True))
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, StorageError):
                raise
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise StorageError(
                f"the catalog cannot be asked: {str(reason) or type(reason).__name__}",
                hint="check the address, and the proxies that the environment names",
                server="{}://{}:{}".format(*_origin(url)),
            ) from None


@lru_cache(maxsize=16)
def _context(cabundle: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """Load certificates: it takes longer than a request."""
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
    """Makes redirects answers: what follows them sends credentials to whoever is named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _body(response: Any, most: int, until: float, cut: bool = False) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read(_CHUNK if most > _CHUNK else most + 1):
        size += len(part)
        if size > most:
            if cut:
                break
            raise StorageError(f"the catalog answered with more than {most >> 20} MiB")
        if _monotonic() > until:
            raise StorageError("the catalog answers too slowly")
        parts.append(part)
    return b"".join(parts)


def _delay(said: str | None, attempt: int) -> float:
    """Give how long to wait in seconds: what the server asks for, else longer each time."""
    text = (said or "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        when = parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        when = None
    if when is not None:
        return max(when - time.time(), 0.0)
    return min(0.5 * 2.0**attempt, 10.0) * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads clients out
