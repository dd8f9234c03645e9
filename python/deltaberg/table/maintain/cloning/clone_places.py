"""Where a clone may be: apart from its source, and in its store if it names files of the source."""

from __future__ import annotations

import os
from collections.abc import Callable

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.storage.base import Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["check_apart", "check_empty", "check_one_store"]


def check_apart(store: StoreSpec, source: Location, target_store: StoreSpec, target: Location) -> None:
    """Refuse a clone inside of its source, or around it: the vacuum of one would take the files of the other.

    Raises
    ------
    InvalidArgumentError
        It is there.
    """
    if not store.is_same(source, target_store, target):
        return
    paths = [one.path for one in (source, target)]
    if source.scheme == "file":
        try:
            paths = [os.path.realpath(path) for path in paths]
        except ValueError as error:
            raise InvalidArgumentError(
                f"{shown_value(target.path)} is not a path: {error}", hint="choose another"
            ) from None
    first, second = (f"{path.rstrip('/')}/" for path in paths)
    if first.startswith(second) or second.startswith(first):
        raise InvalidArgumentError(
            "one of the two directories would be in the other",
            hint="choose a directory apart from the other one",
            table=str(source),
            target=str(target),
        )


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
