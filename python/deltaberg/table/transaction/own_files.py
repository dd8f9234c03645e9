"""Files that were written for a transaction, and what becomes of them if no commit names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.removal import WRITTEN_FILE, discard_locations
from deltaberg.table.write.sources import WriteRoad, roads_together

__all__ = ["OwnFiles"]


class OwnFiles:
    """Files that nobody else knows of. They are deleted, as far as the store allows it, if no commit names them.

    Parameters
    ----------
    store
        What opens the stores of the files.
    home
        A directory that was there before the first of them.
    """

    def __init__(self, store: StoreSpec, home: Location) -> None:
        self._store = store
        self.home = home
        #: The path of each file, behind the folder that it is relative to.
        self._files: list[tuple[Location, str]] = []
        self._roads: set[WriteRoad] = set()
        #: Whether a commit may name them that nobody knows of, so that none is deleted.
        self.are_kept = False

    def __len__(self) -> int:
        return len(self._files)

    @property
    def road(self) -> WriteRoad:
        """The road that rows took to the files."""
        return roads_together(self._roads)

    def note(self, folder: Location, paths: Iterable[str], road: WriteRoad | None = None) -> None:
        """Take charge of files in a folder, by their decoded paths; those without rows of the table came by no road."""
        self._files.extend((folder, path) for path in paths)
        if road is not None:
            self._roads.add(road)

    def delete_since(self, count: int) -> None:
        """Delete all files but the first ones."""
        self._delete(self._files[count:])
        del self._files[count:]

    def delete_if(self, is_gone: Callable[[Location, str], bool]) -> None:
        """Delete the files that are chosen by their folders and paths."""
        self._delete([file for file in self._files if is_gone(*file)])

    def _delete(self, files: Iterable[tuple[Location, str]]) -> None:
        if not self.are_kept:
            discard_locations(
                self._store, ((folder, folder.join(path)) for folder, path in files), WRITTEN_FILE, self.home
            )
