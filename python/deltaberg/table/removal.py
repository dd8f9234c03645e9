"""Deleting files: the one way by which anything of this library deletes what is in a table's folders.

Metadata names paths, and a path that it names is not a permission to delete it: a log may name a file of another table,
or a live data file. So the caller says what kind of file it means to delete, for which reason, and in which folder it
must be, and what is to stay is asked last.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from deltaberg.errors import StorageError
from deltaberg.storage.base import Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = [
    "WRITTEN_FILE",
    "FileKind",
    "Removal",
    "announce",
    "delete_files",
    "discard_files",
    "discard_locations",
    "drop_directory",
    "drop_empty_directories",
]

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_logger = logging.getLogger("deltaberg.removal")


class FileKind(NamedTuple):
    """Files that may be deleted.

    Parameters
    ----------
    what
        What messages call one of them.
    names
        Their paths below the folder, decoded.
    """

    what: str
    names: re.Pattern[str]


#: Data files, delete files and deletion vectors that writers of this library have made, at any depth.
WRITTEN_FILE = FileKind(
    "a file that was written here",
    re.compile(rf"(?:.*/)?[^/]*{_UUID}[^/]*\.(?:parquet|avro|orc|puffin|bin)", re.DOTALL),
)


class Removal(NamedTuple):
    """The outcome of a deletion.

    Parameters
    ----------
    deleted
        The paths that are gone by it. Those that were missing are among them where the store does not tell.
    kept
        Why others stay, a sentence by path.
    failed
        The errors of the store for those that should have gone, by path.
    """

    deleted: list[str]
    kept: dict[str, str]
    failed: dict[str, StorageError]

    def or_raise(self) -> list[str]:
        """Return the paths that are gone by it.

        Raises
        ------
        StorageError
            A file could not be deleted; others may have been.
        """
        for error in self.failed.values():
            raise error
        return self.deleted


def delete_files(
    store: Storage,
    folder: str,
    paths: Iterable[str],
    kind: FileKind,
    reason: str | Mapping[str, str],
    *,
    why_kept: Callable[[str], str | None] | None = None,
    deleted: Callable[[str], object] | None = None,
) -> Removal:
    """Delete those of some files that are of a kind, below a folder, and not to be kept.

    What is deleted, and why, is logged before, to the logger ``deltaberg.removal``.

    Parameters
    ----------
    store
        The store that holds the folder.
    folder
        The path of the folder; the empty text is the root of a bucket.
    paths
        The paths of the files in the store, decoded. Files that do not exist do not matter.
    kind
        What is deleted.
    reason
        Why they are deleted, in one sentence for all or one for each path.
    why_kept
        Returns why a file stays; None if it need not. It is only asked of files that may be deleted otherwise.
    deleted
        Is told of each file that is gone by it, as soon as that is known: an interruption leaves no outcome.

    Examples
    --------
    >>> import tempfile
    >>> from deltaberg.storage.stores import open_store
    >>> from deltaberg.storage.location import parse_location
    >>> place = parse_location(tempfile.mkdtemp())
    >>> kind = FileKind("a log entry", re.compile("[0-9]+[.]json"))
    >>> delete_files(open_store(place), place.path, [f"{place.path}/../1.json"], kind, "it is old").deleted
    []
    """
    base = f"{folder.rstrip('/')}/" if folder else ""
    chosen = []
    kept: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        name = path[len(base) :]
        if not path.startswith(base) or not {"", ".", ".."}.isdisjoint(name.split("/")):
            kept[path] = f"{path} is not in the folder {folder}"
        elif kind.names.fullmatch(name) is None:
            kept[path] = f"{path} does not have the name of {kind.what}"
        else:
            chosen.append(path)
    strays = store.strays(folder, chosen)
    doomed = []
    for path in chosen:
        why = None if why_kept is None or path in strays else why_kept(path)
        if path in strays:
            why = f"{path} is a link or no file, or a link leads to it"
        if why is None:
            doomed.append(path)
        else:
            kept[path] = why
    announce(doomed, reason)
    gone: list[str] = []

    def note(path: str) -> None:
        gone.append(path)
        if deleted is not None:
            deleted(path)

    failed = {failure.path: failure.error for failure in store.delete_many(doomed, note)} if doomed else {}
    return Removal(gone, kept, failed)


def drop_empty_directories(folder: Location, paths: Iterable[str]) -> None:
    """Delete the directories of files that are gone, up to a folder that stays, where they hold nothing any more.

    Only file systems have such directories. One that cannot be deleted stays.

    Parameters
    ----------
    folder
        The folder that the files were in.
    paths
        The paths of files that `delete_files` has deleted. Those elsewhere do not matter.
    """
    if folder.scheme != "file":
        return
    base = f"{folder.path.rstrip('/')}/"
    for directory in dict.fromkeys(map(os.path.dirname, paths)):
        above = directory
        with suppress(OSError):
            while above.startswith(base):
                os.rmdir(above)
                above = os.path.dirname(above)


def drop_directory(root: Location) -> None:
    """Delete a directory, or what a link of its name leads to, and those in it, where they hold nothing any more."""
    if root.scheme == "file":
        folder = os.path.realpath(root.path)
        above = root._replace(path=os.path.dirname(folder))
        drop_empty_directories(above, [os.path.join(one, "") for one, *_ in os.walk(folder)])


def announce(paths: Iterable[str], reason: str | Mapping[str, str]) -> None:
    """Log which files are about to be deleted, and why."""
    if _logger.isEnabledFor(logging.INFO):
        for path in paths:
            _logger.info("deleting %s: %s", path, reason if isinstance(reason, str) else reason[path])


def discard_files(store: Storage, folder: str, paths: Iterable[str], kind: FileKind) -> None:
    """Delete files that a writer has made and nothing names, as far as the store allows it."""
    with suppress(StorageError):
        delete_files(store, folder, paths, kind, "it was written for a change that was not committed")


def discard_locations(
    store: StoreSpec, files: Iterable[tuple[Location, Location]], kind: FileKind, home: Location | None = None
) -> None:
    """Delete such files, each of which comes behind its folder: those of a table may be in several stores.

    Parameters
    ----------
    home
        A directory that was there before the writer began. Those below it that become empty are deleted.
    """
    together: dict[Location, list[str]] = {}
    for folder, file in files:
        if folder.same_store(file):
            together.setdefault(folder, []).append(file.path)
    for folder, paths in together.items():
        discard_files(store.open(folder), folder.path, paths, kind)
        if home is not None and home.same_store(folder):
            drop_empty_directories(home, paths)
