"""What can be done to a table, in the parts of a transaction."""

from __future__ import annotations

__all__: list[str] = []
