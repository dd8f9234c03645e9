"""Opening, creating and writing tables of either format: what knows both."""

from __future__ import annotations

from deltaberg.api.commits import find_commit
from deltaberg.api.opening import open_table
from deltaberg.api.writing import create_table, write_table

__all__ = ["create_table", "find_commit", "open_table", "write_table"]
