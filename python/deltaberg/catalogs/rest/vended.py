"""Credentials that a REST catalog vends for a table. Each process that reads renews them before they expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deltaberg.catalogs.rest.session import SessionSettings, json_object, session_of
from deltaberg.errors import (
    AuthenticationError,
    DeltabergError,
    InvalidArgumentError,
    StorageError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from deltaberg.hints import verbatim
from deltaberg.iceberg.schema.json_members import members, objects, strings, text
from deltaberg.storage.bounded import BoundedCache, fingerprint
from deltaberg.storage.location import Location, parse_location
from deltaberg.storage.options.options import StoreOptions, option_name, without_credentials

__all__ = ["RestVendor", "Vended", "merged_options", "read_vended", "server_config"]

_CREDENTIALS = frozenset(
    {
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "gcs.oauth2.token",
        "adls.sas-token",
        "adls.account-key",
    }
)
_ENDPOINTS = {"s3.endpoint": "s3", "gcs.service.host": "gs", "adls.account-host": "az"}
_SETTINGS = frozenset(
    {"s3.region", "client.region", "s3.path-style-access", "s3.force-virtual-addressing", "adls.account-name"}
)
_SAS_TOKEN = "adls.sas-token"  # noqa: S105 - the name of a property
_EXPIRIES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
#: How many seconds before their expiry credentials are renewed; short-lived ones after three quarters of their life.
_MARGIN = 300.0
#: How many seconds pass before a catalog that failed is asked again, while the credentials are still valid.
_PAUSE = 30.0

# Tests put their own in place of it. Expiry is a time of day, not of this process.
_now = time.time


@dataclass(frozen=True)
class Vended:
    """The options that a catalog vended, by prefix of locations. The longest prefix counts; "" matches all.

    Times are in seconds since 1970. They are None if the credentials do not expire, or their expiry is not known.
    """

    by_prefix: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = field(default=(), repr=False)
    expires_at: float | None = None
    renew_at: float | None = None

    @property
    def has_credentials(self) -> bool:
        """Whether there are credentials among the options."""
        names = (name for _, options in self.by_prefix for name, _ in options)
        return any(name in _CREDENTIALS or name.startswith(f"{_SAS_TOKEN}.") for name in names)

    def prefix_of(self, place: str) -> str:
        """Return the longest prefix that matches a location, or "" where none does."""
        return max((prefix for prefix, _ in self.by_prefix if place.startswith(prefix)), key=len, default="")


def server_config(values: Any, what: str) -> dict[str, str]:
    """Return the settings of stores in a catalog's answer: only known and harmless ones, and no nulls."""
    given = members(values if values is not None else {}, what)
    config = strings({what: {name: value for name, value in given.items() if value is not None}}, what, "the catalog")
    return {
        name: value
        for name, value in config.items()
        if name in _CREDENTIALS | _SETTINGS
        or name in _ENDPOINTS
        or name.startswith((f"{_SAS_TOKEN}.", *_EXPIRIES))
        or name == "s3.remote-signing-enabled"
    }


def read_vended(answer: Mapping[str, Any], shared: Mapping[str, str]) -> Vended:
    """Read what a catalog vends with a table, or in answer to a request for credentials.

    ``shared`` is what the catalog says about all tables.
    """
    config = {**shared, **server_config(answer.get("config"), "config")}
    configs = {"": config}
    for part in objects(answer, "storage-credentials", "the catalog's answer"):
        prefix = _spelled(text(part, "prefix", "a credential"))
        configs[prefix] = {**config, **server_config(part.get("config"), "config")}
    times = [_seconds(value) for one in configs.values() for name, value in one.items() if name.startswith(_EXPIRIES)]
    expires_at = min((when for when in times if when is not None), default=None)
    now = _now()
    renew_at = None if expires_at is None else expires_at - min(_MARGIN, max(expires_at - now, 0) / 4)
    pairs = tuple((prefix, tuple(sorted(one.items()))) for prefix, one in configs.items())
    return Vended(pairs, expires_at, renew_at)


def _spelled(prefix: str) -> str:
    """Spell a prefix as locations are spelled. One that is not a location, such as ``gs``, stays as it is."""
    if not prefix.partition("://")[2]:
        return prefix
    try:
        place = str(parse_location(prefix))
    except InvalidArgumentError:
        return prefix
    return f"{place}/" if prefix.endswith("/") and not place.endswith("/") else place


def _seconds(millis: str) -> float | None:
    return int(millis) / 1000 if millis.isascii() and millis.isdigit() and len(millis) < 18 else None


class _Newest:
    """The last credentials of a vendor, and a lock that lets only one thread renew it."""

    def __init__(self) -> None:
        self.vended: Vended | None = None
        self.lock = threading.Lock()


#: What the vendors of this process gave last: tasks that share a worker renew it once.
_newest: BoundedCache[_Newest] = BoundedCache(256)


@dataclass(frozen=True)
class RestVendor:
    """Asks a catalog for the options of the stores that hold one table.

    Parameters
    ----------
    settings
        The settings of the session with the catalog.
    path, query
        What to request.
    own
        The options of the caller.
    shared
        What the catalog says about all tables.
    first
        What the catalog vended with the table.
    """

    settings: SessionSettings
    path: str
    query: tuple[tuple[str, str], ...]
    own: tuple[tuple[str, str], ...] = field(repr=False)
    shared: tuple[tuple[str, str], ...] = field(repr=False)
    first: Vended = field(compare=False)

    @property
    def key(self) -> bytes:
        """The key shared by vendors of one table and caller."""
        # Credentials that are never renewed are those that came with the table.
        fixed = self.first.by_prefix if self.first.renew_at is None else None
        return fingerprint(asdict(self.settings), self.path, self.query, self.own, self.shared, fixed)

    def scope(self, location: Location) -> str:
        """Return the prefix that the catalog names for a location, or else the store of the location."""
        return self._current().prefix_of(str(location)) or f"{location.scheme}://{location.authority}/"

    def options(self, scope: str) -> StoreOptions:
        """Return the options for a scope, renewed where they are about to expire."""
        vended = self._current()
        found = dict(vended.by_prefix)
        return merged_options(dict(self.own), dict(found.get(vended.prefix_of(scope), found.get("", ()))), scope)

    def _current(self) -> Vended:
        if self.first.renew_at is None:
            return self.first
        newest = _newest.get(self.key, _Newest)
        with newest.lock:
            known = max(newest.vended or self.first, self.first, key=lambda one: one.expires_at or 0.0)
            if _now() >= (known.renew_at or 0.0):
                known = self._renewed(known)
            newest.vended = known
            return known

    def _renewed(self, vended: Vended) -> Vended:
        expires_at = vended.expires_at or 0.0
        try:
            answer = session_of(self.settings).get(self.path, dict(self.query))
            renewed = read_vended(json_object(answer, "the answer to a request for credentials"), dict(self.shared))
            if vended.has_credentials and not renewed.has_credentials:
                raise StorageError("the catalog's answer holds no credentials any more", path=self.path)
        except DeltabergError:
            if _now() >= expires_at:
                raise
            return replace(vended, renew_at=min(_now() + _PAUSE, expires_at))
        if renewed.expires_at is not None and renewed.expires_at <= _now():
            raise AuthenticationError(
                "the catalog vends expired credentials", hint="check the clocks of both machines", path=self.path
            )
        return renewed


def merged_options(own: Mapping[str, str], server: Mapping[str, str], scope: str) -> dict[str, str]:
    """Merge the options of the caller with those of a catalog.

    The caller's endpoint takes precedence. Credentials that the catalog vends replace the caller's. If it vends
    none, the caller's are not sent to an endpoint that only the catalog names.

    Raises
    ------
    UnsafePathError
        If the catalog names an endpoint without credentials for it.
    UnsupportedFeatureError
        If the catalog would sign requests, and vends no credentials.
    """
    vended = {name: value for name, value in server.items() if name in _CREDENTIALS}
    vended |= _sas_token(server, scope)
    options = without_credentials(own) if vended else dict(own)
    if (
        not vended
        and server.get("s3.remote-signing-enabled", "").lower() == "true"
        and options == without_credentials(own)
    ):
        raise UnsupportedFeatureError(
            "the catalog signs requests to the store instead of vending credentials",
            hint="configure the catalog to vend credentials, or pass s3.access-key-id and s3.secret-access-key",
            feature="remote signing",
        )
    for name, scheme in _ENDPOINTS.items():
        # Depending on the store, an endpoint has one of these names.
        if name not in server or {"endpoint", "base_url"} & {option_name(scheme, known) for known in own}:
            continue
        if not vended:
            raise UnsafePathError(
                f"the catalog names an endpoint without credentials for it: {server[name]:.200}",
                hint=f"pass {name}={verbatim(server[name][:200])} to allow it",
            )
        options[name] = server[name]
    return options | {name: value for name, value in server.items() if name in _SETTINGS} | vended


def _sas_token(server: Mapping[str, str], scope: str) -> dict[str, str]:
    """Return the token for the account of a scope, with which the name of such a token ends."""
    account = scope.partition("@")[2].partition("/")[0].partition(".")[0]
    tokens = {
        name[len(_SAS_TOKEN) + 1 :].partition(".")[0]: value
        for name, value in server.items()
        if name.startswith(f"{_SAS_TOKEN}.")
    }
    if not account and len(tokens) == 1:
        account = next(iter(tokens))
    return {_SAS_TOKEN: tokens[account], "adls.account-name": account} if account in tokens else {}
