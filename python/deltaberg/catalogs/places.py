"""Where a table of a catalog is, given what the catalog records."""

from __future__ import annotations

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.storage.location import Location, LocationMap, PathResolver, parse_location
from deltaberg.storage.stores import StoreSpec

__all__ = ["check_at_its_place", "full_location", "loaded_table", "place_of"]


def check_at_its_place(location_map: LocationMap | str | None) -> None:
    """Refuse to write to a table that is read by a location map, which no other reader has.

    Raises
    ------
    InvalidArgumentError
        There is a map.
    """
    if location_map is not None:
        raise InvalidArgumentError(
            Hint("a table that is opened with ⟪location_map⟫ cannot be written to"),
            hint="load the table without ⟪location_map⟫",
        )


def place_of(recorded: str, location_map: LocationMap | str | None) -> Location:
    """Return the present location of something, given the location that a catalog recorded."""
    local = PathResolver(Location("file", "", "/"), encoded=False).absolute(recorded)
    place = parse_location(recorded) if local is None else local
    mapping = None if isinstance(location_map, str) else location_map
    return PathResolver(place, mapping, encoded=False).resolve(recorded)


def full_location(location: str) -> str:
    """Return a location for metadata to record: a local directory by its whole path, and URLs as they are.

    Examples
    --------
    >>> full_location("s3://bucket/sales"), full_location("/lake/sales"), full_location("sales")[0]
    ('s3://bucket/sales', '/lake/sales', '/')
    """
    is_full = not location or "://" in location or location.startswith(("/", "file:"))
    return location if is_full else str(parse_location(location))


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
