"""Tables in directories, laid out as by Hadoop's catalog: ``<warehouse>/<namespace>/<table>/metadata``."""

from __future__ import annotations

from collections.abc import Iterator

from deltaberg.catalogs.base import Catalog
from deltaberg.catalogs.names import Identifier, Levels, identifier_levels, namespace_levels
from deltaberg.errors import InvalidArgumentError, NamespaceNotFoundError, ObjectNotFoundError, in_context
from deltaberg.hints import Hint
from deltaberg.iceberg.location.find_metadata import has_metadata
from deltaberg.iceberg.location.pointer import FilePointer, TablePointer
from deltaberg.signatures import public
from deltaberg.storage.location import Location, LocationMap, parse_location
from deltaberg.storage.options.options import StoreOptions
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.cleanup import CleanupResult, DropRequest

__all__ = ["FilesystemCatalog"]


@public
class FilesystemCatalog(Catalog):
    """The tables below a directory.

    Parameters
    ----------
    name
        The name of the catalog, for messages.
    warehouse
        The directory: a local path, or the URL of an object store.
    storage_options
        The options of the store.
    """

    _refusal = Hint(
        "tables and namespaces of this catalog are directories: create tables, and drop them with ⟪purge=True⟫"
    )

    def __init__(self, name: str, warehouse: str, storage_options: StoreOptions | None = None) -> None:
        self.name = name
        self._warehouse = parse_location(warehouse)
        self._store = StoreSpec(dict(storage_options or {}))

    def __repr__(self) -> str:
        return f"FilesystemCatalog({self.name!r}, warehouse={str(self._warehouse)!r})"

    def list_namespaces(self, namespace: Identifier = ()) -> list[Levels]:
        """List the directories in a namespace that are not tables."""
        levels = namespace_levels(namespace)
        return [(*levels, name) for name, is_table in self._children(levels) if not is_table]

    def list_tables(self, namespace: Identifier) -> list[Levels]:
        """List the directories in a namespace that are tables."""
        levels = namespace_levels(namespace)
        return [(*levels, name) for name, is_table in self._children(levels) if is_table]

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the directory is a table."""
        return has_metadata(self._directory(identifier_levels(identifier)), self._store)

    def _drop(self, levels: Levels, asked: DropRequest) -> CleanupResult:
        if not asked.purge:
            raise self._refused(f"the table {'.'.join(levels)} cannot be dropped without its files")
        from deltaberg.iceberg.maintain.cleaning.dropped_directory import DroppedDirectory

        with in_context(catalog=self.name):
            return DroppedDirectory.find(self._directory(levels), self._store, asked).run()

    def _pointer(self, levels: Levels, location_map: LocationMap | str | None) -> TablePointer:
        # The table is in this directory now, whatever location it records.
        return FilePointer(self._directory(levels), self._store)

    def _default_location(self, identifier: Identifier) -> str:
        """Return the directory of a table, which its name stands for."""
        return str(self._directory(identifier_levels(identifier)))

    def _children(self, levels: Levels) -> Iterator[tuple[str, bool]]:
        directory = self._directory(levels)
        try:
            names = self._store.open(directory).directories(directory.path)
        except ObjectNotFoundError:
            names = None
        if names is None or (levels and has_metadata(directory, self._store)):
            raise NamespaceNotFoundError(
                "there is no such namespace" if levels else "there is no such warehouse",
                hint="⟪list_namespaces()⟫ lists the namespaces at the top"
                if levels
                else "check the property warehouse",
                namespace=".".join(levels) or None,
                warehouse=str(self._warehouse),
            )
        for name in names:
            yield name, has_metadata(directory.join(name), self._store)

    def _directory(self, levels: Levels) -> Location:
        place = self._warehouse
        for level in levels:
            if level in (".", "..") or "/" in level or "\\" in level:
                raise InvalidArgumentError(f"{level!r} cannot be the name of a directory", catalog=self.name)
            place = place.join(level)
        return place
