"""A store that lists as many objects as wanted, which are made while they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress
from typing import Any

from deltaberg.storage.base import DeletionFailure, ObjectMeta, Storage
from deltaberg.workers import in_chunks

__all__ = ["LongListing"]


class LongListing:
    """A store that has other objects in a folder besides its own: a million of them need neither a disk nor memory.

    Parameters
    ----------
    store
        Does everything else.
    folder
        The path of the folder.
    directories, files
        How many directories are in it, and how many objects are in each of them.
    modified
        When each of them was modified, in milliseconds since 1970.
    """

    def __init__(self, store: Storage, folder: str, directories: int, files: int, modified: int = 0) -> None:
        self._store, self._folder = store, folder
        self._directories, self._files, self._modified = directories, files, modified
        #: How many of the made objects were deleted.
        self.deleted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def names(self) -> Iterator[str]:
        """Yield the names of the made objects, below the folder."""
        for directory in range(self._directories):
            for number in range(self._files):
                yield f"made={directory:05}/part-{number:07}-00000000-0000-4000-8000-{number:012}.parquet"

    def walk(
        self,
        prefix: str,
        selects: Callable[[list[str]], Iterable[bool]] | None = None,
        passed_over: Callable[[str], object] | None = None,
    ) -> Iterator[ObjectMeta]:
        """List the objects of the store, and then those that are made, 1,000 at a time."""
        below = f"{prefix.rstrip('/')}/"
        made = (path for name in self.names() if (path := f"{self._folder}/{name}").startswith(below))
        if selects is not None:
            made = (path for page in in_chunks(made, 1_000) for path in compress(page, selects(page)))
        return chain(
            self._store.walk(prefix, selects, passed_over), (ObjectMeta(path, 1, self._modified) for path in made)
        )

    def delete_many(
        self, paths: Iterable[str], deleted: Callable[[str], object] | None = None
    ) -> list[DeletionFailure]:
        """Count the made objects, and delete the others."""

        def others() -> Iterator[str]:
            for path in paths:
                if path.startswith(f"{self._folder}/made="):
                    self.deleted += 1
                    if deleted is not None:
                        deleted(path)
                else:
                    yield path

        return self._store.delete_many(others(), deleted)
