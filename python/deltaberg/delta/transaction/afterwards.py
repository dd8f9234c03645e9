"""Work after a commit: the version checksum is carried on; now and then a checkpoint, a compaction and a clean-up.

The commit stands, whatever fails here. A chain of checksums is begun by engines that count all files anyway. Each of
our own costs a write for every commit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from deltaberg.delta.after_commit.steps import checkpoint_if_due, clean_up_if_due, compact_log_if_due
from deltaberg.delta.after_commit.symlink_manifests import update_manifests
from deltaberg.delta.log.version_checksum import VersionChecksum, write_version_checksum
from deltaberg.delta.snapshot.history import commit_info
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.entry import Changes

__all__ = ["finish_commit", "next_checksum"]


def finish_commit(before: Snapshot | None, changes: Changes, after: Snapshot, *, follows_checksum: bool) -> list[str]:
    """Do what follows a commit, and return a sentence for each part that failed.

    Parameters
    ----------
    before
        The version before the commit; None if it created the table.
    after
        The version that it made.
    follows_checksum
        Whether the version before has a version checksum, so that the next version gets one as well.
    """
    steps: dict[str, Callable[[], object]] = {}
    if before is not None and follows_checksum:
        steps["the version checksum was not written"] = partial(_write_checksum, before, changes, after)
    steps["the checkpoint was not written"] = partial(checkpoint_if_due, after)
    steps["the log was not compacted"] = partial(compact_log_if_due, after)
    steps["the log was not cleaned up"] = partial(clean_up_if_due, after)
    steps["the manifests of symlinks were not written"] = partial(update_manifests, after, _changed_files(changes))
    warnings = []
    for name, step in steps.items():
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the commit is done, and must not look as if it had failed
            warnings.append(f"{name}: {error}")
    return warnings


def _changed_files(changes: Changes) -> list[str] | None:
    if changes.metadata is not None:
        return None
    return [*(file.text for file in changes.adds.values()), *(file.text for file in changes.removes.values())]


def _write_checksum(before: Snapshot, changes: Changes, after: Snapshot) -> None:
    # What another engine has written is no proof: a wrong number would be carried on for ever. The live files are, and
    # where a checkpoint would have to be read for them, the chain ends rather than that an append takes longer.
    known = before.proven_checksum or (before.checksum if before.is_live_known else None)
    after.proven_checksum = next_checksum(known, changes)
    if after.proven_checksum is not None:
        time = commit_info(after.commit_bytes()).get("inCommitTimestamp")
        write_version_checksum(after.log, after.version, after.proven_checksum, after.protocol, after.metadata, time)


def next_checksum(before: VersionChecksum | None, changes: Changes) -> VersionChecksum | None:
    """Return what the checksum of a version states after a commit of our own; None where that is not proven.

    A file that was written for the commit is a new one, and one that it removes was live: conflict rules see to that.
    Other files that it adds must be ones that it removes, too, or they might be live already.

    Examples
    --------
    >>> next_checksum(VersionChecksum(table_size_bytes=10, num_files=1), Changes()).to_json()
    {'tableSizeBytes': 10, 'numFiles': 1, 'numMetadata': 1, 'numProtocol': 1}
    """
    if before is None or before.num_files is None or before.table_size_bytes is None:
        return None
    adds, removes = changes.adds, changes.removes
    if not all(file.is_new or path in removes for path, file in adds.items()):
        return None
    has_vectors = any(file.vector is not None for files in (adds, removes) for file in files.values())
    added, removed = (sum(file.size for file in files.values()) for files in (adds, removes))
    return VersionChecksum(
        before.table_size_bytes + added - removed,
        before.num_files + len(adds) - len(removes),
        1,
        1,
        None if has_vectors else before.num_deleted_records,
        None if has_vectors else before.num_deletion_vectors,
    )
