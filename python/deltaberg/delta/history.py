"""When versions were committed, and by what (Delta protocol, "Commit Provenance Information", in-commit timestamps).

A commit's time is that of its log file, made monotonic: a version is never older than the one before. Where
in-commit timestamps are enabled it is the one that the commit itself records.
"""

from __future__ import annotations

import bisect
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaberg.delta.segment import LogDirectory, LogEntry, complete_checkpoints
from deltaberg.delta.snapshot import Snapshot
from deltaberg.errors import CorruptLogError, ObjectNotFoundError, VersionNotFoundError
from deltaberg.expressions import format_instant

__all__ = ["Commit", "CommitTimes", "commit_info"]

_ENABLED = "delta.enableInCommitTimestamps"
_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True)
class Commit:
    """A commit of a table: ``info`` is what it says of itself, in any shape."""

    version: int
    timestamp: dt.datetime
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operation(self) -> str | None:
        """The operation, such as ``WRITE``, where the commit names it."""
        name = self.info.get("operation")
        return name if isinstance(name, str) else None


def commit_info(data: bytes) -> dict[str, Any]:
    """Give the ``commitInfo`` of a log entry; empty where there is none."""
    for line in data.split(b"\n"):
        if b'"commitInfo"' not in line:
            continue
        try:
            action = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorruptLogError(f"a line of the log entry is no JSON: {error}") from None
        info = action.get("commitInfo") if isinstance(action, dict) else None
        if isinstance(info, dict):
            return info
    return {}


class CommitTimes:
    """The times of a table's commits."""

    def __init__(self, log: LogDirectory, newest: Snapshot) -> None:
        self._log = log
        self._newest = newest
        self._entries = {
            entry.file.version: entry
            for entry in log.entries()
            if entry.file.kind == "commit" and entry.file.version <= newest.version
        }
        self._file_times = _monotonic(self._entries)
        self._recorded: dict[int, int] = {}

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        """Give the commits, the newest first."""
        for count, version in enumerate(sorted(self._entries, reverse=True)):
            if limit is not None and count >= limit:
                return
            try:
                info = self._info(version)
            except VersionNotFoundError:
                continue  # Cleaned up since the log was listed.
            yield Commit(version, _EPOCH + dt.timedelta(milliseconds=self.time_of(version)), info)

    def time_of(self, version: int) -> int:
        """Give the time of a version in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            Where the commit is not in the log.
        """
        if version not in self._entries:
            raise VersionNotFoundError(
                f"the log entry of version {version} is no longer available", table=str(self._log.root)
            )
        since = self._recorded_since
        if since is not None and version >= since:
            return self._recorded_time(version)
        return self._file_times[version]

    def read(self, version: int) -> bytes:
        """Read the log entry of a version.

        Raises
        ------
        VersionNotFoundError
            Where it is not in the log any more.
        """
        entry = self._entries.get(version)
        try:
            if entry is not None:
                return self._log.read(entry)
        except ObjectNotFoundError:
            pass
        raise VersionNotFoundError(
            f"the log entry of version {version} is no longer available", table=str(self._log.root)
        )

    def first_after(self, instant: int) -> int:
        """Give the first version committed not before an instant in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            Where the instant is after the last commit.
        """
        versions = sorted(self._entries)
        before = self._count_until(versions, instant, bisect.bisect_left)
        if before == len(versions):
            when = format_instant(instant)
            raise VersionNotFoundError(f"{when} is after the last commit", table=str(self._log.root))
        return versions[before]

    def last_before(self, instant: int) -> int:
        """Give the last version committed not after an instant in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            Where the instant is before the first commit.
        """
        versions = sorted(self._entries)
        count = self._count_until(versions, instant)
        if not count:
            when = format_instant(instant)
            raise VersionNotFoundError(f"{when} is before the first commit", table=str(self._log.root))
        return versions[count - 1]

    def version_at(self, instant: int) -> int:
        """Give the newest version committed not later than an instant in milliseconds since 1970.

        Raises
        ------
        VersionNotFoundError
            Where the instant is before the first commit that can be read, or after the last.
        """
        versions = self._reachable()
        if not versions:
            raise VersionNotFoundError("the log holds no commit", table=str(self._log.root))
        count = self._count_until(versions, instant)
        first, last = self.time_of(versions[0]), self.time_of(versions[-1])
        if not count or (count == len(versions) and instant > last):
            side = "after the last" if count else "before the first"
            since, until = format_instant(first), format_instant(last)
            raise VersionNotFoundError(
                f"{format_instant(instant)} is {side} commit that can be read",
                hint=f"versions {versions[0]} to {versions[-1]} were committed from {since} to {until}",
                table=str(self._log.root),
            )
        return versions[count - 1]

    def _count_until(
        self, versions: Sequence[int], instant: int, search: Callable[..., int] = bisect.bisect_right
    ) -> int:
        """Count the versions, given in order, that were committed not later than an instant.

        With ``bisect_left`` as the search, those committed before it.

        The times of log files and those that commits record need not go together: log files are younger where a
        table was copied. The first recorded time parts the two.
        """
        since = self._recorded_since
        parting = len(versions) if since is None else bisect.bisect_left(versions, since)
        low, high = 0, parting
        if parting < len(versions) and self.time_of(versions[parting]) <= instant:
            low, high = parting, len(versions)
        return search(versions, instant, low, high, key=self.time_of)

    def _reachable(self) -> list[int]:
        """Give the versions that end the log without a gap: older ones may have lost their base."""
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
        """The version from which on commits record their own time."""
        if not self._newest.is_enabled(_ENABLED):
            return None
        text = self._newest.metadata.configuration.get(_SINCE_VERSION, "0")
        return int(text) if text.isdigit() else 0

    def _recorded_time(self, version: int) -> int:
        known = self._recorded.get(version)
        if known is None:
            known = self._info(version).get("inCommitTimestamp")
            if not isinstance(known, int) or isinstance(known, bool):
                raise CorruptLogError(
                    "in-commit timestamps are enabled and the commit records none",
                    table=str(self._log.root),
                    version=version,
                )
            self._recorded[version] = known
        return known

    def _info(self, version: int) -> dict[str, Any]:
        try:
            return commit_info(self.read(version))
        except CorruptLogError as error:
            raise error.with_context(table=str(self._log.root), version=version) from None


def _monotonic(entries: Mapping[int, LogEntry]) -> dict[int, int]:
    """Give the times of log files, each at least a millisecond after the one before."""
    times: dict[int, int] = {}
    last: int | None = None
    for version in sorted(entries):
        modified = entries[version].meta.modified
        last = modified if last is None or modified > last else last + 1
        times[version] = last
    return times
