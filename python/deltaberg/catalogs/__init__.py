"""Catalogs, which know tables by names: directories, SQL databases, and the REST protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.catalogs.base import Catalog
    from deltaberg.catalogs.rest.rest_transaction import SeveralTables

__all__ = ["Catalog", "SeveralTables"]

_HOMES = {"Catalog": "base", "SeveralTables": "rest.rest_transaction"}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
