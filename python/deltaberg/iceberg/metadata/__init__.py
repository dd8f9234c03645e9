"""Table metadata and what it holds: schemas, specs, snapshots, refs (Iceberg spec, "Table Metadata")."""

from __future__ import annotations

__all__: list[str] = []
