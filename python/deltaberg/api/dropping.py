"""Dropping tables of either format."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from deltaberg.api.place import PlaceArguments
from deltaberg.errors import InvalidArgumentError
from deltaberg.signatures import public, takes
from deltaberg.storage.location import parse_location
from deltaberg.table.maintain.cleanup import CleanupResult, DropRequest
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.open.tables_there import formats_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from deltaberg.catalogs.names import Identifier

__all__ = ["drop_table"]


@public
@takes(PlaceArguments)
def drop_table(
    target: str | os.PathLike[str] | Identifier,
    *,
    purge: bool = False,
    dry_run: bool = False,
    locations: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    on_spark: SparkSession | None = None,
    **place: Unpack[PlaceArguments],
) -> CleanupResult | None:
    """Drop a table: of a directory with its files, or of a catalog.

    A drop that was interrupted is repeated. Nobody can read or write the table meanwhile.

    Parameters
    ----------
    target
        The directory of the table; with ``catalog``, its name there.
    purge
        Whether its files go. A directory is its files, so that it must be True there.
    dry_run
        Whether the files that would go are only found.
    locations
        Directories out of the location of an Iceberg table that are its alone, such as its ``write.data.path``: files
        that it names there go as well. Otherwise they stay, since other tables may have files there.
    on_spark
        A session whose tasks delete files where at least 10,000 go.
    **place
        ``catalog``: the catalog of the table, from `load_catalog`. ``storage_options``: what the store needs, as for
        `open_table`.

    Returns
    -------
    CleanupResult or None
        The files that were deleted, or would be. None without a purge, and where the catalog deletes them.

    Raises
    ------
    TableNotFoundError
        There is no table.
    InvalidArgumentError
        The files of a directory are to stay, or those that are to go may be those of others; or a directory of
        ``locations`` is not one of the table.
    CommitConflictError
        Another writer changed the table first. It is still there. Or another process has ended the drop of a Delta
        table, and there may be another table in its directory, which stays.
    UnsupportedFeatureError
        The table needs a feature that is not supported, or a catalog keeps the Iceberg table of the directory.

    Examples
    --------
    >>> drop_table(table_path, purge=True, dry_run=True).deleted_files > 0
    True
    """
    options, catalog = OpenOptions.of(place), place.get("catalog")
    if catalog is not None:
        name = cast("Identifier", target)
        return catalog.drop_table(name, purge=purge, dry_run=dry_run, locations=locations, on_spark=on_spark)
    asked = DropRequest(purge, dry_run, locations, on_spark)
    if not asked.purge:
        raise InvalidArgumentError(
            "a table in a directory is its files, so that it cannot be dropped without them",
            hint="pass ⟪purge=True⟫, or the ⟪catalog⟫ of the table",
        )
    root, store = parse_location(cast("str", target)), options.store
    if "delta" in formats_at(root, store):
        from deltaberg.delta.log.directory import LogDirectory
        from deltaberg.delta.maintain.cleaning import dropped_table

        return dropped_table.drop_table(LogDirectory(root, store), asked)
    from deltaberg.iceberg.maintain.cleaning.dropped_directory import DroppedDirectory

    return DroppedDirectory.find(root, store, asked).run()
