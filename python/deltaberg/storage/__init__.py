"""Stores: local files, and buckets through obstore. A description of a store travels, never a live client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from deltaberg.storage.base import Counters, ObjectMeta, Storage
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import Location, LocationMap, PathResolver, decode_path, parse_location
from deltaberg.storage.options import StoreOptions, is_store_option
from deltaberg.storage.remote import RemoteStorage
from deltaberg.storage.vending import Vendor

__all__ = [
    "Counters",
    "Location",
    "LocationMap",
    "ObjectMeta",
    "PathResolver",
    "Storage",
    "StoreOptions",
    "StoreSpec",
    "Vendor",
    "decode_path",
    "is_store_option",
    "open_store",
    "parse_location",
]

_LOCAL = LocalStorage()
#: Clients of this process, by store and options.
_clients: dict[tuple[Any, ...], Storage] = {}


@dataclass(frozen=True)
class StoreSpec:
    """What opens stores: the options of the caller, or what hands them out. It is small and pickles."""

    options: Mapping[str, Any] = field(default_factory=dict)
    vendor: Vendor | None = None

    def __repr__(self) -> str:
        """Name the options; their values are secrets."""
        return f"StoreSpec(options={sorted(self.options)}{', vended' if self.vendor else ''})"

    def open(self, location: Location) -> Storage:
        """Give the store that holds a location; clients are kept for the process."""
        if self.vendor is None or location.scheme == "file":
            return open_store(location, self.options)
        scope = self.vendor.scope(location)
        renewed = partial(self.vendor.options, scope)
        return _kept((location.scheme, location.authority, self.vendor, scope), location, renewed(), renewed)


def open_store(location: Location, options: StoreOptions | None = None) -> Storage:
    """Give the store that holds a location."""
    if location.scheme == "file":
        return _LOCAL
    chosen = tuple(sorted((str(name), str(value)) for name, value in (options or {}).items()))
    return _kept((location.scheme, location.authority, chosen), location, options or {})


def _kept(
    key: tuple[Any, ...],
    location: Location,
    options: StoreOptions,
    renewed: Callable[[], StoreOptions] | None = None,
) -> Storage:
    client = _clients.get(key)
    if client is None:
        client = _clients.setdefault(key, RemoteStorage(location, options, renewed))
    return client
