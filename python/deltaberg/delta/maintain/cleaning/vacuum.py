"""Vacuum: data files, deletion vectors and change data files that no retained version needs are deleted.

Delta protocol, "Vacuum Protocol Check". `VacuumCandidates` says which files those are. A run deletes them in batches,
and records its beginning and its end.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.names import LOG_DIRECTORY
from deltaberg.delta.maintain.cleaning.vacuum_candidates import VacuumCandidates
from deltaberg.delta.maintain.cleaning.vacuum_mark import read_mark, write_mark
from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
from deltaberg.delta.snapshot.retention import deleted_file_retention
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import CommitConflictError, DeltabergError
from deltaberg.table.maintain.cleanup import STRAY, CleanupResult, warnings_of_unnamed
from deltaberg.table.maintain.file_tasks import LEAST_DELETED, FileTasks, delete_by_tasks
from deltaberg.table.removal import FileKind

__all__ = ["Vacuum", "vacuum_table"]

_TABLE_FILE = FileKind("a file of the table", re.compile(rf"(?!{LOG_DIRECTORY}(?:/|$)).+", re.DOTALL))
#: Stores on which each vacuum is recorded as commits, unless the caller says otherwise, as delta-spark does it.
_RECORDING = frozenset({"file", "hdfs", "wasb", "wasbs", "abfs", "abfss", "adl", "az", "gs"})
#: How often it tries to record its beginning or its end where others change the table.
_ATTEMPTS = 10
#: How many files are deleted before newer commits are asked again, here and by the tasks of an engine.
_AT_ONCE, _AT_ONCE_BY_TASKS = 5_000, 100_000


def vacuum_table(
    snapshot: Snapshot, options: VacuumOptions, begin: Callable[[], Transaction], tasks: FileTasks | None = None
) -> CleanupResult:
    """Delete the files that no retained version needs, or find them.

    Parameters
    ----------
    snapshot
        The newest version.
    options
        What is asked for.
    begin
        What begins a transaction on the newest version, by which the beginning and the end are recorded.
    tasks
        What lists a large table, and deletes many files, in place of this process.

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
    return Vacuum(snapshot, options, begin, tasks).run()


class Vacuum:
    """The deletion of files that `VacuumCandidates` finds."""

    def __init__(
        self,
        snapshot: Snapshot,
        options: VacuumOptions,
        begin: Callable[[], Transaction] | None,
        tasks: FileTasks | None,
    ) -> None:
        self._snapshot = snapshot
        self._options = options
        self._begin = begin
        self._begun = time.monotonic()
        self._log = snapshot.log
        self._candidates = VacuumCandidates(snapshot, options, tasks)
        self._tasks = tasks
        self._deleted = 0

    def run(self) -> CleanupResult:
        """Delete the files, or only find them."""
        files = self._candidates.find()
        is_done = self._options.dry_run or not (len(files) or self._options.even_if_empty)
        return self._result(files, {}) if is_done else self._delete(files)

    def _delete(self, files: pa.Table) -> CleanupResult:
        recorded = self._options.logging
        if recorded is None:
            recorded = self._log.root.scheme in _RECORDING
        if recorded:
            self._record("VACUUM START", *self._start(files))
        failed: dict[str, str] = {}
        tasks = self._tasks if len(files) >= LEAST_DELETED else None
        step = _AT_ONCE if tasks is None else _AT_ONCE_BY_TASKS
        try:
            gone = [self._delete_some(files.slice(start, step), tasks, failed) for start in range(0, len(files), step)]
        except BaseException:
            if recorded:
                with suppress(DeltabergError):
                    self._record("VACUUM END", {"status": "FAILED"}, {"numDeletedFiles": self._deleted})
            raise
        warnings = []
        try:
            if recorded:
                status = "FAILED" if failed else "COMPLETED"
                self._record("VACUUM END", {"status": status}, {"numDeletedFiles": self._deleted})
            if not failed and self._candidates.leaves_none():
                self._advance_mark()
        except DeltabergError as error:
            # What was done is done, and is to be told.
            warnings.append(f"the end of the vacuum could not be recorded: {error.message}")
        return self._result(pa.concat_tables(gone) if gone else files, failed, tuple(warnings))

    def _record(self, operation: str, parameters: Mapping[str, str], metrics: Mapping[str, int]) -> None:
        """Commit an operation without other changes.

        It depends on nothing that others may change: a restore by deltalake changes protocol and metadata each time.
        """
        if self._begin is None:
            # A log that is about to go needs no more commits.
            return
        for left in reversed(range(_ATTEMPTS)):
            with suppress(*((CommitConflictError,) if left else ())):
                self._begin().commit(operation, parameters, metrics=metrics, even_if_empty=True)
                return

    def _start(self, files: pa.Table) -> tuple[dict[str, str], dict[str, int]]:
        """Return parameters and metrics of the beginning, in the words of delta-spark."""
        hours = self._options.retention_hours
        own = deleted_file_retention(self._snapshot.metadata.configuration)
        parameters = {
            "retentionCheckEnabled": str(self._options.enforce_retention_duration).lower(),
            "defaultRetentionMillis": str(own),
            **({} if hours is None else {"specifiedRetentionMillis": str(self._candidates.retention)}),
        }
        return parameters, {
            "numFilesToDelete": len(files),
            "sizeOfDataToDelete": pc.sum(files.column("bytes")).as_py() or 0,
        }

    def _delete_some(self, files: pa.Table, tasks: FileTasks | None, failed: dict[str, str]) -> pa.Table:
        """Delete some files, except what commits name that came meanwhile, and return those that are gone."""
        files = self._candidates.without_meanwhile(files)
        names, whys = (files.column(name).to_pylist() for name in ("path", "reason"))
        # The same few texts are named for all files, and packed once for the tasks.
        reasons = dict(zip(map(self._candidates.absolute, names), map(sys.intern, whys), strict=True))
        removal = delete_by_tasks(tasks, self._log.store, self._log.root, reasons, _TABLE_FILE, deleted=self._count)
        self._candidates.kept[STRAY] += len(removal.kept)
        cut = len(self._candidates.absolute(""))
        failed.update((path[cut:], error.message) for path, error in removal.failed.items())
        self._candidates.tell(self._deleted)
        gone = pa.array([path[cut:] for path in removal.deleted], pa.string())
        return files.filter(pc.is_in(files.column("path"), value_set=gone))

    def _count(self, _: str) -> None:
        self._deleted += 1

    def _advance_mark(self) -> None:
        new, old = self._candidates.mark, read_mark(self._log)
        if new is not None and (old is None or old < new):
            write_mark(self._log, new)

    def _result(self, files: pa.Table, failed: Mapping[str, str], warnings: tuple[str, ...] = ()) -> CleanupResult:
        kept = {reason: count for reason, count in sorted(self._candidates.kept.items()) if count}
        warnings += warnings_of_unnamed(self._candidates.passed_over)
        return CleanupResult(self._options.dry_run, files, failed, kept, time.monotonic() - self._begun, warnings)
