"""Stores: local files, and buckets through obstore. A description of a store travels, never a live client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.storage.base import Counters, ObjectMeta, Storage
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import Location, LocationMap, PathResolver, decode_path, parse_location
from deltaberg.storage.options import StoreOptions, is_store_option
from deltaberg.storage.remote import RemoteStorage

__all__ = [
    "Counters",
    "Location",
    "LocationMap",
    "ObjectMeta",
    "PathResolver",
    "Storage",
    "StoreOptions",
    "StoreSpec",
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
    """What opens stores: the options of the caller. It is small and pickles."""

    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Name the options; their values are secrets."""
        return f"StoreSpec(options={sorted(self.options)})"

    def open(self, location: Location) -> Storage:
        """Give the store that holds a location; clients are kept for the process."""
        return open_store(location, self.options)


def open_store(location: Location, options: StoreOptions | None = None) -> Storage:
    """Give the store that holds a location."""
    if location.scheme == "file":
        return _LOCAL
    chosen = tuple(sorted((str(name), str(value)) for name, value in (options or {}).items()))
    key = (location.scheme, location.authority, chosen)
    client = _clients.get(key)
    if client is None:
        client = _clients.setdefault(key, RemoteStorage(location, options or {}))
    return client
