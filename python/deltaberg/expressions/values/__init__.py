"""Values of rows: SQL expressions and literals, bound to columns, evaluated on Arrow as Spark does in its ANSI mode."""

from __future__ import annotations

__all__: list[str] = []
