"""Copies of the files of a table: made many at a time, and not again where an interrupted clone has made them.

A copy has a name that follows from the table and the file that it is of. So a clone that is repeated finds what is
there, and two that run at the same time make the same files. No clone deletes copies, therefore: the other one may name
them. A vacuum takes those that nothing names, a day later.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltaberg.errors import ObjectNotFoundError
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import Location, parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.cloning.file_copy import FileCopy, copy_file
from deltaberg.table.maintain.file_tasks import FileTasks, results_of
from deltaberg.table.maintain.listed_files import later_clock
from deltaberg.table.maintain.verifying.presence import CONCURRENT
from deltaberg.table.rows.progress import Told, untold
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["COPY_NAME", "CopyNames", "copy_files", "leftovers", "name_of_copy"]

_logger = logging.getLogger("deltaberg.clone")
#: A vacuum takes files that no version names after a day. What may become that old meanwhile is not relied upon.
_RELIED_UPON = 12 * 3_600_000
#: With fewer copies to make, no job of an engine is started.
_LEAST_IN_TASKS = 1000
#: Files that one task copies at most, and how many of them at a time.
_COPIED, _COPIED_AT_ONCE = 500, 8
#: How many tasks a job has for each that runs at a time.
_IN_A_JOB = 16


#: What a copy of a data file is called: the key of its source, and which clone made it.
COPY_NAME = re.compile(r"copied-(?P<key>[0-9a-f]{32})-[0-9a-f-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
#: What may stand behind the first dot of a name.
_SUFFIX = re.compile(r"(?:\.[A-Za-z0-9_-]+)+", re.ASCII)


def name_of_copy(table: str, recorded: str) -> uuid.UUID:
    """Return what the copy of a file is named by.

    Parameters
    ----------
    table
        The id of the table of the file.
    recorded
        The file as its metadata records it.
    """
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{table}\n{recorded}")


class CopyNames:
    """Makes the names of copies of data files.

    Parameters
    ----------
    table
        The id of the table of the files.
    generation
        A number that no clone in the same place had before.
    """

    def __init__(self, table: str, generation: int = 0) -> None:
        self._table = table
        self._generation = generation
        #: What makes other names of those that must not be used.
        self._other: dict[str, str] = {}

    def key(self, recorded: str) -> str:
        """Return by what the name of a copy tells which file it is of."""
        return name_of_copy(self._table, recorded).hex

    def of(self, recorded: str) -> str:
        """Return the name of the copy of a file, as `COPY_NAME` has it."""
        name = recorded.rpartition("/")[2]
        dot = name.find(".")
        suffix = name[dot:] if dot >= 0 and _SUFFIX.fullmatch(name[dot:]) else ".parquet"
        made = f"copied-{self.key(recorded)}-{self._generation:x}"
        other = self._other.get(made + suffix)
        return f"{made}{'' if other is None else f'-{other}'}{suffix}"

    def avoid(self, names: Iterable[str]) -> None:
        """Rename the copies whose names are taken."""
        for name in names:
            self._other[name] = uuid.uuid4().hex[:8]


def leftovers(store: StoreSpec, root: Location, copies: Sequence[FileCopy]) -> tuple[set[str], set[str]]:
    """Return which copies are there as they should be, and which names must not be used.

    Nothing names these files yet, so that a vacuum takes them when they are a day old.

    Parameters
    ----------
    store
        The store of the clone.
    root
        The directory of the clone.

    Returns
    -------
    tuple
        The targets that are whole and young, and those that may be deleted soon.
    """
    storage = store.open(root)
    if not copies or not storage.has_objects(root.path):
        return set(), set()

    def ask(copy: FileCopy) -> ObjectMeta | None:
        try:
            return storage.head(parse_location(copy.target).path)
        except ObjectNotFoundError:
            return None

    metas = map_in_order(CONCURRENT, ask, copies)
    if not any(metas):
        return set(), set()
    oldest = later_clock(storage, root.path) - _RELIED_UPON
    copied, unsafe = set(), set()
    for copy, meta in zip(copies, metas, strict=True):
        if meta is None:
            continue
        if meta.modified <= oldest:
            unsafe.add(copy.target)
        elif copy.size == meta.size:
            copied.add(copy.target)
    return copied, unsafe


def copy_files(
    tasks: FileTasks | None,
    store: StoreSpec,
    target_store: StoreSpec,
    copies: Sequence[FileCopy],
    told: Told = untold,
) -> list[int]:
    """Make copies, by tasks if there are any and it is worth it, and return their sizes.

    Parameters
    ----------
    tasks
        What copies in place of this process.
    store, target_store
        The stores of the files, and of the copies.
    told
        What is told how many files are copied: by this process one after the other, and by tasks as jobs end.

    Raises
    ------
    DataFileNotFoundError, CorruptTableError, StorageError
        As `copy_file` does. Other copies stay where they are.
    """
    _logger.info("copying %d files", len(copies))
    if tasks is not None and len(copies) >= _LEAST_IN_TASKS:
        # Neighbours are often of one size, so each task takes some from everywhere.
        count = min(len(copies), max(4 * tasks.parallelism, -(-len(copies) // _COPIED)))
        shares = [copies[number::count] for number in range(count)]
        sizes: dict[str, int] = {}
        for some in in_chunks(shares, _IN_A_JOB * tasks.parallelism):
            for made in results_of(tasks.run(_Copy(store, target_store), some)):
                sizes.update(made)
                told(len(made))
        return [sizes[copy.target] for copy in copies]

    def copied(copy: FileCopy) -> int:
        size = copy_file(store, target_store, copy)
        told(1)
        return size

    return map_in_order(CONCURRENT, copied, copies)


@dataclass(frozen=True)
class _Copy:
    """Makes copies, and returns their sizes by their locations."""

    store: StoreSpec
    target_store: StoreSpec

    def __call__(self, copies: Sequence[FileCopy]) -> dict[str, int]:
        sizes = map_in_order(_COPIED_AT_ONCE, lambda copy: copy_file(self.store, self.target_store, copy), copies)
        return {copy.target: size for copy, size in zip(copies, sizes, strict=True)}
