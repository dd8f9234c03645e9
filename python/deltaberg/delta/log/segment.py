"""Which files of the log hold a version: the newest complete checkpoint up to it, and the commits since.

Delta protocol, "Delta Log Entries", "Checkpoints", "Log Compaction Files".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.last_checkpoint import LastCheckpoint
from deltaberg.delta.log.names import commit_name
from deltaberg.errors import CorruptLogError, TableNotFoundError, VersionNotFoundError
from deltaberg.table.open.not_found import table_not_found

__all__ = ["Segment", "build_newer", "build_segment", "check_log_reaches", "entry_not_found"]

#: How often the log is listed again while commits are missing from the middle of a listing that keeps changing.
_MOST_LISTINGS = 10


@dataclass(frozen=True)
class Segment:
    """The files that hold a version.

    Parameters
    ----------
    version
        The version.
    checkpoint
        The file or the parts of the checkpoint; empty where the log alone is read.
    commits
        The log entries after the checkpoint, oldest first. A compaction stands in for the commits that it holds.
    commit
        The log entry of the version itself; None if it was cleaned up.
    """

    version: int
    checkpoint: tuple[LogEntry, ...]
    commits: tuple[LogEntry, ...]
    commit: LogEntry | None = None


def build_segment(log: LogDirectory, version: int | None, damaged: frozenset[str] = frozenset()) -> Segment:
    """Find the files that hold a version.

    Parameters
    ----------
    version
        The version; None means the newest.
    damaged
        The names of checkpoints and compactions that proved to be damaged, and must not be used.

    Raises
    ------
    TableNotFoundError
        If there is no log.
    VersionNotFoundError
        If the log does not hold the version, or holds it no longer.
    CorruptLogError
        If a commit in the middle of the log is missing.
    """
    hint = None if damaged else log.last_checkpoint()
    if hint is not None and (version is None or hint.version <= version):
        listed = _preferring(hint, list(log.entries(hint.version)))
        if any(entry.file.is_checkpoint for entry in listed):
            try:
                return _assemble(listed, version, damaged, None, log)
            except (CorruptLogError, VersionNotFoundError):
                # The pointer is stale, or names a file that is gone: the whole listing decides.
                pass
    listed = list(log.entries())
    for _ in range(_MOST_LISTINGS):
        try:
            return _assemble(listed, version, damaged, None, log)
        except CorruptLogError:
            # A listing is not taken at one moment: it may miss a commit and still show a later one.
            before, listed = listed, list(log.entries())
            if listed == before:
                raise
    return _assemble(listed, version, damaged, None, log)


def build_newer(log: LogDirectory, version: int) -> tuple[LogEntry | None, Segment]:
    """Find the log entry of a version as it is now, and the commits after the version, without any checkpoint.

    Raises
    ------
    TableNotFoundError
        If the log does not exist any more.
    VersionNotFoundError
        If the log ends below the version.
    CorruptLogError
        If a commit in between is missing; a checkpoint may make up for it.
    """
    entries = list(log.entries(version))
    commits = {entry.version: entry for entry in entries if entry.file.kind == "commit"}
    beyond = max((entry.version for entry in entries if entry.file.is_checkpoint), default=None)
    if not commits and beyond is None:
        check_log_reaches(log, version)
    newest = max(commits, default=version)
    if beyond is not None and beyond > newest:
        raise _hole(min(set(range(version + 1, beyond + 1)) - commits.keys()), (beyond,), log)
    rest = [entry for entry in entries if not entry.file.is_checkpoint and entry.file.version > version]
    return commits.get(version), _assemble(rest, None, frozenset(), version + 1, log)


def check_log_reaches(log: LogDirectory, version: int) -> None:
    """Refuse a log that ends below a version that it used to hold.

    Raises
    ------
    TableNotFoundError
        If there is no log any more.
    VersionNotFoundError
        If the log ends below the version.
    """
    listed = [entry.version for entry in log.entries() if entry.file.kind == "commit" or entry.file.is_checkpoint]
    if not listed:
        raise _no_table(log)
    if max(listed) < version:
        raise VersionNotFoundError(
            f"version {version} is open, but the log ends at version {max(listed)}: it was replaced",
            hint="open the table again",
            table=str(log.root),
        )


def entry_not_found(log: LogDirectory, version: int) -> CorruptLogError | VersionNotFoundError:
    """Return the error of a reader that needs the log entry of a version, which is not there.

    The log is corrupt if an earlier version can be read and a later one exists: no clean-up leaves such a hole.
    """
    listed = list(log.entries())
    commits = {entry.version for entry in listed if entry.file.kind == "commit"}
    checkpoints = complete_checkpoints(listed, frozenset())
    is_preceded = 0 in commits or any(number < version for number in checkpoints)
    if is_preceded and version not in commits and version < max([*commits, *checkpoints], default=version):
        return _hole(version, checkpoints, log)
    return VersionNotFoundError(f"the log entry of version {version} is no longer available", table=str(log.root))


def _hole(version: int, checkpoints: Iterable[int], log: LogDirectory) -> CorruptLogError:
    """Return the error of a log that lacks a version between others."""
    after = min((number for number in checkpoints if number >= version), default=None)
    later = "" if after is None else f", or version {after} or a later one"
    return CorruptLogError(
        f"version {version} is missing from the log, which has later ones",
        hint=f"put its file back from a copy of the log, or open version {version - 1}{later}",
        table=str(log.root),
        version=version,
        file=commit_name(version),
    )


def _no_table(log: LogDirectory) -> TableNotFoundError:
    return table_not_found("there is no Delta table", "_delta_log is missing or holds no commit", log.root, log.store)


def _preferring(hint: LastCheckpoint, listed: list[LogEntry]) -> list[LogEntry]:
    """Drop other checkpoints of the same version where the pointer names one that exists."""
    if not any(entry.file.name == hint.file for entry in listed):
        return listed
    return [
        entry
        for entry in listed
        if not entry.file.is_checkpoint or entry.version != hint.version or entry.file.name == hint.file
    ]


def _assemble(
    listed: list[LogEntry], version: int | None, damaged: frozenset[str], first: int | None, log: LogDirectory
) -> Segment:
    commits = {entry.file.version: entry for entry in listed if entry.file.kind == "commit"}
    checkpoints = complete_checkpoints(listed, damaged)
    newest = max([*commits, *checkpoints], default=None)
    if first is not None and newest is None:
        return Segment(first - 1, (), ())
    if newest is None:
        raise _no_table(log)
    target = newest if version is None else version
    usable = [number for number in checkpoints if number <= target]
    base = max(usable, default=None)
    begin = first if first is not None else (0 if base is None else base + 1)
    _check_reach(commits, checkpoints, target, newest, base, begin, log)
    missing = next((number for number in range(begin, target + 1) if number not in commits), None)
    if missing is not None and missing == newest:
        raise VersionNotFoundError(f"the table has no version {target}", table=str(log.root))
    if missing is not None:
        raise _hole(missing, checkpoints, log)
    entries = _commit_entries(listed, commits, begin, target, damaged)
    if target == newest and entries and entries[-1].meta.size == 0:
        # An older empty entry counts as a commit without actions, as it did for the writers of later versions.
        raise CorruptLogError(
            "the newest log entry is empty: it is still being written, or its writer was interrupted",
            hint=f"open version {target - 1}, or delete the file if no writer is active" if target else None,
            table=str(log.root),
            file=entries[-1].file.name,
        )
    return Segment(target, () if base is None else checkpoints[base], entries, commits.get(target))


def _check_reach(
    commits: dict[int, LogEntry],
    checkpoints: dict[int, tuple[LogEntry, ...]],
    target: int,
    newest: int,
    base: int | None,
    begin: int,
    log: LogDirectory,
) -> None:
    """Refuse a version that the log does not hold; the message names the available range."""
    if target < 0 or target > newest:
        raise VersionNotFoundError(
            f"the table has no version {target}", hint=f"the newest version is {newest}", table=str(log.root)
        )
    if base is None and begin == 0 and 0 not in commits:
        oldest = min([*checkpoints, *(number for number in commits if number > target)], default=newest)
        if checkpoints and target < min(checkpoints):
            raise VersionNotFoundError(
                f"version {target} is no longer available: its log entries were cleaned up",
                hint=f"the oldest version that can be read is {min(checkpoints)}",
                table=str(log.root),
            )
        raise CorruptLogError(
            f"version 0 is missing: the log begins at {oldest} without a checkpoint", table=str(log.root)
        )


def _commit_entries(
    listed: list[LogEntry],
    commits: dict[int, LogEntry],
    begin: int,
    target: int,
    damaged: frozenset[str],
) -> tuple[LogEntry, ...]:
    """Return the log entries of a range of versions, with compactions in place of the commits that they hold."""
    compactions = {
        entry.file.version: entry
        for entry in sorted(listed, key=lambda entry: entry.version)
        if entry.file.kind == "compaction" and entry.file.version >= begin and entry.file.end <= target
        if entry.file.name not in damaged
    }
    chosen = []
    number = begin
    while number <= target:
        entry = compactions.get(number, commits[number])
        chosen.append(entry)
        number = entry.version + 1
    return tuple(chosen)
