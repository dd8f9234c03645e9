"""A table as its newest metadata file describes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.storage import Location, ObjectMeta, StoreSpec

__all__ = ["LoadedTable", "load_file"]


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


def load_file(file: Location, store: StoreSpec) -> TableMetadata:
    """Read a metadata file."""
    data = store.open(file).get(file.path)
    try:
        return read_metadata(data)
    except DeltabergError as error:
        raise error.with_context(file=str(file)) from None
