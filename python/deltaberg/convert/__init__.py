"""Making tables of what is there already, without writing rows anew."""

from __future__ import annotations

from deltaberg.convert.directory import convert_to_delta

__all__ = ["convert_to_delta"]
