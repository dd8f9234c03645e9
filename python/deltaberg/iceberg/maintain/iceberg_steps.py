"""The steps of a maintenance that Iceberg tables alone have: manifests, the expiry of snapshots, and orphans."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltaberg.choices import MaintenanceStep
from deltaberg.errors import CommitConflictError
from deltaberg.iceberg.maintain.expire import ExpiryResult
from deltaberg.iceberg.maintain.expiring import is_collected
from deltaberg.iceberg.maintain.manifests.rewrite_manifests import ManifestRewriteResult
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.table.maintain.cleanup import CleanupResult
from deltaberg.table.maintain.maintenance import MaintainedStep, MaintenancePolicy, Step

__all__ = ["iceberg_steps"]

_SHARED = "gc.enabled is not true: files of the table may belong to another table"


def iceberg_steps(
    newest: Callable[[], TableMetadata],
    rewrite: Callable[..., ManifestRewriteResult],
    expire: Callable[..., ExpiryResult],
    remove: Callable[..., CleanupResult],
    policy: MaintenancePolicy,
) -> Mapping[MaintenanceStep, Step]:
    """Return the steps, in the safe order: files of snapshots go when these have expired.

    Parameters
    ----------
    newest
        Returns the newest metadata.
    rewrite, expire, remove
        The verbs of the table.
    policy
        From when on a step is due.
    """

    def manifests_step(dry_run: bool) -> MaintainedStep:
        newest()
        try:
            done = rewrite(min_manifests=policy.min_files, dry_run=dry_run)
        except CommitConflictError as error:
            return MaintainedStep("rewrite_manifests", True, why=error.message)
        names = ("rewritten_manifests", "added_manifests", "entries")
        numbers = {name: getattr(done, name) for name in names}
        return MaintainedStep("rewrite_manifests", done.rewritten_manifests > 0, numbers, result=done)

    def expiry_step(dry_run: bool) -> MaintainedStep:
        if not is_collected(newest()):
            return MaintainedStep("expire_snapshots", False, why=_SHARED)
        done = expire(dry_run=dry_run)
        numbers = {"snapshots": len(done.snapshot_ids), "refs": len(done.refs)} | _numbers(done)
        is_due = bool(done.snapshot_ids or done.refs)
        return MaintainedStep("expire_snapshots", is_due, numbers, "; ".join(done.warnings), done)

    def orphans_step(dry_run: bool) -> MaintainedStep:
        if not is_collected(newest()):
            return MaintainedStep("remove_orphan_files", False, why=_SHARED)
        done = remove(dry_run=dry_run)
        is_due = done.deleted_files > 0
        return MaintainedStep("remove_orphan_files", is_due, _numbers(done), "; ".join(done.warnings), done)

    return {
        "rewrite_manifests": manifests_step,
        "expire_snapshots": expiry_step,
        "remove_orphan_files": orphans_step,
    }


def _numbers(done: CleanupResult) -> dict[str, int]:
    return {"deleted_files": done.deleted_files, "deleted_bytes": done.deleted_bytes, "failed": len(done.failed)}
