"""Commits of changes to Iceberg tables, below all verbs."""

from __future__ import annotations

from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.transaction.table_commit import Committed, Make, TableChange
from deltaberg.table.commit.commit import ClockedPolicy

__all__ = ["commit_table"]


def commit_table(
    committer: Committer,
    make: Make,
    *,
    snapshot_id: int | None = None,
    staged: LoadedTable | None = None,
    policy: ClockedPolicy | None = None,
) -> Committed:
    """Commit changes to a table, or create it; see `TableChange`."""
    return TableChange(committer, make, snapshot_id, staged).commit(policy)
