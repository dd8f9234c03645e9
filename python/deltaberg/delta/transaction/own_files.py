"""Files that were written for a transaction, and what becomes of them if no commit names them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.transaction.file_changes import encode_path
from deltaberg.table.removal import WRITTEN_FILE, discard_files
from deltaberg.table.write import WriteRoad, roads_together

__all__ = ["OwnFiles"]


class _Mark(NamedTuple):
    written: int
    dropped: frozenset[str]


class OwnFiles:
    """The files that were written for a transaction. They are deleted as far as the store allows it.

    Parameters
    ----------
    log
        The log of the table.
    """

    def __init__(self, log: LogDirectory) -> None:
        self._log = log
        self._written: list[str] = []
        self._dropped: set[str] = set()
        self._roads: set[WriteRoad] = set()

    @property
    def road(self) -> WriteRoad:
        """The road that the rows took to the files."""
        return roads_together(self._roads)

    def note(self, paths: Iterable[str], road: WriteRoad | None = None) -> None:
        """Add files, by their decoded paths relative to the table."""
        self._written.extend(paths)
        if road is not None:
            self._roads.add(road)

    def drop(self, path: str) -> None:
        """Take note that the transaction no longer adds a file, by its recorded path."""
        self._dropped.add(path)

    def mark(self) -> _Mark:
        """Return a state for `return_to`."""
        return _Mark(len(self._written), frozenset(self._dropped))

    def return_to(self, mark: _Mark) -> None:
        """Delete the files that were added since a state."""
        self._delete(self._written[mark.written :])
        del self._written[mark.written :]
        self._dropped = set(mark.dropped)

    def delete_dropped(self, added: Collection[str]) -> None:
        """Delete the dropped files after a commit that adds files with these recorded paths."""
        gone = self._dropped.difference(added)
        if gone:
            self._delete([path for path in self._written if encode_path(path) in gone])

    def delete_all(self) -> None:
        """Delete all of them, because there is surely no commit."""
        self._delete(self._written)
        self._written.clear()

    def _delete(self, paths: Collection[str]) -> None:
        if paths:
            root = self._log.root
            discard_files(self._log.storage, root.path, (root.join(path).path for path in paths), WRITTEN_FILE)
