"""The files that snapshots reach: their manifest lists, the manifests of these, and the files that those name.

Expiry and the removal of orphans ask for nothing else. A file that is removed and added again in one commit, or that a
tag still names, is reached like any other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import UnsafePathError
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.manifests.fields import DATA, DELETED, POSITION_DELETES, ManifestPart
from deltaberg.iceberg.manifests.reader import ManifestReader
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.statistics_files import statistics_files
from deltaberg.iceberg.partition.structs import source_columns
from deltaberg.schema.arrow import as_array
from deltaberg.table.maintain.file_tasks import FileTasks, results_of
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["REACHED", "STATISTICS", "Elsewhere", "Places", "Reached", "reader_of", "snapshots_with", "statistics_of"]

#: A file that a snapshot reaches: where it is, what it is, and its size as far as that is recorded.
REACHED = pa.schema([("location", pa.string()), ("kind", pa.string()), ("bytes", pa.int64())])
#: How many manifest lists are read at a time, and how many manifests, so that memory does not follow the table.
_LISTS_AT_ONCE, _MANIFESTS_AT_ONCE, _READERS = 256, 64, 16
#: How many of either are read in less time here than a job of an engine takes to start.
_LEAST_IN_TASKS = 64
#: How many of them one task reads, and how many tasks one job has for each that runs at a time.
_IN_A_TASK, _TASKS = 16, 4
_PART = ManifestPart(deleted=True)
#: What is needed of a row of a manifest list to read the manifest.
_WANTED = [
    "manifest_path",
    "manifest_length",
    "partition_spec_id",
    "content",
    "sequence_number",
    "added_snapshot_id",
    "key_metadata",
    "first_row_id",
]
#: What is needed of an entry of a manifest.
_OF_ENTRIES = ["file_path", "file_size_in_bytes", "content", "status"]
STATISTICS = "statistics"
_Item = TypeVar("_Item")
_NAME = "[^/]*$"


class Elsewhere(NamedTuple):
    """A file that is recorded in another store than that of the table: its recorded path, and the path alone."""

    recorded: str
    path: str


class Places:
    """Finds the places of recorded files, each by one spelling.

    On a disk a file has as many paths as there are links to its directories. Here it has the one without links.

    Parameters
    ----------
    loaded
        The table.
    """

    def __init__(self, loaded: LoadedTable) -> None:
        self._resolver = loaded.resolver
        self._is_local = loaded.root.scheme == "file"
        self._known: dict[str, tuple[str, frozenset[str]]] = {}
        #: Files in other stores.
        self.elsewhere: set[Elsewhere] = set()

    def of(self, recorded: pa.Array | pa.ChunkedArray, prefix: str = "") -> pa.StringArray:
        """Return the locations of recorded paths; null for those in other stores, which are noted.

        Parameters
        ----------
        prefix
            The location of the table as its metadata spells it, with a slash at the end.

        Raises
        ------
        UnsafePathError
            A path contains ``..``, so that nobody knows which file it names.
        """
        paths = recorded if isinstance(recorded, pa.ChunkedArray) else pa.chunked_array([recorded])
        try:
            located = as_array(self._resolver.locate(paths, prefix))
        except UnsafePathError:
            located = pa.array([self._one(path) for path in paths.to_pylist()], pa.string())
        return self._without_links(located) if self._is_local else located

    def targets(self, located: pa.StringArray) -> pa.StringArray:
        """Return where links lead to, among located files that are links themselves."""
        if not self._is_local:
            return located.slice(0, 0)
        folders = _folders(located)
        linked = [folder for folder in folders.dictionary.to_pylist() if self._folder(folder)[1]]
        some = located.filter(pc.is_in(folders.cast(pa.string()), value_set=pa.array(linked, pa.string())))
        split = (text.rpartition("/") for text in some.to_pylist())
        found = [
            os.path.realpath(f"{above}/{name}") for above, _, name in split if name in self._folder(f"{above}/")[1]
        ]
        return pa.array(found, pa.string())

    def _one(self, recorded: str) -> str | None:
        try:
            return str(self._resolver.resolve(recorded))
        except UnsafePathError:
            absolute = self._resolver.absolute(recorded)
            if absolute is None or absolute.same_store(self._resolver.root):
                raise
            self.elsewhere.add(Elsewhere(recorded, absolute.path.strip("/")))
            return None

    def _without_links(self, located: pa.StringArray) -> pa.StringArray:
        folders = _folders(located)
        names = folders.dictionary.to_pylist()
        real = [self._folder(name)[0] for name in names]
        if real == names:
            return located
        above = pa.array(real, pa.string()).take(folders.indices)
        return pc.binary_join_element_wise(above, pc.replace_substring_regex(located, "^.*/", ""), "")

    def _folder(self, folder: str) -> tuple[str, frozenset[str]]:
        """Return a directory without links, and the names of the links in it."""
        if folder not in self._known:
            real = os.path.join(os.path.realpath(folder), "")
            try:
                with os.scandir(real) as entries:
                    links = frozenset(entry.name for entry in entries if entry.is_symlink())
            except OSError:
                # What is not there has no links; a file that cannot be reached is told apart when it is deleted.
                links = frozenset()
            self._known[folder] = (real, links)
        return self._known[folder]


def _folders(located: pa.StringArray) -> pa.DictionaryArray:
    return pc.replace_substring_regex(located, _NAME, "").dictionary_encode()


class Reached:
    """The files that snapshots reach. It grows by what newer metadata adds, and reads no list and no manifest twice.

    Parameters
    ----------
    places
        What finds the places of files.
    tasks
        What reads many lists and manifests in place of this process.
    """

    def __init__(self, places: Places, tasks: FileTasks | None = None) -> None:
        self._places = places
        self._tasks = tasks
        self._snapshots: set[int] = set()
        self._manifests: set[str] = set()
        #: The partition specs of the files that were added.
        self.spec_ids: set[int] = set()
        #: The locations of lists, manifests and what these name, a set for each time that some were added.
        self.parts: list[kernels.PathSet] = []
        #: Those of files that metadata names itself, of which some may be gone: statistics, and older metadata.
        self._named: list[kernels.PathSet] = []

    def add(self, loaded: LoadedTable, snapshots: Iterable[Snapshot]) -> None:
        """Read what snapshots reach, and note what metadata names itself: its own file, older ones, and statistics.

        Raises
        ------
        DeltabergError
            A list or a manifest cannot be read, or names a file that nobody could find.
        """
        chosen = list(snapshots)
        parts = [self._located(files.filter(is_live)) for files, is_live in self._walk(loaded, chosen, self.spec_ids)]
        self._snapshots.update(one.snapshot_id for one in chosen)
        self.parts.append(kernels.PathSet(parts))
        # Statistics of a snapshot that nobody knows any more stay as well.
        left_out = loaded.metadata.snapshots.keys() - self._snapshots
        named = [path for path, number in statistics_of(loaded.metadata) if number not in left_out]
        named += [str(loaded.file), *(entry.metadata_file for entry in loaded.metadata.metadata_log)]
        self._named.append(kernels.PathSet([self._located(self.others(loaded, named, STATISTICS))]))

    def branched(self) -> Reached:
        """Return what begins with all that was added so far, and grows by itself."""
        branch = Reached(self._places, self._tasks)
        branch._snapshots, branch._manifests = set(self._snapshots), set(self._manifests)
        branch.spec_ids, branch.parts, branch._named = set(self.spec_ids), list(self.parts), list(self._named)
        return branch

    def has(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot was added."""
        return snapshot.snapshot_id in self._snapshots

    def others(
        self, loaded: LoadedTable, recorded: list[str], kind: str, sizes: list[int | None] | None = None
    ) -> pa.Table:
        """Return files that metadata names itself, as `REACHED` describes them."""
        return self._table(recorded, kind, sizes, prefix=loaded.prefix)

    def contains(self, locations: pa.StringArray) -> pa.BooleanArray:
        """Return which locations are those of files that were added."""
        found = (part.contains(locations) for part in (*self.parts, *self._named))
        return reduce(pc.or_, found, pa.repeat(pa.scalar(False), len(locations)))

    def beyond(self, loaded: LoadedTable, snapshots: Iterable[Snapshot]) -> Iterator[pa.Table]:
        """Yield the files that some snapshots reach or removed, and that are not reached by what was added.

        A manifest that was looked through for this is read again if newer metadata turns out to need it.
        """
        for files, _ in self._walk(loaded, snapshots, None):
            yield self.without(files)

    def without(self, files: pa.Table) -> pa.Table:
        """Return the files that are not reached, also files in other stores."""
        located = files.column("location").is_valid()
        reached = self.contains(as_array(files.column("location").filter(located)))
        among = pc.replace_with_mask(pa.repeat(pa.scalar(False), len(files)), as_array(located), reached)
        return files.filter(pc.invert(among))

    def _located(self, files: pa.Table) -> pa.StringArray:
        known = as_array(files.column("location")).drop_null()
        targets = self._places.targets(known)
        return pa.concat_arrays([known, targets]) if len(targets) else known

    def _walk(
        self, loaded: LoadedTable, snapshots: Iterable[Snapshot], spec_ids: set[int] | None
    ) -> Iterator[tuple[pa.Table, pa.BooleanArray]]:
        """Yield files that snapshots reach, as `REACHED` describes them, and which of them are live in one.

        With a set for the partition specs, what is yielded is to be added, and is not read again.
        """
        seen = set(self._manifests) if spec_ids is None else self._manifests
        new = [one for one in snapshots if one.snapshot_id not in self._snapshots]
        prefix, reader = loaded.prefix, reader_of(loaded)
        named = [one.manifest_list for one in new if one.manifest_list is not None]
        yield _all_live(self._table(named, "manifest list", prefix=prefix))
        # What else there is of a snapshot is nothing to send to tasks.
        bare = [replace(one, summary={}, raw={}) for one in new]
        for listed in self._read(_ReadLists(reader), bare, _LISTS_AT_ONCE):
            rows = [row for row in listed.to_pylist() if row["manifest_path"] not in seen]
            if spec_ids is not None:
                spec_ids.update(row["partition_spec_id"] for row in rows)
            paths, sizes = ([row[name] for row in rows] for name in ("manifest_path", "manifest_length"))
            yield _all_live(self._table(paths, "manifest", sizes, prefix=prefix))
            for entries in self._read(_ReadManifests(reader), rows, _MANIFESTS_AT_ONCE):
                content = entries.column("content")
                kinds = pc.if_else(
                    pc.equal(content, DATA),
                    "data file",
                    pc.if_else(pc.equal(content, POSITION_DELETES), "position deletes", "equality deletes"),
                )
                live = as_array(pc.not_equal(entries.column("status"), DELETED))
                files = self._table(
                    entries.column("file_path"), kinds, entries.column("file_size_in_bytes"), prefix=prefix
                )
                yield files, live
            seen.update(paths)

    def _read(
        self, work: Callable[[Sequence[_Item]], pa.Table], items: Sequence[_Item], at_once: int
    ) -> Iterator[pa.Table]:
        """Yield what some work makes of items, here or by tasks, where there are enough of them."""
        if self._tasks is None or len(items) < _LEAST_IN_TASKS:
            yield from map(work, in_chunks(items, at_once))
            return
        for some in in_chunks(items, _IN_A_TASK * _TASKS * self._tasks.parallelism):
            for found in results_of(self._tasks.run(_AsStream(work), list(in_chunks(some, _IN_A_TASK)))):
                yield pa.ipc.open_stream(found).read_all()

    def _table(self, recorded: Any, kind: Any, sizes: Any = None, prefix: str = "") -> pa.Table:
        paths = recorded if isinstance(recorded, pa.ChunkedArray) else pa.array(recorded, pa.string())
        located = self._places.of(paths, prefix)
        kinds = pa.repeat(kind, len(located)) if isinstance(kind, str) else as_array(kind)
        given = pa.nulls(len(located), pa.int64()) if sizes is None else sizes
        lengths = as_array(given) if isinstance(given, pa.ChunkedArray) else pa.array(given, pa.int64())
        return pa.Table.from_arrays([located, kinds, lengths], schema=REACHED)


def statistics_of(metadata: TableMetadata) -> dict[tuple[str, int | None], int | None]:
    """Return the sizes of the files of statistics that metadata names, by path and snapshot, as far as all is known."""
    named = chain.from_iterable(statistics_files(metadata).values())
    return {(one.path, one.snapshot_id): one.size for one in named if one.path is not None}


def snapshots_with(loaded: LoadedTable, location: str) -> list[Snapshot]:
    """Return the snapshots that need a data file or a delete file, the newest first. Each manifest is read once."""
    reader, places = reader_of(loaded), Places(loaded)
    holds: dict[str, bool] = {}

    def is_in(row: dict[str, Any]) -> bool:
        (entries,) = reader.read([row | {"number": 0}], _PART)
        live = entries.table.filter(pc.not_equal(entries.table.column("status"), DELETED))
        return bool(pc.any(pc.equal(places.of(live.column("file_path"), loaded.prefix), location)).as_py())

    needing = []
    newest = reversed(list(loaded.metadata.snapshots.values()))
    for snapshot in sorted(newest, key=lambda one: -one.sequence_number):
        rows = reader.manifests_of(snapshot).select(_WANTED).to_pylist()
        for some in in_chunks([row for row in rows if row["manifest_path"] not in holds], _MANIFESTS_AT_ONCE):
            paths = [row["manifest_path"] for row in some]
            holds |= dict(zip(paths, map_in_order(_READERS, is_in, some), strict=True))
        if any(holds[row["manifest_path"]] for row in rows):
            needing.append(snapshot)
    return needing


def reader_of(loaded: LoadedTable) -> ManifestReader:
    """Return what reads the manifests of all snapshots of a table."""
    metadata = loaded.metadata
    sources = source_columns(metadata.specs.values(), metadata.known_columns)
    return ManifestReader(str(loaded.root), loaded.store, loaded.resolver, metadata.specs, [sources])


@dataclass(frozen=True)
class _ReadLists:
    """Reads the manifest lists of snapshots, each manifest once: most are in the lists of many snapshots."""

    reader: ManifestReader

    def __call__(self, snapshots: Sequence[Snapshot]) -> pa.Table:
        lists = map_in_order(_READERS, lambda one: self.reader.manifests_of(one).select(_WANTED), snapshots)
        rows = pa.concat_tables(lists).combine_chunks()
        numbered = rows.select(["manifest_path"]).append_column("row", pa.array(range(len(rows)), pa.int64()))
        return rows.take(numbered.group_by("manifest_path").aggregate([("row", "min")]).column("row_min"))


@dataclass(frozen=True)
class _ReadManifests:
    """Reads the files that the entries of manifests name, by rows of manifest lists."""

    reader: ManifestReader

    def __call__(self, rows: Sequence[dict[str, Any]]) -> pa.Table:
        numbered = [row | {"number": number} for number, row in enumerate(rows)]
        return pa.concat_tables([entries.table.select(_OF_ENTRIES) for entries in self.reader.read(numbered, _PART)])


@dataclass(frozen=True)
class _AsStream:
    """Returns what some work makes of items as the bytes of an Arrow stream."""

    work: Callable[[Sequence[Any]], pa.Table]

    def __call__(self, items: Sequence[Any]) -> bytes:
        table, sink = self.work(items), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        data: bytes = sink.getvalue().to_pybytes()
        return data


def _all_live(files: pa.Table) -> tuple[pa.Table, pa.BooleanArray]:
    return files, pa.repeat(pa.scalar(True), len(files))
