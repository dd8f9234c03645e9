"""Directories of files of others that become tables where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from deltaberg.choices import Format
from deltaberg.errors import CorruptDataFileError, InvalidArgumentError
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.not_found import table_not_found
from deltaberg.table.open.tables_there import MARKS, METADATA_SUFFIXES, SHOWN_FORMATS, tables_around
from deltaberg.whole_numbers import counted

__all__ = ["SourceFiles", "files_below", "source_files"]


def is_hidden(name: str) -> bool:
    """Return whether Spark ignores a file or directory of this name. Partition directories may begin with ``_``.

    Objects whose names end with ``_$folder$`` mark directories of a bucket.
    """
    is_private = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return is_private or name.endswith(("._COPYING_", "_$folder$"))


class SourceFiles(NamedTuple):
    """The files below a directory.

    Parameters
    ----------
    files
        The path of each below the directory, in their order, and what the store says of it.
    ignored
        How many others there are, which Spark ignores.
    """

    files: list[tuple[str, ObjectMeta]]
    ignored: int


def source_files(root: Location, store: StoreSpec) -> SourceFiles:
    """Return the files below a directory that becomes a table.

    Raises
    ------
    TableNotFoundError
        There are no files.
    CorruptDataFileError, InvalidArgumentError
        As `files_below` says; or the directory is a table, or in one.
    """
    _check_outside_of_tables(root, store)
    found = files_below(root, store)
    if not found.files:
        raise table_not_found("there is nothing to convert", "the directory has no data files", root, store)
    return found


def files_below(root: Location, store: StoreSpec) -> SourceFiles:
    """Return the files below a directory. Symbolic links are followed, as by Spark.

    Raises
    ------
    CorruptDataFileError
        A file is empty.
    InvalidArgumentError
        The directory contains a table. Not all files of a table have rows of it, and the clean-up of each of two tables
        would delete files of the other. Or a link leads nowhere, or to files that are also found without it.
    """
    prefix, files, ignored = f"{root.path.rstrip('/')}/", [], 0
    for meta in _walk(root, store):
        path = meta.path.removeprefix(prefix) if prefix != "/" else meta.path.lstrip("/")
        _refuse_file_of_table(root, path)
        if any(map(is_hidden, path.split("/"))):
            ignored += 1
        else:
            files.append((path, meta))
    files.sort(key=lambda file: file[0])
    empty = [path for path, meta in files if not meta.size]
    if empty:
        raise CorruptDataFileError(
            f"{counted(len(empty), 'file')} without a single byte, which no data file is: {', '.join(empty[:3]):.200}",
            hint="delete what writers have left unfinished; names that begin with _ or . are ignored",
            directory=str(root),
        )
    return SourceFiles(files, ignored)


def _walk(root: Location, store: StoreSpec) -> Iterator[ObjectMeta]:
    """Yield all files below a directory, those behind links, too, but none twice."""
    if root.scheme != "file":
        yield from store.open(root).walk(root.path)
        return
    links: list[str] = []
    #: The directories behind the names by which they were found.
    names: dict[str, str] = {}

    def note(directory: str) -> str:
        real = os.path.realpath(directory)
        if names.setdefault(real, directory) != directory:
            raise InvalidArgumentError(
                "a symbolic link leads to a directory that is found without it, too",
                hint="delete the link, or its rows would be in the table twice",
                path=directory,
                directory=names[real],
            )
        return real

    def files(start: str) -> Iterator[ObjectMeta]:
        listed = store.open(root).walk(start, linked=links.append)
        for directory, metas in groupby(listed, lambda meta: os.path.dirname(meta.path)):
            note(directory)
            yield from metas

    note(root.path)
    yield from files(root.path)
    while links:
        link = links.pop()
        if any(map(is_hidden, link[len(root.path) :].split("/"))):
            continue
        real = note(link)
        if not os.path.isdir(real):
            hint = "delete it, or restore the directory that it names"
            raise InvalidArgumentError("a symbolic link leads nowhere", hint=hint, path=link)
        _check_outside_of_tables(root._replace(path=real), store)
        yield from files(link)


def _check_outside_of_tables(root: Location, store: StoreSpec) -> None:
    for place, known in tables_around(root, store):
        raise _refused(root, "is" if place.path == root.path.rstrip("/") else "is in", known, place)


def _refuse_file_of_table(root: Location, path: str) -> None:
    for known, mark in MARKS.items():
        above, is_there, name = f"/{path}".partition(f"/{mark}/")
        is_of_table = known == "delta" or ("/" not in name and name.endswith(METADATA_SUFFIXES))
        if is_there and is_of_table and not any(map(is_hidden, above.split("/"))):
            raise _refused(root, "contains", known, root.join(above.strip("/")))


def _refused(root: Location, how: str, format: Format, place: Location) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the directory {how} {SHOWN_FORMATS[format]}, and files of a table may hold rows that it has deleted",
        hint="append the rows of that table to a new one, or choose a directory apart from it",
        directory=str(root),
        table=str(place),
    )
