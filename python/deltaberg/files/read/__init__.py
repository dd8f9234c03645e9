"""Reading data files by task: Parquet, ORC and Avro; projection, deletes, filters, and physical row positions."""

from __future__ import annotations

__all__: list[str] = []
