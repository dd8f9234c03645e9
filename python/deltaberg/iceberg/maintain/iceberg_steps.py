"""The steps of a maintenance that Iceberg tables alone have: rewrites of deletes and manifests, expiry, and orphans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deltaberg.choices import MaintenanceStep
from deltaberg.errors import CommitConflictError
from deltaberg.iceberg.maintain.cleaning.expire import ExpiryResult
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.retention import is_collected
from deltaberg.table.maintain.cleanup import CleanupResult
from deltaberg.table.maintain.maintenance import MaintainedStep, MaintenancePolicy, OnStep, Step

__all__ = ["iceberg_steps"]

_SHARED = "gc.enabled is not true: files of the table may belong to another table"
_OF_DELETES = ("removed_files", "added_files", "data_files")
_OF_MANIFESTS = ("rewritten_manifests", "added_manifests", "entries")


def iceberg_steps(
    newest: Callable[[], TableMetadata],
    verb: Callable[[MaintenanceStep], Callable[..., Any]],
    policy: MaintenancePolicy,
) -> Mapping[MaintenanceStep, Step]:
    """Return the steps, in the safe order: files of snapshots go when these have expired.

    Parameters
    ----------
    newest
        Moves the table to its newest metadata, and returns it.
    verb
        Returns the verb of the table that a step carries out. They have the same name.
    policy
        From when on a step is due.
    """

    def rewrite_step(name: MaintenanceStep, told: Sequence[str], **bounds: int) -> Step:
        def step(dry_run: bool, tell: OnStep) -> MaintainedStep:
            newest()
            try:
                done = verb(name)(**bounds, dry_run=dry_run, progress=tell)
            except CommitConflictError as error:
                # Like groups of a compaction, what others got in the way of stays for the next run.
                return MaintainedStep(name, True, why=error.message)
            numbers = {one: getattr(done, one) for one in told}
            return MaintainedStep(name, numbers[told[0]] > 0, numbers, result=done)

        return step

    def expiry_step(dry_run: bool, tell: OnStep) -> MaintainedStep:
        if not is_collected(newest().properties):
            return MaintainedStep("expire_snapshots", False, why=_SHARED)
        done: ExpiryResult = verb("expire_snapshots")(dry_run=dry_run, progress=tell)
        numbers = {"snapshots": len(done.snapshot_ids), "refs": len(done.refs)} | _numbers(done)
        is_due = bool(done.snapshot_ids or done.refs)
        return MaintainedStep("expire_snapshots", is_due, numbers, "; ".join(done.warnings), done)

    def orphans_step(dry_run: bool, tell: OnStep) -> MaintainedStep:
        if not is_collected(newest().properties):
            return MaintainedStep("remove_orphan_files", False, why=_SHARED)
        done: CleanupResult = verb("remove_orphan_files")(dry_run=dry_run, progress=tell)
        is_due = done.deleted_files > 0
        return MaintainedStep("remove_orphan_files", is_due, _numbers(done), "; ".join(done.warnings), done)

    least = policy.min_files
    return {
        "convert_equality_deletes": rewrite_step("convert_equality_deletes", _OF_DELETES),
        "rewrite_position_delete_files": rewrite_step("rewrite_position_delete_files", _OF_DELETES, min_files=least),
        "rewrite_manifests": rewrite_step("rewrite_manifests", _OF_MANIFESTS, min_manifests=least),
        "expire_snapshots": expiry_step,
        "remove_orphan_files": orphans_step,
    }


def _numbers(done: CleanupResult) -> dict[str, int]:
    return {"deleted_files": done.deleted_files, "deleted_bytes": done.deleted_bytes, "failed": len(done.failed)}
