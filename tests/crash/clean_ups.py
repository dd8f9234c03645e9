"""What keeps Iceberg tables in order without a change of rows, as operations of the harness."""

from __future__ import annotations

from deltaberg.errors import StorageError
from tests.crash.targets import Target

__all__ = ["convert_deletes", "expire", "join_deletes", "remove_orphans", "rewrite_manifests"]


def expire(at: Target) -> None:
    """Forget all snapshots but the newest, and delete what only they need."""
    done = at.table.expire_snapshots("9999-12-31")
    # The snapshots are forgotten, but whoever waits for the files as well has to hear that they stay.
    if done.failed or done.warnings:
        raise StorageError(f"{len(done.failed)} files stay; {'; '.join(done.warnings)}")


def remove_orphans(at: Target) -> None:
    """Delete the file that is beside the table."""
    done = at.table.remove_orphan_files("9999-12-31", dry_run=False, enforce_retention_duration=False)
    if done.failed or done.warnings or done.deleted_files != 1:
        raise StorageError(f"{done}; {'; '.join(done.warnings)}")


def rewrite_manifests(at: Target) -> None:
    """Put the entries of all manifests into others of about two thousand bytes."""
    at.table.rewrite_manifests(rewrite_all=True, target_size=2000)


def convert_deletes(at: Target) -> None:
    """Turn the equality deletes into positions or vectors."""
    if at.table.convert_equality_deletes().removed_files == 0:
        raise StorageError("no equality deletes were converted")


def join_deletes(at: Target) -> None:
    """Join the position delete files, or turn them into vectors."""
    if at.table.rewrite_position_delete_files(min_files=2).removed_files != 2:
        raise StorageError("the position delete files were not joined")
