"""The roads from a scan to a DataFrame, and the tasks that executors run."""

from __future__ import annotations

__all__: list[str] = []
