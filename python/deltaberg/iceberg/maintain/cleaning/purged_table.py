"""Purge of a table that is dropped: the files that its metadata names go, and nothing else of its directory.

Each file goes after all that it names. Nothing goes that names a file which could not be read or deleted, or which
stays since it is in a directory of the table that others may share. In a catalog the newest metadata file goes at the
very end: where a purge was interrupted, it can be entered into the catalog again, and the table dropped once more. A
directory is a table as long as it has metadata files, so that they go first (`dropped_directory.py`). What is gone
already is passed over.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptMetadataError, DataFileNotFoundError, DeltabergError
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY, METADATA_FILE, VERSION_HINT
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.maintain.cleaning.metadata_beside import check_metadata_beside
from deltaberg.iceberg.maintain.cleaning.reached import REACHED, STATISTICS, Places, Reached, reader_of, statistics_of
from deltaberg.iceberg.maintain.cleaning.snapshot_retention import check_collected
from deltaberg.iceberg.maintain.cleaning.sweep import TABLE_FILE, Sweep, check_alone, is_in, own_folders
from deltaberg.iceberg.manifests.fields import ManifestPart
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.transaction.writable import check_writable
from deltaberg.schema.arrow import as_array
from deltaberg.storage.base import ObjectMeta
from deltaberg.table.maintain.cleanup import CleanupResult, DropRequest
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.table.removal import FileKind
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["TablePurge"]

_REASON = "its table was dropped"
_PART = ManifestPart(deleted=True)
#: How many manifests are read at a time, and by how many threads.
_AT_ONCE, _READERS = 64, 16
#: What makes a directory a table goes in the first two stages, its newest metadata in the second one. Then content
#: goes, then manifests, then what the newest metadata file names, and at last this file.
_POINTERS, _POINTER, _CONTENT, _MANIFESTS, _NAMED, _NEWEST = range(6)
_POINTER_FILE = FileKind(
    "a file that makes a directory a table",
    re.compile(rf"{METADATA_DIRECTORY}/(?:{METADATA_FILE.names.pattern}|{re.escape(VERSION_HINT)})"),
)


class _Found(NamedTuple):
    """The files that metadata names, those of them that are the table's, and how many tables may share."""

    named: pa.Table
    own: pa.Table
    shared: int


class TablePurge:
    """The purge of a table, which is made ready before the table is dropped, so that a refusal leaves it there.

    Parameters
    ----------
    loaded
        The table.
    asked
        Which directories elsewhere are the table's alone, and what deletes many files.
    pointers
        The files that make its directory a table, the newest metadata file and the hint at it last; None for a table of
        a catalog.

    Raises
    ------
    InvalidArgumentError
        The property ``gc.enabled`` is false, a directory is also that of another table, or none of this one. A catalog
        does not know metadata in the directory that may be that of another table, or a newer state of this one.
    """

    def __init__(self, loaded: LoadedTable, asked: DropRequest, pointers: Sequence[ObjectMeta] | None = None) -> None:
        check_alone(loaded)
        check_writable(loaded.metadata, loaded.resolver)
        check_collected(loaded.metadata)
        self._loaded = loaded
        self._pointers = pointers
        #: Whether all files are gone that could be found.
        self.is_whole = False
        self._places = Places(loaded)
        any_folder = Sweep(lambda table: table, loaded, Reached(self._places), None, None)
        #: The directories beside the location from which files go.
        self.alone = list(map(any_folder.folder, asked.locations))
        self._tasks = asked.tasks
        #: All that metadata names in the directories of the table, as `CleanupResult.files` spells it.
        self.named = pa.chunked_array([], pa.string())
        self._reader = reader_of(loaded)
        self._unread: list[str] = []
        self._lost: list[str] = []
        self._sweep = Sweep(lambda table: table, loaded, Reached(self._places), self._tasks, None, alone=self.alone)
        self._found: _Found | None = None
        if pointers is None:
            reached = Reached(self._places)
            reached.add(loaded, ())
            folders = [*own_folders(loaded, loaded.metadata), *self.alone]
            # A commit that is about to land may be one to another catalog.
            check_metadata_beside(loaded, folders, self._places, reached, sys.maxsize)

    def find(self) -> _Found:
        """Find the files, once: what cannot be found out fails here, before a catalog forgets the table.

        Raises
        ------
        DeltabergError
            The metadata names what nobody could find, or the store failed.
        """
        if self._found is None:
            named = self._files()
            own = self._sweep.in_own_folders(named)
            self.named = self._sweep.as_cleaned(own).column("path")
            self._found = _Found(named, own, self._in_shared_folders(_left_of(named, own)))
        return self._found

    def planned(self) -> CleanupResult:
        """Return what a purge would delete."""
        begun, (named, files, shared) = time.monotonic(), self.find()
        if shared:
            files = files.filter(pc.less_equal(files.column("stage"), _CONTENT))
        warnings = [*self._unread, *self._of_lost(), *_of_outside(named, files)]
        return _result(begun, self._sweep, files, warnings, is_dry=True)

    def run(self, check: Callable[[], object]) -> CleanupResult:
        """Delete the files. The table must not be in the catalog any more.

        Parameters
        ----------
        check
            Raises an exception if somebody has the table again. It is called before each batch of files goes.

        Raises
        ------
        DeltabergError
            The store failed. The hint says how a catalog gets the table back.
        """
        try:
            return self._run(check)
        except DeltabergError as error:
            if self._pointers is None:
                again = f"register the table again by {self._loaded.file}, and drop it once more"
                error.hint = f"the catalog no longer has the table: {again}"
            raise

    def _run(self, check: Callable[[], object]) -> CleanupResult:
        begun = time.monotonic()

        def load(known: LoadedTable) -> LoadedTable:
            check()
            return known

        sweep = self._sweep
        sweep.load = load
        named, files, shared = self.find()
        if self._pointers and self._unread:
            raise CorruptMetadataError(
                f"the table cannot be dropped: {self._unread[0]}",
                hint="repair the table first, or delete its directory",
                table=str(self._loaded.root),
            )
        gone = [files.slice(0, 0)]
        stages = files.column("stage")
        # While one of them stays, the directory is still a table, and so whatever it names has to stay.
        stays = len(pc.indices_nonzero(pc.less(stages, _CONTENT))) < len(self._pointers or ())
        for stage in [] if stays else pc.unique(stages).to_pylist():
            if shared and stage > _CONTENT:
                break
            chosen = files.filter(pc.equal(stages, stage))
            gone.append(sweep.carry_out(chosen, _POINTER_FILE if stage < _CONTENT else TABLE_FILE))
            stays = stage < _CONTENT and len(gone[-1]) < len(chosen)
            if stays or sweep.warnings or sweep.failed or (self._unread and stage >= _CONTENT):
                break
        warnings = [*self._unread, *sweep.warnings]
        is_done = not (stays or warnings or sweep.failed)
        self.is_whole = is_done and not shared
        if shared:
            where = f", beginning with {self._loaded.file}" if self._pointers is None else ""
            why = f"{shared} are in a directory that tables may share; pass it in locations if it is the table's alone"
            warnings.append(f"what names files of the table stays with them{where}: {why}")
        if not is_done:
            again = f"register the table again by {self._loaded.file}, and " if self._pointers is None else ""
            warnings.append(f"to go on, {again}drop the table once more, unless there is another one in its place")
        warnings += self._of_lost()
        warnings += _of_outside(named, files)
        return _result(begun, sweep, pa.concat_tables(gone), warnings, is_dry=False)

    def _in_shared_folders(self, left: pa.StringArray) -> int:
        """Return how many files are in directories that properties name, where tables may write together."""
        metadata = self._loaded.metadata
        alone = own_folders(self._loaded, metadata, ())
        others = [one for one in own_folders(self._loaded, metadata) if not is_in(one, [*alone, *self.alone])]
        above = (pc.starts_with(left, f"{str(one).rstrip('/')}/") for one in others)
        count: int = reduce(pc.or_, above, pa.repeat(pa.scalar(False), len(left))).true_count
        return count

    def _files(self) -> pa.Table:
        """Return the files that metadata names, each once, with the stage in which it goes."""
        metadata = self._loaded.metadata
        lists, rows = self._manifests()
        named = [self._table(lists, "manifest list")]
        statistics = {path: size for (path, _), size in statistics_of(metadata).items()}
        named.append(self._table(list(statistics), STATISTICS, pa.array(statistics.values(), pa.int64())))
        named.append(self._table([entry.metadata_file for entry in metadata.metadata_log], "metadata"))
        stages = {
            _CONTENT: [REACHED.empty_table(), *self._contents(rows)],
            _MANIFESTS: [
                self._table(
                    [row["manifest_path"] for row in rows],
                    "manifest",
                    pa.array([row["manifest_length"] for row in rows], pa.int64()),
                )
            ],
            _NAMED: named,
            **self._metadata(),
        }
        tables = [pa.concat_tables(some) for some in stages.values()]
        numbers = [
            pa.repeat(pa.scalar(stage, pa.int8()), len(table)) for stage, table in zip(stages, tables, strict=True)
        ]
        files = pa.concat_tables(tables).append_column("stage", pa.chunked_array(numbers, pa.int8()))
        numbered = files.append_column("number", pa.array(range(len(files)), pa.int64()))
        # A file that damaged metadata names twice goes in the later stage, but one that the table is found by as such.
        last = numbered.group_by("location").aggregate([("number", "max")]).column("number_max")
        files = files.take(last.combine_chunks().sort()).sort_by("stage")
        return files.append_column("reason", pa.repeat(_REASON, len(files)))

    def _metadata(self) -> dict[int, list[pa.Table]]:
        """Return the files by which the table is found, with the stages in which they go."""
        if self._pointers is None:
            return {_NEWEST: [self._table([str(self._loaded.file)], "metadata")]}
        names = [str(self._loaded.root._replace(path=meta.path)) for meta in self._pointers]
        table = self._table(names, "metadata", pa.array([meta.size for meta in self._pointers], pa.int64()))
        places = (place for place, meta in enumerate(self._pointers) if meta.path == self._loaded.file.path)
        newest = next(places, len(table))
        return {_POINTERS: [table.slice(0, newest)], _POINTER: [table.slice(newest)]}

    def _manifests(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the manifest lists of all snapshots, and the manifests in them, each once."""
        snapshots = list(self._loaded.metadata.snapshots.values())
        lists = [one.manifest_list for one in snapshots if one.manifest_list is not None]
        rows: dict[str, dict[str, Any]] = {}
        for some in in_chunks(snapshots, _AT_ONCE):
            for found in map_in_order(_READERS, self._rows_of, some):
                rows |= {row["manifest_path"]: row for row in found if row["manifest_path"] not in rows}
        return lists, list(rows.values())

    def _rows_of(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        parts = [snapshot]
        if snapshot.manifest_list is None:
            # A snapshot that names its manifests itself has those that are there, whichever of them are lost.
            parts = [replace(snapshot, manifests=(path,)) for path in snapshot.manifests]
        rows: list[dict[str, Any]] = []
        for part in parts:
            try:
                rows += self._reader.manifests_of(part).to_pylist()
            except DeltabergError as error:
                path = part.manifest_list or part.manifests[0]
                self._note(f"the snapshot {snapshot.snapshot_id}", path, error)
        return rows

    def _contents(self, rows: list[dict[str, Any]]) -> Iterator[pa.Table]:
        """Yield the data files and delete files that manifests name, those that were removed as well."""

        def read(row: dict[str, Any]) -> pa.Table:
            try:
                (entries,) = self._reader.read([row], _PART)
            except DeltabergError as error:
                self._note(f"the manifest {row['manifest_path']}", row["manifest_path"], error)
                return self._table([], "data file")
            return self._table(entries.table.column("file_path"), "data file", entries.table["file_size_in_bytes"])

        for some in in_chunks(rows, _AT_ONCE):
            yield from map_in_order(_READERS, read, some)

    def _note(self, what: str, path: str, error: DeltabergError) -> None:
        # What is not there can hold up nothing: after an interrupted purge, it went before.
        if isinstance(error, DataFileNotFoundError):
            self._lost.append(path)
        else:
            self._unread.append(f"files of {what} stay, since it cannot be read: {error.message}")

    def _of_lost(self) -> list[str]:
        if not self._lost:
            return []
        lost = first_paths(sorted(self._lost))
        left = "unless an earlier purge has deleted them, files that only they named stay"
        return [f"manifest lists or manifests were not there ({len(self._lost)}): {lost}; {left}"]

    def _table(self, recorded: Any, kind: str, sizes: Any = None) -> pa.Table:
        paths = recorded if isinstance(recorded, pa.ChunkedArray) else pa.array(recorded, pa.string())
        located = self._places.of(paths, self._loaded.prefix)
        lengths = pa.nulls(len(located), pa.int64()) if sizes is None else as_array(sizes)
        return pa.Table.from_arrays([located, pa.repeat(kind, len(located)), lengths], schema=REACHED)


def _result(begun: float, sweep: Sweep, files: pa.Table, warnings: list[str], *, is_dry: bool) -> CleanupResult:
    return CleanupResult(
        is_dry,
        sweep.as_cleaned(files),
        sweep.failed,
        {reason: count for reason, count in sorted(sweep.kept.items()) if count},
        time.monotonic() - begun,
        tuple(warnings),
    )


def _left_of(named: pa.Table, own: pa.Table) -> pa.StringArray:
    """Return the locations of files that are not among the table's own."""
    left = pc.invert(pc.is_in(named.column("location"), value_set=own.column("location")))
    return as_array(named.filter(left).column("location")).drop_null()


def _of_outside(named: pa.Table, own: pa.Table) -> list[str]:
    """Return what is to be said of files that stay since tables may share their directories."""
    locations = _left_of(named, own)
    if not len(locations):
        return []
    folders = pc.unique(pc.replace_substring_regex(locations, "/[^/]*$", "")).sort().to_pylist()
    why = "not in a directory of the table alone, so that others may need them"
    return [f"files stay ({len(locations)}) that are {why}: in {first_paths(folders)}"]
