"""Writing the rows of Spark DataFrames."""

from __future__ import annotations

__all__: list[str] = []
