"""What knows the newest metadata of a table: its directory, or a catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from deltaberg.errors import DeltabergError, ObjectNotFoundError, TableNotFoundError
from deltaberg.iceberg.locate import find_metadata
from deltaberg.iceberg.metadata import TableMetadata, read_metadata
from deltaberg.storage import Location, StoreSpec

__all__ = ["FilePointer", "LoadedTable", "TablePointer", "load_file"]


@dataclass(frozen=True)
class LoadedTable:
    """The metadata of a table, the file that holds it, the directory of the table, and what opens its stores."""

    metadata: TableMetadata
    file: Location
    root: Location
    store: StoreSpec = field(default_factory=StoreSpec)


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
        if known is not None and known.file == place.file:
            return known
        try:
            metadata = load_file(place.file, self.store)
        except ObjectNotFoundError:
            raise TableNotFoundError(
                "there is no such metadata file", hint="open the table by its directory", file=str(place.file)
            ) from None
        return LoadedTable(metadata, place.file, place.root, self.store)


def load_file(file: Location, store: StoreSpec) -> TableMetadata:
    """Read a metadata file."""
    data = store.open(file).get(file.path)
    try:
        return read_metadata(data)
    except DeltabergError as error:
        raise error.with_context(file=str(file)) from None
