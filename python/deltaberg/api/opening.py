"""Opening tables of either format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args, overload

from deltaberg.choices import Format
from deltaberg.errors import InvalidArgumentError
from deltaberg.signatures import public, takes
from deltaberg.storage.location import Location, parse_location
from deltaberg.table.arguments import checked_choice
from deltaberg.table.open.not_found import table_not_found
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.open.tables_there import MARKS, METADATA_SUFFIXES, formats_at
from deltaberg.table.verbs.shared_arguments import DeltaStateArguments, IcebergStateArguments, StateArguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.delta.table import DeltaTable
    from deltaberg.iceberg.table import IcebergTable

__all__ = ["checked_format", "only_format", "open_table"]

#: The entry by which the directory of a table of each format is recognized.


@overload
def open_table(
    location: str | os.PathLike[str], format: Literal["delta"], **state: Unpack[DeltaStateArguments]
) -> DeltaTable: ...


@overload
def open_table(
    location: str | os.PathLike[str], format: Literal["iceberg"], **state: Unpack[IcebergStateArguments]
) -> IcebergTable: ...


@overload
def open_table(
    location: str | os.PathLike[str], format: None = ..., **state: Unpack[StateArguments]
) -> DeltaTable | IcebergTable: ...


@public
@takes(StateArguments)
def open_table(
    location: str | os.PathLike[str], format: Format | None = None, **state: Unpack[StateArguments]
) -> DeltaTable | IcebergTable:
    """Open a table.

    Parameters
    ----------
    location
        A directory, or a metadata file of an Iceberg table: a local path, or the URL of an object store.
    format
        ``delta`` or ``iceberg``; by default, the directory is inspected.
    **state
        ``version`` of a Delta table; ``snapshot_id`` or ``ref``, the name of a branch or tag, of an Iceberg table; and
        ``timestamp``, ``storage_options``, ``location_map``, ``validate`` and ``timezone``, as for `DeltaTable` and
        `IcebergTable`.

    Returns
    -------
    DeltaTable | IcebergTable
        A type checker knows which, if ``format`` is a literal; otherwise it is either of them.

    Raises
    ------
    TableNotFoundError
        If there is no table.
    UnsupportedFeatureError
        If the table needs a feature that this library does not have.

    Examples
    --------
    >>> open_table(table_path).version
    0
    >>> open_table(iceberg_path).format_version
    2
    """
    known = checked_format(format)
    options = OpenOptions.of(state)
    found = known or _detect(location, options)
    if found == "delta":
        # Each format is imported where it is wanted: that is most of the time to a first row.
        from deltaberg.delta.table import open_delta_table

        return open_delta_table(location, options)
    from deltaberg.iceberg.table import open_iceberg_table

    return open_iceberg_table(location, options)


def checked_format(format: object) -> Format | None:
    """Return the name of a format in lower case; None for None."""
    if format is None:
        return None
    given = format.lower() if isinstance(format, str) else format
    chosen: Format = checked_choice("format", given, get_args(Format), "leave it out to have the directory inspected")
    return chosen


def _detect(location: str | os.PathLike[str], options: OpenOptions) -> str:
    root = parse_location(location)
    if root.path.endswith(METADATA_SUFFIXES):
        return "iceberg"
    # A directory in the place of the only file is named by the reader of the format that it would be of.
    found = only_format(formats_at(root, options.store) or _formats_of_directories(root, options), root)
    if found is None:
        lacks = "the directory contains neither _delta_log nor metadata"
        raise table_not_found("there is no table", lacks, root, options.store)
    return found


def _formats_of_directories(root: Location, options: OpenOptions) -> list[str]:
    storage = options.store.open(root)
    return [known for known, mark in MARKS.items() if any(storage.list_from(root.join(mark).path, directories=True))]


def only_format(formats: Sequence[str], root: Location) -> str | None:
    """Return the format of the table in a directory; None if there is no table.

    Raises
    ------
    InvalidArgumentError
        There is a table of each format.
    """
    if len(formats) > 1:
        raise InvalidArgumentError(
            "the directory contains a Delta table and an Iceberg table",
            hint='use ⟪format="delta"⟫ or ⟪format="iceberg"⟫, or name the metadata file of the Iceberg table',
            table=str(root),
        )
    return formats[0] if formats else None
