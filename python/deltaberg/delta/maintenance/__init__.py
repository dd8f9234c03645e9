"""Upkeep of the log of a table: checkpoints of its snapshots, log compaction, and clean-up of old entries."""

from __future__ import annotations

__all__: list[str] = []
