"""Dropping a Delta table: its files go as by a vacuum that keeps no version, and the log goes last.

A drop that was interrupted is repeated: the log still names the table.
"""

from __future__ import annotations

import dataclasses
import re

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.names import LOG_DIRECTORY
from deltaberg.delta.maintain.cleaning.vacuum import Vacuum
from deltaberg.delta.maintain.cleaning.vacuum_candidates import DROPPED
from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import CommitConflictError
from deltaberg.table.maintain.cleanup import CLEANED_FILES, CleanupResult
from deltaberg.table.maintain.listed_files import LISTED_FILES, list_files
from deltaberg.table.removal import FileKind, delete_files, drop_directory

__all__ = ["drop_table"]

_LOG_FILE = FileKind("a file of the log", re.compile(rf"{LOG_DIRECTORY}/.+", re.DOTALL))


def drop_table(snapshot: Snapshot, *, dry_run: bool) -> CleanupResult:
    """Delete the files of a table and its log, or find them.

    What a vacuum would never take stays: hidden files, tables below the directory, what only links lead to, metadata of
    an Iceberg table, and files elsewhere. Shallow clones of the table lose their rows, and no log tells of them.

    Parameters
    ----------
    snapshot
        The newest version.

    Raises
    ------
    CommitConflictError
        Others committed meanwhile. Their files and the log are there.
    UnsupportedFeatureError
        The table has a writer feature that is not supported.
    StorageError
        The store failed.
    """
    check_writable(snapshot)
    options = VacuumOptions(0, dry_run, enforce_retention_duration=False, logging=False)
    return _Drop(snapshot, options, _unrecorded, None).run()


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
        newer = [version for version, _ in self._snapshot.newer_commits().commits]
        if newer:
            raise CommitConflictError(
                "others committed meanwhile, so that the table is still there, without its older files",
                hint="see that nobody writes to it, and drop it again",
                table=str(self._log.root),
                winner=newer[-1],
            )
        entries = self._log_files()
        absolute = list(map(self._candidates.absolute, entries.column("path").to_pylist()))
        # What is left by an interruption shall be an older version, as far as that is possible.
        removal = delete_files(self._log.storage, self._log.root.path, reversed(absolute), _LOG_FILE, DROPPED)
        cut = len(self._candidates.absolute(""))
        if not removal.failed:
            drop_directory(self._log.root)
        gone = set(removal.deleted)
        deleted = entries.filter(pa.array([path in gone for path in absolute], pa.bool_()))
        failed = {path[cut:]: error.message for path, error in removal.failed.items()}
        return dataclasses.replace(done, files=pa.concat_tables([done.files, deleted]), failed=failed)

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
