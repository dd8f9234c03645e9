"""A table as its newest metadata file describes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from deltaberg.errors import CorruptMetadataError, ObjectNotFoundError, in_context
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import MOST_BYTES, read_metadata
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location, PathResolver
from deltaberg.storage.stores import StoreSpec

__all__ = ["LoadedTable", "load_file", "load_newest"]

_Place = TypeVar("_Place")
_Loaded = TypeVar("_Loaded")


@dataclass(frozen=True)
class LoadedTable:
    """The metadata of a table, its file, the directory of the table, and what opens its stores.

    ``meta`` is what the store said about the file, if the file was found by its name: a table that was dropped and
    created again can have another file of the same name.
    """

    metadata: TableMetadata
    file: Location
    root: Location
    store: StoreSpec = field(default_factory=StoreSpec)
    meta: ObjectMeta | None = None

    @property
    def resolver(self) -> PathResolver:
        """What finds the places that recorded paths lead to."""
        return PathResolver(self.root, None, encoded=False)

    @property
    def prefix(self) -> str:
        """What recorded paths below the table begin with, mostly."""
        return f"{self.metadata.location.rstrip('/')}/"

    def check_same(self, newer: LoadedTable) -> None:
        """Refuse the metadata of another table that has replaced this one.

        Raises
        ------
        CorruptMetadataError
            Its ``table-uuid`` is another one.
        """
        before, now = self.metadata.table_uuid, newer.metadata.table_uuid
        if before not in (None, now):
            raise CorruptMetadataError(
                f"the table-uuid changed from {before} to {now}: this is another table",
                hint="open the table again",
                table=str(self.root),
            )


def load_file(file: Location, store: StoreSpec) -> TableMetadata:
    """Read a metadata file."""
    data = store.open(file).get(file.path, MOST_BYTES)
    with in_context(file=str(file)):
        return read_metadata(data)


def load_newest(find: Callable[[], _Place], load: Callable[[_Place], _Loaded]) -> _Loaded:
    """Find the newest metadata file, and load it.

    Commits delete old metadata files if the table wants that (``write.metadata.delete-after-commit.enabled``), also
    one that was just found. Then there is a newer one.

    Parameters
    ----------
    find
        Returns what names the newest file.
    load
        Reads that file.

    Raises
    ------
    ObjectNotFoundError
        If the file is gone, and there is no newer one.
    """
    place = find()
    while True:
        try:
            return load(place)
        except ObjectNotFoundError:
            newer = find()
            if newer == place:
                raise
            place = newer
