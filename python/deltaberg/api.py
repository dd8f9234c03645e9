"""The composition root: what opens a table of whichever format it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from deltaberg.errors import InvalidArgumentError, TableNotFoundError
from deltaberg.storage import LocationMap, StoreOptions, open_store, parse_location
from deltaberg.table import Instant, checked_options

if TYPE_CHECKING:
    from deltaberg.delta import DeltaTable
    from deltaberg.iceberg import IcebergTable

__all__ = ["open_table"]

#: What a directory of a table of each format has in it.
_MARKS = {"delta": "_delta_log", "iceberg": "metadata"}
_METADATA_FILES = (".metadata.json", ".metadata.json.gz")


@overload
def open_table(
    location: str | os.PathLike[str],
    format: Literal["delta"],
    *,
    version: int | None = ...,
    timestamp: Instant | None = ...,
    storage_options: StoreOptions | None = ...,
    location_map: LocationMap | str | None = ...,
    validate: bool = ...,
    timezone: str = ...,
) -> DeltaTable: ...


@overload
def open_table(
    location: str | os.PathLike[str],
    format: Literal["iceberg"],
    *,
    snapshot_id: int | None = ...,
    ref: str | None = ...,
    timestamp: Instant | None = ...,
    storage_options: StoreOptions | None = ...,
    location_map: LocationMap | str | None = ...,
    validate: bool = ...,
    timezone: str = ...,
) -> IcebergTable: ...


@overload
def open_table(
    location: str | os.PathLike[str],
    format: str | None = ...,
    *,
    version: int | None = ...,
    snapshot_id: int | None = ...,
    ref: str | None = ...,
    timestamp: Instant | None = ...,
    storage_options: StoreOptions | None = ...,
    location_map: LocationMap | str | None = ...,
    validate: bool = ...,
    timezone: str = ...,
) -> Any: ...


def open_table(  # noqa: PLR0913
    location: str | os.PathLike[str],
    format: str | None = None,
    *,
    version: int | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    timestamp: Instant | None = None,
    storage_options: StoreOptions | None = None,
    location_map: LocationMap | str | None = None,
    validate: bool = False,
    timezone: str = "UTC",
) -> DeltaTable | IcebergTable:
    """Open a table.

    Parameters
    ----------
    location
        A directory, or a metadata file of an Iceberg table: a local path, or the URL of an object store.
    format
        ``delta`` or ``iceberg``; found by looking at the directory by default.
    version
        The version of a Delta table.
    snapshot_id, ref
        The snapshot, or the branch or tag, of an Iceberg table.
    timestamp, storage_options, location_map, validate, timezone
        As for `DeltaTable` and `IcebergTable`.

    Returns
    -------
    DeltaTable | IcebergTable
        A type checker knows which where ``format`` is a literal.

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
    >>> open_table(iceberg_path).format_version
    2
    """
    if format is not None and not isinstance(format, str):
        raise InvalidArgumentError(f"format is {format!r}", hint=f"known are {', '.join(_MARKS)}")
    found = (format or _detect(location, storage_options)).lower()
    shared: dict[str, Any] = {
        "timestamp": timestamp,
        "storage_options": storage_options,
        "location_map": location_map,
        "validate": validate,
        "timezone": timezone,
    }
    if found == "delta":
        # Each format is imported where it is wanted: that is most of the time to a first row.
        from deltaberg.delta import DeltaTable

        _refuse(found, snapshot_id=snapshot_id, ref=ref)
        return DeltaTable(location, version=version, **shared)
    if found == "iceberg":
        from deltaberg.iceberg import IcebergTable

        _refuse(found, version=version)
        return IcebergTable(location, snapshot_id=snapshot_id, ref=ref, **shared)
    raise InvalidArgumentError(f"format is {format!r}", hint=f"known are {', '.join(_MARKS)}")


def _refuse(format: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidArgumentError(f"{name} was given, and this is a table of format {format}")


def _detect(location: str | os.PathLike[str], storage_options: StoreOptions | None) -> str:
    root = parse_location(location)
    if root.path.endswith(_METADATA_FILES):
        return "iceberg"
    storage = open_store(root, checked_options(storage_options))
    found = [known for known, mark in _MARKS.items() if storage.has_objects(root.join(mark).path)]
    if len(found) > 1:
        raise InvalidArgumentError(
            "the directory holds a Delta table and an Iceberg table",
            hint='pass format="delta" or format="iceberg"',
            table=str(root),
        )
    if not found:
        raise TableNotFoundError(
            "there is no table: neither _delta_log nor metadata lies in the directory",
            hint="check the location, and the credentials that it needs",
            table=str(root),
        )
    return found[0]
