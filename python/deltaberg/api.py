"""The composition root: what opens a table of whichever format it is."""

from __future__ import annotations

import datetime as dt
import os

from deltaberg.delta import DeltaTable
from deltaberg.errors import InvalidArgumentError, TableNotFoundError, UnsupportedFeatureError
from deltaberg.storage import LocationMap, StoreOptions, open_store, parse_location

__all__ = ["open_table"]

_ICEBERG_METADATA = "metadata"


def open_table(
    location: str | os.PathLike[str],
    format: str | None = None,
    *,
    version: int | None = None,
    timestamp: dt.datetime | dt.date | str | None = None,
    storage_options: StoreOptions | None = None,
    location_map: LocationMap | str | None = None,
    validate: bool = False,
    timezone: str = "UTC",
) -> DeltaTable:
    """Open a table.

    Parameters
    ----------
    location
        A directory: a local path, or the URL of an object store.
    format
        ``delta``; found by looking at the directory by default.
    version, timestamp, storage_options, location_map, validate, timezone
        As for `DeltaTable`.

    Raises
    ------
    TableNotFoundError
        Where there is no table.
    UnsupportedFeatureError
        Where the table needs what this library cannot do.

    Examples
    --------
    >>> open_table(table_path).version
    0
    """
    found = format or _detect(location, storage_options)
    if found.lower() != "delta":
        raise InvalidArgumentError(f"format is {found!r}", hint='"delta" is known')
    return DeltaTable(
        location,
        version=version,
        timestamp=timestamp,
        storage_options=storage_options,
        location_map=location_map,
        validate=validate,
        timezone=timezone,
    )


def _detect(location: str | os.PathLike[str], storage_options: StoreOptions | None) -> str:
    root = parse_location(location)
    storage = open_store(root, storage_options)
    if storage.has_objects(root.join("_delta_log").path):
        return "delta"
    if storage.has_objects(root.join(_ICEBERG_METADATA).path):
        raise UnsupportedFeatureError(
            "this looks like an Iceberg table; only Delta tables can be read",
            hint='pass format="delta" if it is one',
            table=str(root),
        )
    raise TableNotFoundError(
        "there is no Delta table: _delta_log is missing or empty",
        hint="check the location, and the credentials that it needs",
        table=str(root),
    )
