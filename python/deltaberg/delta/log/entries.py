"""The bytes of log entries: read ahead for a replay, and read again when statistics are needed."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from deltaberg import kernels
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.errors import CorruptLogError, DeltabergError, ObjectNotFoundError
from deltaberg.workers import Outcome, Workers

__all__ = ["LogBytes"]

#: Logs up to this many bytes are kept in memory, so that nothing is read twice.
_KEPT_BYTES = 32 << 20
#: The length of bytes, and what `kernels.fingerprint` returns for them.
_Fingerprint = tuple[int, int]
#: How many entries are requested from an object store at a time.
_READ_AHEAD = 8


class LogBytes:
    """The log entries of one snapshot, by the version that live files record.

    Once its entries have been read or given it does not change: a later snapshot gets its own, by `extended`.

    Parameters
    ----------
    log
        The log.
    entries
        The commits and compactions of the snapshot, and a checkpoint in JSON.
    """

    def __init__(self, log: LogDirectory, entries: Iterable[LogEntry]) -> None:
        self._log = log
        self._entries = {entry.version: entry for entry in entries}
        self._opened = len(self._entries)
        self._kept: dict[int, bytes] = {}
        self._kept_size = 0
        #: What tells whether entries whose bytes are not kept are still the same.
        self._fingerprints: dict[int, _Fingerprint] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Fingerprints take the place of the bytes that were read.
        fingerprints = self._fingerprints | {version: _fingerprint(data) for version, data in self._kept.items()}
        return {**self.__dict__, "_kept": {}, "_kept_size": 0, "_fingerprints": fingerprints}

    @property
    def added(self) -> int:
        """How many entries have come since the log was read from a checkpoint, or from its begin."""
        return len(self._entries) - self._opened

    def extended(self, entries: Sequence[LogEntry]) -> LogBytes:
        """Return these entries and newer ones."""
        other = LogBytes(self._log, entries)
        other._entries, other._opened = self._entries | other._entries, self._opened
        other._kept, other._kept_size, other._fingerprints = dict(self._kept), self._kept_size, dict(self._fingerprints)
        return other

    def newest_first(self, entries: Sequence[LogEntry]) -> Iterator[tuple[int, bytes]]:
        """Read entries, given oldest first, for a replay: version and bytes, newest first.

        Raises
        ------
        CorruptLogError
            If an entry was deleted after it was listed.
        """
        ordered = list(reversed(entries))
        for entry, data in zip(ordered, self._read_ahead(ordered), strict=True):
            self.keep(entry, data)
            yield entry.version, data

    def keep(self, entry: LogEntry, data: bytes) -> None:
        """Remember the bytes of an entry, or their fingerprint where they are too many."""
        if self._kept_size + len(data) <= _KEPT_BYTES:
            self._kept[entry.version] = data
            self._kept_size += len(data)
        else:
            self._fingerprints[entry.version] = _fingerprint(data)

    def kept(self, version: int) -> bytes | None:
        """Return the bytes of the commit of a version, if they are kept."""
        entry = self._entries.get(version)
        return self._kept.get(version) if entry is not None and entry.file.kind == "commit" else None

    def again(self, versions: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        """Return the bytes of entries once more.

        They are None for an entry that was cleaned up or changed since it was replayed. The replay recorded offsets in
        the bytes of that time, and these offsets mean nothing in other bytes.
        """
        for version in versions:
            data = self._kept.get(version)
            if data is None:
                with contextlib.suppress(ObjectNotFoundError):
                    found = self._log.read(self._entries[version])
                    data = found if _fingerprint(found) == self._fingerprints.get(version) else None
            yield version, data

    def is_unchanged(self, entry: LogEntry) -> bool | None:
        """Return whether an entry still has the bytes that were read of it; None if none were read."""
        known = self._entries.get(entry.version)
        if known is None or known.file != entry.file:
            return None
        data, fingerprint = self._kept.get(entry.version), self._fingerprints.get(entry.version)
        if data is None and fingerprint is None:
            return None
        found = self._read(entry)
        return found == data if data is not None else _fingerprint(found) == fingerprint

    def _read_ahead(self, entries: Sequence[LogEntry]) -> Iterator[bytes]:
        if self._log.root.scheme == "file" or len(entries) < 2:
            for entry in entries:
                yield self._read(entry)
            return
        waiting: deque[Outcome[bytes]] = deque()
        with Workers(_READ_AHEAD) as workers:
            for entry in entries:
                waiting.append(workers.submit(self._read, entry))
                if len(waiting) >= _READ_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _read(self, entry: LogEntry) -> bytes:
        try:
            return self._log.read(entry)
        except ObjectNotFoundError as error:
            raise CorruptLogError(
                "a log entry was deleted after it was listed: the log was cleaned up meanwhile",
                hint="open the table again",
                table=str(self._log.root),
                file=entry.file.name,
            ) from error
        except DeltabergError as error:
            raise error.with_context(table=str(self._log.root)) from None


def _fingerprint(data: bytes) -> _Fingerprint:
    return len(data), kernels.fingerprint(data)
