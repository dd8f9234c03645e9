"""Joining rows of any two sources in bounded memory, as a merge does with a table and its source."""

from __future__ import annotations

from deltaberg.table.join.join import Joined, JoinKeys, JoinMemory, RowJoin
from deltaberg.table.join.stored import FileRows, StoredRows

__all__ = ["FileRows", "JoinKeys", "JoinMemory", "Joined", "RowJoin", "StoredRows"]
