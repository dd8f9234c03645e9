"""Facts about data files in the log: partition values, statistics, deletion vectors."""

from __future__ import annotations

__all__: list[str] = []
