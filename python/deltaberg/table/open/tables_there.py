"""What tells that there is a table in a directory already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from deltaberg.choices import Format
from deltaberg.errors import InvalidArgumentError, StorageError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["MARKS", "METADATA_SUFFIXES", "SHOWN_FORMATS", "check_format", "formats_at", "tables_around", "tables_at"]

#: What the directory of a table of each format contains.
MARKS: dict[Format, str] = {"delta": "_delta_log", "iceberg": "metadata"}
#: What messages call a table of each format.
SHOWN_FORMATS: dict[Format, str] = {"delta": "a Delta table", "iceberg": "an Iceberg table"}
#: How the names of metadata files of Iceberg tables end.
METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")


def formats_at(root: Location, store: StoreSpec) -> list[Format]:
    """Return the formats of which a directory contains what tables have."""
    storage = store.open(root)
    return [known for known, mark in MARKS.items() if storage.has_objects(root.join(mark).path)]


def tables_at(root: Location, store: StoreSpec) -> list[Format]:
    """Return the formats of the tables that a directory is: one that has other files under ``metadata`` is none."""
    return [known for known in formats_at(root, store) if known == "delta" or _has_metadata(root, store)]


def tables_around(root: Location, store: StoreSpec) -> Iterator[tuple[Location, Format]]:
    """Yield the tables that a directory is, or is in, the inner ones first."""
    place = root._replace(path=root.path.rstrip("/"))
    while place.path:
        # Whoever may read a directory need not be allowed to look above it.
        with suppress(StorageError):
            for known in tables_at(place, store):
                yield place, known
        place = place.parent


def _has_metadata(place: Location, store: StoreSpec) -> bool:
    listed = store.open(place).list_from(place.join(MARKS["iceberg"]).path)
    return any(meta.path.endswith(METADATA_SUFFIXES) for meta in listed)


def check_format(chosen: str | None, there: Sequence[str], location: str) -> None:
    """Refuse a table of one format where there is one of the other.

    Raises
    ------
    InvalidArgumentError
        There is.
    """
    if chosen is not None and there and chosen not in there:
        raise InvalidArgumentError(
            f"there is a table of the format {there[0]} already, which is not {chosen}",
            hint=f'use ⟪format="{there[0]}"⟫, or choose another directory',
            table=location,
        )
