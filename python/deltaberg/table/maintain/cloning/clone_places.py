"""Where a clone may be: apart from its source, and in its store if it names files of the source."""

from __future__ import annotations

import os
from collections.abc import Callable

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.storage.base import Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.tables_there import SHOWN_FORMATS, tables_around

__all__ = ["check_apart", "check_empty", "check_one_store", "check_outside"]


def check_apart(store: StoreSpec, source: Location, target_store: StoreSpec, target: Location) -> None:
    """Refuse a clone inside of its source, around it, or in another table: one would clean up files of the other.

    Raises
    ------
    InvalidArgumentError
        It is there.
    """
    if store.is_same(source, target_store, target):
        first, second = (f"{place.path.rstrip('/')}/" for place in map(_found, (source, target)))
        if first.startswith(second) or second.startswith(first):
            raise InvalidArgumentError(
                "one of the two directories would be in the other",
                hint="choose a directory apart from the other one",
                table=str(source),
                target=str(target),
            )
    check_outside(target_store, target)


def check_outside(store: StoreSpec, target: Location) -> None:
    """Refuse a new table inside of another one, whose clean-up would delete its files.

    Raises
    ------
    InvalidArgumentError
        It is there.
    """
    above = _found(target)
    above = above._replace(path=above.path.rstrip("/").rpartition("/")[0])
    for place, known in tables_around(above, store):
        raise InvalidArgumentError(
            f"the directory would be in {SHOWN_FORMATS[known]}, whose clean-up would delete its files",
            hint="choose a directory apart from it",
            table=str(place),
            target=str(target),
        )


def _found(place: Location) -> Location:
    """Return a place without symbolic links."""
    if place.scheme != "file":
        return place
    try:
        return place._replace(path=os.path.realpath(place.path))
    except ValueError as error:
        raise InvalidArgumentError(f"{shown_value(place.path)} is not a path: {error}", hint="choose another") from None


def check_one_store(store: StoreSpec, source: Location, target_store: StoreSpec, target: Location) -> None:
    """Refuse a clone in another store, where readers do not look for the files of its source.

    Raises
    ------
    InvalidArgumentError
        It is in another one.
    """
    if not store.is_same(source, target_store, target):
        raise InvalidArgumentError(
            "a shallow clone names the files of the table, which readers do not look for in another store",
            hint="choose a place in the store of the table, or make a deep clone",
            table=str(source),
            target=str(target),
        )


def check_empty(storage: Storage, root: Location, is_left: Callable[[str], bool]) -> None:
    """Refuse a directory with files, but for those that an interrupted deep clone has left.

    Parameters
    ----------
    is_left
        Whether a path below the directory is that of such a file.

    Raises
    ------
    InvalidArgumentError
        There is another one.
    """
    prefix = f"{root.path.rstrip('/')}/"
    for meta in storage.walk(root.path):
        path = meta.path.removeprefix(prefix)
        if not is_left(path):
            raise InvalidArgumentError(
                "there are files in the directory of the clone, and no table",
                hint="choose an empty directory",
                target=str(root),
                file=path,
            )
