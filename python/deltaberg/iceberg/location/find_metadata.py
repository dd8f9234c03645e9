"""Finding the newest metadata file of a table (Iceberg spec, "File System Tables")."""

from __future__ import annotations

import re
from typing import NamedTuple

from deltaberg.errors import NotAFileError, ObjectNotFoundError, TableNotFoundError, TooLargeError
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.not_found import table_not_found
from deltaberg.table.removal import FileKind

__all__ = [
    "METADATA_DIRECTORY",
    "METADATA_FILE",
    "VERSION_HINT",
    "MetadataPlace",
    "find_metadata",
    "has_metadata",
    "is_metadata_file",
]

METADATA_DIRECTORY = "metadata"
VERSION_HINT = "version-hint.text"
_NAME = re.compile(
    r"(?:v(?P<number>[0-9]{1,18})|(?P<counter>[0-9]{1,18})-[^/\x00-\x1f]{0,180}?)(?:\.gz)?\.metadata\.json(?:\.gz)?"
)
METADATA_FILE = FileKind("a metadata file", _NAME)
_VERSION = re.compile(r"v?([0-9]{1,18})")
#: The most bytes of a hint: a number, or the name of a file.
_MOST_HINT = 1 << 16
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")


class MetadataPlace(NamedTuple):
    """A metadata file as it was found, and the directory of its table."""

    file: Location
    root: Location
    meta: ObjectMeta


def is_metadata_file(location: Location) -> bool:
    """Return whether a location names a metadata file rather than the directory of a table."""
    return location.path.endswith((".metadata.json", ".metadata.json.gz"))


def find_metadata(location: Location, store: StoreSpec) -> MetadataPlace:
    """Return the metadata file to read.

    If the location is a metadata file, it is that one. In a table's directory, the search begins at the version hint
    and ends at the highest version that exists, because a writer may have been stopped before it wrote the hint.
    Without a usable hint, the directory is listed.

    Raises
    ------
    TableNotFoundError
        If there is no metadata file.
    """
    if is_metadata_file(location):
        head, _, _ = location.path.rpartition("/")
        above, _, last = head.rpartition("/")
        root = location._replace(path=above if last == METADATA_DIRECTORY else head)
        meta = _meta(location, store)
        if meta is None:
            raise TableNotFoundError(
                "there is no such metadata file", hint="open the table by its directory", file=str(location)
            )
        return MetadataPlace(location, root, meta)
    newest = _newest(location, store)
    if newest is None:
        raise table_not_found(
            "there is no Iceberg table",
            "the directory has no metadata file in metadata/",
            location,
            store,
            hint="check the location; load a table of a catalog by its name, with ⟪load_catalog(…)⟫",
        )
    return MetadataPlace(location._replace(path=newest.path), location, newest)


def has_metadata(location: Location, store: StoreSpec) -> bool:
    """Return whether a directory is that of a table."""
    return _newest(location, store) is not None


def _newest(location: Location, store: StoreSpec) -> ObjectMeta | None:
    directory = location.join(METADATA_DIRECTORY)
    return _by_hint(directory, store) or _by_listing(directory, store)


def _by_hint(directory: Location, store: StoreSpec) -> ObjectMeta | None:
    """Follow the version hint, and walk up from it to the newest version."""
    storage = store.open(directory)
    try:
        hint = storage.get(directory.join(VERSION_HINT).path, _MOST_HINT).decode(errors="replace").strip()
    except (ObjectNotFoundError, TooLargeError):
        return None
    version = _VERSION.fullmatch(hint)
    if version is None:
        # Some writers put the name of the file into the hint.
        name = f"{hint}.metadata.json"
        return _meta(directory.join(name), store) if _NAME.fullmatch(name) else None
    number = int(version[1])
    newest = _of_version(directory, number, store)
    while newest is not None:
        number += 1
        newer = _of_version(directory, number, store)
        if newer is None:
            return newest
        newest = newer
    return None


def _of_version(directory: Location, number: int, store: StoreSpec) -> ObjectMeta | None:
    files = (_meta(directory.join(f"v{number}{suffix}"), store) for suffix in _SUFFIXES)
    return next((found for found in files if found is not None), None)


def _meta(location: Location, store: StoreSpec) -> ObjectMeta | None:
    """Return what the store says about a file; None if there is no such file."""
    try:
        return store.open(location).head(location.path)
    except NotAFileError:
        # It must not make an older file the newest.
        raise
    except ObjectNotFoundError:
        return None


def _by_listing(directory: Location, store: StoreSpec) -> ObjectMeta | None:
    entries = store.open(directory).list_from(directory.path, directories=True)
    ranked = ((rank, entry) for entry in entries if (rank := _rank(entry)) is not None)
    best = max(ranked, key=lambda pair: pair[0], default=None)
    return None if best is None else best[1]


def _rank(entry: ObjectMeta) -> tuple[int, int, str] | None:
    """Return what metadata files are ordered by: their number, then their time."""
    match = _NAME.fullmatch(entry.path.rpartition("/")[2])
    if match is None:
        return None
    return int(match["number"] or match["counter"]), entry.modified, entry.path
