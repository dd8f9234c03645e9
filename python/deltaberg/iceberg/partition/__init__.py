"""Partition transforms, projections of filters, and partition structs (Iceberg spec, "Partitioning")."""

from __future__ import annotations

__all__: list[str] = []
