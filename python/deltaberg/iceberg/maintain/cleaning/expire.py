"""Expiry of snapshots: metadata forgets them by a commit, and what only they reached is deleted afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltaberg.errors import DeltabergError, in_context
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import KnowsOthers, TablePointer
from deltaberg.iceberg.maintain.cleaning.metadata_beside import SETTLED, keep_what_is_beside
from deltaberg.iceberg.maintain.cleaning.reached import REACHED, STATISTICS, Places, Reached, statistics_of
from deltaberg.iceberg.maintain.cleaning.snapshot_retention import Expired, ExpiryRequest, check_collected, expired_of
from deltaberg.iceberg.maintain.cleaning.sweep import SNAPSHOT_FILE, Sweep, check_alone, own_folders
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.transaction.expiry_guard import ExpiryGuard, GuardRemovedError, guards_of
from deltaberg.iceberg.transaction.result import commit_result
from deltaberg.iceberg.transaction.summary import Tally
from deltaberg.iceberg.transaction.table_commit import Committed, TableChange, commit_policy
from deltaberg.iceberg.transaction.writable import check_writable
from deltaberg.iceberg.updates.updates import (
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    Update,
)
from deltaberg.table.commit.commit import ClockedPolicy, CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.maintain.cleanup import CleanupResult
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.listed_files import earlier_clock
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.write.sources import LOCAL_ROAD
from deltaberg.whole_numbers import counted

__all__ = ["ExpiryResult", "expire_table"]

_REASON = "only snapshots that expired needed it"


@dataclass(frozen=True, repr=False)
class ExpiryResult(CleanupResult):
    """The result of an expiry of snapshots, or of its dry run: a `CleanupResult` with the parts that metadata loses.

    Parameters
    ----------
    snapshot_ids
        The snapshots, the oldest first.
    refs
        The branches and tags.
    schema_ids, spec_ids
        Schemas and partition specs that nothing used any more.
    commit
        The commit; None for a dry run, and where nothing expired.
    """

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()
    commit: CommitResult | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        done = "would expire" if self.dry_run else "expired"
        refs = f" and {len(self.refs)} branches or tags" if self.refs else ""
        return f"ExpiryResult({done} {counted(len(self.snapshot_ids), 'snapshot')}{refs}, {self._counts})"


def expire_table(
    pointer: TablePointer,
    loaded: LoadedTable,
    asked: ExpiryRequest,
    options: CommitOptions,
    tasks: FileTasks | None,
    committed: Callable[[LoadedTable], object],
) -> ExpiryResult:
    """Expire snapshots of a table, or find out which would expire, and which files would go.

    Parameters
    ----------
    pointer
        What finds newer metadata.
    loaded
        The newest metadata.
    asked
        What is asked for.
    options
        How the commit is made.
    tasks
        What reads many manifests, and deletes many files, in place of this process.
    committed
        What is told the table as it is after the commit.

    Raises
    ------
    InvalidArgumentError
        The property ``gc.enabled`` is false, the directory is also a Delta table, the catalog has the table by another
        name as well, there is metadata of the table beside it that it does not know, or a branch or a tag names a
        snapshot that is to expire.
    VersionNotFoundError
        The table does not have a snapshot that is to expire.
    DeltabergError
        What the kept snapshots reach cannot be read. Nothing has expired.
    CommitConflictError, CommitUnknownError
        See `TableChange.commit`. No file was deleted.
    """
    with in_context(table=str(loaded.root)):
        return _Expiry(pointer, loaded, asked, options, tasks).run(committed)


class _Expiry:
    def __init__(
        self,
        pointer: TablePointer,
        loaded: LoadedTable,
        asked: ExpiryRequest,
        options: CommitOptions,
        tasks: FileTasks | None,
    ) -> None:
        self._begun = time.monotonic()
        # Nothing is put by a dry run, so that the store need not be probed.
        single = asked.dry_run or options.unsafe_single_writer
        self._committer = pointer.committer(unsafe_single_writer=single)
        if isinstance(pointer, KnowsOthers):
            pointer.check_unshared(loaded, same_table=True)
        self._base = loaded
        self._asked = asked
        self._options = options
        self._tasks = tasks
        self._places = Places(loaded)
        #: What the snapshots that stay reach, and with that what other states of the table do.
        self._own = self._reached = Reached(self._places, tasks)
        self._expired = Expired()
        self._guard: ExpiryGuard | None = None
        self._now = earlier_clock(loaded.store.open(loaded.file), loaded.file.path.rpartition("/")[0])

    def run(self, committed: Callable[[LoadedTable], object]) -> ExpiryResult:
        check_alone(self._base)
        if self._asked.dry_run:
            self._make(self._base)
            return self._result(None)
        done = self._commit()
        if not done.committed:
            committed(done.loaded)
            self._expired = Expired()
            return self._result(None)
        current = done.loaded.metadata.current_snapshot_id
        result = commit_result(
            done.loaded,
            done,
            Tally(),
            operation="expire snapshots",
            token=done.token,
            snapshot_id=current,
            road=LOCAL_ROAD,
            operations=[Operation("expire", metrics={"expiredSnapshots": len(self._expired.snapshot_ids)})],
        )
        try:
            return self._result(result)
        finally:
            committed(done.loaded)

    def _commit(self) -> Committed:
        policy = self._options.clocked or commit_policy(self._base.metadata.properties)
        if not self._committer.applies_to_newer:
            return self._change(self._make).commit(policy)
        for left in reversed(range(policy.retries + 1)):
            self._base = self._change(self._make).newest()
            try:
                return self._commit_guarded(policy)
            except GuardRemovedError:
                if not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _commit_guarded(self, policy: ClockedPolicy) -> Committed:
        """Commit to a catalog that nobody can tell of names which were not known."""
        self._guard = None
        self._make(self._base)
        if not self._expired.snapshot_ids:
            return self._change(self._make_of_names).commit(policy)
        guard = ExpiryGuard(self._committer, policy)
        done = None
        try:
            self._base = guard.put(self._base, self._expired.snapshot_ids)
            self._guard = guard
            done = self._change(self._make).commit(policy)
        finally:
            if done is None or not done.committed:
                guard.drop(self._base)
        return done

    def _change(self, make: Callable[[LoadedTable], tuple[list[Update], None] | None]) -> TableChange:
        """Return a change that is made for states of the table: what is beside it is told by its file."""
        change = TableChange(self._committer, lambda _: make(change.base), planned=self._base)
        return change

    def _make(self, loaded: LoadedTable) -> tuple[list[Update], None] | None:
        """Return what is to be forgotten of the newest metadata, once all that stays could be read."""
        metadata = loaded.metadata
        if self._guard is not None:
            self._guard.check(metadata)
        check_writable(metadata, self._base.resolver)
        check_collected(metadata)
        expired = expired_of(metadata, self._asked, self._now)
        gone = set(expired.snapshot_ids)
        kept = [one for one in metadata.snapshots.values() if one.snapshot_id not in gone]
        self._base = loaded
        if expired or self._asked.clean_expired_metadata:
            self._own.add(self._base, kept)
        # A state that was on its way at an attempt may have landed since: then its snapshots expire as well.
        self._reached = self._own.branched()
        if expired:
            # What this name of the table leads to may be older than what others lead to.
            folders = own_folders(self._base, metadata)
            keep_what_is_beside(self._base, folders, self._places, self._reached, self._now - SETTLED)
        if self._asked.clean_expired_metadata:
            expired = replace(expired, schema_ids=_schemas(metadata, kept), spec_ids=self._specs(metadata))
        self._expired = expired
        if not expired:
            return None
        updates: list[Update] = [RemoveSnapshotRef(name) for name in (*expired.refs, *guards_of(metadata))]
        if expired.snapshot_ids:
            updates.append(RemoveSnapshots(expired.snapshot_ids))
        if expired.schema_ids:
            updates.append(RemoveSchemas(expired.schema_ids))
        if expired.spec_ids:
            updates.append(RemovePartitionSpecs(expired.spec_ids))
        return updates, None

    def _make_of_names(self, loaded: LoadedTable) -> tuple[list[Update], None] | None:
        """Return what is to be forgotten if that is no snapshot: those that have become old meanwhile need a guard."""
        updates = self._make(loaded)
        if self._expired.snapshot_ids:
            raise GuardRemovedError(
                "another commit came in between each time, so that other snapshots were to expire",
                hint="expire the snapshots again later",
            )
        return updates

    def _specs(self, metadata: TableMetadata) -> tuple[int, ...]:
        used = self._reached.spec_ids | {metadata.default_spec_id}
        return tuple(sorted(metadata.specs.keys() - used))

    def _candidates(self, warnings: list[str]) -> pa.Table:
        """Return the files that only expired snapshots reach, each once."""
        metadata = self._base.metadata
        gone = [metadata.snapshots[number] for number in self._expired.snapshot_ids]
        parts = [REACHED.empty_table(), *self._beyond(gone, warnings)]
        removed = set(self._expired.snapshot_ids)
        statistics = {path: size for (path, number), size in statistics_of(metadata).items() if number in removed}
        named = self._reached.others(self._base, list(statistics), STATISTICS, list(statistics.values()))
        parts.append(self._reached.without(named))
        files = pa.concat_tables(parts)
        first = files.append_column("number", pa.array(range(len(files)), pa.int64()))
        chosen = first.group_by("location").aggregate([("number", "min")]).column("number_min")
        files = files.take(chosen.combine_chunks().sort())
        return files.append_column("reason", pa.repeat(_REASON, len(files)))

    def _beyond(self, snapshots: list[Snapshot], warnings: list[str]) -> list[pa.Table]:
        try:
            return list(self._reached.beyond(self._base, snapshots))
        except DeltabergError:
            # What can be read goes; what a damaged file names stays, and can be removed as orphans.
            tables: list[pa.Table] = []
            for one in snapshots:
                try:
                    # Those that come before an error count.
                    tables.extend(self._reached.beyond(self._base, [one]))
                except DeltabergError as error:
                    why = f"since what it reached cannot be read: {error.message}"
                    warnings.append(f"files of the snapshot {one.snapshot_id} stay, {why}")
            return tables

    def _result(self, commit: CommitResult | None) -> ExpiryResult:
        warnings: list[str] = [] if commit is None else list(commit.warnings)
        sweep = Sweep(self._committer.load, self._base, self._reached, self._tasks, self._asked.progress)
        files = sweep.in_own_folders(self._candidates(warnings))
        if commit is not None:
            files = sweep.carry_out(files, SNAPSHOT_FILE)
        return ExpiryResult(
            self._asked.dry_run,
            sweep.as_cleaned(files),
            sweep.failed,
            {reason: count for reason, count in sorted(sweep.kept.items()) if count},
            time.monotonic() - self._begun,
            (*warnings, *sweep.warnings),
            self._expired.snapshot_ids,
            self._expired.refs,
            self._expired.schema_ids,
            self._expired.spec_ids,
            commit,
        )


def _schemas(metadata: TableMetadata, kept: list[Snapshot]) -> tuple[int, ...]:
    """Return the schemas that no kept snapshot was written with, if each says which it was."""
    used = {one.schema_id for one in kept} | {metadata.current_schema_id}
    return () if None in used else tuple(sorted(metadata.schemas.keys() - used))
