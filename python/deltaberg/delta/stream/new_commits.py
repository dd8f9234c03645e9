"""The commits of a log from a version on, none of which may be missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.segment import check_log_reaches, entry_not_found
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CorruptLogError, ObjectNotFoundError, VersionNotFoundError
from deltaberg.table.streaming.table_stream import NEW_STREAM

__all__ = ["NewCommits"]


class NewCommits:
    """Reads the commits that a stream has not seen yet, and notices that the log was replaced.

    Parameters
    ----------
    snapshot
        The version that is open.
    may_lose
        Whether commits that were cleaned up are passed over.
    """

    def __init__(self, snapshot: Snapshot, *, may_lose: bool = False) -> None:
        self._log: LogDirectory = snapshot.log
        self._table_id = snapshot.metadata.id
        self._may_lose = may_lose
        #: The newest commit that was seen, by which a replaced log is noticed.
        self._seen: LogEntry | None = snapshot.segment.commit
        #: What it holds, as far as it was read here.
        self._seen_digest: bytes | None = None

    def read(
        self, first: int, last: int | None = None, already_read: LogEntry | None = None
    ) -> Iterator[tuple[LogEntry, bytes | None]]:
        """Yield the commits from one version to another, or to the newest, with the bytes of their log entries.

        Parameters
        ----------
        first, last
            The versions; None for the newest.
        already_read
            The log entry that the caller has read before: it comes without its bytes.

        Raises
        ------
        VersionNotFoundError
            If commits were cleaned up, or the log was replaced.
        TableNotFoundError
            If there is no log any more.
        CorruptLogError
            If a commit is missing between others, or the newest one is empty.
        """
        before = first - 1 if first else 0
        begin = before if self._seen is None else min(before, self._seen.version)
        entries = self._entries(begin)
        commits = {entry.version: entry for entry in entries if entry.file.kind == "commit"}
        self._check_same(commits)
        newest = max((entry.version for entry in entries), default=None)
        if newest is None or newest < before:
            self._check_end(before)
        end = max(newest if newest is not None else before, first - 1) if last is None else last
        for version in range(first, end + 1):
            entry = commits.get(version)
            if entry is not None and entry == already_read:
                yield entry, None
                continue
            data = None if entry is None else self._read(entry)
            if entry is None or data is None:
                if self._may_lose:
                    continue
                raise self._lost(version, end)
            if not data and version == newest:
                raise CorruptLogError(
                    "the newest log entry is empty: it is still being written, or its writer was interrupted",
                    hint="delete the file if no writer is active",
                    table=str(self._log.root),
                    file=entry.file.name,
                )
            if self._seen is None or version > self._seen.version:
                self._seen, self._seen_digest = entry, _digest(data)
            yield entry, data

    def newest(self) -> int:
        """Return the newest version that the log has.

        Raises
        ------
        TableNotFoundError, VersionNotFoundError
            If there is no log any more, or it ends below a version that was read.
        """
        seen = 0 if self._seen is None else self._seen.version
        versions = [entry.version for entry in self._entries(seen)]
        if not versions:
            self._check_end(seen)
        return max(versions, default=seen)

    def _entries(self, first: int) -> list[LogEntry]:
        """Return the log entries, from a version on, by each of which a version is there."""
        return [entry for entry in self._log.entries(first) if entry.file.kind == "commit" or entry.file.is_checkpoint]

    def _read(self, entry: LogEntry) -> bytes | None:
        try:
            return self._log.read(entry)
        except ObjectNotFoundError:
            return None

    def _lost(self, version: int, end: int) -> CorruptLogError | VersionNotFoundError:
        found = entry_not_found(self._log, version)
        if isinstance(found, CorruptLogError):
            return found
        return VersionNotFoundError(
            f"the stream needs version {version}, up to version {end}, and its log entry is not there",
            hint=f"restore the log entry from a copy; or {NEW_STREAM}; or, on Spark, "
            'set the option failOnDataLoss to "false"',
            table=str(self._log.root),
            version=version,
        )

    def _check_end(self, before: int) -> None:
        """Refuse a log that ends below the version before the position of the stream."""
        try:
            check_log_reaches(self._log, before)
        except VersionNotFoundError:
            raise VersionNotFoundError(
                f"the stream has read version {before}, but the log ends below it: it lost commits, or was replaced",
                hint=f"restore the log from a copy, or {NEW_STREAM}",
                table=str(self._log.root),
            ) from None

    def _check_same(self, commits: dict[int, LogEntry]) -> None:
        """Refuse a log of another table in the same place."""
        if self._seen is None:
            return
        entry = commits.get(self._seen.version)
        if entry == self._seen:
            return
        if entry is None and self._seen.version < min(commits, default=0):
            return  # It was cleaned up.
        identity = Snapshot.load(self._log).metadata.id
        if identity != self._table_id:
            raise VersionNotFoundError(
                f"the table was dropped and made anew: its id was {self._table_id}, and is now {identity}",
                hint=NEW_STREAM,
                table=str(self._log.root),
            )
        if entry is not None and self._holds_another(entry):
            raise VersionNotFoundError(
                f"version {entry.version}, which the stream has read, is another commit now: the log lost commits",
                hint=f"restore the log from a copy, or {NEW_STREAM}",
                table=str(self._log.root),
                version=entry.version,
            )
        if entry is not None:
            self._seen = entry

    def _holds_another(self, entry: LogEntry) -> bool:
        """Return whether a log entry holds another commit than the one of its version that was seen."""
        if self._seen_digest is None or self._seen is None:
            return self._seen is not None and entry.meta.size != self._seen.meta.size
        data = self._read(entry)
        return data is None or _digest(data) != self._seen_digest


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
