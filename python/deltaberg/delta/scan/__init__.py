"""Delta snapshots and changes as sources of scans."""

from __future__ import annotations

__all__: list[str] = []
