"""Listing and deleting the files of a large table by the tasks of an engine, in place of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import StorageError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.listed_files import as_listed, is_unicode, list_files
from deltaberg.table.removal import FileKind, Removal, announce, delete_files

__all__ = ["LEAST_DELETED", "FileTasks", "delete_by_tasks", "list_by_tasks"]

#: With fewer files in its metadata, a table is listed in less time than a job takes to start.
_LEAST_LISTED = 50_000
#: The same for files that are to be deleted.
LEAST_DELETED = 10_000
#: A table is divided among tasks where it has so many directories for each task that runs at a time.
_SHARES = 4
#: Directories are looked for at most so many levels below the table.
_MOST_LEVELS = 4


class FileTasks(Protocol):
    """Has the tasks of an engine list directories, and delete files."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    def list_folders(
        self, store: StoreSpec, root: Location, folders: Sequence[str], passed_over: Callable[[str], object]
    ) -> Iterator[pa.RecordBatch]:
        """Return all files below some directories of a table, as `LISTED_FILES` describes them.

        Parameters
        ----------
        folders
            Paths relative to the table, none of which is below another.
        passed_over
            Is told of names that could not be listed.

        Raises
        ------
        StorageError
            A directory cannot be listed to its end.
        """

    def delete_files(
        self,
        store: StoreSpec,
        root: Location,
        paths: Sequence[str],
        kind: FileKind,
        reason: str,
        deleted: Callable[[str], object],
    ) -> Removal:
        """Delete files below a table as `deltaberg.table.removal.delete_files` does."""


def list_by_tasks(
    tasks: FileTasks | None,
    store: StoreSpec,
    root: Location,
    known: Iterable[pa.StringArray],
    is_wanted: Callable[[pa.StringArray], pa.BooleanArray] | None = None,
    passed_over: Callable[[str], object] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """List all files of a table, by tasks where it is large and has enough directories that can be shared out.

    Parameters
    ----------
    known
        The paths of the files that its metadata names, relative to the table. They only say how it is laid out.
    is_wanted
        Which of some paths are wanted; None for all. It is called here, once for each path that is Unicode.
    passed_over
        Is told of names that could not be listed, beside which others may be missing (`Storage.walk`).
    """
    levels = 0 if tasks is None else _levels(known, _SHARES * tasks.parallelism)
    if tasks is None or not levels:
        yield from list_files(store.open(root), root.path, is_wanted, passed_over)
        return
    for batch in _shared_out(tasks, levels, store, root, passed_over):
        yield batch if is_wanted is None else batch.filter(is_wanted(batch.column("path")))


def _shared_out(
    tasks: FileTasks, levels: int, store: StoreSpec, root: Location, passed_over: Callable[[str], object]
) -> Iterator[pa.RecordBatch]:
    storage = store.open(root)
    folders, whole = [""], list[str]()
    for _ in range(levels):
        below = []
        for folder in folders:
            try:
                found = storage.level(root.join(folder).path if folder else root.path)
            except StorageError:
                if not folder:
                    yield from list_files(storage, root.path, passed_over=passed_over)
                    return
                # A walk gets past keys that cannot be named, and fails again for any other reason.
                whole.append(folder)
                continue
            if found.objects:
                yield as_listed(found.objects, root.path)
            # A key of a bucket may have an empty part, which no directory has, and no file of a table. Names that are
            # not Unicode are none that a table can have.
            names = [name for name in found.directories if name and is_unicode(name)]
            below += [f"{folder}/{name}" if folder else name for name in names]
        folders = below
    yield from tasks.list_folders(store, root, [*folders, *whole], passed_over)


def delete_by_tasks(
    tasks: FileTasks | None,
    store: StoreSpec,
    root: Location,
    paths: Sequence[str],
    kind: FileKind,
    reason: str,
    *,
    deleted: Callable[[str], object],
) -> Removal:
    """Delete files below a table, by tasks if there are any; see `deltaberg.table.removal.delete_files`."""
    if tasks is None:
        return delete_files(store.open(root), root.path, paths, kind, reason, deleted=deleted)
    # What a task logs is on another machine.
    announce(paths, reason)
    return tasks.delete_files(store, root, paths, kind, reason, deleted)


def _levels(files: Iterable[pa.StringArray], wanted: int) -> int:
    """Return how many levels of directories make enough of them; 0 if a listing is not to be divided."""
    # Texts of a set of paths may be long ones.
    known = pa.chunked_array([some.cast(pa.large_string()) for some in files], pa.large_string())
    if len(known) < _LEAST_LISTED:
        return 0
    for level in range(1, _MOST_LEVELS + 1):
        directories = pc.drop_null(pc.struct_field(pc.extract_regex(known, rf"(?s)^(?P<d>(?:[^/]+/){{{level}}})"), "d"))
        if len(directories) < len(known) // 2:
            # What is directly in directories above would be listed here.
            return 0
        if len(directories.unique()) >= wanted:
            return level
    return 0
