"""Metadata tables: snapshots, manifests, files and partitions as Arrow tables."""

from __future__ import annotations

__all__: list[str] = []
