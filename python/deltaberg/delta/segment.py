"""Which files of the log make a version: the newest complete checkpoint at or below it, and the commits since.

Delta protocol, "Delta Log Entries", "Checkpoints", "Log Compaction Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deltaberg.delta.last_checkpoint import LastCheckpoint, read_last_checkpoint
from deltaberg.delta.names import LAST_CHECKPOINT, LOG_DIRECTORY, LogFile, classify
from deltaberg.errors import CorruptLogError, ObjectNotFoundError, TableNotFoundError, VersionNotFoundError
from deltaberg.storage import Location, ObjectMeta, Storage, StoreSpec

__all__ = [
    "CheckpointInfo",
    "LogDirectory",
    "LogEntry",
    "Segment",
    "build_newer",
    "build_segment",
    "complete_checkpoints",
]

#: How often a log that goes on is listed again while commits in between are missing.
_MOST_LISTINGS = 10


@dataclass(frozen=True)
class LogEntry:
    """A file of the log: what it is, and where."""

    file: LogFile
    meta: ObjectMeta

    @property
    def version(self) -> int:
        """The version, of a compaction the last one in it."""
        return self.file.end if self.file.kind == "compaction" else self.file.version


@dataclass(frozen=True)
class CheckpointInfo:
    """The checkpoint that a snapshot stands on.

    Parameters
    ----------
    version
        The version that it holds.
    kind
        Its form: ``classic``, ``multipart`` or ``uuid``.
    files
        The names of its files in the log, without sidecars.
    size
        Bytes of these files.
    """

    version: int
    kind: str
    files: tuple[str, ...]
    size: int

    @classmethod
    def of(cls, entries: tuple[LogEntry, ...]) -> CheckpointInfo | None:
        """Describe the files of a checkpoint; None where there are none."""
        if not entries:
            return None
        names = tuple(entry.file.name for entry in entries)
        return cls(entries[0].version, entries[0].file.kind, names, sum(entry.meta.size for entry in entries))


@dataclass(frozen=True)
class Segment:
    """The files that make a version.

    ``checkpoint`` holds the file or the parts of a checkpoint, or nothing; ``commits`` what came after it, oldest
    first, compactions in place of the commits that they hold; ``commit`` the log entry of the version itself, where
    it was not cleaned up.
    """

    version: int
    checkpoint: tuple[LogEntry, ...]
    commits: tuple[LogEntry, ...]
    commit: LogEntry | None = None


class LogDirectory:
    """The ``_delta_log`` of a table. It pickles."""

    def __init__(self, root: Location, store: StoreSpec) -> None:
        self.root = root
        self._store = store
        self.path = root.join(LOG_DIRECTORY).path

    @property
    def storage(self) -> Storage:
        """The store that it lies in."""
        return self._store.open(self.root)

    def read(self, entry: LogEntry) -> bytes:
        """Read a file of the log."""
        return self.storage.get(entry.meta.path)

    def entries(self, first: int = 0) -> Iterator[LogEntry]:
        """List the files from a version on, in the order of their names; others are passed over."""
        for meta in self.storage.list_from(self.path, f"{first:020d}." if first else ""):
            file = classify(meta.path.rpartition("/")[2])
            if file is not None:
                yield LogEntry(file, meta)

    def hint(self) -> LastCheckpoint | None:
        """Give what ``_last_checkpoint`` says; None where it cannot be trusted."""
        try:
            data = self.storage.get(f"{self.path}/{LAST_CHECKPOINT}")
        except ObjectNotFoundError:
            return None
        return read_last_checkpoint(data)


def build_segment(log: LogDirectory, version: int | None, damaged: frozenset[str] = frozenset()) -> Segment:
    """Find the files of a version.

    Parameters
    ----------
    version
        The wanted version; None for the newest.
    damaged
        Names of checkpoints and compactions that have proven to be damaged, and must not be used.

    Raises
    ------
    TableNotFoundError
        Where there is no log.
    VersionNotFoundError
        Where the log does not reach, or no longer reaches, the version.
    CorruptLogError
        Where a version in between is missing.
    """
    hint = None if damaged else log.hint()
    if hint is not None and (version is None or hint.version <= version):
        listed = _preferring(hint, list(log.entries(hint.version)))
        if any(entry.file.is_checkpoint for entry in listed):
            try:
                return _assemble(listed, version, damaged, None, log)
            except (CorruptLogError, VersionNotFoundError):
                # A stale or dangling pointer; the whole listing decides.
                pass
    listed = list(log.entries())
    for _ in range(_MOST_LISTINGS):
        try:
            return _assemble(listed, version, damaged, None, log)
        except CorruptLogError:
            # No store lists all at one moment: a commit may be missed that came meanwhile, and a later one be seen.
            before, listed = listed, list(log.entries())
            if listed == before:
                raise
    return _assemble(listed, version, damaged, None, log)


def build_newer(log: LogDirectory, version: int) -> tuple[LogEntry | None, Segment]:
    """Find the commits after a version, without a checkpoint, and the log entry of the version itself as it is now.

    Raises
    ------
    TableNotFoundError
        Where there is no log any more.
    VersionNotFoundError
        Where the log ends below the version.
    CorruptLogError
        Where a version in between is missing; a checkpoint may lead past it.
    """
    entries = list(log.entries(version))
    commits = {entry.version: entry for entry in entries if entry.file.kind == "commit"}
    beyond = max((entry.version for entry in entries if entry.file.is_checkpoint), default=None)
    if not commits and beyond is None:
        _check_log_reaches(log, version)
    newest = max(commits, default=version)
    if beyond is not None and beyond > newest:
        raise CorruptLogError(f"version {beyond} is missing", table=str(log.root), version=beyond)
    rest = [entry for entry in entries if not entry.file.is_checkpoint and entry.file.version > version]
    return commits.get(version), _assemble(rest, None, frozenset(), version + 1, log)


def _check_log_reaches(log: LogDirectory, version: int) -> None:
    """Refuse a log that ends below a version which it held."""
    listed = [entry.version for entry in log.entries() if entry.file.kind == "commit" or entry.file.is_checkpoint]
    if not listed:
        raise _no_table(log)
    if max(listed) < version:
        raise VersionNotFoundError(
            f"version {version} is open, and the log ends at version {max(listed)}: it was written anew",
            hint="open the table again",
            table=str(log.root),
        )


def _no_table(log: LogDirectory) -> TableNotFoundError:
    return TableNotFoundError("there is no Delta table: _delta_log is missing or holds no commit", table=str(log.root))


def _preferring(hint: LastCheckpoint, listed: list[LogEntry]) -> list[LogEntry]:
    """Leave other checkpoints of the same version out where the pointer names one that is there."""
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
    entries = _commit_entries(listed, commits, begin, target, damaged, log)
    if target == newest and entries and entries[-1].meta.size == 0:
        # Those who wrote later versions took an older one for a commit of no actions.
        raise CorruptLogError(
            "the newest log entry is empty: it is still being written, or its writer was cut off",
            hint=f"open version {target - 1}, or delete the file if nobody writes it" if target else None,
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
    """Refuse a version that the log does not hold, with the range that it does hold."""
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
    log: LogDirectory,
) -> tuple[LogEntry, ...]:
    """Give the commits of a range, compactions in place of those that they hold."""
    for number in range(begin, target + 1):
        if number not in commits:
            later = any(known > number for known in commits)
            if number == target and not later:
                raise VersionNotFoundError(f"the table has no version {target}", table=str(log.root))
            raise CorruptLogError(f"version {number} is missing", table=str(log.root), version=number)
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


def complete_checkpoints(
    listed: Iterable[LogEntry], damaged: frozenset[str] = frozenset()
) -> dict[int, tuple[LogEntry, ...]]:
    """Give one complete checkpoint for each version that has any."""
    found: dict[int, tuple[LogEntry, ...]] = {}
    parts: dict[tuple[int, int], dict[int, LogEntry]] = {}
    for entry in listed:
        file = entry.file
        if not file.is_checkpoint or file.name in damaged:
            continue
        if file.kind == "multipart":
            pieces = parts.setdefault((file.version, file.parts), {})
            pieces[file.part] = entry
            if len(pieces) == file.parts:
                found.setdefault(file.version, tuple(pieces[number] for number in sorted(pieces)))
        elif file.version not in found or file.kind == "classic":
            found[file.version] = (entry,)
    return found
