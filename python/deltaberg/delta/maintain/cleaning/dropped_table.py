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
from deltaberg.delta.log.names import LOG_DIRECTORY, classify, commit_name
from deltaberg.delta.maintain.cleaning.vacuum import Vacuum
from deltaberg.delta.maintain.cleaning.vacuum_candidates import DROPPED
from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.commit_info import Attempt, Provenance
from deltaberg.delta.transaction.find import new_token
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import (
    CommitConflictError,
    CorruptLogError,
    InvalidArgumentError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.storage.base import PutResult
from deltaberg.table.commit.commit import Change, ClockedPolicy, Fate, commit_change
from deltaberg.table.maintain.cleanup import CLEANED_FILES, CleanupResult, DropRequest
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.listed_files import LISTED_FILES, list_files
from deltaberg.table.removal import FileKind, delete_files, drop_directory

__all__ = ["drop_table"]

_LOG_FILE = FileKind("a file of the log", re.compile(rf"{LOG_DIRECTORY}/.+", re.DOTALL))
#: How many files of the log are deleted before the entry of the drop is looked at again.
_AT_ONCE = 5_000


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
        Others committed meanwhile. The table is as they left it. Or another drop has ended meanwhile, and there may be
        another table in the directory, which stays.
    InvalidArgumentError
        Directories elsewhere are named, in which a Delta table has no files that could go; or the directory has
        metadata of an Iceberg table that needs other files in it, or is in that of another table. The table is as it
        was.
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
    options = VacuumOptions(dry_run=asked.dry_run, logging=False, is_drop=True)
    drop = _Drop(snapshot, options, None, asked.tasks)
    if not asked.dry_run and not is_dropped:
        drop.check()
        check_conditional_put(log)
        commit_change(_Mark(snapshot), ClockedPolicy(retries=0))
        marked = Snapshot.load_dropped(log)
        if marked is None:
            raise _ended_by_others(log, snapshot.version + 1)
        drop = _Drop(marked, options, None, asked.tasks)
    return drop.run()


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


def _ended_by_others(log: LogDirectory, version: int) -> CommitConflictError:
    return CommitConflictError(
        f"version {version}, by which the table was dropped, is not in its log any more: another process has ended the "
        "drop, and there may be another table in the directory",
        hint="look what is in the directory, and repeat the drop if it is to go as well",
        table=str(log.root),
    )


class _Drop(Vacuum):
    def check(self) -> None:
        """Raise an exception where files must not go, before the table is none any more."""
        self._candidates.others.check_none_around()
        self._candidates.others.check_known()

    def run(self) -> CleanupResult:
        files = self._candidates.find_all()
        if self._options.dry_run:
            return self._result(pa.concat_tables([files, self._log_files()]), {})
        done = self._delete(files)
        if done.failed:
            return done
        entries, gone, errors = CLEANED_FILES.empty_table(), set[str](), dict[str, StorageError]()
        last = self._last
        # A writer who began before the drop may still add to the log, such as a checkpoint of an older version.
        for is_end in (False, False, True):
            listed = self._log_files()
            self._check_none_later(listed)
            paths = [path for path in self._absolute(listed) if (path == last) == is_end]
            for start in range(0, 0 if errors else len(paths), _AT_ONCE):
                # What was listed before the entry of the drop is seen again is of no table that came after it.
                self._check_mark()
                some = paths[start : start + _AT_ONCE]
                removal = delete_files(self._log.storage, self._log.root.path, some, _LOG_FILE, DROPPED)
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

    @property
    def _last(self) -> str:
        return f"{self._log.path}/{commit_name(self._snapshot.version)}"

    def _delete_some(self, files: pa.Table, tasks: FileTasks | None, failed: dict[str, str]) -> pa.Table:
        self._check_mark()
        return super()._delete_some(files, tasks, failed)

    def _check_mark(self) -> None:
        """Raise an exception where the log is not that of the table that was dropped any more."""
        try:
            is_there = self._snapshot.live.log_bytes.is_unchanged(self._snapshot.segment.commits[0])
        except CorruptLogError:
            is_there = False
        if not is_there:
            raise _ended_by_others(self._log, self._snapshot.version)

    def _check_none_later(self, listed: pa.Table) -> None:
        """Raise an exception where the log has files of a later version than that of the drop."""
        for path in listed.column("path").to_pylist():
            file = classify(path.removeprefix(f"{LOG_DIRECTORY}/"))
            if file is not None and file.version > self._snapshot.version:
                raise CommitConflictError(
                    f"{path} came after version {self._snapshot.version}, by which the table was dropped; the log "
                    "stays",
                    hint="if it is of no other table, stop the writer that made it, delete it, and repeat the drop",
                    table=str(self._log.root),
                )

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
