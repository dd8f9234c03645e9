"""Directories of files of others that become tables where they are."""

from __future__ import annotations

from contextlib import suppress

from deltaberg.errors import InvalidArgumentError, StorageError
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.not_found import table_not_found
from deltaberg.table.open.tables_there import MARKS, METADATA_SUFFIXES, formats_at

__all__ = ["is_hidden", "source_files"]

_SHOWN = {"delta": "a Delta table", "iceberg": "an Iceberg table"}


def is_hidden(name: str) -> bool:
    """Return whether Spark ignores a file or directory of this name. Partition directories may begin with ``_``."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def source_files(root: Location, store: StoreSpec) -> list[tuple[str, ObjectMeta]]:
    """Return the files below a directory, in the order of their paths, without those that Spark ignores.

    Returns
    -------
    list
        The path of each below the directory, and what the store says of it.

    Raises
    ------
    TableNotFoundError
        There are no files.
    InvalidArgumentError
        The directory is a table, or in one, or contains one. Not all files of a table have rows of it, and the clean-up
        of each of two tables would delete files of the other.
    """
    _check_outside_of_tables(root, store)
    prefix, files = f"{root.path.rstrip('/')}/", []
    for meta in store.open(root).walk(root.path):
        path = meta.path.removeprefix(prefix) if prefix != "/" else meta.path.lstrip("/")
        _refuse_file_of_table(root, path)
        if not any(map(is_hidden, path.split("/"))):
            files.append((path, meta))
    if not files:
        raise table_not_found("there is nothing to convert", "the directory has no data files", root, store)
    return sorted(files, key=lambda file: file[0])


def _check_outside_of_tables(root: Location, store: StoreSpec) -> None:
    place, how = root._replace(path=root.path.rstrip("/")), "is"
    while place.path:
        # Whoever may read a directory need not be allowed to look above it.
        with suppress(StorageError):
            for known in formats_at(place, store):
                if known == "delta" or _has_metadata(place, store):
                    raise _refused(root, how, known, place)
        place, how = place._replace(path=place.path.rpartition("/")[0]), "is in"


def _has_metadata(place: Location, store: StoreSpec) -> bool:
    listed = store.open(place).list_from(place.join(MARKS["iceberg"]).path)
    return any(meta.path.endswith(METADATA_SUFFIXES) for meta in listed)


def _refuse_file_of_table(root: Location, path: str) -> None:
    for known, mark in MARKS.items():
        above, is_there, name = f"/{path}".partition(f"/{mark}/")
        is_of_table = known == "delta" or ("/" not in name and name.endswith(METADATA_SUFFIXES))
        if is_there and is_of_table and not any(map(is_hidden, above.split("/"))):
            raise _refused(root, "contains", known, root.join(above.strip("/")))


def _refused(root: Location, how: str, format: str, place: Location) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the directory {how} {_SHOWN[format]}, not all of whose files have rows of its newest version",
        hint="append the rows of that table to a new one, or choose a directory apart from it",
        directory=str(root),
        table=str(place),
    )
