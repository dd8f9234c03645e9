"""Which of the files that metadata names are in the store, and which certainly are not.

A file is *gone* only if the store says so in every way that it has: a listing lacks it, a request for it alone is
answered with "not found", and a listing of its directory, which the caller may read, lacks it as well. An error is no
answer: a refusal or a time-out says nothing about the file, and neither does a link whose target is not there, or a
directory outside of the table that does not exist, since a disk may not be mounted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import DeltabergError, NotAFileError, ObjectNotFoundError, StorageError
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location, parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.file_tasks import FileTasks, list_by_tasks
from deltaberg.table.rows.progress import Told, untold
from deltaberg.workers import map_in_order

__all__ = ["CONCURRENT", "Presence", "Presences", "find_files", "look_up", "lost_locations"]

#: The size of a file in bytes; None if the file is certainly gone; an error if that could not be found out.
Presence = int | DeltabergError | None

#: Requests about single files that are made at a time.
CONCURRENT = 32
#: Files for which requests are made together.
_CHUNK = 1 << 13
#: With fewer files to look for, each is asked for; otherwise the table is listed.
_ASKED_AT_MOST = 1000


@dataclass(frozen=True)
class Presences:
    """What the store says of files, by their numbers.

    Parameters
    ----------
    sizes
        The sizes in a listing; null for those that it lacks.
    asked
        What the store says of these when it is asked for each.
    """

    sizes: pa.Int64Array
    asked: dict[int, Presence]

    def of(self, number: int) -> Presence:
        """Return what the store says of a file."""
        size: int | None = self.sizes[number].as_py()
        return self.asked[number] if size is None else size


def find_files(
    store: StoreSpec,
    root: Location,
    sought: Sequence[kernels.PathSet],
    tasks: FileTasks | None = None,
    told: Told = untold,
) -> list[Presences]:
    """Return what the store says of files, for each of several sets.

    The table is listed once, as a stream, and requests for single files are made only for those that the listing lacks:
    newer ones, those elsewhere, those behind a link, and lost ones.

    Parameters
    ----------
    root
        The location of the table.
    sought
        The locations of the files as text.
    tasks
        What lists a large table in place of this process.
    told
        What is told of how many files it is known whether they are there.

    Raises
    ------
    StorageError
        The table cannot be listed.
    """
    # Of a million files, a list of numbers would take several times as much memory.
    sizes_of_sets = [array("q", [-1]) * len(locations) for locations in sought]
    above = pa.scalar(f"{str(root).rstrip('/')}/")
    if not any(map(len, sought)):
        return [_asked(store, root, *one, told) for one in zip(sought, sizes_of_sets, strict=True)]
    for listed in list_by_tasks(tasks, store, root):
        paths = pc.binary_join_element_wise(above, listed.column("path"), "")
        for sizes, locations in zip(sizes_of_sets, sought, strict=True):
            numbers = locations.numbers(paths)
            is_sought = numbers.is_valid()
            both = (column.filter(is_sought).to_pylist() for column in (numbers, listed.column("bytes")))
            for number, size in zip(*both, strict=True):
                sizes[number] = size
            told(len(numbers) - numbers.null_count)
    return [_asked(store, root, *one, told) for one in zip(sought, sizes_of_sets, strict=True)]


def _asked(store: StoreSpec, root: Location, locations: kernels.PathSet, found: array[int], told: Told) -> Presences:
    """Ask the store for the files that a listing lacks."""
    sizes = pa.Array.from_buffers(pa.int64(), len(found), [None, pa.py_buffer(found)])
    is_listed = pc.greater_equal(sizes, 0)
    lacking = pc.indices_nonzero(pc.invert(is_listed)).cast(pa.int64())
    asked: dict[int, Presence] = {}
    for start in range(0, len(lacking), _CHUNK):
        some = lacking.slice(start, _CHUNK)
        asked.update(zip(some.to_pylist(), look_up(store, root, locations.texts(some).to_pylist(), told), strict=True))
    return Presences(pc.if_else(is_listed, sizes, None), asked)


def lost_locations(
    store: StoreSpec, root: Location, locations: pa.StringArray, tasks: FileTasks | None = None, told: Told = untold
) -> pa.StringArray:
    """Return which files are certainly gone.

    Parameters
    ----------
    root
        The location of the table.
    locations
        The locations of the files as text, each once.
    tasks
        What lists a large table in place of this process.
    told
        As for `find_files`.

    Raises
    ------
    StorageError
        The store does not say whether one is there.
    """
    if len(locations) <= _ASKED_AT_MOST:
        answers = look_up(store, root, locations.to_pylist(), told)
    else:
        sought = kernels.PathSet([locations])
        (found,) = find_files(store, root, [sought], tasks, told)
        answers = [found.of(number) for number in sought.numbers(locations).to_pylist()]
    for answer in answers:
        if isinstance(answer, DeltabergError):
            raise answer
    return locations.filter(pa.array([answer is None for answer in answers], pa.bool_()))


def look_up(store: StoreSpec, root: Location, locations: Sequence[str], told: Told = untold) -> list[Presence]:
    """Return what the store says of single files, and list the directories of those that it does not find.

    Parameters
    ----------
    root
        The location of the table.
    locations
        The locations of the files as text.
    told
        As for `find_files`.
    """
    places = [parse_location(text) for text in locations]

    def ask(place: Location) -> Presence:
        answer = _ask(store, place)
        told(1)
        return answer

    presences = map_in_order(CONCURRENT, ask, places)
    lacking: dict[Location, list[int]] = {}
    for number, (place, answer) in enumerate(zip(places, presences, strict=True)):
        if answer is None:
            lacking.setdefault(place.parent, []).append(number)

    def confirm(item: tuple[Location, list[int]]) -> dict[str, Presence]:
        folder, numbers = item
        return _confirmed(store, root, folder, [places[number].path for number in numbers])

    directories = list(lacking.items())
    for (_, numbers), answers in zip(directories, map_in_order(CONCURRENT, confirm, directories), strict=True):
        for number in numbers:
            presences[number] = answers[places[number].path]
    return presences


def _ask(store: StoreSpec, place: Location) -> Presence:
    try:
        return store.open(place).head(place.path).size
    except NotAFileError as error:
        return error
    except ObjectNotFoundError:
        return None
    except DeltabergError as error:
        return error


def _confirmed(store: StoreSpec, root: Location, folder: Location, paths: Sequence[str]) -> dict[str, Presence]:
    """Return what a listing says of files of a directory for which the store had no object."""
    storage = store.open(folder)
    answers: dict[str, Presence] = dict.fromkeys(paths)
    is_own = folder.same_store(root) and f"{folder.path}/".startswith(f"{root.path}/" if root.path else "")
    try:
        if is_own:
            for path in storage.strays(root.path, paths):
                answers[path] = StorageError("a link is in its place, or leads to it, and ends nowhere", path=path)
        elif folder.scheme == "file":
            _check_there(store, folder)
        for meta in _between(storage.list_from(folder.path, min(paths).rpartition("/")[2]), max(paths)):
            if meta.path in answers:
                answers[meta.path] = meta.size
    except DeltabergError as error:
        return dict.fromkeys(paths, error)
    return answers


def _check_there(store: StoreSpec, folder: Location) -> None:
    """Refuse to take files for lost whose whole directory is not there, outside of the table."""
    try:
        store.open(folder).directories(folder.path)
    except ObjectNotFoundError as error:
        raise StorageError(
            "its directory, which is not below the table, does not exist",
            hint="mount the disk that it is on, if it is on another one",
            path=folder.path,
        ) from error


def _between(listed: Iterator[ObjectMeta], last: str) -> Iterator[ObjectMeta]:
    """Return the objects of a listing in order, up to a path."""
    for meta in listed:
        if meta.path > last:
            return
        yield meta
