"""Transactions of Delta tables: what changes a table, when it conflicts with other commits, and the commit itself."""

from __future__ import annotations

__all__: list[str] = []
