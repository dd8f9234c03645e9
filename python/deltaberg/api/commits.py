"""Finding out what became of a commit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltaberg.api.writing import place_to_write
from deltaberg.storage import StoreOptions, parse_location
from deltaberg.table import CommitResult, OpenOptions

if TYPE_CHECKING:
    from deltaberg.iceberg.catalogs.base import Catalog, Identifier

__all__ = ["find_commit"]


def find_commit(
    target: str | os.PathLike[str] | Identifier,
    token: str,
    *,
    catalog: Catalog | None = None,
    storage_options: StoreOptions | None = None,
    format: str | None = None,
) -> CommitResult | None:
    """Return what became of a commit for which the store or the catalog gave no answer.

    Parameters
    ----------
    target
        The directory of the table; with ``catalog``, its name there.
    token
        ``context["token"]`` of a `CommitUnknownError`, or ``token`` of a `CommitResult`.
    catalog
        The catalog of the table, from `load_catalog`.
    storage_options
        What the store needs, as for `open_table`.
    format
        ``delta`` or ``iceberg``; by default the directory is inspected.

    Returns
    -------
    CommitResult or None
        None if the table has no such commit. While a request is still on its way, it may get one.

    Raises
    ------
    InvalidArgumentError
        The text is not a token, or the directory contains a table of each format and ``format`` is not given.
    CommitUnknownError
        Log entries of a Delta table were cleaned up that could be the commit.

    Examples
    --------
    >>> find_commit(table_path, "1-6a5f0d4e-3c52-4a8e-9d1b-7e2f8c0b4a11") is None
    True
    """
    options = OpenOptions(storage_options=storage_options)
    place = place_to_write(target, format, catalog, options)
    if place.pointer is not None:
        from deltaberg.iceberg.transaction.find import find_commit_of as find_snapshot

        return find_snapshot(place.pointer.committer(), token)
    from deltaberg.delta.log.directory import LogDirectory
    from deltaberg.delta.transaction.find import find_commit_of

    log = LogDirectory(parse_location(place.location), options.store)
    return find_commit_of(log, token)
