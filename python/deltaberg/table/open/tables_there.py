"""What tells that there is a table in a directory already."""

from __future__ import annotations

from collections.abc import Sequence

from deltaberg.choices import Format
from deltaberg.errors import InvalidArgumentError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["MARKS", "METADATA_SUFFIXES", "check_format", "formats_at"]

#: What the directory of a table of each format contains.
MARKS: dict[Format, str] = {"delta": "_delta_log", "iceberg": "metadata"}
#: How the names of metadata files of Iceberg tables end.
METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")


def formats_at(root: Location, store: StoreSpec) -> list[Format]:
    """Return the formats of which a directory contains what tables have."""
    storage = store.open(root)
    return [known for known, mark in MARKS.items() if storage.has_objects(root.join(mark).path)]


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
