"""A version of a table: its configuration, its files, and the history that leads to it."""

from __future__ import annotations

__all__: list[str] = []
