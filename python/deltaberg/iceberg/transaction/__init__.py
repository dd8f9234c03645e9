"""Changes of a table that become one commit, or none."""

from __future__ import annotations

__all__: list[str] = []
