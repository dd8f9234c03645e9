"""Which of the files that metadata names are in the store, and which certainly are not.

A file is *gone* only if the store says so in every way that it has: a listing lacks it, a request for it alone is
answered with "not found", and a listing of its directory, which the caller may read, lacks it as well. An error is no
answer: a refusal or a time-out says nothing about the file, and neither does a link whose target is not there, or a
directory outside of the table that does not exist, since a disk may not be mounted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import DeltabergError, NotAFileError, ObjectNotFoundError, StorageError
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location, parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.file_tasks import FileTasks, list_by_tasks
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["CONCURRENT", "Presence", "find_files", "look_up"]

#: The size of a file in bytes; None if the file is certainly gone; an error if that could not be found out.
Presence = int | DeltabergError | None

#: Requests about single files that are made at a time.
CONCURRENT = 32
#: Files for which requests are made together.
_CHUNK = 1 << 13


def find_files(
    store: StoreSpec, root: Location, locations: pa.StringArray, tasks: FileTasks | None = None
) -> list[Presence]:
    """Return what the store says of each of some files, in their order.

    The table is listed once, as a stream, and requests for single files are made only for those that the listing lacks:
    newer ones, those elsewhere, those behind a link, and lost ones.

    Parameters
    ----------
    root
        The location of the table.
    locations
        The locations of the files as text, each at most once.
    tasks
        What lists a large table in place of this process.

    Raises
    ------
    StorageError
        The table cannot be listed.
    """
    found: list[Presence] = [None] * len(locations)
    if not found:
        return found
    index = kernels.index_keys(_keys(locations))
    above = pa.scalar(f"{str(root).rstrip('/')}/")
    for listed in list_by_tasks(tasks, store, root, _below(locations, above.as_py())):
        paths = pc.binary_join_element_wise(above, listed.column("path"), "")
        numbers = kernels.find_keys(index, _keys(paths))
        for number, size in zip(numbers.to_pylist(), listed.column("bytes").to_pylist(), strict=True):
            if number is not None:
                found[number] = size
    lacking = [number for number, size in enumerate(found) if size is None]
    for numbers in in_chunks(lacking, _CHUNK):
        texts = locations.take(pa.array(numbers, pa.int64())).to_pylist()
        for number, answer in zip(numbers, look_up(store, root, texts), strict=True):
            found[number] = answer
    return found


def _below(locations: pa.StringArray, above: str) -> Iterator[pa.StringArray]:
    """Yield the paths of files relative to what is above them, without those that are elsewhere."""
    yield pc.utf8_slice_codeunits(locations.filter(pc.starts_with(locations, above)), len(above))


def look_up(store: StoreSpec, root: Location, locations: Sequence[str]) -> list[Presence]:
    """Ask the store for single files, and list the directories of those that it does not find.

    The parameters are those of `find_files`.
    """
    places = [parse_location(text) for text in locations]
    found = map_in_order(CONCURRENT, lambda place: _ask(store, place), places)
    lacking: dict[Location, list[int]] = {}
    for number, (place, answer) in enumerate(zip(places, found, strict=True)):
        if answer is None:
            lacking.setdefault(place._replace(path=place.path.rpartition("/")[0]), []).append(number)

    def confirm(item: tuple[Location, list[int]]) -> dict[str, Presence]:
        folder, numbers = item
        return _confirmed(store, root, folder, [places[number].path for number in numbers])

    directories = list(lacking.items())
    for (_, numbers), answers in zip(directories, map_in_order(CONCURRENT, confirm, directories), strict=True):
        for number in numbers:
            found[number] = answers[places[number].path]
    return found


def _keys(paths: pa.StringArray) -> pa.RecordBatch:
    return pa.record_batch([paths], ["path"])


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
