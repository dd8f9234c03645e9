"""Adding an entry to the log: the put, and what became of it (Delta protocol, "Delta Log Entries").

A writer lists first, and puts the version after the newest one. A put into a hole that clean-up left would succeed on
a version that nobody reads.
"""

from __future__ import annotations

from typing import NamedTuple

from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.names import commit_name
from deltaberg.delta.log.segment import build_segment, check_log_reaches
from deltaberg.errors import CommitConflictError, CorruptLogError, ObjectNotFoundError, UnsupportedFeatureError
from deltaberg.storage.base import PutResult
from deltaberg.table.commit.commit import Fate

__all__ = ["Newer", "check_conditional_put", "cleaned_up", "list_newer_commits", "look_for_entry", "put_entry"]

#: How often the log is listed again while commits are missing from the middle of a listing that keeps changing.
_MOST_LISTINGS = 10


def check_conditional_put(log: LogDirectory) -> None:
    """Refuse a store in which two writers would overwrite one another.

    Raises
    ------
    UnsupportedFeatureError
        The store ignores the condition of a put.
    StorageError
        The store gives no answer that settles it.
    """
    if not log.storage.probe_conditional_put(log.path):
        raise UnsupportedFeatureError(
            "the store overwrites objects that must not be overwritten, so that two writers would lose commits",
            hint="pass ⟪unsafe_single_writer=True⟫ if surely nobody else writes to the table",
            table=str(log.root),
        )


class Newer(NamedTuple):
    """The entries of the log from a version on.

    Parameters
    ----------
    known
        The log entry of the version itself; None if it was cleaned up.
    commits
        The log entries of all commits after it, oldest first.
    checksums
        The versions that have a version checksum.
    """

    known: LogEntry | None
    commits: list[LogEntry]
    checksums: frozenset[int]


def list_newer_commits(log: LogDirectory, version: int) -> Newer:
    """Return the entries of the log from a version on.

    Compactions and checkpoints do not stand in for commits: a writer has to know what each of them did.

    Raises
    ------
    CommitConflictError
        Commits in between were cleaned up.
    CorruptLogError
        The newest entry is empty, or a commit is missing that no checkpoint makes up for.
    TableNotFoundError, VersionNotFoundError
        The log does not exist any more, or ends below the version.
    """
    listed = list(log.entries(version))
    for _ in range(_MOST_LISTINGS):
        if not _missing(listed, version):
            break
        # A listing is not taken at one moment: it may miss a commit and still show a later one.
        before, listed = listed, list(log.entries(version))
        if listed == before:
            break
    if _missing(listed, version):
        build_segment(log, None)
        raise cleaned_up(log, version)
    commits = {entry.version: entry for entry in listed if entry.file.kind == "commit"}
    if commits and version not in commits and not any(entry.file.is_checkpoint for entry in listed):
        # Clean-up leaves a checkpoint. This is what a writer has put into the log of a table that was dropped.
        build_segment(log, None)
        raise cleaned_up(log, version)
    if not any(entry.file.kind == "commit" or entry.file.is_checkpoint for entry in listed):
        check_log_reaches(log, version)
    newer = [commits[number] for number in sorted(commits) if number > version]
    if newer and newer[-1].meta.size == 0:
        raise CorruptLogError(
            "the newest log entry is empty: it is still being written, or its writer was interrupted",
            hint="delete the file if no writer is active",
            table=str(log.root),
            file=newer[-1].file.name,
        )
    checksums = frozenset(entry.version for entry in listed if entry.file.kind == "checksum")
    return Newer(commits.get(version), newer, checksums)


def cleaned_up(log: LogDirectory, version: int) -> CommitConflictError:
    """Return the error of a writer that cannot know all commits since the version that it has read."""
    return CommitConflictError(
        f"version {version} was read, but log entries of later versions were cleaned up meanwhile",
        hint="open the table again, and repeat the operation",
        table=str(log.root),
    )


def _missing(listed: list[LogEntry], version: int) -> list[int]:
    """Return the versions after a version that should be among the commits, and are not."""
    commits = {entry.version for entry in listed if entry.file.kind == "commit"}
    checkpoints = {entry.version for entry in listed if entry.file.is_checkpoint}
    newest = max(commits | checkpoints, default=version)
    return [number for number in range(version + 1, newest + 1) if number not in commits]


def put_entry(log: LogDirectory, version: int, data: bytes) -> PutResult:
    """Put the entry of a new version, unless there is one."""
    return log.storage.put(f"{log.path}/{commit_name(version)}", data, if_absent=True)


def look_for_entry(log: LogDirectory, version: int, data: bytes) -> Fate:
    """Return the outcome of an entry that was sent, by reading the version back."""
    try:
        entry_bytes = log.storage.get(f"{log.path}/{commit_name(version)}")
    except ObjectNotFoundError:
        later = any(
            (entry.file.kind == "commit" and entry.version > version)
            or (entry.file.is_checkpoint and entry.version >= version)
            for entry in log.entries(version)
        )
        return Fate.HIDDEN if later else Fate.ABSENT
    return Fate.OURS if entry_bytes == data else Fate.LOST
