"""Catalogs of Iceberg tables: directories, SQL databases, and the REST protocol."""

from __future__ import annotations

from deltaberg.iceberg.catalogs.base import Catalog
from deltaberg.iceberg.catalogs.load import load_catalog

__all__ = ["Catalog", "load_catalog"]
