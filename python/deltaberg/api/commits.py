"""Finding out what became of a commit."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from deltaberg.api.place import PlaceArguments, place_to_write
from deltaberg.signatures import public, takes
from deltaberg.storage.location import parse_location
from deltaberg.table.arguments import checked_text
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.open.tables_there import formats_at

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.catalogs.base import Catalog
    from deltaberg.catalogs.names import Identifier

__all__ = ["find_commit"]

#: The first version that a commit may make, and a random id.
_DELTA_TOKEN = re.compile(r"\d+(-[0-9a-f]+){5}")


@public
@takes(PlaceArguments)
def find_commit(
    target: str | os.PathLike[str] | Identifier,
    token: str,
    **place: Unpack[PlaceArguments],
) -> CommitResult | None:
    """Return the outcome of a commit for which the store or the catalog gave no answer.

    Parameters
    ----------
    target
        The directory of the table; with ``catalog``, its name there.
    token
        ``context["token"]`` of a `CommitUnknownError`, or ``token`` of a `CommitResult`.
    **place
        ``catalog``: the catalog of the table, from `load_catalog`. ``storage_options``: what the store needs, as for
        `open_table`.

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
    options, catalog = OpenOptions.of(place), place.get("catalog")
    return place_to_write(target, _format_of(target, token, catalog, options), catalog, options).find_commit(token)


def _format_of(target: Any, token: str, catalog: Catalog | None, options: OpenOptions) -> str | None:
    """Return the format that the token tells if the directory does not: it has no table, or a table of each format."""
    if catalog is not None or not isinstance(target, (str, os.PathLike)):
        return None
    if len(formats_at(parse_location(target), options.store)) == 1:
        return None
    return "delta" if _DELTA_TOKEN.fullmatch(token) else "iceberg"
