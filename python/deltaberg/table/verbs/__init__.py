"""The verbs of tables and of transactions, of both formats, each once."""

from __future__ import annotations

__all__: list[str] = []
