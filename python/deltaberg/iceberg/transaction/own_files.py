"""The data files that were written for a transaction, before it is known whether it commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from deltaberg.storage import Location, StoreSpec
from deltaberg.table.removal import WRITTEN_FILE, discard_locations
from deltaberg.table.write import WriteRoad, roads_together

__all__ = ["OwnFiles"]


class OwnFiles:
    """Files that nobody else knows of, which are deleted if they do not become part of the table.

    Parameters
    ----------
    store
        What opens the stores of the files.
    """

    def __init__(self, store: StoreSpec) -> None:
        self._store = store
        #: Each file, behind the folder of data files that it was written into.
        self._files: list[tuple[Location, Location]] = []
        self._roads: set[WriteRoad] = set()

    def __len__(self) -> int:
        return len(self._files)

    @property
    def road(self) -> WriteRoad:
        """The road that rows took to the files."""
        return roads_together(self._roads)

    def note(self, folder: Location, paths: Iterable[str], road: WriteRoad | None) -> None:
        """Take charge of files in a folder; those without rows of the table came by no road."""
        self._files.extend((folder, folder.join(path)) for path in paths)
        if road is not None:
            self._roads.add(road)

    def delete_since(self, count: int) -> None:
        """Delete all files but the first ones."""
        self._delete(self._files[count:])
        del self._files[count:]

    def delete_but(self, kept: Collection[Location]) -> None:
        """Delete the files that are not named."""
        self._delete([both for both in self._files if both[1] not in kept])

    def _delete(self, files: Iterable[tuple[Location, Location]]) -> None:
        discard_locations(self._store, files, WRITTEN_FILE)
