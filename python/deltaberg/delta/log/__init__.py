"""The directory ``_delta_log``: listing, segments, bytes of entries (Delta protocol, "File Types")."""

from __future__ import annotations

__all__: list[str] = []
