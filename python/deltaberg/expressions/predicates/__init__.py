"""Filters on rows: written as SQL text, with `col` or as tuples; bound to a schema; evaluated."""

from __future__ import annotations

__all__: list[str] = []
