"""The steps of a maintenance that Delta tables alone have: vacuum, checkpoint and clean-up of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltaberg.choices import MaintenanceStep
from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.delta.after_commit.log_cleanup import clean_up_log
from deltaberg.delta.after_commit.steps import cleans_up_by_itself
from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.maintain.cleanup import CleanupResult
from deltaberg.table.maintain.maintenance import MaintainedStep, MaintenancePolicy, OnStep, Step

__all__ = ["upkeep_steps"]


def upkeep_steps(
    newest: Callable[[], Snapshot],
    vacuum: Callable[[VacuumOptions, CommitOptions], CleanupResult],
    policy: MaintenancePolicy,
) -> Mapping[MaintenanceStep, Step]:
    """Return the steps, in the safe order: entries of the log go when a checkpoint stands in for them.

    Parameters
    ----------
    newest
        Moves to the newest version, and returns it.
    vacuum
        Vacuums the table.

    Raises
    ------
    InvalidArgumentError
        The policy has a retention that is shorter than the table's.
    """
    snapshot = newest()
    VacuumOptions(policy.retention_hours).retention(snapshot.metadata.configuration)

    def vacuum_step(dry_run: bool, tell: OnStep) -> MaintainedStep:
        options = VacuumOptions(policy.retention_hours, dry_run, even_if_empty=False, progress=tell)
        done = vacuum(options, CommitOptions())
        is_due = bool(done.deleted_files or done.failed)
        numbers = {"deleted_files": done.deleted_files, "deleted_bytes": done.deleted_bytes, "failed": len(done.failed)}
        return MaintainedStep("vacuum", is_due, numbers, "; ".join(done.warnings), done)

    def checkpoint_step(dry_run: bool, _: OnStep) -> MaintainedStep:
        snapshot = newest()
        last = max(complete_checkpoints(list(snapshot.log.entries())), default=-1)
        commits = snapshot.version - last
        is_due = commits >= policy.max_commits
        done = write_checkpoint(snapshot) if is_due and not dry_run else None
        return MaintainedStep("checkpoint", is_due, {"commits": commits}, result=done)

    def cleanup_step(dry_run: bool, _: OnStep) -> MaintainedStep:
        snapshot = newest()
        if not cleans_up_by_itself(snapshot):
            return MaintainedStep("cleanup_metadata", False, why="delta.enableExpiredLogCleanup is false")
        done = clean_up_log(snapshot, dry_run=dry_run)
        numbers = {"deleted_files": done.deleted_files, "deleted_bytes": done.deleted_bytes, "failed": len(done.failed)}
        return MaintainedStep("cleanup_metadata", bool(done.deleted_files or done.failed), numbers, result=done)

    return {"vacuum": vacuum_step, "checkpoint": checkpoint_step, "cleanup_metadata": cleanup_step}
