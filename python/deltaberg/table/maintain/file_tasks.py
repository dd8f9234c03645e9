"""Listing and deleting the files of a large table by the tasks of an engine, in place of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.storage.base import Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.listed_files import LISTED_FILES, as_listed, is_unicode, list_files
from deltaberg.table.removal import FileKind, Removal, announce, delete_files
from deltaberg.workers import in_chunks

__all__ = ["LEAST_DELETED", "FileTasks", "delete_by_tasks", "list_by_tasks", "results_of"]

_Share = TypeVar("_Share")
_Result = TypeVar("_Result")

#: A table with fewer files is listed in less time than a job takes to start.
_LEAST_LISTED = 50_000
#: The same for files that are to be deleted.
LEAST_DELETED = 10_000
#: A table is divided among tasks where it has so many directories for each task that runs at a time.
_SHARES = 4
#: Directories are looked for at most so many levels below the table.
_MOST_LEVELS = 4
#: How many directories one job lists: this process holds what it finds.
_FOLDERS = 2048
#: Files that one task deletes: a request of S3 takes a thousand.
_DELETED = 5_000


class FileTasks(Protocol):
    """Has the tasks of an engine work on the files of a table."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    def run(self, work: Callable[[_Share], _Result], shares: Sequence[_Share]) -> list[_Result | DeltabergError]:
        """Return what some work makes of each share, in their order, or the error of this library that it met.

        All of it is pickled. Clients of stores have tried again by themselves what can be tried again, so the engine
        need not.
        """


def list_by_tasks(
    tasks: FileTasks | None,
    store: StoreSpec,
    root: Location,
    is_wanted: Callable[[pa.StringArray], pa.BooleanArray] | None = None,
    passed_over: Callable[[str], object] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """List all files of a table, by tasks where it is large and has enough directories that can be shared out.

    The store shows that, since its metadata does not know of what is left over: a listing begins here, and only what
    is large is divided.

    Parameters
    ----------
    is_wanted
        Which of some paths are wanted; None for all. It is called here, once for each path that is Unicode.
    passed_over
        Is told of names that could not be listed, beside which others may be missing (`Storage.walk`).

    Raises
    ------
    StorageError
        A directory cannot be listed to its end.
    """
    storage = store.open(root)
    if tasks is None:
        yield from list_files(storage, root.path, is_wanted, passed_over)
        return
    for batch in _listed(tasks, store, root, storage, passed_over):
        yield batch if is_wanted is None else batch.filter(is_wanted(batch.column("path")))


def _listed(
    tasks: FileTasks, store: StoreSpec, root: Location, storage: Storage, passed_over: Callable[[str], object]
) -> Iterator[pa.RecordBatch]:
    odd: list[str] = []
    listing = list_files(storage, root.path, passed_over=odd.append)
    first, count = [], 0
    while count < _LEAST_LISTED and (batch := next(listing, None)) is not None:
        first.append(batch)
        count += len(batch)
    divided = None if count < _LEAST_LISTED else _divided(storage, root, first, _SHARES * tasks.parallelism)
    if divided is None:
        yield from chain(first, listing)
        for name in odd:
            passed_over(name)
        return
    del first, listing
    yield from divided.above
    for start in range(0, len(divided.directories), _FOLDERS):
        some = divided.directories[start : start + _FOLDERS]
        # Neighbours are often of one size, so each task takes some from everywhere.
        count = min(len(some), _SHARES * tasks.parallelism)
        for found in results_of(tasks.run(_List(store, root), [some[number::count] for number in range(count)])):
            for name in found.passed_over:
                passed_over(name)
            yield from pa.ipc.open_stream(found.stream)


class _Divided(NamedTuple):
    """A table as it is shared out: directories, none of which is below another, and the files that are above them."""

    directories: list[str]
    above: list[pa.RecordBatch]


def _divided(storage: Storage, root: Location, first: Sequence[pa.RecordBatch], least: int) -> _Divided | None:
    """Divide a table into its directories, as few levels below it as make enough of them; None if none do.

    No level is looked at above which half of the first files are: they would be listed here.
    """
    depths = pc.count_substring(pa.chunked_array([batch.column("path") for batch in first]), "/")
    levels = min(_MOST_LEVELS, pc.quantile(depths, q=0.5, interpolation="lower")[0].as_py())
    folders, whole, above = [""], list[str](), []
    for _ in range(levels):
        below = []
        for folder in folders:
            try:
                level = storage.level(root.join(folder).path if folder else root.path)
            except StorageError:
                # A walk gets past keys that cannot be named, and fails again for any other reason.
                if not folder:
                    return None
                whole.append(folder)
                continue
            if level.objects:
                above.append(as_listed(level.objects, root.path))
            # A key of a bucket may have an empty part, which no directory has, and no file of a table. Names that are
            # not Unicode are none that a table can have.
            names = [name for name in level.directories if name and is_unicode(name)]
            below += [f"{folder}/{name}" if folder else name for name in names]
        folders = below
        if len(folders) + len(whole) >= least:
            return _Divided([*folders, *whole], above)
    return None


class _Found(NamedTuple):
    """What a task lists: an Arrow stream as bytes, and the names that could not be listed."""

    stream: bytes
    passed_over: list[str]


@dataclass(frozen=True)
class _List:
    """Lists all files below some directories."""

    store: StoreSpec
    root: Location

    def __call__(self, folders: Sequence[str]) -> _Found:
        sink, odd = pa.BufferOutputStream(), list[str]()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, LISTED_FILES, options=options) as writer:
            for folder in folders:
                above = pa.scalar(f"{folder}/")
                for batch in list_files(
                    self.store.open(self.root), self.root.join(folder).path, passed_over=odd.append
                ):
                    paths = pc.binary_join_element_wise(above, batch.column("path"), "")
                    writer.write_batch(batch.set_column(0, LISTED_FILES.field(0), paths))
        return _Found(sink.getvalue().to_pybytes(), odd)


def delete_by_tasks(
    tasks: FileTasks | None,
    store: StoreSpec,
    root: Location,
    reasons: Mapping[str, str],
    kind: FileKind,
    *,
    deleted: Callable[[str], object],
) -> Removal:
    """Delete files below a table, by tasks if there are any; see `deltaberg.table.removal.delete_files`.

    Parameters
    ----------
    reasons
        Why each file is deleted, by its path in the store.

    Returns
    -------
    Removal
        Of a task that failed, all files are among those that failed, though it may have deleted some.
    """
    if tasks is None:
        return delete_files(store.open(root), root.path, reasons, kind, reasons, deleted=deleted)
    # What a task logs is on another machine.
    announce(reasons, reasons)
    shares = [dict(some) for some in in_chunks(reasons.items(), _DELETED)]
    try:
        results = tasks.run(_Delete(store, root, kind), shares)
    except Exception as error:  # noqa: BLE001 - what is deleted already is to be told
        # The engine itself failed, in its own words, and nobody knows how far its tasks have come.
        results = [StorageError(f"the tasks failed: {error}")] * len(shares)
    total = Removal([], {}, {})
    for removal, share in zip(results, shares, strict=True):
        if isinstance(removal, Removal):
            total.deleted.extend(removal.deleted)
            total.kept.update(removal.kept)
            total.failed.update(removal.failed)
            for path in removal.deleted:
                deleted(path)
        else:
            failure = removal if isinstance(removal, StorageError) else StorageError(removal.message)
            total.failed.update(dict.fromkeys(share, failure))
    return total


@dataclass(frozen=True)
class _Delete:
    """Deletes files, for the reason of each."""

    store: StoreSpec
    root: Location
    kind: FileKind

    def __call__(self, reasons: Mapping[str, str]) -> Removal:
        return delete_files(self.store.open(self.root), self.root.path, reasons, self.kind, reasons)


def results_of(
    replies: Sequence[_Result | DeltabergError], discard: Callable[[_Result], object] = lambda _: None
) -> list[_Result]:
    """Return the results of all shares; or raise the first error, and discard the results of the others."""
    results, errors = list[_Result](), list[DeltabergError]()
    for reply in replies:
        if isinstance(reply, DeltabergError):
            errors.append(reply)
        else:
            results.append(reply)
    for error in errors:
        for result in results:
            discard(result)
        raise error
    return results
