"""Vacuum: data files, deletion vectors and change data files that no retained version needs are deleted.

Delta protocol, "Add File and Remove File" and "Vacuum Protocol Check". What stays is in compact sets, and what is
listed streams past them. Commits that come meanwhile are asked last, before each batch of deletions.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.log.names import LOG_DIRECTORY
from deltaberg.delta.maintain.own_paths import OwnPaths
from deltaberg.delta.maintain.vacuum_mark import read_mark, write_mark
from deltaberg.delta.maintain.vacuum_options import VacuumOptions
from deltaberg.delta.schema.iceberg_compat import FORMATS, is_compatible
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.retention import deleted_file_retention, kept_versions, unexpired
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import DataFileNotFoundError, DeltabergError, ObjectNotFoundError, VersionNotFoundError
from deltaberg.storage.location import PathResolver
from deltaberg.table.maintain.cleanup import CLEANED_FILES, CleanupProgress, CleanupResult
from deltaberg.table.maintain.listed_files import LISTED_FILES, earlier_clock, list_files
from deltaberg.table.removal import FileKind, try_to_delete
from deltaberg.table.write.places import hive_text
from deltaberg.workers import map_in_order

__all__ = ["RecordVacuum", "vacuum_table"]

#: Commits an operation without other changes: its name, parameters and metrics.
RecordVacuum = Callable[[str, Mapping[str, str], Mapping[str, int]], object]

_CHANGE_DATA = "_change_data"
#: A part of a path that hides the file, and the directories that do not though their names begin like that.
_HIDDEN_PART = r"(?:^|/)[_.]"
_SHOWN_DIRECTORIES = rf"(^|/)(?:{_CHANGE_DATA}|_delta_index)/"
_VECTOR = r"(?:^|/)deletion_vector_[^/]*\.bin$"
_TABLE_FILE = FileKind("a file of the table", re.compile(rf"(?!{LOG_DIRECTORY}(?:/|$)).+", re.DOTALL))
_ICEBERG_FILES = re.compile(r"version-hint\.text|.*\.metadata\.json(?:\.gz)?", re.DOTALL)
#: Stores on which each vacuum is recorded as commits, unless the caller says otherwise, as delta-spark does it.
_RECORDING = frozenset({"file", "hdfs", "wasb", "wasbs", "abfs", "abfss", "adl", "az", "gs"})
_HOUR = 3_600_000
_AT_ONCE = 5_000
_LOOKED_AT_TOGETHER = 8
_NAMED_AT_MOST = 10

_REMOVED = "the table removed it before the retention"
_UNTRACKED = "no retained version names it"
_EXPIRED_CHANGES = "it holds changes of commits before the retention"
_LIVE = "the table needs it"
_RETAINED = "removed, or changed, within the retention"
_VERSIONS = "a version needs it that is to be kept"
_YOUNG = "written within the retention"
_GUARDED = "not named by the log, and too young to be a leftover"
_HIDDEN = "hidden: its path has a part that begins with _ or ."
_ICEBERG = "metadata of an Iceberg table in the same directory"


def vacuum_table(snapshot: Snapshot, options: VacuumOptions, record: RecordVacuum) -> CleanupResult:
    """Delete the files that no retained version needs, or find them.

    Parameters
    ----------
    snapshot
        The newest version.
    options
        What is asked for.
    record
        Commits the beginning and the end.

    Raises
    ------
    UnsupportedFeatureError
        The table has a writer feature that is not supported; nothing was listed.
    InvalidArgumentError
        The retention is shorter than the table's.
    DataFileNotFoundError
        The table names a file that the store lacks, which shows that the listing or the table is not whole; or a file
        that is looked for in the log alone cannot be found there.
    StorageError
        The store failed.
    """
    check_writable(snapshot)
    return _Vacuum(snapshot, options, record).run()


class _Vacuum:
    def __init__(self, snapshot: Snapshot, options: VacuumOptions, record: RecordVacuum) -> None:
        self._snapshot = snapshot
        self._options = options
        self._record = record
        self._begun = time.monotonic()
        self._log = snapshot.log
        self._root = self._log.root
        self._store = self._log.storage
        self._own = OwnPaths(PathResolver(self._root))
        properties = snapshot.metadata.configuration
        self._table = str(self._root)
        self._retention = options.retention(properties, self._table)
        self._kept_versions = kept_versions(properties) | set(options.keep_versions or ())
        self._now = earlier_clock(self._store, self._log.path)
        self._cutoff = self._now - self._retention
        self._guard = min(self._cutoff, self._now - options.untracked)
        self._times = CommitTimes(self._log, snapshot)
        #: The newest commit outside of the retention, which is the mark of this run.
        self._newest_old = self._last_before(self._cutoff)
        names = {name for field in snapshot.partition_fields for name in (field.name, field.physical_name)}
        escaped = {re.escape(text) for name in names for text in (name, hive_text(name))}
        # Directories of partition columns are not hidden, whatever their names.
        self._shown_columns = rf"(^|/)(?:{'|'.join(sorted(escaped))})=[^/]*" if escaped else None
        self._kept: Counter[str] = Counter()
        self._listed = self._deleted = self._chosen = 0
        #: The versions after the snapshot whose files were subtracted, as the commits that came meanwhile say.
        self._seen = snapshot
        self._meanwhile: list[pa.Array] = []

    def run(self) -> CleanupResult:
        self._live = kernels.PathSet(self._own.of_files(self._snapshot.live.table))
        retained = unexpired(self._snapshot.tombstones, self._now, self._retention)
        self._named = kernels.PathSet(self._own.of_files(self._snapshot.tombstones))
        self._retained = kernels.PathSet([*self._own.of_files(retained), *self._of_retained_commits()])
        self._versions = kernels.PathSet(self._of_kept_versions())
        parts = list(self._of_log() if self._options.is_lite else self._of_listing())
        files = pa.Table.from_batches(parts, CLEANED_FILES)
        files = self._without_meanwhile(files)
        if self._options.dry_run:
            return self._result(files, {})
        return self._delete(files)

    # What stays

    def _of_retained_commits(self) -> Iterator[pa.Array]:
        """Return the change data files of commits within the retention, and what those removed.

        Checkpoints hold removed files for the table's own retention only, which may be shorter.
        """
        first = 0 if self._newest_old is None else self._newest_old + 1
        for data in self._commits(first):
            yield self._own.of_changes(data)
            removes = kernels.replay([(0, data)]).removes
            yield from self._own.of_files(unexpired(removes, self._now, self._retention))

    def _commits(self, first: int) -> Iterator[bytes]:
        """Return the log entries from a version on that the log still holds."""
        for version in range(first, self._snapshot.version + 1):
            with suppress(VersionNotFoundError):
                yield self._times.read(version)

    def _of_kept_versions(self) -> Iterator[pa.Array]:
        for version in sorted(self._kept_versions):
            yield from self._own.of_files(Snapshot.load(self._log, version).live.table)
            with suppress(VersionNotFoundError):
                yield self._own.of_changes(self._times.read(version))

    def _last_before(self, instant: int) -> int | None:
        try:
            return self._times.last_before(instant)
        except VersionNotFoundError:
            return None

    def _without_meanwhile(self, files: pa.Table) -> pa.Table:
        """Return the files that no commit names that came since the snapshot was read: a restore may bring one back."""
        for version, data in self._seen.newer_commits().commits:
            replay = kernels.replay([(version, data)])
            named = (*self._own.of_files(replay.adds), *self._own.of_files(replay.removes))
            self._meanwhile += [*named, self._own.of_changes(data)]
            self._seen = self._seen.after(version, data)
        if not self._meanwhile or not len(files):
            return files
        again = kernels.PathSet(self._meanwhile).contains(files.column("path").combine_chunks())
        self._kept[_LIVE] += again.true_count
        return files.filter(pc.invert(again))

    # Candidates

    def _of_listing(self) -> Iterator[pa.RecordBatch]:
        """Return what a listing or an inventory has and nothing needs."""
        found = 0
        foreign = self._iceberg_directory()
        for batch in self._listing():
            self._listed += len(batch)
            paths = batch.column("path")
            live = self._live.contains(paths)
            found += live.true_count
            yield self._chosen_of(batch, live, foreign)
        if self._options.inventory is None and found < len(self._live):
            self._check_missing()

    def _listing(self) -> Iterator[pa.RecordBatch]:
        if self._options.inventory is None:
            yield from list_files(self._store, self._root.path)
            return
        inventory = self._options.inventory
        files = inventory.filter(pc.invert(pc.fill_null(inventory.column("isDir"), False)))
        base = f"{str(self._root).rstrip('/')}/"
        for batch in files.to_batches(max_chunksize=10_000):
            paths = batch.column("path")
            inside = pc.starts_with(paths, base)
            relative = pc.if_else(inside, pc.utf8_slice_codeunits(paths, len(base)), paths)
            yield pa.record_batch([relative, batch.column("length"), batch.column("modificationTime")], LISTED_FILES)

    def _chosen_of(self, batch: pa.RecordBatch, live: pa.BooleanArray, foreign: str | None) -> pa.RecordBatch:
        paths, modified = batch.column("path"), batch.column("modified")
        named, changes = self._named.contains(paths), pc.starts_with(paths, f"{_CHANGE_DATA}/")
        old = pc.less(modified, self._cutoff)
        guarded = pc.and_(pc.invert(named), pc.greater_equal(modified, self._guard))
        rules = (
            (pc.starts_with(paths, f"{LOG_DIRECTORY}/"), None),
            (live, _LIVE),
            (self._retained.contains(paths), _RETAINED),
            (self._versions.contains(paths), _VERSIONS),
            (self._is_hidden(paths), _HIDDEN),
            *(() if foreign is None else ((pc.starts_with(paths, foreign), _ICEBERG),)),
            (pc.invert(old), _YOUNG),
            (guarded, _GUARDED),
        )
        left = pa.repeat(True, len(batch))
        for stays, reason in rules:
            stopped = pc.and_(left, pc.fill_null(stays, True))
            left = pc.and_(left, pc.invert(stopped))
            if reason is not None and stopped.true_count:
                self._kept[reason] += stopped.true_count
        reasons = pc.if_else(named, _REMOVED, pc.if_else(changes, _EXPIRED_CHANGES, _UNTRACKED))
        made = _as_cleaned(paths, batch.column("bytes"), modified, reasons).filter(left)
        self._chosen += len(made)
        self._tell()
        return made

    def _is_hidden(self, paths: pa.StringArray) -> pa.BooleanArray:
        """Return which paths have a part that hides them, apart from directories that belong to the table."""
        shown = pc.replace_substring_regex(paths, _SHOWN_DIRECTORIES, r"\1x/")
        if self._shown_columns is not None:
            shown = pc.replace_substring_regex(shown, self._shown_columns, r"\1x")
        return pc.match_substring_regex(shown, _HIDDEN_PART)

    def _iceberg_directory(self) -> str | None:
        """Return the directory that may hold metadata of an Iceberg table, if it does."""
        formats = self._snapshot.metadata.configuration.get(FORMATS, "").lower()
        directory = self._root.join("metadata").path
        if "iceberg" in formats or is_compatible(self._snapshot.active_features):
            return "metadata/"
        names = (meta.path.rpartition("/")[2] for meta in self._store.list_from(directory))
        return "metadata/" if any(_ICEBERG_FILES.fullmatch(name) for name in names) else None

    def _of_log(self) -> Iterator[pa.RecordBatch]:
        """Return what commits removed that left the retention since the mark, without a listing."""
        if self._newest_old is None:
            return
        mark = read_mark(self._log)
        first = 0 if mark is None else mark + 1
        for version in range(first, self._newest_old + 1):
            try:
                data = self._times.read(version)
            except VersionNotFoundError:
                raise VersionNotFoundError(
                    f"a vacuum without a listing needs all commits from version {first} on, and {version} is gone",
                    hint="run a full one, which lists the directory: leave out ⟪full=False⟫",
                    table=self._table,
                ) from None
            removes = kernels.replay([(version, data)]).removes
            changes = self._own.of_changes(data)
            sizes = dict(zip(removes.column("path").to_pylist(), removes.column("size").to_pylist(), strict=True))
            for number, paths in enumerate(self._own.of_files(removes)):
                known = [sizes.get(path) if number == 0 else None for path in paths.to_pylist()]
                yield self._chosen_of_log(paths, pa.array(known, pa.int64()), _REMOVED)
            yield self._chosen_of_log(changes, pa.nulls(len(changes), pa.int64()), _EXPIRED_CHANGES)

    def _chosen_of_log(self, paths: pa.StringArray, sizes: pa.Int64Array, reason: str) -> pa.RecordBatch:
        self._listed += len(paths)
        left = pa.repeat(True, len(paths))
        for known, why in (
            (self._live, _LIVE),
            (self._retained, _RETAINED),
            (self._versions, _VERSIONS),
        ):
            stays = pc.and_(left, known.contains(paths))
            left = pc.and_(left, pc.invert(stays))
            self._kept[why] += stays.true_count
        nulls = pa.nulls(len(paths), pa.int64())
        made = _as_cleaned(paths, sizes, nulls, pa.repeat(reason, len(paths))).filter(left)
        self._chosen += len(made)
        self._tell()
        return made

    def _check_missing(self) -> None:
        """Refuse to delete anything where the table names files that are not there.

        Raises
        ------
        DataFileNotFoundError
            A file is missing that was committed more than an hour ago.
        """
        listed = [batch.column("path").filter(self._live.contains(batch.column("path"))) for batch in self._listing()]
        there = kernels.PathSet(listed)
        named = pa.concat_arrays(list(self._own.of_files(self._snapshot.live.table))).unique()
        missing = named.filter(pc.invert(there.contains(named)))
        since = self._last_before(self._now - _HOUR)
        first = 0 if since is None else since + 1
        recent = kernels.PathSet(
            path for data in self._commits(first) for path in self._own.of_files(kernels.replay([(0, data)]).adds)
        )
        missing = missing.filter(pc.invert(recent.contains(missing)))
        gone = [
            path
            for path, is_there in zip(
                missing.to_pylist(), map_in_order(_LOOKED_AT_TOGETHER, self._exists, missing.to_pylist()), strict=True
            )
            if not is_there
        ]
        if gone:
            shown = ", ".join(gone[:_NAMED_AT_MOST]) + (", ..." if len(gone) > _NAMED_AT_MOST else "")
            raise DataFileNotFoundError(
                f"the table names {len(gone)} files that do not exist, so nothing was deleted: {shown}",
                hint="⟪verify()⟫ says what is missing; put it back, or let ⟪repair()⟫ take it out of the table",
                table=self._table,
                version=self._snapshot.version,
            )

    def _exists(self, path: str) -> bool:
        try:
            self._store.head(self._root.join(path).path)
        except ObjectNotFoundError:
            return False
        return True

    # Deleting

    def _delete(self, files: pa.Table) -> CleanupResult:
        recorded = self._options.logging
        if recorded is None:
            recorded = self._root.scheme in _RECORDING
        if recorded:
            self._record("VACUUM START", *self._start(files))
        failed: dict[str, str] = {}
        starts = range(0, len(files), _AT_ONCE)
        try:
            gone = [self._delete_some(files.slice(start, _AT_ONCE), failed) for start in starts]
        except BaseException:
            if recorded:
                with suppress(DeltabergError):
                    self._record("VACUUM END", {"status": "FAILED"}, {"numDeletedFiles": self._deleted})
            raise
        if recorded:
            status = "FAILED" if failed else "COMPLETED"
            self._record("VACUUM END", {"status": status}, {"numDeletedFiles": self._deleted})
        if self._newest_old is not None and self._is_whole(failed):
            write_mark(self._log, self._newest_old)
        return self._result(pa.concat_tables(gone) if gone else files, failed)

    def _start(self, files: pa.Table) -> tuple[dict[str, str], dict[str, int]]:
        """Return parameters and metrics of the beginning, in the words of delta-spark."""
        hours = self._options.retention_hours
        own = deleted_file_retention(self._snapshot.metadata.configuration)
        parameters = {
            "retentionCheckEnabled": str(self._options.enforce_retention_duration).lower(),
            "defaultRetentionMillis": str(own),
            **({} if hours is None else {"specifiedRetentionMillis": str(self._retention)}),
        }
        return parameters, {
            "numFilesToDelete": len(files),
            "sizeOfDataToDelete": pc.sum(files.column("bytes")).as_py() or 0,
        }

    def _delete_some(self, files: pa.Table, failed: dict[str, str]) -> pa.Table:
        """Delete some files, except what commits name that came meanwhile, and return those that are gone."""
        files = self._without_meanwhile(files)
        bases = {self._root.join(path).path: path for path in files.column("path").to_pylist()}
        gone: set[str] = set()
        for reason in pc.unique(files.column("reason")).to_pylist():
            chosen = files.filter(pc.equal(files.column("reason"), reason)).column("path").to_pylist()
            paths = [self._root.join(path).path for path in chosen]
            removal = try_to_delete(self._store, self._root.path, paths, _TABLE_FILE, reason)
            self._kept["a link, or behind one"] += len(removal.kept)
            failed.update((bases[path], error.message) for path, error in removal.failed.items())
            gone.update(bases[path] for path in removal.deleted)
        self._deleted += len(gone)
        self._tell()
        return files.filter(pc.is_in(files.column("path"), value_set=pa.array(gone, pa.string())))

    def _is_whole(self, failed: Mapping[str, str]) -> bool:
        """Return whether all files are gone that commits outside of the retention removed, and all leftovers."""
        was_whole = self._options.inventory is None and not self._kept_versions and not failed
        return was_whole and not self._kept[_GUARDED]

    def _result(self, files: pa.Table, failed: Mapping[str, str]) -> CleanupResult:
        kept = {reason: count for reason, count in sorted(self._kept.items()) if count}
        return CleanupResult(self._options.dry_run, files, failed, kept, time.monotonic() - self._begun)

    def _tell(self) -> None:
        if self._options.progress is not None:
            self._options.progress(CleanupProgress(self._listed, self._chosen, self._deleted))


def _as_cleaned(paths: pa.Array, sizes: pa.Array, modified: pa.Array, reasons: pa.Array) -> pa.RecordBatch:
    """Return files as `CLEANED_FILES` describes them."""
    kinds = pc.if_else(
        pc.match_substring_regex(paths, _VECTOR),
        "deletion vector",
        pc.if_else(pc.starts_with(paths, f"{_CHANGE_DATA}/"), "change data", "data file"),
    )
    times = modified.cast(pa.timestamp("ms", "UTC"))
    return pa.record_batch([paths, kinds, sizes, times, reasons], CLEANED_FILES)
