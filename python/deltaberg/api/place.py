"""Where a table of either format is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from deltaberg.api.opening import checked_format, formats_at, only_format
from deltaberg.errors import InvalidArgumentError
from deltaberg.storage import parse_location
from deltaberg.table import OpenOptions

if TYPE_CHECKING:
    from deltaberg.delta import DeltaTable
    from deltaberg.iceberg import IcebergTable
    from deltaberg.iceberg.catalogs.base import Catalog
    from deltaberg.iceberg.catalogs.names import Identifier

__all__ = ["WritePlace", "place_to_write"]


class WritePlace(NamedTuple):
    """Where a table is written. Iceberg tables have a pointer, or are open."""

    location: str
    pointer: Any = None


def place_to_write(
    target: str | os.PathLike[str] | Identifier | DeltaTable | IcebergTable,
    format: str | None,
    catalog: Catalog | None,
    options: OpenOptions,
) -> WritePlace:
    """Return where a table is written.

    Raises
    ------
    InvalidArgumentError
        The table that is there already is of the other format, there is one of each and ``format`` is not given, or
        a catalog does not fit the other arguments.
    """
    chosen = checked_format(format)
    if catalog is not None:
        return _place_in_catalog(target, chosen, catalog)
    if isinstance(target, (str, os.PathLike)):
        root = parse_location(target)
        there = formats_at(root, options)
        found = chosen or only_format(there, root) or "delta"
        _check_format(chosen, there, str(root))
        if found == "delta":
            return WritePlace(str(root))
        from deltaberg.iceberg.location.pointer import FilePointer

        return WritePlace(str(root), FilePointer(root, options.store))
    from deltaberg.iceberg import IcebergTable

    if isinstance(target, IcebergTable):
        _check_format(chosen, ["iceberg"], target.location)
        return WritePlace(target.location, target)
    from deltaberg.delta.table import DeltaTable

    if not isinstance(target, DeltaTable):
        raise InvalidArgumentError(
            f"the target is of the type {type(target).__module__}.{type(target).__name__}",
            hint="pass the directory of a table, an open table of deltaberg, or the name of a table with its catalog",
        )
    _check_format(chosen, ["delta"], target.location)
    return WritePlace(target.location)


def _check_format(chosen: str | None, there: Sequence[str], location: str) -> None:
    if chosen is not None and there and chosen not in there:
        raise InvalidArgumentError(
            f"there is a table of the format {there[0]} already, which is not {chosen}",
            hint=f'pass format="{there[0]}", or choose another directory',
            table=location,
        )


def _place_in_catalog(target: Any, format: str | None, catalog: Catalog) -> WritePlace:
    from deltaberg.iceberg.catalogs.base import NamedCatalog, default_location, table_pointer

    if not isinstance(catalog, NamedCatalog) or format == "delta" or not isinstance(target, (str, tuple, list)):
        raise InvalidArgumentError(
            "catalog is a catalog of Iceberg tables, and target the name of one of them",
            hint="pass what load_catalog returns, and a name such as 'sales.orders'",
        )
    return WritePlace(default_location(catalog, target), table_pointer(catalog, target))
