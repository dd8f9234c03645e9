"""Dropping a Delta table with its files.

A version comes first that demands of readers and writers what none of them can do: from then on the table is gone, to
other libraries, too, and nobody commits to it. Then its files go as by a vacuum that keeps no version. The log follows,
the entry of that version last: it has what a drop needs to know, so that one that was interrupted is repeated.
"""

from __future__ import annotations

import dataclasses
import re
import time

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.features import DROPPED as DROPPED_FEATURE
from deltaberg.delta.features import dropped_protocol
from deltaberg.delta.log.commit import check_conditional_put, look_for_entry, put_entry
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.log.encode import encode_lines
from deltaberg.delta.log.names import LOG_DIRECTORY, commit_name
from deltaberg.delta.maintain.cleaning.vacuum import Vacuum
from deltaberg.delta.maintain.cleaning.vacuum_candidates import DROPPED
from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.commit_info import Attempt, Provenance
from deltaberg.delta.transaction.find import new_token
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import InvalidArgumentError, StorageError, UnsupportedFeatureError
from deltaberg.storage.base import PutResult
from deltaberg.table.commit.commit import Change, ClockedPolicy, Fate, commit_change
from deltaberg.table.maintain.cleanup import CLEANED_FILES, CleanupResult, DropRequest
from deltaberg.table.maintain.listed_files import LISTED_FILES, list_files
from deltaberg.table.removal import FileKind, delete_files, drop_directory

__all__ = ["drop_table"]

_LOG_FILE = FileKind("a file of the log", re.compile(rf"{LOG_DIRECTORY}/.+", re.DOTALL))


def drop_table(log: LogDirectory, asked: DropRequest) -> CleanupResult:
    """Delete the files of a table and its log, or find them.

    What a vacuum would never take stays: hidden files, tables below the directory, what only links lead to, metadata of
    an Iceberg table, and files elsewhere. Shallow clones of the table lose their rows, and no log tells of them.

    Parameters
    ----------
    log
        The log of the table, or what an interrupted drop has left of it.
    asked
        What is asked for.

    Raises
    ------
    CommitConflictError
        Others committed meanwhile. The table is as they left it.
    InvalidArgumentError
        Directories elsewhere are named, in which a Delta table has no files that could go.
    CommitUnknownError
        The store does not say whether the table is gone. Another try settles it.
    TableNotFoundError
        There is no table.
    UnsupportedFeatureError
        The table has a writer feature that is not supported.
    StorageError
        The store failed.
    """
    try:
        snapshot, is_dropped = Snapshot.load(log), False
    except UnsupportedFeatureError as error:
        left = Snapshot.load_dropped(log) if error.context.get("feature") == DROPPED_FEATURE else None
        if left is None:
            raise
        snapshot, is_dropped = left, True
    check_writable(snapshot)
    if asked.locations:
        raise InvalidArgumentError(
            "all files of a Delta table that can go are in its directory",
            hint="leave out ⟪locations⟫",
            table=str(log.root),
        )
    if not asked.dry_run and not is_dropped:
        check_conditional_put(log)
        commit_change(_Mark(snapshot), ClockedPolicy(retries=0))
        snapshot = Snapshot.load_dropped(log) or snapshot
    options = VacuumOptions(0, asked.dry_run, enforce_retention_duration=False, logging=False)
    return _Drop(snapshot, options, _unrecorded, asked.tasks).run()


class _Mark(Change):
    """The version by which a table ceases to be one."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._log, self._version = snapshot.log, snapshot.version + 1
        self.token = new_token(self._version)
        attempt = Attempt(time.time_ns() // 1_000_000, self.token, read_version=snapshot.version)
        info = Provenance("DROP TABLE").action(attempt, None, {})
        actions = (info, dropped_protocol(snapshot.protocol).action, snapshot.metadata.action)
        self._data = encode_lines([one.to_json() for one in actions])

    def prepare(self) -> bool:
        return True

    def send(self) -> PutResult:
        return put_entry(self._log, self._version, self._data)

    def confirm(self) -> Fate:
        return self.look()

    def look(self) -> Fate:
        return look_for_entry(self._log, self._version, self._data)


def _unrecorded(*_: object) -> None:
    """Record nothing: a log that is about to go needs no more commits."""


class _Drop(Vacuum):
    def run(self) -> CleanupResult:
        files = self._candidates.find_all()
        if self._options.dry_run:
            return self._result(pa.concat_tables([files, self._log_files()]), {})
        done = self._delete(files)
        if done.failed:
            return done
        last = f"{self._log.path}/{commit_name(self._snapshot.version)}"
        entries, gone, errors = CLEANED_FILES.empty_table(), set[str](), dict[str, StorageError]()
        # A writer who began before the drop may still add to the log, such as a checkpoint of an older version.
        for is_end in (False, False, True):
            if not errors:
                listed = self._log_files()
                paths = [path for path in self._absolute(listed) if (path == last) == is_end]
                removal = delete_files(self._log.storage, self._log.root.path, paths, _LOG_FILE, DROPPED)
                gone.update(removal.deleted)
                errors.update(removal.failed)
                entries = pa.concat_tables([entries, listed])
        if not errors:
            drop_directory(self._log.root)
        cut = len(self._candidates.absolute(""))
        # The plan that was shown before had no entry of the drop itself.
        are_gone = [path in gone and path != last for path in self._absolute(entries)]
        deleted = entries.filter(pa.array(are_gone, pa.bool_()))
        failed = {path[cut:]: error.message for path, error in errors.items()}
        return dataclasses.replace(done, files=pa.concat_tables([done.files, deleted]), failed=failed)

    def _absolute(self, files: pa.Table) -> list[str]:
        return list(map(self._candidates.absolute, files.column("path").to_pylist()))

    def _log_files(self) -> pa.Table:
        """Return the files of the log as `CLEANED_FILES` describes them, in the order of their paths."""
        listed = pa.Table.from_batches(list_files(self._log.storage, self._log.path), LISTED_FILES).sort_by("path")
        columns = {
            "path": pc.binary_join_element_wise(LOG_DIRECTORY, listed.column("path"), "/"),
            "kind": pa.repeat("log", len(listed)),
            "bytes": listed.column("bytes"),
            "modified": listed.column("modified").cast(CLEANED_FILES.field("modified").type),
            "reason": pa.repeat(DROPPED, len(listed)),
        }
        return pa.table(list(columns.values()), CLEANED_FILES)
