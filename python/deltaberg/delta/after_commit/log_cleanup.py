"""Clean-up of the log by age (Delta protocol, "Metadata Cleanup").

Entries go that are older than a checkpoint which is itself older than the retention. What remains always begins with a
checkpoint that was looked into, so that every later version can still be read. Temporary files of writers that were
killed go by their age alone.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.checkpoint.read import Checkpoint
from deltaberg.delta.features import check_known_writers, supports
from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.names import LOG_DIRECTORY, SIDECAR_DIRECTORY, STAGED_DIRECTORY
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.retention import PROTECTED_BEFORE, kept_versions, log_retention
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CorruptCheckpointError, CorruptLogError, StorageError, UnsafePathError, in_context
from deltaberg.hints import shown_value
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import PathResolver
from deltaberg.table.maintain.cleanup import CLEANED_FILES, STRAY, CleanupProgress, CleanupResult, OnProgress
from deltaberg.table.maintain.listed_files import earlier_clock, list_files
from deltaberg.table.removal import FileKind, delete_files
from deltaberg.whole_numbers import counted, whole_number

__all__ = ["LOG_FILE", "LogCleanup", "clean_up_log", "require_deleted"]

_STAGED = re.compile(r"(\d{20})\..*")
_TEMPORARY = r"[^/]+\.tmp(?:\.crc)?"
#: What is deleted, by its name below the log.
LOG_FILE = FileKind(
    "a file of the log",
    re.compile(
        r"\d{20}\.(?:json|crc|\d{20}\.compacted\.json|checkpoint(?:\.[^/]+)?\.(?:json|parquet))"
        rf"|{STAGED_DIRECTORY}/\d{{20}}\.[^/]+|{SIDECAR_DIRECTORY}/[^/]+\.parquet"
        # Delta-spark, Hadoop and deltalake end the names of files alike that they are yet to rename, as this library.
        rf"|(?:(?:{STAGED_DIRECTORY}|{SIDECAR_DIRECTORY})/)?{_TEMPORARY}",
        re.ASCII,
    ),
)
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000


_LIVE = "a data file of the table"
_LEFT = "a writer that was interrupted left it"
_UNNAMED = "no checkpoint that stays names it"


@dataclass(frozen=True, repr=False)
class LogCleanup(CleanupResult):
    """The result of a clean-up of the log, or of its dry run: a `CleanupResult` with the version that comes first then.

    Parameters
    ----------
    first_version
        The first version that the log still holds for sure; None if no entry goes.
    """

    first_version: int | None = None

    def __repr__(self) -> str:
        return f"LogCleanup({self._counts})"


class _Old(NamedTuple):
    """A file that is to go, and why."""

    meta: ObjectMeta
    reason: str


def clean_up_log(
    snapshot: Snapshot,
    *,
    at: int | None = None,
    retention: int | None = None,
    dry_run: bool = False,
    with_leftovers: bool = True,
    progress: OnProgress | None = None,
) -> LogCleanup:
    """Delete log entries, checkpoints, checksums and sidecars that are older than the retention of the log.

    The newest checkpoint that is older than the retention stays, with its own commit and everything after it. Without
    one, only temporary files go, and sidecars stay. The retention is the property ``delta.logRetentionDuration``, 30
    days by default. Versions that the property ``deltaberg.keepVersions`` names stay readable, and with them all later
    ones.

    Parameters
    ----------
    snapshot
        The newest version.
    at
        The time of the clean-up in milliseconds since 1970; by default now, by the earlier of two clocks: this
        machine's and the store's.
    retention
        How long entries are kept, in milliseconds, to the minute; by default as the property says, to the day.
    dry_run
        Return the files that would be deleted.
    with_leftovers
        Look for temporary files also where no entry is to go.
    progress
        What is told how far it has come.

    Raises
    ------
    UnsupportedFeatureError
        If the table needs a writer feature that this library does not know.
    SchemaError
        If the retention is not an interval.
    CorruptLogError
        If the time of a commit is not recorded.
    StorageError
        If the store cannot be listed or read.
    """
    begun, log = time.monotonic(), snapshot.log
    with in_context(table=str(log.root)):
        check_known_writers(snapshot.protocol)
        now = time.time_ns() // 1_000_000 if at is None else at
        kept, old = _expired(snapshot, now, retention)
        if old and at is None:
            # Files have the times of the store, whose clock is only asked where something is to go.
            earlier = earlier_clock(log.storage, log.path)
            kept, old = (kept, old) if now - earlier < _HOUR else _expired(snapshot, earlier, retention)
        first = kept if old else None
        if old or with_leftovers:
            old += _left_behind(log, now)
        live = _live_in_log(snapshot) if old else frozenset()
        staying = Counter({_LIVE: sum(one.meta.path in live for one in old)})
        unneeded = {one.meta.path: one for one in old if one.meta.path not in live}
        gone = list[str]()

        def note(path: str | None = None) -> None:
            if path is not None:
                gone.append(path)
            if progress is not None:
                progress(CleanupProgress(len(old), len(unneeded), len(gone)))

        note()
        failed: dict[str, StorageError] = {}
        if dry_run:
            gone.extend(unneeded)
        elif unneeded:
            reasons = {path: one.reason for path, one in unneeded.items()}
            removal = delete_files(log.storage, log.path, unneeded, LOG_FILE, reasons, deleted=note)
            staying[STRAY] += len(removal.kept)
            failed = removal.failed
        cut = len(log.path) - len(LOG_DIRECTORY)
        begins_later = any(path.rpartition("/")[0] == log.path and unneeded[path].reason != _LEFT for path in gone)
        return LogCleanup(
            dry_run,
            _as_cleaned([unneeded[path] for path in gone], cut),
            {path[cut:]: error.message for path, error in failed.items()},
            {reason: count for reason, count in staying.items() if count},
            time.monotonic() - begun,
            (),
            first if begins_later else None,
        )


def require_deleted(done: LogCleanup) -> None:
    """Raise an exception where a file of the log could not be deleted.

    Raises
    ------
    StorageError
        The first of the reasons; others may have been deleted.
    """
    for path, reason in done.failed.items():
        raise StorageError(f"{counted(len(done.failed), 'file')} of the log could not be deleted: {reason}", file=path)


def _as_cleaned(files: Sequence[_Old], cut: int) -> pa.Table:
    rows = [(one.meta.path[cut:], "log", one.meta.size, one.meta.modified, one.reason) for one in files]
    columns = list(zip(*rows, strict=True)) or [()] * len(CLEANED_FILES)
    return pa.table(
        [pa.array(some, field.type) for some, field in zip(columns, CLEANED_FILES, strict=True)], CLEANED_FILES
    )


def _expired(snapshot: Snapshot, now: int, retention: int | None) -> tuple[int | None, list[_Old]]:
    """Return the version with whose checkpoint the log is to begin, and the files that go then."""
    log, properties = snapshot.log, snapshot.metadata.configuration
    kept_for, whole = (log_retention(properties), _DAY) if retention is None else (retention, _MINUTE)
    cutoff = (now - kept_for) // whole * whole
    if not _may_be_old(log, cutoff):
        return None, []
    newest_old = CommitTimes(log, snapshot).last_certainly_before(cutoff)
    if newest_old is None:
        return None, []
    listed = list(log.entries())
    needed = min(kept_versions(properties), default=newest_old)
    kept = _sound_checkpoint(log, listed, min(newest_old, needed))
    if kept is None or kept < _first_unprotected(snapshot):
        return None, []
    reason = f"it is older than the retention of the log, and version {kept} has a checkpoint"
    old = [_Old(meta, reason) for meta in (*_expired_entries(listed, kept), *_expired_staged(log, kept))]
    return kept, [*old, *(_Old(meta, _UNNAMED) for meta in _expired_sidecars(log, listed, kept, now))]


def _left_behind(log: LogDirectory, now: int) -> list[_Old]:
    """Return the temporary files that are too old to belong to a writer who is at work."""
    paths = list_files(log.storage, log.path, lambda paths: pc.match_substring_regex(paths, rf"(?:^|/){_TEMPORARY}$"))
    temporary = [
        ObjectMeta(f"{log.path}/{row['path']}", row["bytes"], row["modified"])
        for some in paths
        for row in some.to_pylist()
    ]
    before = _day_before(min(now, earlier_clock(log.storage, log.path))) if temporary else now
    return [
        _Old(meta, _LEFT)
        for meta in temporary
        if meta.modified <= before and LOG_FILE.names.fullmatch(meta.path[len(log.path) + 1 :])
    ]


def _day_before(now: int) -> int:
    """Return the midnight a day or more before a time: nobody writes one file for so long."""
    return now // _DAY * _DAY - _DAY


def _live_in_log(snapshot: Snapshot) -> frozenset[str]:
    """Return the paths of the data files that the table keeps in its log: any path may be recorded for one."""
    log = snapshot.log
    resolver, recorded = PathResolver(log.root), snapshot.live.table.column("path")
    try:
        located = resolver.locate(recorded)
    except UnsafePathError:
        # Files in another store are not in the log.
        located = pa.chunked_array([[_text_of(resolver, path) for path in recorded.to_pylist()]], pa.string())
    prefix = str(log.root._replace(path=f"{log.path}/"))
    inside = located.filter(pc.starts_with(located, prefix)).to_pylist()
    return frozenset(f"{log.path}/{text[len(prefix) :]}" for text in inside)


def _text_of(resolver: PathResolver, recorded: str) -> str | None:
    try:
        return str(resolver.resolve(recorded))
    except UnsafePathError:
        return None


def _may_be_old(log: LogDirectory, cutoff: int) -> bool:
    """Return whether the log may hold a commit from a time or before it, by its first entry.

    Times of files only rise from version to version.
    """
    first = next((entry for entry in log.entries() if entry.file.kind == "commit"), None)
    return first is None or first.meta.modified <= cutoff


def _sound_checkpoint(log: LogDirectory, listed: Sequence[LogEntry], last: int) -> int | None:
    """Return the version of the newest checkpoint up to a version that is not seen to be damaged, if there is one."""
    damaged: frozenset[str] = frozenset()
    while True:
        whole = {number: entries for number, entries in complete_checkpoints(listed, damaged).items() if number <= last}
        if not whole:
            return None
        version = max(whole)
        try:
            checkpoint = Checkpoint(log, whole[version])
            checkpoint.check()
            if all(part.has_add_column("path") for part in checkpoint.file_parts):
                return version
        except CorruptCheckpointError:
            pass
        damaged |= {entry.file.name for entry in whole[version]}


def _first_unprotected(snapshot: Snapshot) -> int:
    """Return the version up to which checkpoints must go all at once, or not at all; 0 if none is protected."""
    if not supports(snapshot.protocol, "checkpointProtection"):
        return 0
    text = snapshot.metadata.configuration.get(PROTECTED_BEFORE, "0").strip()
    version = whole_number(text, 0)
    if version is None:
        raise CorruptLogError(f"the property {PROTECTED_BEFORE} is {shown_value(text)}, which is not a version")
    return version


def _expired_entries(listed: Sequence[LogEntry], kept: int) -> list[ObjectMeta]:
    """Return all entries before the checkpoint that is kept, oldest first."""
    return [
        entry.meta
        for entry in sorted(listed, key=lambda entry: entry.file.version)
        if entry.file.version < kept or (entry.file.kind == "compaction" and entry.file.version == kept)
    ]


def _expired_staged(log: LogDirectory, kept: int) -> list[ObjectMeta]:
    """Return the commits before the checkpoint that were staged for a catalog to ratify."""
    listed = log.storage.list_from(f"{log.path}/{STAGED_DIRECTORY}")
    found = [(_STAGED.fullmatch(_name_of(meta)), meta) for meta in listed]
    return [meta for match, meta in found if match is not None and int(match[1]) < kept]


def _expired_sidecars(log: LogDirectory, listed: Sequence[LogEntry], kept: int, now: int) -> list[ObjectMeta]:
    """Return the sidecars that no remaining checkpoint names, and that are too old to belong to one in the making."""
    # A caller may pass a later time, which makes no file of a writer older.
    before = _day_before(min(now, time.time_ns() // 1_000_000))
    old = [meta for meta in log.storage.list_from(f"{log.path}/{SIDECAR_DIRECTORY}") if meta.modified <= before]
    if not old:
        return []
    try:
        # A checkpoint may spell the folder in another way than the listing, such as through a link.
        named = {
            part.path.rpartition("/")[2]
            for entry in listed
            if entry.file.kind in ("classic", "uuid") and entry.version >= kept
            for part in Checkpoint(log, (entry,)).file_parts
        }
    except CorruptCheckpointError:
        # Nobody knows which sidecars the damaged checkpoint needs.
        return []
    return [meta for meta in old if _name_of(meta) not in named and meta.path.endswith(".parquet")]


def _name_of(meta: ObjectMeta) -> str:
    return meta.path.rpartition("/")[2]
