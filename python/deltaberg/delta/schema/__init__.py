"""Schemas, column mapping, type changes, rules for writers (Delta protocol, "Schema Serialization Format")."""

from __future__ import annotations

__all__: list[str] = []
