"""Tables of catalogs, which options of the Data Sources name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from deltaberg.errors import TableNotFoundError, in_context
from deltaberg.iceberg.location.pointer import LoadedTable, TablePointer, load_file
from deltaberg.storage.location import parse_location

if TYPE_CHECKING:
    from deltaberg.catalogs.base import Catalog
    from deltaberg.iceberg.location.committer import Committer

__all__ = ["NamedTable"]


@dataclass(frozen=True)
class NamedTable:
    """A table that is found by the name of its catalog and its own.

    Each process that looks for the table loads the catalog by its configuration. Only the names are pickled, so that no
    property of the catalog travels with them.

    Parameters
    ----------
    catalog, name
        The names.
    file
        The metadata file to be read; by default, the newest one.
    """

    catalog: str
    name: str
    file: str | None = None

    def __reduce__(self) -> tuple[type[NamedTable], tuple[str, str, str | None]]:
        return NamedTable, (self.catalog, self.name, self.file)

    def at(self, file: str) -> NamedTable:
        """Return the state of the table that a metadata file is."""
        return replace(self, file=file)

    def load(self, cached: LoadedTable | None = None) -> LoadedTable:
        """Return the newest metadata, or that of the file."""
        with in_context(table=self.name, catalog=self.catalog):
            newest = self._pointer.load(cached)
            if self.file is None or self.file == str(newest.file):
                return newest
            file = parse_location(self.file)
            return LoadedTable(load_file(file, newest.store), file, newest.root, newest.store)

    def committer(self, *, unsafe_single_writer: bool = False) -> Committer:
        """Return what commits changes to the table."""
        return self._pointer.committer(unsafe_single_writer=unsafe_single_writer)

    def location(self) -> str:
        """Return where the table is, or goes if it is created."""
        from deltaberg.catalogs.base import default_location

        try:
            return str(self.load().root)
        except TableNotFoundError:
            return default_location(self._catalog, self.name)

    @cached_property
    def _catalog(self) -> Catalog:
        from deltaberg.catalogs.load import load_catalog

        return load_catalog(self.catalog)

    @cached_property
    def _pointer(self) -> TablePointer:
        from deltaberg.catalogs.base import table_pointer

        return table_pointer(self._catalog, self.name)
