"""The bytes of log entries: read ahead for a replay, and read again where statistics are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from deltaberg.delta.segment import LogDirectory, LogEntry
from deltaberg.errors import CorruptLogError, DeltabergError, ObjectNotFoundError

__all__ = ["LogBytes"]

#: A log of no more bytes than this is kept, so that nothing is read twice.
_KEPT_BYTES = 32 << 20
#: Entries that are asked of an object store at a time.
_READ_AHEAD = 8


class LogBytes:
    """The entries of a snapshot's log, by the version under which their file actions are known."""

    def __init__(self, log: LogDirectory) -> None:
        self._log = log
        self._entries: dict[int, LogEntry] = {}
        self._kept: dict[int, bytes] = {}
        self._kept_size = 0

    def __getstate__(self) -> dict[str, Any]:
        # What was read is left behind.
        return {"_log": self._log, "_entries": self._entries, "_kept": {}, "_kept_size": 0}

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Make entries known."""
        for entry in entries:
            self._entries[entry.version] = entry

    def newest_first(self, entries: Sequence[LogEntry]) -> Iterator[tuple[int, bytes]]:
        """Read entries for a replay: version and bytes, the newest first.

        Raises
        ------
        CorruptLogError
            Where an entry is gone since it was listed.
        """
        ordered = list(reversed(entries))
        for entry, data in zip(ordered, self._read_ahead(ordered), strict=True):
            if self._kept_size + len(data) <= _KEPT_BYTES:
                self._kept[entry.version] = data
                self._kept_size += len(data)
            yield entry.version, data

    def again(self, versions: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        """Read entries once more; None where one was cleaned up meanwhile, so that statistics are unknown."""
        for version in versions:
            data = self._kept.get(version)
            if data is None:
                try:
                    data = self._log.read(self._entries[version])
                except ObjectNotFoundError:
                    yield version, None
                    continue
            yield version, data

    def holds(self, entry: LogEntry) -> bool:
        """Say whether an entry, as it is now, has the bytes that were read of it; False where they were not kept."""
        known, data = self._entries.get(entry.version), self._kept.get(entry.version)
        return known is not None and known.file == entry.file and data is not None and data == self._read(entry)

    def _read_ahead(self, entries: Sequence[LogEntry]) -> Iterator[bytes]:
        if self._log.root.scheme == "file" or len(entries) < 2:
            for entry in entries:
                yield self._read(entry)
            return
        waiting: deque[Future[bytes]] = deque()
        with ThreadPoolExecutor(_READ_AHEAD, thread_name_prefix="deltaberg-log") as pool:
            try:
                for entry in entries:
                    waiting.append(pool.submit(self._read, entry))
                    if len(waiting) >= _READ_AHEAD:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _read(self, entry: LogEntry) -> bytes:
        try:
            return self._log.read(entry)
        except ObjectNotFoundError as error:
            raise CorruptLogError(
                "a log entry is gone since it was listed: the log was cleaned up meanwhile",
                hint="open the table again",
                table=str(self._log.root),
                file=entry.file.name,
            ) from error
        except DeltabergError as error:
            raise error.with_context(table=str(self._log.root)) from None
