"""Finding out what became of a commit."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from deltaberg.api.opening import formats_at
from deltaberg.api.place import place_to_write
from deltaberg.signatures import public
from deltaberg.storage import StoreOptions, parse_location
from deltaberg.table import CommitResult, OpenOptions, checked_text

if TYPE_CHECKING:
    from deltaberg.iceberg.catalogs.base import Catalog
    from deltaberg.iceberg.catalogs.names import Identifier

__all__ = ["find_commit"]

#: The first version that a commit may make, and a random id.
_DELTA_TOKEN = re.compile(r"\d+(-[0-9a-f]+){5}")


@public
def find_commit(
    target: str | os.PathLike[str] | Identifier,
    token: str,
    *,
    catalog: Catalog | None = None,
    storage_options: StoreOptions | None = None,
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

    Returns
    -------
    CommitResult or None
        None if the table has no such commit. While a request is still on its way, it may get one.

    Raises
    ------
    InvalidArgumentError
        The text is not a token of a commit to a table of this format.
    CommitUnknownError
        Log entries of a Delta table were cleaned up that could be the commit.

    Examples
    --------
    >>> find_commit(table_path, "1-6a5f0d4e-3c52-4a8e-9d1b-7e2f8c0b4a11") is None
    True
    """
    checked_text("token", token, 'pass context["token"] of a CommitUnknownError')
    options = OpenOptions(storage_options=storage_options)
    place = place_to_write(target, _format_of(target, token, catalog, options), catalog, options)
    if place.pointer is not None:
        from deltaberg.iceberg.transaction.find import find_commit_of as find_snapshot

        return find_snapshot(place.pointer.committer(), token)
    from deltaberg.delta.log.directory import LogDirectory
    from deltaberg.delta.transaction.find import find_commit_of

    log = LogDirectory(parse_location(place.location), options.store)
    return find_commit_of(log, token)


def _format_of(target: Any, token: str, catalog: Catalog | None, options: OpenOptions) -> str | None:
    """Return the format that the token tells if the directory does not: it has no table, or a table of each format."""
    if catalog is not None or not isinstance(target, (str, os.PathLike)):
        return None
    if len(formats_at(parse_location(target), options)) == 1:
        return None
    return "delta" if _DELTA_TOKEN.fullmatch(token) else "iceberg"
