"""Candidates of a vacuum: data files, deletion vectors and change data files that no retained version needs.

Delta protocol, "Add File and Remove File". What stays is in compact sets, and what is listed streams past them. Commits
that come meanwhile are asked last, before each batch of deletions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.log.commit import cleaned_up
from deltaberg.delta.log.names import LOG_DIRECTORY
from deltaberg.delta.maintain.cleaning.other_tables import OtherTables
from deltaberg.delta.maintain.cleaning.vacuum_mark import read_mark
from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
from deltaberg.delta.maintain.own_paths import OwnPaths
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.retention import kept_versions, unexpired
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import (
    DataFileNotFoundError,
    MetadataChangedError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from deltaberg.hints import Hint
from deltaberg.schema.arrow import as_array
from deltaberg.storage.base import ObjectMeta
from deltaberg.storage.location import PathResolver
from deltaberg.table.maintain.cleanup import CLEANED_FILES, STRAY, CleanupProgress
from deltaberg.table.maintain.file_tasks import FileTasks, list_by_tasks
from deltaberg.table.maintain.listed_files import (
    INNER_TABLE,
    LISTED_FILES,
    are_hidden,
    earlier_clock,
    find_inner_tables,
)
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.table.write.places import hive_text
from deltaberg.workers import map_in_order

__all__ = ["DROPPED", "VacuumCandidates"]

_CHANGE_DATA = "_change_data"
#: The directories that hide no file though their names begin like that.
_SHOWN_DIRECTORIES = rf"(^|/)(?:{_CHANGE_DATA}|_delta_index)/"
_VECTOR = r"(?:^|/)deletion_vector_[^/]*\.bin$"
_HOUR = 3_600_000
#: A time that no file is as young as.
_NEVER = (1 << 63) - 1
#: How many log entries are replayed at once, and how many requests are made at a time.
_READ_TOGETHER, _ASKED_TOGETHER = 256, 16

#: Why a file goes where no version stays.
DROPPED = "the table is dropped"
_REMOVED = "the table removed it before the retention"
_UNTRACKED = "no retained version names it"
_EXPIRED_CHANGES = "it holds changes of commits before the retention"
_LIVE = "the table needs it"
_RETAINED = "removed, or changed, within the retention"
_VERSIONS = "a version needs it that is to be kept"
_YOUNG = "written within the retention"
_GUARDED = "not named by the log, and too young to be a leftover"
_HIDDEN = "hidden: its path has a part that begins with _ or ."
_ELSEWHERE = "the table names a file of this name by the path of another place"
_NESTED = "of another table below the directory"
_AROUND = "not named by the log, and in the directory of another table, which may need it"
_OUTSIDE = "listed by the inventory, and not below the table"
_ICEBERG = "metadata of an Iceberg table in the same directory"
_READ_BY_ICEBERG = "a branch or a tag of the Iceberg table in the same directory needs it"


class VacuumCandidates:
    """Finds the files that a vacuum may delete, and asks again before it does.

    Parameters
    ----------
    snapshot
        The newest version.
    options
        What is asked for.
    tasks
        What lists a large table in place of this process.
    """

    def __init__(self, snapshot: Snapshot, options: VacuumOptions, tasks: FileTasks | None) -> None:
        self._tasks = tasks
        self._snapshot = snapshot
        self._options = options
        self._log = snapshot.log
        self._root = self._log.root
        self._store = self._log.storage
        self._own = OwnPaths(PathResolver(self._root))
        self._base = self._root.join("").path
        self.retention, self._kept_versions = self._rules(snapshot)
        self._now = earlier_clock(self._store, self._log.path)
        self._cutoff = self._now - self.retention
        self._guard = min(self._cutoff, self._now - options.untracked)
        self._times = CommitTimes(self._log, snapshot)
        #: The newest commit outside of the retention, which is the mark of this run unless older ones leave files.
        self._newest_old = None if options.is_drop else self._times.last_certainly_before(self._cutoff)
        self.mark = self._newest_old
        names = {name for field in snapshot.partition_fields for name in (field.name, field.physical_name)}
        escaped = {re.escape(text) for name in names for text in (name, hive_text(name))}
        # Directories of partition columns are not hidden, whatever their names.
        self._shown_columns = rf"(^|/)(?:{'|'.join(sorted(escaped))})=[^/]*" if escaped else None
        #: How many files stay, by the reason.
        self.kept: Counter[str] = Counter()
        self._listed = self._chosen = 0
        #: The tables to which files may belong as well.
        self.others = OtherTables(snapshot, self._own)
        #: Directories below the root that are tables of their own.
        self._nested: set[str] = set()
        #: The version up to which commits that came meanwhile were asked, and what they name.
        self._seen = snapshot
        self._meanwhile: list[pa.Array] = []
        #: Whether a file stays that the table removed before the retention, since the store says that it is young.
        self._stays_named = False
        #: Objects that could not be listed.
        self.passed_over: list[str] = []

    def _rules(self, snapshot: Snapshot) -> tuple[int, frozenset[int]]:
        if self._options.is_drop:
            return 0, frozenset()
        properties = snapshot.metadata.configuration
        asked = frozenset(self._options.keep_versions or ())
        return self._options.retention(properties), kept_versions(properties) | asked

    def find(self) -> pa.Table:
        """Return the files that no retained version needs, as `CLEANED_FILES` describes them.

        Raises
        ------
        DataFileNotFoundError
            The table names a file that the store lacks, or a file that is looked for in the log alone cannot be found
            there.
        StorageError
            The store failed.
        """
        self._live = self._snapshot.read_keys("add", self._paths_of)
        # What reading took goes back before the rest begins.
        pa.default_memory_pool().release_unused()
        tombstones = self._snapshot.read_keys("remove", pa.concat_tables)
        unexpired_ones = unexpired(tombstones, self._now, self.retention)
        self._named = self._paths_of([tombstones])
        self._retained = kernels.PathSet([*self._own.of_files(unexpired_ones), *self._of_retained_commits()])
        self._versions = kernels.PathSet(self._of_kept_versions())
        self._read_by_others = kernels.PathSet(self.others.needed())
        self._elsewhere = pa.array(sorted(self._own.elsewhere), pa.string())
        self._lower_mark(unexpired_ones.column("version"))
        parts = list(self._of_log() if self._options.is_lite else self._of_listing())
        files = self._deletable(pa.Table.from_batches(parts, CLEANED_FILES))
        if self._options.inventory is not None:
            files = self._there(files)
        self._chosen = len(files)
        return files

    def _there(self, files: pa.Table) -> pa.Table:
        """Return the files that the store has: an inventory may name some that are gone since."""
        found = map_in_order(_ASKED_TOGETHER, self._described, files.column("path").to_pylist())
        return files.filter(pa.array([meta is not None for meta in found], pa.bool_()))

    def find_all(self) -> pa.Table:
        """Return the files of the table, as `find` does, where no version is to stay."""
        self.others.check_none_around()
        self._live = self._named = self._retained = self._versions = self._read_by_others = kernels.PathSet(())
        self._elsewhere = pa.array([], pa.string())
        self._cutoff = self._guard = _NEVER
        files = self._deletable(pa.Table.from_batches(self._of_listing(), CLEANED_FILES))
        self._chosen = len(files)
        reason = CLEANED_FILES.get_field_index("reason")
        return files.set_column(reason, CLEANED_FILES.field(reason), pa.repeat(DROPPED, len(files)))

    def leaves_none(self) -> bool:
        """Return whether only the candidates are left of what commits up to the mark removed, and of leftovers."""
        is_whole = self._options.inventory is None and not self._kept_versions and not self.passed_over
        return is_whole and not (self.kept[_GUARDED] or self.kept[_AROUND] or self._stays_named)

    def tell(self, deleted: int = 0) -> None:
        """Tell the caller how far the vacuum has come."""
        if self._options.progress is not None:
            self._options.progress(CleanupProgress(self._listed, self._chosen, deleted))

    def _lower_mark(self, versions: pa.ChunkedArray) -> None:
        """Keep the mark below the old commits whose removed files still stay."""
        if self.mark is not None:
            old = pc.min(versions.filter(pc.less_equal(versions, self.mark))).as_py()
            self.mark = self.mark if old is None else old - 1

    # What stays

    def _paths_of(self, files: Iterable[pa.Table]) -> kernels.PathSet:
        return kernels.PathSet(paths for some in files for paths in self._own.of_files(some))

    def _of_retained_commits(self) -> Iterator[pa.Array]:
        """Return what commits within the retention removed, and their change data files.

        The time of the commit counts, whatever it says of the time of the removal. Checkpoints do not help: they hold
        removed files for the table's own retention only.
        """
        versions = self._times.versions(0 if self._newest_old is None else self._newest_old + 1)
        for commits in self._commits(versions):
            yield from self._own.of_files(kernels.replay(commits).removes)
            yield from (self._own.of_changes(data) for _, data in commits if b"cdc" in data or b"\\u" in data)

    def _commits(self, versions: Sequence[int]) -> Iterator[list[tuple[int, bytes]]]:
        """Return log entries, some at a time, newest first. Those that were cleaned up meanwhile are left out."""

        def read(version: int) -> tuple[int, bytes] | None:
            with suppress(VersionNotFoundError):
                return version, self._times.read(version)
            return None

        for start in range(0, len(versions), _READ_TOGETHER):
            some = versions[start : start + _READ_TOGETHER]
            found = map_in_order(_ASKED_TOGETHER, read, reversed(some))
            yield [commit for commit in found if commit is not None]

    def _of_kept_versions(self) -> Iterator[pa.Array]:
        named = kept_versions(self._snapshot.metadata.configuration)
        for version in sorted(self._kept_versions):
            try:
                live = Snapshot.load(self._log, version).live.table
            except VersionNotFoundError as error:
                if version in named:
                    error.hint = Hint(
                        "the property deltaberg.keepVersions names it: set it without that version by "
                        '⟪alter().set(…)⟫, or unset it by ⟪alter().unset("deltaberg.keepVersions")⟫'
                    )
                else:
                    error.hint = Hint("leave it out of ⟪keep_versions⟫")
                raise
            yield from self._own.of_files(live)
            with suppress(VersionNotFoundError):
                yield self._own.of_changes(self._times.read(version))

    def _deletable(self, files: pa.Table) -> pa.Table:
        """Return the files of which nothing but a look at all candidates says that they stay."""
        paths = files.column("path").to_pylist()
        if self._options.inventory is not None:
            # It may leave out what shows that there are tables below.
            folders = {path.rpartition("/")[0] for path in paths}
            self._nested |= find_inner_tables(self._store, self._root.path, folders, self.others.is_inner)
        above = tuple(f"{directory}/" for directory in sorted(self._nested))
        strays = self._store.strays(self._root.path, map(self.absolute, paths))
        # Several commits may have removed one file, and an inventory may list it twice.
        seen: set[str] = set()
        left = []
        for number, path in enumerate(paths):
            if path in seen:
                continue
            seen.add(path)
            if path.startswith(above):
                self.kept[_NESTED] += 1
            elif strays and self.absolute(path) in strays:
                self.kept[STRAY] += 1
            else:
                left.append(number)
        return self.without_meanwhile(files.take(pa.array(left, pa.int64())))

    def without_meanwhile(self, files: pa.Table) -> pa.Table:
        """Return the files that no commit names that came since the snapshot was read: a restore may bring one back.

        Raises
        ------
        UnsupportedFeatureError
            One of these commits demands a feature that is not supported.
        MetadataChangedError
            One of them changed what the table says of the retention, or of versions to keep.
        """
        for version, data in self._seen.newer_commits().commits:
            replay = kernels.replay([(version, data)])
            named = (*self._own.of_files(replay.adds), *self._own.of_files(replay.removes))
            self._meanwhile += [*named, self._own.of_changes(data)]
            self._seen = self._seen.after(version, data)
            check_writable(self._seen)
            if self._rules(self._seen) != (self.retention, self._kept_versions):
                raise MetadataChangedError("another commit changed how long the table keeps files", hint="vacuum again")
        if not self._meanwhile or not len(files):
            return files
        again = kernels.PathSet(self._meanwhile).contains(as_array(files.column("path")))
        self.kept[_LIVE] += again.true_count
        return files.filter(pc.invert(again))

    def absolute(self, path: str) -> str:
        """Return a path of the table as its store knows it."""
        return f"{self._base}{path}"

    # Candidates

    def _of_listing(self) -> Iterator[pa.RecordBatch]:
        """Return what a listing or an inventory has and nothing needs."""
        foreign = self.others.iceberg_directory()
        for batch in self._listing():
            paths = batch.column("path")
            inner = pc.extract_regex(paths.filter(pc.match_substring_regex(paths, INNER_TABLE)), INNER_TABLE)
            self._nested.update(pc.struct_field(inner, "table").to_pylist())
            yield self._chosen_of(batch, self._named.contains(paths), foreign)
        if self._options.inventory is None:
            self._check_missing()

    def _listing(self) -> Iterator[pa.RecordBatch]:
        """Return the files of a listing or an inventory that may be deleted, as far as their names alone tell."""
        if self._options.inventory is None:
            yield from list_by_tasks(
                self._tasks, self._log.store, self._root, self._are_not_live, self.passed_over.append
            )
            return
        inventory = self._options.inventory
        files = inventory.filter(pc.invert(pc.fill_null(inventory.column("isDir"), False)))
        for batch in files.to_batches(max_chunksize=10_000):
            paths = pa.array(map(self._own.own_path, batch.column("path").to_pylist()), pa.string())
            self.kept[_OUTSIDE] += paths.null_count
            inside = pa.record_batch([paths, batch.column("length"), batch.column("modificationTime")], LISTED_FILES)
            below = inside.filter(paths.is_valid())
            yield below.filter(self._are_not_live(below.column("path")))

    def _are_not_live(self, paths: pa.StringArray) -> pa.BooleanArray:
        """Return which paths are none of live files, nor of the log, and count them."""
        self._listed += len(paths)
        live = self._live.contains(paths)
        self.kept[_LIVE] += live.true_count
        return pc.invert(pc.or_(live, pc.starts_with(paths, f"{LOG_DIRECTORY}/")))

    def _chosen_of(self, batch: pa.RecordBatch, named: pa.BooleanArray, foreign: str | None = None) -> pa.RecordBatch:
        """Return the files of a batch that no rule keeps, and count the others by the first rule that does."""
        paths, modified = batch.column("path"), batch.column("modified")
        changes = pc.starts_with(paths, f"{_CHANGE_DATA}/")
        names = pc.replace_substring_regex(paths, r"(?s)^.*/", "")
        rules = (
            (pc.is_in(names, value_set=self._elsewhere), _ELSEWHERE),
            (self._retained.contains(paths), _RETAINED),
            (self._versions.contains(paths), _VERSIONS),
            (self._read_by_others.contains(paths), _READ_BY_ICEBERG),
            (self._is_hidden(paths), _HIDDEN),
            *(() if foreign is None else ((pc.starts_with(paths, foreign), _ICEBERG),)),
            *(() if self.others.around is None else ((pc.invert(named), _AROUND),)),
            (pc.greater_equal(modified, self._cutoff), _YOUNG),
            (pc.and_(pc.invert(named), pc.greater_equal(modified, self._guard)), _GUARDED),
        )
        left = pa.repeat(True, len(batch))
        for stays, reason in rules:
            stopped = pc.and_(left, pc.fill_null(stays, True))
            left = pc.and_(left, pc.invert(stopped))
            self.kept[reason] += stopped.true_count
            if reason == _YOUNG:
                self._stays_named = self._stays_named or pc.any(pc.and_(stopped, named)).as_py() is True
        reasons = pc.if_else(changes, _EXPIRED_CHANGES, pc.if_else(named, _REMOVED, _UNTRACKED))
        made = _as_cleaned(paths, batch.column("bytes"), modified, reasons).filter(left)
        self._chosen += len(made)
        self.tell()
        return made

    def _is_hidden(self, paths: pa.StringArray) -> pa.BooleanArray:
        """Return which paths have a part that hides them, apart from directories that belong to the table."""
        shown = pc.replace_substring_regex(paths, _SHOWN_DIRECTORIES, r"\1x/")
        if self._shown_columns is not None:
            shown = pc.replace_substring_regex(shown, self._shown_columns, r"\1x")
        return are_hidden(shown)

    def _of_log(self) -> Iterator[pa.RecordBatch]:
        """Return what commits removed that left the retention since the mark, without a listing."""
        if self._newest_old is None:
            return
        mark = read_mark(self._log)
        first = 0 if mark is None else mark + 1
        versions = list(range(first, self._newest_old + 1))
        absent = sorted(set(versions).difference(self._times.versions(first)))
        if absent:
            raise VersionNotFoundError(
                f"a vacuum without a listing needs all commits from version {first} on, and {absent[0]} is gone",
                hint="run a full one, which lists the directory: leave out ⟪full=False⟫",
            )
        count = 0
        for commits in self._commits(versions):
            count += len(commits)
            removes = kernels.replay(commits).removes
            paths = [*self._own.of_files(removes), *(self._own.of_changes(data) for _, data in commits)]
            for path in paths:
                yield self._chosen_of_log(path.unique())
        if count < len(versions):
            raise cleaned_up(self._log, first)

    def _chosen_of_log(self, paths: pa.StringArray) -> pa.RecordBatch:
        """Return the removed files that exist and that nothing needs; the store says their age."""
        wanted = paths.filter(self._are_not_live(paths)).to_pylist()
        found = map_in_order(_ASKED_TOGETHER, self._described, wanted)
        rows = [(path, meta.size, meta.modified) for path, meta in zip(wanted, found, strict=True) if meta is not None]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, LISTED_FILES, strict=True)]
        batch = pa.record_batch(arrays, LISTED_FILES)
        return self._chosen_of(batch, pa.repeat(True, len(batch)))

    def _described(self, path: str) -> ObjectMeta | None:
        try:
            return self._store.head(self.absolute(path))
        except ObjectNotFoundError:
            return None

    def _check_missing(self) -> None:
        """Refuse to delete anything where the table names files that are not there.

        Raises
        ------
        DataFileNotFoundError
            A file is missing that was committed more than an hour ago.
        """
        missing = self._live.unasked()
        if not len(missing):
            return
        since = self._times.last_certainly_before(self._now - _HOUR)
        versions = self._times.versions(0 if since is None else since + 1)
        recent = kernels.PathSet(
            path for commits in self._commits(versions) for path in self._own.of_files(kernels.replay(commits).adds)
        )
        asked = missing.filter(pc.invert(recent.contains(missing))).to_pylist()
        found = map_in_order(_ASKED_TOGETHER, self._described, asked)
        gone = [path for path, meta in zip(asked, found, strict=True) if meta is None]
        if gone:
            raise DataFileNotFoundError(
                f"the table names files that do not exist ({len(gone)}), so nothing was deleted: {first_paths(gone)}",
                hint="⟪verify()⟫ says what is missing; put it back, or let ⟪repair()⟫ take it out of the table",
                version=self._snapshot.version,
            )


def _as_cleaned(paths: pa.Array, sizes: pa.Array, modified: pa.Array, reasons: pa.Array) -> pa.RecordBatch:
    """Return files as `CLEANED_FILES` describes them."""
    kinds = pc.if_else(
        pc.match_substring_regex(paths, _VECTOR),
        "deletion vector",
        pc.if_else(pc.starts_with(paths, f"{_CHANGE_DATA}/"), "change data", "data file"),
    )
    times = modified.cast(pa.timestamp("ms", "UTC"))
    return pa.record_batch([paths, kinds, sizes, times, reasons], CLEANED_FILES)
