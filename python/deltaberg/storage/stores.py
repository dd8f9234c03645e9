"""Stores: local files, and buckets through obstore. What travels is the description of a store, never a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from deltaberg.storage.base import Storage
from deltaberg.storage.bounded import BoundedCache, fingerprint
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import Location
from deltaberg.storage.options.options import StoreOptions, environment_of, server_of
from deltaberg.storage.vending import Vendor

__all__ = ["StoreSpec", "open_store"]

_LOCAL = LocalStorage()
#: Clients of this process. An evicted one goes on for those who hold it.
_clients: BoundedCache[Storage] = BoundedCache(128)


@dataclass(frozen=True)
class StoreSpec:
    """The options that stores are opened with: those of the caller, or of a vendor. It is small and pickles."""

    options: Mapping[str, Any] = field(default_factory=dict)
    vendor: Vendor | None = None

    def __repr__(self) -> str:
        """Name the options; their values are secrets."""
        return f"StoreSpec(options={sorted(self.options)}{', vended' if self.vendor else ''})"

    def is_same(self, location: Location, other: StoreSpec, place: Location) -> bool:
        """Return whether a location and that of another description are in one store: also buckets have namesakes."""
        if not location.same_store(place):
            return False
        return location.scheme == "file" or self._server(location) == other._server(place)

    def _server(self, location: Location) -> tuple[str, str]:
        vendor = self.vendor
        return server_of(location.scheme, self.options if vendor is None else vendor.options(vendor.scope(location)))

    def open(self, location: Location) -> Storage:
        """Return the store that holds a location; clients are kept for the process."""
        if self.vendor is None or location.scheme == "file":
            return open_store(location, self.options)
        vendor = self.vendor
        scope = vendor.scope(location)
        renewed = partial(vendor.options, scope)
        key = fingerprint(location.scheme, location.authority, vendor.key.hex(), scope)
        return _clients.get(key, lambda: _remote(location, renewed(), renewed))


def open_store(location: Location, options: StoreOptions | None = None) -> Storage:
    """Return the store that holds a location."""
    if location.scheme == "file":
        return _LOCAL
    chosen = options or {}
    named = sorted((str(name), repr(value)) for name, value in chosen.items())
    # Credentials that rotate in the environment are those of another client.
    key = fingerprint(location.scheme, location.authority, named, environment_of(location.scheme))
    return _clients.get(key, lambda: _remote(location, chosen))


def _remote(location: Location, options: StoreOptions, renewed: Callable[[], StoreOptions] | None = None) -> Storage:
    # Who reads local files alone loads nothing of buckets.
    from deltaberg.storage.remote import RemoteStorage

    return RemoteStorage(location, options, renewed)
