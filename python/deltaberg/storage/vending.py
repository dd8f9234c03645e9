"""Credentials that a catalog hands out for a while, and renews."""

from __future__ import annotations

from typing import Protocol

from deltaberg.storage.location import Location
from deltaberg.storage.options.options import StoreOptions

__all__ = ["Vendor"]


class Vendor(Protocol):
    """A source of store options that change with time. It is small, and pickles."""

    @property
    def key(self) -> bytes:
        """The same for vendors that give the same options, within one process; it gives no secret away."""

    def scope(self, location: Location) -> str:
        """Return the prefix of the locations that share the options of this one."""

    def options(self, scope: str) -> StoreOptions:
        """Return the options that are valid now for the locations of a scope.

        Raises
        ------
        StorageError
            If they have expired, and there are no new ones.
        """
