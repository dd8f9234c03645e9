"""Iceberg tables: metadata, manifests, deletes, scans and catalogs (Iceberg table spec, versions 1, 2 and 3)."""

from __future__ import annotations

from deltaberg.iceberg.table import IcebergTable

__all__ = ["IcebergTable"]
