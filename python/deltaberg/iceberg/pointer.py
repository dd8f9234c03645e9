"""What knows the newest metadata of a table: its directory, or a catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.locate import find_metadata
from deltaberg.iceberg.metadata import TableMetadata, read_metadata
from deltaberg.storage import Location, ObjectMeta, StoreSpec

__all__ = ["FilePointer", "LoadedTable", "TablePointer", "load_file"]


@dataclass(frozen=True)
class LoadedTable:
    """The metadata of a table, the file that holds it, the directory of the table, and what opens its stores.

    ``meta`` is how that file was found, where it was looked for by name: a table that was dropped and made again may
    have another file of the same name.
    """

    metadata: TableMetadata
    file: Location
    root: Location
    store: StoreSpec = field(default_factory=StoreSpec)
    meta: ObjectMeta | None = None


@runtime_checkable
class TablePointer(Protocol):
    """Where a table's newest metadata is found."""

    def load(self, known: LoadedTable | None = None) -> LoadedTable:
        """Give the newest metadata; ``known``, where it is that still, without reading it again."""
        ...


@dataclass(frozen=True)
class FilePointer:
    """A table that is known by its directory, or by one of its metadata files."""

    location: Location
    store: StoreSpec

    def load(self, known: LoadedTable | None = None) -> LoadedTable:
        """Look for the newest metadata file."""
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
