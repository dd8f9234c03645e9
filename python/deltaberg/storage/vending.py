"""Credentials that a catalog hands out for a while, and renews."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from deltaberg.storage.location import Location
from deltaberg.storage.options import StoreOptions

__all__ = ["Vendor"]


class Vendor(Hashable, Protocol):
    """What knows the options of stores that change with time. It is small, pickles, and can be compared."""

    def scope(self, location: Location) -> str:
        """Give the prefix of locations that have their options in common with this one."""
        ...

    def options(self, scope: str) -> StoreOptions:
        """Give the options that hold now for the locations of a scope.

        Raises
        ------
        StorageError
            Where they have expired, and there are no new ones.
        """
        ...
