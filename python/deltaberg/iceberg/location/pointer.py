"""Pointers to the newest metadata of a table: its directory, or a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.directory_commit import DirectoryCommitter
from deltaberg.iceberg.location.find_metadata import MetadataPlace, find_metadata, is_metadata_file
from deltaberg.iceberg.location.loaded import LoadedTable, load_file, load_newest
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["FilePointer", "KnowsOthers", "LoadedTable", "TablePointer", "load_file"]


@runtime_checkable
class TablePointer(Protocol):
    """Finds the newest metadata of a table."""

    def load(self, cached: LoadedTable | None = None) -> LoadedTable:
        """Return the newest metadata; ``cached`` itself, without reading it again, if it still is the newest."""

    def committer(self, *, unsafe_single_writer: bool = False) -> Committer:
        """Return what commits changes to the table.

        Parameters
        ----------
        unsafe_single_writer
            Write also where a store cannot keep two writers from overwriting one another.

        Raises
        ------
        UnsupportedFeatureError
            If the table cannot be written to by this pointer.
        """


@runtime_checkable
class KnowsOthers(Protocol):
    """What finds a table among others, and knows where these are."""

    def check_unshared(self, loaded: LoadedTable, *, same_table: bool = False) -> None:
        """Refuse to delete files of a table that another name leads to as well.

        Parameters
        ----------
        same_table
            Refuse only if that name stands for the same table, and not if it is another one in the same directory.

        Raises
        ------
        InvalidArgumentError
            There is such a name.
        """


@dataclass(frozen=True)
class FilePointer:
    """A table that was named by its directory, or by one of its metadata files."""

    location: Location
    store: StoreSpec

    def load(self, cached: LoadedTable | None = None) -> LoadedTable:
        """Return the newest metadata, looked for in the directory."""

        def load(place: MetadataPlace) -> LoadedTable:
            if cached is not None and cached.file == place.file and cached.meta == place.meta:
                return cached
            return LoadedTable(load_file(place.file, self.store), place.file, place.root, self.store, place.meta)

        return load_newest(lambda: find_metadata(self.location, self.store), load)

    def committer(self, *, unsafe_single_writer: bool = False) -> Committer:
        """Return what commits to the directory. A single metadata file is a state of the past."""
        if is_metadata_file(self.location):
            raise UnsupportedFeatureError(
                "a table that is opened by one of its metadata files cannot be written to",
                hint="open it by its directory, or load it from its catalog",
                file=str(self.location),
            )
        return DirectoryCommitter(self.location, self.store, unsafe_single_writer)
