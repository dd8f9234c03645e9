"""Delta Lake tables (Delta Transaction Log Protocol)."""

from __future__ import annotations

from deltaberg.delta.actions import Format, Metadata, Protocol, Transaction
from deltaberg.delta.columns import IdentityColumn
from deltaberg.delta.history import Commit
from deltaberg.delta.table import DeltaTable

__all__ = ["Commit", "DeltaTable", "Format", "IdentityColumn", "Metadata", "Protocol", "Transaction"]
