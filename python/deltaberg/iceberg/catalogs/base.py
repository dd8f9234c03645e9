"""What every catalog does, and how its tables are opened."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.iceberg.locate import METADATA_DIRECTORY
from deltaberg.iceberg.metadata import TableMetadata
from deltaberg.iceberg.pointer import LoadedTable, TablePointer, load_file
from deltaberg.iceberg.table import IcebergTable
from deltaberg.storage import Location, LocationMap, PathResolver, StoreSpec, parse_location
from deltaberg.table import Instant, checked_map

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

#: A name with dots between its levels, or the levels.
Identifier: TypeAlias = "str | Sequence[str]"
#: The levels of a name: those of the namespace, and for a table its own name behind them.
Levels: TypeAlias = tuple[str, ...]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@runtime_checkable
class Catalog(Protocol):
    """What knows tables by name. `load_catalog` makes one."""

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
            The namespace and the name, as ``"sales.eu.orders"`` or ``("sales", "eu", "orders")``.
        snapshot_id, ref, timestamp, location_map, validate, timezone
            As for `IcebergTable`.

        Raises
        ------
        TableNotFoundError
            Where the catalog has no such table.
        """
        ...

    def list_namespaces(self, namespace: Identifier = ()) -> list[Levels]:
        """List the namespaces directly below one, in the order of their names; those at the top by default.

        Raises
        ------
        NamespaceNotFoundError
            Where there is no such namespace.
        """
        ...

    def list_tables(self, namespace: Identifier) -> list[Levels]:
        """List the tables directly in a namespace, in the order of their names; views are none.

        Raises
        ------
        NamespaceNotFoundError
            Where there is no such namespace.
        """
        ...

    def table_exists(self, identifier: Identifier) -> bool:
        """Say whether there is a table of this name."""
        ...


class NamedCatalog(ABC):
    """What catalogs share: their name, and how a table is opened once there is a pointer to it."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def _pointer(self, levels: Levels, location_map: LocationMap | str | None) -> TablePointer:
        """Give what finds the newest metadata of a table."""

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
        """Open a table, as `Catalog` says."""
        levels = identifier_levels(identifier)
        try:
            return IcebergTable(
                self._pointer(levels, checked_map(location_map)),
                snapshot_id=snapshot_id,
                ref=ref,
                timestamp=timestamp,
                location_map=location_map,
                validate=validate,
                timezone=timezone,
            )
        except DeltabergError as error:
            raise error.with_context(table=".".join(levels), catalog=self.name) from None


def namespace_levels(namespace: Identifier) -> Levels:
    """Give the levels of a namespace; there are none at the top."""
    given: object = namespace.split(".") if isinstance(namespace, str) and namespace else namespace
    levels: tuple[object, ...] = tuple(given) if isinstance(given, (list, tuple, str)) else (None,)
    names = tuple(level for level in levels if isinstance(level, str) and level and not _CONTROL.search(level))
    if len(names) < len(levels):
        raise InvalidArgumentError(
            f"{namespace!r:.200} names no namespace or table", hint="pass 'a.b' or ('a', 'b'), without empty levels"
        )
    return names


def identifier_levels(identifier: Identifier) -> Levels:
    """Give the levels of a table's name."""
    levels = namespace_levels(identifier)
    if not levels:
        raise InvalidArgumentError("the name of a table is empty", hint="pass 'namespace.table'")
    return levels


def place_of(recorded: str, location_map: LocationMap | str | None) -> Location:
    """Give where something is now that a catalog recorded at a location."""
    local = PathResolver(Location("file", "", "/"), encoded=False).absolute(recorded)
    place = parse_location(recorded) if local is None else local
    mapping = None if isinstance(location_map, str) else location_map
    return PathResolver(place, mapping, encoded=False).resolve(recorded)


def loaded_table(
    metadata: TableMetadata, file: Location, store: StoreSpec, location_map: LocationMap | str | None
) -> LoadedTable:
    """Give a table whose catalog named its metadata file.

    The table is where its metadata says. Only a table that was moved as a whole is where that file was found.
    """
    above, _, last = file.path.rpartition("/")[0].rpartition("/")
    if isinstance(location_map, str) and last == METADATA_DIRECTORY:
        return LoadedTable(metadata, file, file._replace(path=above), store)
    return LoadedTable(metadata, file, place_of(metadata.location, location_map), store)


@dataclass(frozen=True)
class LocatedPointer:
    """A table of a catalog that keeps the location of the newest metadata file, and nothing else.

    ``ask`` raises `TableNotFoundError` where the catalog has the table no longer.
    """

    ask: Callable[[], str] = field(repr=False)
    store: StoreSpec
    location_map: LocationMap | str | None = None

    def load(self, known: LoadedTable | None = None) -> LoadedTable:
        """Ask the catalog; the file is read only where it is another one."""
        file = place_of(self.ask(), self.location_map)
        if known is not None and known.file == file:
            return known
        return loaded_table(load_file(file, self.store), file, self.store, self.location_map)
