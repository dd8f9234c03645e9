"""When versions were committed, and by which operation (Delta protocol, "Commit Provenance Information").

The time of a commit is the modification time of its log file, adjusted so that every version is younger than the one
before. If in-commit timestamps are enabled, it is the time that the commit itself records.
"""

from __future__ import annotations

import bisect
import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaberg.delta.actions.log_action import find_actions
from deltaberg.delta.log.checkpoint_files import complete_checkpoints
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.segment import entry_not_found
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CorruptLogError, ObjectNotFoundError, VersionNotFoundError
from deltaberg.expressions.time.instants import format_instant

__all__ = [
    "IN_COMMIT_TIMESTAMPS",
    "SINCE_TIMESTAMP",
    "SINCE_VERSION",
    "Commit",
    "CommitTimes",
    "commit_info",
    "open_snapshot",
    "snapshot_at",
]

#: The property that enables in-commit timestamps, and those that say since when they are enabled.
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
SINCE_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
#: The end of the year 9999, in milliseconds since 1970: Python knows no later time.
_LAST_MOMENT = 253_402_300_799_999


@dataclass(frozen=True)
class Commit:
    """A commit of a table.

    Parameters
    ----------
    version
        The version that it made.
    timestamp
        When it was committed.
    info
        Its ``commitInfo`` action, which may hold anything; empty where there is none.
    """

    version: int
    timestamp: dt.datetime
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operation(self) -> str | None:
        """The operation, such as ``WRITE``; None if the commit names none."""
        name = self.info.get("operation")
        return name if isinstance(name, str) else None


def commit_info(data: bytes) -> dict[str, Any]:
    """Return the ``commitInfo`` action of a log entry; empty where there is none."""
    return next((info for _, _, info in find_actions(data, "commitInfo") if isinstance(info, dict)), {})


class CommitTimes:
    """The times of a table's commits, up to a version.

    Parameters
    ----------
    log
        The log.
    newest
        The version.
    first
        The first version of interest. The log is listed from there on.
    and_later
        Whether commits after the version are listed as well.
    """

    def __init__(self, log: LogDirectory, newest: Snapshot, first: int = 0, *, and_later: bool = False) -> None:
        self._log = log
        self._newest = newest
        self._entries = {
            entry.file.version: entry
            for entry in log.entries(first)
            if entry.file.kind == "commit" and (and_later or entry.file.version <= newest.version)
        }
        self._file_times = _monotonic(self._entries)
        self._recorded: dict[int, int] = {}
        #: A commit that was read before, and the bytes of its log entry.
        self._kept: tuple[int, bytes] | None = None

    def keep(self, version: int, data: bytes) -> None:
        """Keep the log entry of a version that was read, in place of another one, so that it is not read again."""
        self._kept = (version, data)

    def knows(self, version: int) -> bool:
        """Return whether the log held a commit when it was listed."""
        return version in self._entries

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        """Return the commits, newest first, at most ``limit`` of them.

        Raises
        ------
        CorruptLogError
            If a commit is missing between others.
        """
        following = self._newest.version + 1
        for count, version in enumerate(sorted(self._entries, reverse=True)):
            if limit is not None and count >= limit:
                return
            if version + 1 < following:
                missing = entry_not_found(self._log, following - 1)
                if isinstance(missing, CorruptLogError):
                    raise missing
            following = version
            try:
                info = self._info(version)
            except VersionNotFoundError:
                continue  # It was cleaned up after the log was listed.
            yield Commit(version, _EPOCH + dt.timedelta(milliseconds=self.time_of(version)), info)

    def versions(self, first: int) -> list[int]:
        """Return the versions from one on whose commits the log holds."""
        return sorted(version for version in self._entries if version >= first)

    def time_of(self, version: int) -> int:
        """Return when a version was committed, in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            If the log does not hold the commit any more.
        CorruptLogError
            If the commit is missing between others.
        """
        if version not in self._entries:
            raise entry_not_found(self._log, version)
        since = self._recorded_since
        if since is not None and version >= since:
            return self._recorded_time(version)
        return self._file_times[version]

    def read(self, version: int) -> bytes:
        """Read the log entry of a version.

        Raises
        ------
        VersionNotFoundError
            If the log does not hold it any more.
        CorruptLogError
            If it is missing between others.
        """
        if self._kept is not None and self._kept[0] == version:
            return self._kept[1]
        entry = self._entries.get(version)
        try:
            if entry is not None:
                return self._log.read(entry)
        except ObjectNotFoundError:
            pass
        raise entry_not_found(self._log, version)

    def first_after(self, instant: int) -> int:
        """Return the first version committed not before an instant in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            If the instant is after the last commit.
        """
        versions = sorted(self._entries)
        before = self._count_until(versions, instant, bisect.bisect_left)
        if before == len(versions):
            when = format_instant(instant)
            raise VersionNotFoundError(f"{when} is after the last commit", table=str(self._log.root))
        return versions[before]

    def last_before(self, instant: int) -> int:
        """Return the last version committed not after an instant in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            If the instant is before the first commit.
        """
        versions = sorted(self._entries)
        count = self._count_until(versions, instant)
        if not count:
            when = format_instant(instant)
            raise VersionNotFoundError(f"{when} is before the first commit", table=str(self._log.root))
        return versions[count - 1]

    def last_certainly_before(self, instant: int) -> int | None:
        """Return the last version that is not younger than an instant by both of its times; None if there is none.

        One is the time that the commit records, if it does, and the other that of its log entry. The clock of a writer
        may have been behind, and so may that of the store: what is deleted by its age has to be old by both.
        """
        stored = max((version for version, time in self._file_times.items() if time <= instant), default=None)
        try:
            return None if stored is None else min(stored, self.last_before(instant))
        except VersionNotFoundError:
            return None

    def version_at(self, instant: int) -> int:
        """Return the newest version committed not later than an instant in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            If the instant is before the first commit that can be read, or after the last.
        """
        versions = self._reachable()
        if not versions:
            raise VersionNotFoundError("the log holds no commit", table=str(self._log.root))
        count = self._count_until(versions, instant)
        first, last = self.time_of(versions[0]), self.time_of(versions[-1])
        if not count or (count == len(versions) and instant > last):
            side = "after the last" if count else "before the first"
            since, until = format_instant(first), format_instant(last)
            newest = "; leave the time out for the newest" if count else ""
            raise VersionNotFoundError(
                f"{format_instant(instant)} is {side} commit that can be read",
                hint=f"versions {versions[0]} to {versions[-1]} were committed from {since} to {until}{newest}",
                table=str(self._log.root),
            )
        return versions[count - 1]

    def _count_until(
        self, versions: Sequence[int], instant: int, search: Callable[..., int] = bisect.bisect_right
    ) -> int:
        """Count the versions that were committed not later than an instant; ``versions`` must be sorted.

        With ``bisect_left`` as the search, count those that were committed before the instant.

        The times of log files need not fit those that commits record: log files are younger where a table was
        copied. So versions with recorded times are searched apart from earlier ones.
        """
        since = self._recorded_since
        boundary = len(versions) if since is None else bisect.bisect_left(versions, since)
        low, high = 0, boundary
        if boundary < len(versions) and self.time_of(versions[boundary]) <= instant:
            low, high = boundary, len(versions)
        return search(versions, instant, low, high, key=self.time_of)

    def _reachable(self) -> list[int]:
        """Return the newest versions without a gap that can be read: older ones may lack a checkpoint below them."""
        versions = sorted(self._entries)
        start = len(versions)
        while start > 0 and (start == len(versions) or versions[start - 1] + 1 == versions[start]):
            start -= 1
        reachable = versions[start:]
        if reachable and reachable[0] == 0:
            return reachable
        oldest = min(complete_checkpoints(self._log.entries()), default=None)
        return [version for version in reachable if oldest is not None and version >= oldest]

    @property
    def _recorded_since(self) -> int | None:
        """The first version that records its own time; None if in-commit timestamps are not enabled."""
        if not self._newest.is_enabled(IN_COMMIT_TIMESTAMPS):
            return None
        text = self._newest.metadata.configuration.get(SINCE_VERSION, "0")
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0

    def _recorded_time(self, version: int) -> int:
        timestamp = self._recorded.get(version)
        if timestamp is None:
            timestamp = self._info(version).get("inCommitTimestamp")
            if type(timestamp) is not int or not 0 <= timestamp <= _LAST_MOMENT:
                raise CorruptLogError(
                    "in-commit timestamps are enabled, but the commit records none",
                    table=str(self._log.root),
                    version=version,
                )
            self._recorded[version] = timestamp
        return timestamp

    def _info(self, version: int) -> dict[str, Any]:
        try:
            return commit_info(self.read(version))
        except CorruptLogError as error:
            raise error.with_context(table=str(self._log.root), version=version) from None


def _monotonic(entries: Mapping[int, LogEntry]) -> dict[int, int]:
    """Return the times of log files, with each at least a millisecond after the one before."""
    times: dict[int, int] = {}
    last: int | None = None
    for version in sorted(entries):
        modified = entries[version].meta.modified
        last = modified if last is None or modified > last else last + 1
        times[version] = last
    return times


def open_snapshot(log: LogDirectory, version: int | None = None, millis: int | None = None) -> Snapshot:
    """Return a version of a table, or the newest one at an instant in milliseconds since 1970; else the newest one.

    Raises
    ------
    VersionNotFoundError
        There is no such version, or the instant is before the first or after the last commit.
    """
    return Snapshot.load(log, version) if millis is None else snapshot_at(Snapshot.load(log), millis=millis)


def snapshot_at(opened: Snapshot, version: int | None = None, millis: int | None = None) -> Snapshot:
    """Return the same as `open_snapshot` of the table of a snapshot that is open, or that one again.

    An instant after the last commit that is open is not looked for.
    """
    chosen = version if millis is None else CommitTimes(opened.log, opened).version_at(millis)
    return opened if chosen in (None, opened.version) else Snapshot.load(opened.log, chosen)
