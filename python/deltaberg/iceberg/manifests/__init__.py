"""Manifests, manifest lists and metrics, in columns (Iceberg spec, "Manifests")."""

from __future__ import annotations

__all__: list[str] = []
