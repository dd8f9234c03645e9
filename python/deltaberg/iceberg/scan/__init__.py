"""Iceberg snapshots and changes as sources of scans (Iceberg spec, "Scan Planning")."""

from __future__ import annotations

__all__: list[str] = []
