"""A session with a REST catalog: the credentials of the caller, the token, and what errors mean."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlencode, urljoin

from deltaberg._version import __version__
from deltaberg.catalogs.outcome import unsettled
from deltaberg.catalogs.rest.transport import Answer, Transport, checked_header, checked_url, same_origin
from deltaberg.errors import (
    AuthenticationError,
    CommitConflictError,
    ConstraintViolationError,
    CorruptMetadataError,
    DeltabergError,
    NamespaceNotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.hints import shown_value
from deltaberg.lossless_json import write_json
from deltaberg.storage.bounded import BoundedCache, fingerprint
from deltaberg.table.property_values import number_of

__all__ = [
    "Meanings",
    "RestSession",
    "SessionSettings",
    "json_object",
    "may_have_effect",
    "of_protocol",
    "read_settings",
    "session_of",
]

#: What refusals of a request mean, by status. Where the server names a kind that is known, that counts.
Meanings: TypeAlias = Mapping[int, type[DeltabergError]]

_DELEGATION = "X-Iceberg-Access-Delegation"
#: How many seconds before its expiry a token is renewed; a short-lived one after three quarters of its life.
_MARGIN = 60.0
_KINDS: dict[int, dict[str, type[DeltabergError]]] = {
    404: {"NoSuchTableException": TableNotFoundError, "NoSuchNamespaceException": NamespaceNotFoundError},
    409: {
        "AlreadyExistsException": TableExistsError,
        "NamespaceNotEmptyException": ConstraintViolationError,
        "CommitFailedException": CommitConflictError,
    },
}
#: What kinds of errors are called that are about the address, and not about what is requested.
_ELSEWHERE = re.compile("warehouse|catalog|endpoint|route", re.IGNORECASE)
#: Values of other headers than those for credentials are masked from so many characters on.
_SHORTEST_SECRET = 6
#: A tag of a page in HTML.
_TAG = re.compile(r"<[^<>]*>?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

# Tests put their own in place of it.
_clock = time.monotonic


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a session. They pickle, so that Spark tasks can ask the catalog too."""

    uri: str
    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_uri: str | None = None
    oauth2_form: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport = field(default_factory=Transport)


def read_settings(properties: Mapping[str, str]) -> SessionSettings:
    """Read the settings of a session from the properties of a catalog.

    Raises
    ------
    InvalidArgumentError
        If a property has a value that is not valid.
    UnsupportedFeatureError
        If the properties ask for a kind of authentication that is not supported.
    """
    if properties.get("rest.sigv4-enabled", "").lower() == "true":
        raise UnsupportedFeatureError("requests cannot be signed with SigV4", hint="use credential or token")
    kind = properties.get("auth.type", "")
    has_section = any(name == "auth" or name.startswith("auth.") for name in properties)
    if has_section and kind.lower() not in ("none", "noop"):
        raise UnsupportedFeatureError(
            f"authentication of type {shown_value(kind)} is not supported"
            if kind
            else "the section auth does not name a supported type",
            hint="use credential with oauth2-server-uri, or token",
        )
    uri = checked_url("uri", properties["uri"])
    headers = {
        "User-Agent": f"deltaberg/{__version__}",
        "Accept": "application/json",
        _DELEGATION: "vended-credentials",
    }
    spelled = {name.lower(): name for name in headers}
    for key, value in properties.items():
        if key.lower().startswith("header."):
            name = key[len("header.") :]
            headers[spelled.get(name.lower(), name)] = checked_header(name, value, f"the property {key}")
    oauth2 = properties.get("oauth2-server-uri")
    form = {key: properties[key] for key in ("audience", "resource") if properties.get(key)}
    token = properties.get("token") or None
    return SessionSettings(
        uri,
        token if token is None else checked_header("Authorization", token, "the property token"),
        properties.get("credential") or None,
        # An address without a host is a path of the catalog.
        checked_url("oauth2-server-uri", urljoin(f"{uri}/", oauth2)) if oauth2 else None,
        (("scope", properties.get("scope") or "catalog"), *form.items()),
        tuple((name, value) for name, value in headers.items() if value),
        Transport(
            timeout=_number(properties, "rest.client.socket-timeout-ms", 60_000) / 1000 or 60.0,
            retries=_number(properties, "rest.client.max-retries", 5),
            cabundle=properties.get("ssl.cabundle"),
            certificate=properties.get("ssl.client.cert"),
            key=properties.get("ssl.client.key"),
        ),
    )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    return number_of(properties, name, default, 0, 999_999_999)


#: Sessions of this process, which hold tokens.
_sessions: BoundedCache[RestSession] = BoundedCache(64)


def session_of(settings: SessionSettings) -> RestSession:
    """Return the session of this process: its token is asked for once."""
    return _sessions.get(fingerprint(asdict(settings)), lambda: RestSession(settings))


class RestSession:
    """Sends requests to a catalog, with a token that is renewed before it expires, and once after a refusal."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._token = settings.token
        self._renew_at: float | None = None

    def __repr__(self) -> str:
        return f"RestSession({self._settings.uri!r})"

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        missing: type[DeltabergError] | None = None,
    ) -> Answer:
        """Request a path, and return the answer, which is a success, or 304 where a header allows it.

        Parameters
        ----------
        missing
            What is raised where the catalog says that what is requested is not there.

        Raises
        ------
        AuthenticationError
            If the catalog accepts neither the token nor a new one.
        TableNotFoundError, NamespaceNotFoundError
            If the catalog says that there is no such table or namespace.
        StorageError
            If the catalog fails, or cannot be reached.
        """
        answer = self._answered(method, path, query, headers)
        if answer.status in (200, 204, 304):
            return answer
        raise self.failure(answer, path, {} if missing is None else {404: missing})

    def change(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "POST",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        meanings: Meanings | None = None,
    ) -> Answer:
        """Send a request that changes something, once, and return the answer.

        Its status says that the request was carried out. Whether it is the catalog that says so, its body has to tell.

        Parameters
        ----------
        body
            What is sent as JSON.
        meanings
            What refusals mean; by default, 409 means that another commit came first.

        Raises
        ------
        CommitUnknownError
            If it is not known whether the catalog has carried the request out.
        TableExistsError, ConstraintViolationError, CommitConflictError
            If the catalog says that what is there does not allow the change.
        StorageError
            If the catalog refuses the request, or cannot be reached.
        """
        data = None if body is None else write_json(body).encode()
        sent = {**(headers or {}), **({} if data is None else {"Content-Type": "application/json"})}
        answer = self._answered(method, path, query, sent, data)
        if 200 <= answer.status < 300:
            return answer
        error = self.failure(answer, path, {409: CommitConflictError, **(meanings or {})})
        raise unsettled(error.message, **error.context) if may_have_effect(answer.status) else error

    def _answered(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: bytes | None = None,
    ) -> Answer:
        url = f"{self._settings.uri}/{path}" + (f"?{urlencode(query)}" if query else "")

        def send(token: str | None) -> Answer:
            granted = {} if token is None else {"Authorization": f"Bearer {token}"}
            sent = dict(self._settings.headers) | dict(headers or {}) | granted
            return self._settings.transport.send(method, url, sent, body)

        token = self._current_token()
        answer = send(token)
        if answer.status in (401, 419) and self._settings.credential is not None:
            return send(self._new_token(instead_of=token))
        return answer

    def _current_token(self) -> str | None:
        if self._settings.credential is None:
            return self._settings.token
        with self._lock:
            token, is_due = self._token, self._renew_at is not None and _clock() >= self._renew_at
        return self._new_token(instead_of=token) if token is None or is_due else token

    def _new_token(self, instead_of: str | None) -> str:
        """Request a token, unless another thread has done so in the meantime."""
        with self._lock:
            if self._token is None or self._token == instead_of:
                self._token, lifetime = self._ask_for_token()
                margin = min(_MARGIN, lifetime / 4) if lifetime is not None else 0.0
                self._renew_at = None if lifetime is None else _clock() + lifetime - margin
            return self._token

    def _ask_for_token(self) -> tuple[str, float | None]:
        """Request a token by client credentials (RFC 6749, section 4.4), and return it with its lifetime in seconds."""
        settings = self._settings
        url = settings.oauth2_uri or f"{settings.uri}/v1/oauth/tokens"
        client, _, secret = (settings.credential or "").rpartition(":")
        form = {"grant_type": "client_credentials", "client_secret": secret, **dict(settings.oauth2_form)}
        form |= {"client_id": client} if client else {}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if same_origin(url, settings.uri):
            # Headers of the caller may be secret, and are meant for the catalog only.
            headers = dict(settings.headers) | headers
        # To be granted two tokens is harmless.
        answer = settings.transport.send("POST", url, headers, urlencode(form).encode(), repeatable=True)
        if answer.status != 200:
            error = self.failure(answer, "the token")
            if 400 <= answer.status < 404:
                error = AuthenticationError(error.message, hint="check credential and scope", **error.context)
            raise error
        found = json_object(answer, "the answer to a request for a token")
        token: Any = found.get("access_token")
        lifetime: Any = found.get("expires_in")
        if not isinstance(token, str) or not token or str(found.get("token_type", "bearer")).lower() != "bearer":
            raise AuthenticationError("the server did not grant a bearer token", server=url)
        holds = isinstance(lifetime, (int, float)) and 0 < lifetime < 1e9
        return checked_header("Authorization", token, "the token of the server"), float(lifetime) if holds else None

    def failure(self, answer: Answer, path: str, meanings: Meanings | None = None) -> DeltabergError:
        """Return the exception for an answer. The message of the server is shown without secrets."""
        kind, said = _said(answer)
        status = answer.status
        context: dict[str, Any] = {"catalog": self._settings.uri, "path": path, "status": status}
        message = self._without_secrets(said) or "the server gives no reason"
        meant = (meanings or {}).get(status)
        if meant is not None and kind is not None and not _ELSEWHERE.search(kind):
            return _KINDS.get(status, {}).get(kind, meant)(message, **context)
        if meant is not None and status == 409:
            # A gateway says that something is in the way, in other words than a catalog does.
            return CommitConflictError(message, **context)
        if status in (401, 403, 419):
            advice = (
                "the caller lacks the permission"
                if status == 403
                else "check the properties credential, token and scope"
            )
            return AuthenticationError(f"the catalog denies access: {message}", hint=advice, **context)
        if status in (406, 501):
            return UnsupportedFeatureError(f"the catalog does not support this: {message}", **context)
        hint: str | None = None
        if 300 <= status < 400:
            hint = "redirects are not followed: pass the final address as uri"
        elif status == 404:
            hint = "check uri and warehouse"
        elif status in (429, 503):
            hint = "the request was repeated several times; try again later"
        return StorageError(f"the catalog failed: {message}", hint=hint, **context)

    def _without_secrets(self, text: str) -> str:
        credential = self._settings.credential or ""
        secrets = {self._settings.token, self._token, credential, credential.rpartition(":")[2]}
        for name, value in self._settings.headers:
            # Short values of other headers are words that any message may have.
            if name.lower() == "authorization" or len(value) >= _SHORTEST_SECRET:
                secrets |= {value, value.rpartition(" ")[2]}
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def may_have_effect(status: int) -> bool:
    """Return whether a request that was answered so may have been carried out: the server failed, or was too busy."""
    return status in (408, 429) or (status >= 500 and status != 501)


_NO_CATALOG = "check that uri is the address of a REST catalog"


@contextmanager
def of_protocol(path: str) -> Iterator[None]:
    """Refuse an answer whose members are not those of the protocol, as one that is no JSON object is refused."""
    try:
        yield
    except CorruptMetadataError as error:
        raise StorageError(error.message, hint=_NO_CATALOG, **{**error.context, "path": path}) from None


def json_object(answer: Answer, what: str, decode: Callable[[bytes], Any] = json.loads) -> dict[str, Any]:
    """Return the JSON object in an answer.

    Parameters
    ----------
    decode
        Reads the JSON text. It raises ``ValueError`` or ``RecursionError`` for text that is not JSON.

    Raises
    ------
    StorageError
        If the answer is something else.
    """
    try:
        document = decode(answer.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise StorageError(f"{what} is not a JSON object", hint=_NO_CATALOG)
    return document


def _said(answer: Answer) -> tuple[str | None, str]:
    """Return the type and the message of an error.

    The type is None where the answer does not have the form of an error of a catalog, or of OAuth. Then its message is
    looked for where servers of other protocols put it. Of a page, or of JSON of which only a part was read, it is the
    beginning of the text.
    """
    text, is_json = answer.body.decode("utf-8", "replace"), True
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError) as why:
        document, is_json = None, isinstance(why, RecursionError)
    if not isinstance(document, dict):
        is_text = answer.headers.get("Content-Type", "").lower().startswith("text/")
        is_text |= not is_json and text.startswith(("<", "{"))
        return None, _clean(" ".join(_TAG.sub(" ", text).split())) if is_text else ""
    error = document.get("error")
    if isinstance(error, dict):
        kind = error.get("type")
        return kind if isinstance(kind, str) else "", _clean(error.get("message")) or _clean(kind)
    told = (document.get(name) for name in ("error_description", "message", "detail", "error"))
    return None, next(filter(None, map(_clean, told)), "")


def _clean(message: Any) -> str:
    return _CONTROL.sub(" ", message)[:500] if isinstance(message, str) else ""
