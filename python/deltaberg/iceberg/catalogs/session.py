"""A caller's session with a REST catalog: who they are, the token that says so, and what errors mean."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode, urljoin

from deltaberg._version import __version__
from deltaberg.errors import (
    AuthenticationError,
    DeltabergError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.catalogs.transport import Answer, Transport, checked_header, checked_url, same_origin

__all__ = ["RestSession", "SessionSettings", "json_object", "read_settings", "session_of"]

_DELEGATION = "X-Iceberg-Access-Delegation"
#: A token is asked for anew so many seconds before it expires, or after three quarters of a shorter life.
_MARGIN = 60.0
_NOT_FOUND = {"NoSuchTableException": TableNotFoundError, "NoSuchNamespaceException": NamespaceNotFoundError}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

# Tests put their own in place of it.
_clock = time.monotonic


@dataclass(frozen=True)
class SessionSettings:
    """What a session needs to know. It pickles, so that tasks of Spark can ask the catalog too."""

    uri: str
    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_uri: str | None = None
    oauth2_form: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport = field(default_factory=Transport)


def read_settings(properties: Mapping[str, str]) -> SessionSettings:
    """Take what concerns a session from the properties of a catalog.

    Raises
    ------
    InvalidArgumentError
        Where a property has a value that is not taken.
    UnsupportedFeatureError
        Where they ask for a kind of authentication that is not built.
    """
    if properties.get("rest.sigv4-enabled", "").lower() == "true":
        raise UnsupportedFeatureError("requests cannot be signed by SigV4", hint="use credential or token")
    kind = properties.get("auth.type", "")
    has_section = any(name == "auth" or name.startswith("auth.") for name in properties)
    if has_section and kind.lower() not in ("none", "noop"):
        raise UnsupportedFeatureError(
            f"authentication of type {kind!r:.40} is not built"
            if kind
            else "the section auth names no type that is built",
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
        # An address without a host is one of the catalog's.
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
    text = properties.get(name, str(default))
    if not re.fullmatch("[0-9]{1,9}", text):
        raise InvalidArgumentError(f"the property {name} is {text!r:.40}", hint="pass a whole number")
    return int(text)


@lru_cache(maxsize=64)
def session_of(settings: SessionSettings) -> RestSession:
    """Give the session of this process: its token is asked for once."""
    return RestSession(settings)


class RestSession:
    """Asks a catalog, with a token that is renewed before it expires, and once where the catalog refuses it."""

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
    ) -> Answer:
        """Ask for what is at a path; the answer is one of success, or 304 where a header allows that.

        Raises
        ------
        AuthenticationError
            Where the catalog does not take the token, nor a new one.
        TableNotFoundError, NamespaceNotFoundError
            Where the catalog says so.
        StorageError
            Where the catalog fails, or cannot be asked.
        """
        url = f"{self._settings.uri}/{path}" + (f"?{urlencode(query)}" if query else "")
        token = self._current_token()
        answer = self._send(method, url, headers, token)
        if answer.status in (401, 419) and self._settings.credential is not None:
            answer = self._send(method, url, headers, self._new_token(instead_of=token))
        if answer.status in (200, 204, 304):
            return answer
        raise self._failure(answer, path)

    def _send(self, method: str, url: str, headers: Mapping[str, str] | None, token: str | None) -> Answer:
        sent = dict(self._settings.headers) | dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        return self._settings.transport.send(method, url, sent)

    def _current_token(self) -> str | None:
        if self._settings.credential is None:
            return self._settings.token
        with self._lock:
            token, is_due = self._token, self._renew_at is not None and _clock() >= self._renew_at
        return self._new_token(instead_of=token) if token is None or is_due else token

    def _new_token(self, instead_of: str | None) -> str:
        """Ask for a token, unless another thread has done so since."""
        with self._lock:
            if self._token is None or self._token == instead_of:
                self._token, lifetime = self._ask_for_token()
                margin = min(_MARGIN, lifetime / 4) if lifetime is not None else 0.0
                self._renew_at = None if lifetime is None else _clock() + lifetime - margin
            return self._token

    def _ask_for_token(self) -> tuple[str, float | None]:
        """Get a token by client credentials (RFC 6749, section 4.4), and for how many seconds it holds."""
        settings = self._settings
        url = settings.oauth2_uri or f"{settings.uri}/v1/oauth/tokens"
        client, _, secret = (settings.credential or "").rpartition(":")
        form = {"grant_type": "client_credentials", "client_secret": secret, **dict(settings.oauth2_form)}
        form |= {"client_id": client} if client else {}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if same_origin(url, settings.uri):
            # What the caller adds may be secret too: it is meant for the catalog.
            headers = dict(settings.headers) | headers
        answer = settings.transport.send("POST", url, headers, urlencode(form).encode())
        if answer.status != 200:
            error = self._failure(answer, "the token")
            if 400 <= answer.status < 404:
                error = AuthenticationError(error.message, hint="check credential and scope", **error.context)
            raise error
        found = json_object(answer, "the answer to a request for a token")
        token: Any = found.get("access_token")
        lifetime: Any = found.get("expires_in")
        if not isinstance(token, str) or not token or str(found.get("token_type", "bearer")).lower() != "bearer":
            raise AuthenticationError("the server gave no bearer token", server=url)
        holds = isinstance(lifetime, (int, float)) and 0 < lifetime < 1e9
        return checked_header("Authorization", token, "the token of the server"), float(lifetime) if holds else None

    def _failure(self, answer: Answer, path: str) -> DeltabergError:
        """Give the exception that an answer means; what the server says is shown without secrets."""
        kind, said = _said(answer)
        status = answer.status
        context: dict[str, Any] = {"catalog": self._settings.uri, "path": path, "status": status}
        message = self._without_secrets(said) or "the server does not say why"
        if status == 404 and kind in _NOT_FOUND:
            return _NOT_FOUND[kind](message, **context)
        if status in (401, 403, 419):
            advice = (
                "the caller may not do this" if status == 403 else "check the properties credential, token and scope"
            )
            return AuthenticationError(f"the catalog refuses access: {message}", hint=advice, **context)
        if status in (406, 501):
            return UnsupportedFeatureError(f"the catalog cannot do this: {message}", **context)
        hint: str | None = None
        if 300 <= status < 400:
            hint = "redirects are not followed: give the final address as uri"
        elif status == 404:
            hint = "check uri and warehouse"
        elif status in (429, 503):
            hint = "it was asked again, as long as that seemed to make sense"
        return StorageError(f"the catalog failed: {message}", hint=hint, **context)

    def _without_secrets(self, text: str) -> str:
        credential = self._settings.credential or ""
        secrets = {self._settings.token, self._token, credential, credential.rpartition(":")[2]}
        secrets |= {value for name, value in self._settings.headers if name.lower() == "authorization"}
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def json_object(answer: Answer, what: str) -> dict[str, Any]:
    """Give the JSON object that an answer holds.

    Raises
    ------
    StorageError
        Where it holds something else.
    """
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StorageError(f"{what} is no JSON object", hint="check the property uri: is it a REST catalog?")
    return found


def _said(answer: Answer) -> tuple[str, str]:
    """Give the type and the message of an error, as the catalog's or OAuth's errors have them."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return "", ""
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        kind, message = error.get("type"), error.get("message")
    else:
        kind, message = error, found.get("error_description", error) if isinstance(found, dict) else None
    clean = _CONTROL.sub(" ", message)[:500] if isinstance(message, str) else ""
    return (kind if isinstance(kind, str) else ""), clean
