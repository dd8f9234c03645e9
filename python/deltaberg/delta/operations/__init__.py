"""Operations of users on Delta tables: create them, write rows, and change columns, properties and features."""

from __future__ import annotations

__all__: list[str] = []
