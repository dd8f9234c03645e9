"""Work of a writer for the log after a commit: now and then a checkpoint, a compaction, and a clean-up."""

from __future__ import annotations

from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.delta.after_commit.log_cleanup import clean_up_log, require_deleted
from deltaberg.delta.log.compaction import compact_commits
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.table.property_values import number_of

__all__ = [
    "COMPACTION_INTERVAL",
    "checkpoint_if_due",
    "clean_up_if_due",
    "cleans_up_by_itself",
    "compact_log_if_due",
    "is_checkpoint_due",
]

_INTERVAL = "delta.checkpointInterval"
_CLEANUP = "delta.enableExpiredLogCleanup"
_DEFAULT_INTERVAL = 10
COMPACTION_INTERVAL = "deltaberg.logCompactionInterval"


def is_checkpoint_due(snapshot: Snapshot) -> bool:
    """Return whether a version is one of those that get a checkpoint: every tenth by default.

    Raises
    ------
    InvalidArgumentError
        If the property ``delta.checkpointInterval`` is not a positive number.
    """
    interval = number_of(snapshot.metadata.configuration, _INTERVAL, _DEFAULT_INTERVAL)
    return snapshot.version > 0 and snapshot.version % interval == 0


def checkpoint_if_due(snapshot: Snapshot) -> None:
    """Write a checkpoint of a version that was just committed, if it is due."""
    if is_checkpoint_due(snapshot):
        write_checkpoint(snapshot)


def cleans_up_by_itself(snapshot: Snapshot) -> bool:
    """Return whether entries of the log go by themselves: ``delta.enableExpiredLogCleanup`` is not false."""
    return snapshot.metadata.configuration.get(_CLEANUP, "true").strip().lower() == "true"


def clean_up_if_due(snapshot: Snapshot) -> None:
    """Clean up the log after a version that gets a checkpoint, unless ``delta.enableExpiredLogCleanup`` is false."""
    if cleans_up_by_itself(snapshot) and is_checkpoint_due(snapshot):
        require_deleted(clean_up_log(snapshot, with_leftovers=False))


def compact_log_if_due(snapshot: Snapshot) -> None:
    """Write a log compaction of the newest commits, if a property says of how many; without it there are none.

    With 5, versions 0 to 4 have one, 5 to 9, and so on. Commits never change, so other writers do not matter.

    Raises
    ------
    InvalidArgumentError
        If the property ``deltaberg.logCompactionInterval`` is not a number of at least 2.
    """
    count = number_of(snapshot.metadata.configuration, COMPACTION_INTERVAL, 0, 2)
    if count and (snapshot.version + 1) % count == 0:
        compact_commits(snapshot.log, snapshot.version + 1 - count, snapshot.version)
