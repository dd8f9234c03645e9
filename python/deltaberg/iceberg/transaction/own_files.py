"""The data files that were written for a transaction, before it is known whether it commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from deltaberg.errors import StorageError
from deltaberg.storage import Location, StoreSpec
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
        self._files: list[Location] = []
        self._roads: set[WriteRoad] = set()

    def __len__(self) -> int:
        return len(self._files)

    @property
    def road(self) -> WriteRoad:
        """The road that rows took to the files."""
        return roads_together(self._roads)

    def note(self, files: Iterable[Location], road: WriteRoad | None) -> None:
        """Take charge of files; those without rows of the table came by no road."""
        self._files.extend(files)
        if road is not None:
            self._roads.add(road)

    def delete_since(self, count: int) -> None:
        """Delete all files but the first ones."""
        self._delete(self._files[count:])
        del self._files[count:]

    def delete_but(self, kept: Collection[Location]) -> None:
        """Delete the files that are not named."""
        self._delete([file for file in self._files if file not in kept])

    def _delete(self, files: Sequence[Location]) -> None:
        for file in files:
            with suppress(StorageError):
                self._store.open(file).delete(file.path)
