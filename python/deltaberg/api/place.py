"""Where a table of either format is written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from deltaberg.api.opening import checked_format, only_format
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.storage.location import parse_location
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.open.tables_there import check_format, formats_at
from deltaberg.table.verbs.shared_arguments import StoreArguments

if TYPE_CHECKING:
    from deltaberg.catalogs.base import Catalog
    from deltaberg.catalogs.names import Identifier
    from deltaberg.delta.place import DeltaPlace
    from deltaberg.delta.table import DeltaTable
    from deltaberg.iceberg.place import IcebergPlace
    from deltaberg.iceberg.table import IcebergTable

__all__ = ["PlaceArguments", "place_to_write"]


class PlaceArguments(StoreArguments, total=False):
    """Where a table is found, beside its location or its name."""

    catalog: Catalog | None


@overload
def place_to_write(target: Any, format: Literal["delta"], catalog: None, options: OpenOptions) -> DeltaPlace: ...


@overload
def place_to_write(target: Any, format: Literal["iceberg"], catalog: None, options: OpenOptions) -> IcebergPlace: ...


@overload
def place_to_write(
    target: Any, format: str | None, catalog: Catalog | None, options: OpenOptions
) -> DeltaPlace | IcebergPlace: ...


def place_to_write(
    target: str | os.PathLike[str] | Identifier | DeltaTable | IcebergTable,
    format: str | None,
    catalog: Catalog | None,
    options: OpenOptions,
) -> DeltaPlace | IcebergPlace:
    """Return where a table is written.

    Raises
    ------
    InvalidArgumentError
        The table that is there already is of the other format, there is one of each and ``format`` is not given, or
        a catalog does not fit the other arguments.
    """
    chosen = checked_format(format)
    if catalog is not None:
        return _place_in_catalog(target, chosen, catalog, options)
    if isinstance(target, (str, os.PathLike)):
        root = parse_location(target)
        there = formats_at(root, options.store)
        check_format(chosen, there, str(root))
        if (chosen or only_format(there, root)) == "iceberg":
            from deltaberg.iceberg.place import IcebergPlace

            return IcebergPlace.at(root, options)
        from deltaberg.delta.place import DeltaPlace

        return DeltaPlace(str(root), options)
    from deltaberg.iceberg.table import IcebergTable

    if isinstance(target, IcebergTable):
        from deltaberg.iceberg.place import IcebergPlace

        _check_opened(target, chosen, "iceberg", options)
        return IcebergPlace.of(target)
    from deltaberg.delta.table import DeltaTable

    if not isinstance(target, DeltaTable):
        raise InvalidArgumentError(
            f"the target is of the type {type(target).__module__}.{type(target).__name__}",
            hint="pass the directory of a table, an open table of deltaberg, or the name of a table with its catalog",
        )
    from deltaberg.delta.place import DeltaPlace

    _check_opened(target, chosen, "delta", options)
    return DeltaPlace(target.location, options, target)


def _check_opened(table: DeltaTable | IcebergTable, chosen: str | None, own: str, options: OpenOptions) -> None:
    check_format(chosen, [own], table.location)
    asked, of_catalog = options.store, getattr(table, "_loaded", None)
    is_same = asked == table._options.store or (  # noqa: SLF001 - nobody shows secrets
        of_catalog is not None and bool(asked.options) and asked.options.items() <= of_catalog.store.options.items()
    )
    if options.storage_options is not None and not is_same:
        raise InvalidArgumentError(
            Hint("the table was opened with other ⟪storage_options⟫"),
            hint="leave them out, or pass the location of the table in place of the open one",
            table=table.location,
        )


def _place_in_catalog(target: Any, format: str | None, catalog: Any, options: OpenOptions) -> IcebergPlace:
    from deltaberg.catalogs.base import Catalog, place_in_catalog, table_pointer
    from deltaberg.iceberg.place import IcebergPlace

    if not isinstance(catalog, Catalog) or format == "delta" or not isinstance(target, (str, tuple, list)):
        raise InvalidArgumentError(
            Hint("⟪catalog⟫ is a catalog of Iceberg tables, and ⟪target⟫ the name of one of them"),
            hint="pass what ⟪load_catalog(…)⟫ returns, and a name such as 'sales.orders'",
        )
    return IcebergPlace(table_pointer(catalog, target), place_in_catalog(catalog, target), options)
