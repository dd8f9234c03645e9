"""Checkpoints of every kind (Delta protocol, "Checkpoints")."""

from __future__ import annotations

__all__: list[str] = []
