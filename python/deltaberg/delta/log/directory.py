"""The directory ``_delta_log`` of a table: what it lists, and what is read of it (Delta protocol, "File Types")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltaberg.delta.log.last_checkpoint import LastCheckpoint, read_last_checkpoint
from deltaberg.delta.log.names import LAST_CHECKPOINT, LOG_DIRECTORY, LogFile, classify, commit_name
from deltaberg.errors import CorruptLogError, NotAFileError, ObjectNotFoundError, TooLargeError
from deltaberg.storage.base import ObjectMeta, Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["LogDirectory", "LogEntry"]

#: The most bytes of ``_last_checkpoint``, which may repeat the actions of a checkpoint, and takes many times its bytes
#: in memory.
_MOST_POINTER = 1 << 22


@dataclass(frozen=True)
class LogEntry:
    """A file of the log: what its name says, and where it is."""

    file: LogFile
    meta: ObjectMeta

    @property
    def version(self) -> int:
        """The version of the file; the last one where the file is a compaction."""
        return self.file.end if self.file.kind == "compaction" else self.file.version


class LogDirectory:
    """The ``_delta_log`` of a table. It can be pickled."""

    def __init__(self, root: Location, store: StoreSpec) -> None:
        self.root = root
        self.store = store
        self.path = root.join(LOG_DIRECTORY).path

    @property
    def storage(self) -> Storage:
        """The store that holds the log."""
        return self.store.open(self.root)

    def read(self, entry: LogEntry) -> bytes:
        """Read a file of the log.

        Raises
        ------
        ObjectNotFoundError
            If the file does not exist any more.
        CorruptLogError
            If a directory or a special file has its name, which no clean-up leaves, or it is too large to be read.
        """
        try:
            return self.storage.get(entry.meta.path)
        except (NotAFileError, TooLargeError) as error:
            raise CorruptLogError(
                error.message,
                hint="put the file back in its place from a copy of the log",
                table=str(self.root),
                file=entry.file.name,
            ) from error

    def entries(self, first: int = 0) -> Iterator[LogEntry]:
        """List the files from a version on, ordered by name. Files of no known kind are left out."""
        for meta in self.storage.list_from(self.path, f"{first:020d}." if first else "", directories=True):
            file = classify(meta.path.rpartition("/")[2])
            if file is not None:
                yield LogEntry(file, meta)

    def commit_entry(self, version: int, size: int) -> LogEntry:
        """Return the entry of a commit that was written but not listed, so that its time is not known (0)."""
        name = commit_name(version)
        return LogEntry(LogFile("commit", version, name), ObjectMeta(f"{self.path}/{name}", size, 0))

    def last_checkpoint(self) -> LastCheckpoint | None:
        """Read ``_last_checkpoint``; None if it does not exist or cannot be trusted."""
        try:
            data = self.storage.get(f"{self.path}/{LAST_CHECKPOINT}", _MOST_POINTER)
        except (ObjectNotFoundError, TooLargeError):
            return None
        return read_last_checkpoint(data)
