"""The operations of every catalog, and how its tables are opened."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from deltaberg.errors import DeltabergError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY
from deltaberg.iceberg.location.pointer import LoadedTable, TablePointer, load_file
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.table import IcebergTable, open_iceberg_table
from deltaberg.storage import Location, LocationMap, PathResolver, StoreSpec, parse_location
from deltaberg.table import Instant, OpenOptions

__all__ = [
    "Catalog",
    "Identifier",
    "Levels",
    "LocatedPointer",
    "NamedCatalog",
    "identifier_levels",
    "loaded_table",
    "namespace_levels",
    "place_of",
]

#: A name as text, with dots between its levels, or as a sequence of levels.
Identifier: TypeAlias = "str | Sequence[str]"
#: The levels of a name: those of the namespace, followed by the name of the table if it is one.
Levels: TypeAlias = tuple[str, ...]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@runtime_checkable
class Catalog(Protocol):
    """A catalog, which knows tables by name. `load_catalog` returns one."""

    @property
    def name(self) -> str:
        """The name of the catalog."""
        ...

    def load_table(
        self,
        identifier: Identifier,
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
        timestamp: Instant | None = None,
        location_map: LocationMap | str | None = None,
        validate: bool = False,
        timezone: str = "UTC",
    ) -> IcebergTable:
        """Open a table.

        Parameters
        ----------
        identifier
            The namespace and the name: ``"sales.eu.orders"`` or ``("sales", "eu", "orders")``.
        snapshot_id, ref, timestamp, location_map, validate, timezone
            As for `IcebergTable`.

        Raises
        ------
        TableNotFoundError
            If the catalog has no such table.
        """
        ...

    def list_namespaces(self, namespace: Identifier = ()) -> list[Levels]:
        """List the namespaces directly below one, sorted by name; by default, those at the top.

        Raises
        ------
        NamespaceNotFoundError
            If there is no such namespace.
        """
        ...

    def list_tables(self, namespace: Identifier) -> list[Levels]:
        """List the tables directly in a namespace, sorted by name, without views.

        Raises
        ------
        NamespaceNotFoundError
            If there is no such namespace.
        """
        ...

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether there is a table of this name."""
        ...


class NamedCatalog(ABC):
    """The base of all catalogs: it has a name, and opens a table by a pointer to its metadata."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def _pointer(self, levels: Levels, location_map: LocationMap | str | None) -> TablePointer:
        """Return a pointer, which finds the newest metadata of a table."""

    def load_table(
        self,
        identifier: Identifier,
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
        timestamp: Instant | None = None,
        location_map: LocationMap | str | None = None,
        validate: bool = False,
        timezone: str = "UTC",
    ) -> IcebergTable:
        """Open a table. See `Catalog.load_table`."""
        levels = identifier_levels(identifier)
        try:
            options = OpenOptions.of(locals())
            return open_iceberg_table(self._pointer(levels, options.location_map), options)
        except DeltabergError as error:
            raise error.with_context(table=".".join(levels), catalog=self.name) from None


def namespace_levels(namespace: Identifier) -> Levels:
    """Return the levels of a namespace. The top has none."""
    given: object = namespace.split(".") if isinstance(namespace, str) and namespace else namespace
    levels: tuple[object, ...] = tuple(given) if isinstance(given, (list, tuple, str)) else (None,)
    names = tuple(level for level in levels if isinstance(level, str) and level and not _CONTROL.search(level))
    if len(names) < len(levels):
        raise InvalidArgumentError(
            f"{namespace!r:.200} is not the name of a namespace or table",
            hint="pass 'a.b' or ('a', 'b'), without empty levels",
        )
    return names


def identifier_levels(identifier: Identifier) -> Levels:
    """Return the levels of a table's name."""
    levels = namespace_levels(identifier)
    if not levels:
        raise InvalidArgumentError("the name of a table is empty", hint="pass 'namespace.table'")
    return levels


def place_of(recorded: str, location_map: LocationMap | str | None) -> Location:
    """Return the present location of something, given the location that a catalog recorded."""
    local = PathResolver(Location("file", "", "/"), encoded=False).absolute(recorded)
    place = parse_location(recorded) if local is None else local
    mapping = None if isinstance(location_map, str) else location_map
    return PathResolver(place, mapping, encoded=False).resolve(recorded)


def loaded_table(
    metadata: TableMetadata, file: Location, store: StoreSpec, location_map: LocationMap | str | None
) -> LoadedTable:
    """Return a table whose metadata file is named by a catalog.

    Its location is the one in its metadata. If the whole table was moved, it is the directory
    of that file.
    """
    above, _, last = file.path.rpartition("/")[0].rpartition("/")
    if isinstance(location_map, str) and last == METADATA_DIRECTORY:
        return LoadedTable(metadata, file, file._replace(path=above), store)
    return LoadedTable(metadata, file, place_of(metadata.location, location_map), store)


@dataclass(frozen=True)
class LocatedPointer:
    """A table of a catalog that only keeps the location of the newest metadata file.

    ``ask`` returns that location, and raises `TableNotFoundError` where the catalog no longer has the table.
    """

    ask: Callable[[], str] = field(repr=False)
    store: StoreSpec
    location_map: LocationMap | str | None = None

    def load(self, known: LoadedTable | None = None) -> LoadedTable:
        """Ask the catalog for the metadata file, and read it unless it is the known one."""
        file = place_of(self.ask(), self.location_map)
        if known is not None and known.file == file:
            return known
        return loaded_table(load_file(file, self.store), file, self.store, self.location_map)

    def committer(self, *, unsafe_single_writer: bool = False) -> Committer:  # noqa: ARG002
        """Refuse: commits to the catalog are not built yet."""
        raise UnsupportedFeatureError("tables of this catalog cannot be written to", feature="commit")
