"""Pointers to the newest metadata of a table: its directory, or a catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.location.find_metadata import find_metadata
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.storage import Location, ObjectMeta, StoreSpec

__all__ = ["FilePointer", "LoadedTable", "TablePointer", "load_file"]


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


@runtime_checkable
class TablePointer(Protocol):
    """Finds the newest metadata of a table."""

    def load(self, known: LoadedTable | None = None) -> LoadedTable:
        """Return the newest metadata; ``known`` itself, without reading it again, if it still is the newest."""
        ...


@dataclass(frozen=True)
class FilePointer:
    """A table that was named by its directory, or by one of its metadata files."""

    location: Location
    store: StoreSpec

    def load(self, known: LoadedTable | None = None) -> LoadedTable:
        """Return the newest metadata, looked for in the directory."""
        place = find_metadata(self.location, self.store)
        if known is not None and known.file == place.file and known.meta == place.meta:
            return known
        return LoadedTable(load_file(place.file, self.store), place.file, place.root, self.store, place.meta)


def load_file(file: Location, store: StoreSpec) -> TableMetadata:
    """Read a metadata file."""
    data = store.open(file).get(file.path)
    try:
        return read_metadata(data)
    except DeltabergError as error:
        raise error.with_context(file=str(file)) from None
