"""Clean-up of the log by age (Delta protocol, "Metadata Cleanup").

Entries go that are older than a checkpoint which is itself older than the retention. What remains always begins with a
checkpoint that was looked into, so that every later version can still be read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.checkpoint.read import Checkpoint
from deltaberg.delta.features import check_known_writers, supports
from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.names import SIDECAR_DIRECTORY, STAGED_DIRECTORY
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.retention import PROTECTED_BEFORE, kept_versions, log_retention
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CorruptCheckpointError, CorruptLogError, UnsafePathError, in_context
from deltaberg.hints import shown_value
from deltaberg.storage.location import PathResolver
from deltaberg.table.maintain.listed_files import earlier_clock
from deltaberg.table.removal import FileKind, delete_files
from deltaberg.whole_numbers import whole_number

__all__ = ["LogCleanup", "clean_up_log"]

_STAGED = re.compile(r"(\d{20})\..*")
#: What is deleted, by its name below the log.
_LOG_FILE = FileKind(
    "a file of the log",
    re.compile(
        r"\d{20}\.(?:json|crc|\d{20}\.compacted\.json|checkpoint(?:\.[^/]+)?\.(?:json|parquet))"
        rf"|{STAGED_DIRECTORY}/\d{{20}}\.[^/]+|{SIDECAR_DIRECTORY}/[^/]+\.parquet",
        re.ASCII,
    ),
)
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True)
class LogCleanup:
    """The files that a clean-up of the log deleted, or would delete.

    Parameters
    ----------
    first_version
        The first version that the log still holds for sure; None if nothing had to go.
    files
        The names of the files, relative to the log.
    dry_run
        Whether nothing was deleted.
    """

    first_version: int | None = None
    files: tuple[str, ...] = ()
    dry_run: bool = False


def clean_up_log(
    snapshot: Snapshot, *, at: int | None = None, retention: int | None = None, dry_run: bool = False
) -> LogCleanup:
    """Delete log entries, checkpoints, checksums and sidecars that are older than the retention of the log.

    The newest checkpoint that is older than the retention stays, with its own commit and everything after it. Without
    one, nothing is deleted. The retention is the property ``delta.logRetentionDuration``, 30 days by default. Versions
    that the property ``deltaberg.keepVersions`` names stay readable, and with them all later ones.

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

    Raises
    ------
    UnsupportedFeatureError
        If the table needs a writer feature that this library does not know.
    SchemaError
        If the retention is not an interval.
    CorruptLogError
        If the time of a commit is not recorded.
    StorageError
        If the store fails. Some of the files may have been deleted; readers of later versions need none of them.
    """
    log = snapshot.log
    with in_context(table=str(log.root)):
        check_known_writers(snapshot.protocol)
        now = time.time_ns() // 1_000_000 if at is None else at
        kept, names = _expired(snapshot, now, retention)
        if names and at is None:
            # Files have the times of the store, whose clock is only asked where something is to go.
            earlier = earlier_clock(log.storage, log.path)
            kept, names = (kept, names) if now - earlier < _HOUR else _expired(snapshot, earlier, retention)
        live = _live_in_log(snapshot) if names else frozenset()
        if dry_run:
            left = tuple(name for name in names if f"{log.path}/{name}" not in live)
            return LogCleanup(kept if left else None, left, dry_run=True)
        deleted = delete_files(
            log.storage,
            log.path,
            (f"{log.path}/{name}" for name in names),
            _LOG_FILE,
            f"it is older than the retention of the log, and version {kept} has a checkpoint",
            why_kept=lambda path: f"{path} is a data file" if path in live else None,
        ).or_raise()
    return LogCleanup(kept if deleted else None, tuple(path[len(log.path) + 1 :] for path in deleted))


def _expired(snapshot: Snapshot, now: int, retention: int | None) -> tuple[int | None, list[str]]:
    """Return the version with whose checkpoint the log is to begin, and the names of the files that go then."""
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
    names = [*_expired_entries(listed, kept), *_expired_staged(log, kept), *_expired_sidecars(log, listed, kept, now)]
    return kept, names


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


def _expired_entries(listed: Sequence[LogEntry], kept: int) -> list[str]:
    """Return the names of all entries before the checkpoint that is kept, oldest first."""
    return [
        entry.file.name
        for entry in sorted(listed, key=lambda entry: entry.file.version)
        if entry.file.version < kept or (entry.file.kind == "compaction" and entry.file.version == kept)
    ]


def _expired_staged(log: LogDirectory, kept: int) -> list[str]:
    """Return the commits before the checkpoint that were staged for a catalog to ratify."""
    names = [meta.path.rpartition("/")[2] for meta in log.storage.list_from(f"{log.path}/{STAGED_DIRECTORY}")]
    found = [(_STAGED.fullmatch(name), name) for name in names]
    return [f"{STAGED_DIRECTORY}/{name}" for match, name in found if match is not None and int(match[1]) < kept]


def _expired_sidecars(log: LogDirectory, listed: Sequence[LogEntry], kept: int, now: int) -> list[str]:
    """Return the sidecars that no remaining checkpoint names, and that are too old to belong to one in the making."""
    folder = f"{log.path}/{SIDECAR_DIRECTORY}"
    before = now // _DAY * _DAY - _DAY
    old = [meta.path.rpartition("/")[2] for meta in log.storage.list_from(folder) if meta.modified <= before]
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
    return [f"{SIDECAR_DIRECTORY}/{name}" for name in old if name not in named]
