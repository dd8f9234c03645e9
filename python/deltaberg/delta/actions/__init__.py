"""The actions of the log (Delta protocol, "Actions")."""

from __future__ import annotations

__all__: list[str] = []
