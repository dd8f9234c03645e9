"""Delta Lake tables (Delta Transaction Log Protocol)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.delta.actions.table_actions import Format, Metadata, Protocol, Transaction
    from deltaberg.delta.after_commit.log_cleanup import LogCleanup
    from deltaberg.delta.after_commit.symlink_manifests import SymlinkManifests
    from deltaberg.delta.alter.alter import Alteration
    from deltaberg.delta.checkpoint.layout import CheckpointLayout
    from deltaberg.delta.log.checkpoint_files import CheckpointInfo
    from deltaberg.delta.schema.writer_rules import IdentityColumn
    from deltaberg.delta.snapshot.history import Commit
    from deltaberg.delta.table import DeltaTable
    from deltaberg.delta.table_transaction import DeltaTransaction

__all__ = [
    "Alteration",
    "CheckpointInfo",
    "CheckpointLayout",
    "Commit",
    "DeltaTable",
    "DeltaTransaction",
    "Format",
    "IdentityColumn",
    "LogCleanup",
    "Metadata",
    "Protocol",
    "SymlinkManifests",
    "Transaction",
]

_HOMES = {
    "Alteration": "alter.alter",
    "CheckpointInfo": "log.checkpoint_files",
    "CheckpointLayout": "checkpoint.layout",
    "Commit": "snapshot.history",
    "DeltaTable": "table",
    "Format": "actions.table_actions",
    "IdentityColumn": "schema.writer_rules",
    "LogCleanup": "after_commit.log_cleanup",
    "Metadata": "actions.table_actions",
    "Protocol": "actions.table_actions",
    "SymlinkManifests": "after_commit.symlink_manifests",
    "DeltaTransaction": "table_transaction",
    "Transaction": "actions.table_actions",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
