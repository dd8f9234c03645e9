"""The directory in which rewritten files wait until they are copied."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.errors import InvalidArgumentError, StorageError
from deltaberg.hints import Hint
from deltaberg.iceberg.maintain.copying.path_prefix import PathPrefix
from deltaberg.storage.base import PutOutcome, Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["Staging"]


@dataclass(frozen=True)
class Staging:
    """Files that are to be copied in place of those of a table, each at the path that it has below the prefix.

    Parameters
    ----------
    prefix
        The prefix that is replaced.
    store
        What opens stores.
    text, place
        The directory, as it is written down and where it is.
    """

    prefix: PathPrefix
    store: StoreSpec
    text: str
    place: Location

    def check_empty(self) -> None:
        """Refuse a directory with files: they could be those of the table, or of another copy.

        Raises
        ------
        InvalidArgumentError
            There is one.
        """
        found = next(iter(self.store.open(self.place).walk(self.place.path)), None)
        if found is not None:
            raise InvalidArgumentError(
                Hint("⟪staging_location⟫ is not empty"), hint="name a new directory", file=found.path
            )

    def path_of(self, recorded: str) -> str:
        """Return the staged path of a recorded one, as text."""
        return f"{self.text}/{self.prefix.rest(recorded)}"

    def output_of(self, recorded: str) -> tuple[Storage, str]:
        """Return the store of the staged file for a recorded path, and its path there."""
        location = self.place.join(self.prefix.rest(recorded))
        return self.store.open(location), location.path

    def put(self, recorded: str, data: bytes) -> None:
        """Stage the bytes of a file.

        Raises
        ------
        StorageError
            The store failed.
        """
        store, path = self.output_of(recorded)
        done = store.put(path, data)
        if done.outcome is not PutOutcome.WRITTEN:
            raise done.cause or StorageError("a file could not be written", path=path)
