"""Delta Lake tables (Delta Transaction Log Protocol)."""

from __future__ import annotations

from deltaberg.delta.actions.table_actions import Format, Metadata, Protocol, Transaction
from deltaberg.delta.checkpoint.layout import CheckpointLayout
from deltaberg.delta.schema.writer_rules import IdentityColumn
from deltaberg.delta.snapshot.history import Commit
from deltaberg.delta.table import DeltaTable

__all__ = [
    "CheckpointLayout",
    "Commit",
    "DeltaTable",
    "Format",
    "IdentityColumn",
    "Metadata",
    "Protocol",
    "Transaction",
]
