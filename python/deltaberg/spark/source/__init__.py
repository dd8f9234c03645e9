"""The Python Data Sources ``delta`` and ``iceberg``, and their options."""

from __future__ import annotations

__all__: list[str] = []
