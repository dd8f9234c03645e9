"""A transaction: several changes of a table that become one version, or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from deltaberg.delta.log.commit import check_conditional_put
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.afterwards import finish_commit
from deltaberg.delta.transaction.commit_info import SEVERAL, Attempt, Provenance, together
from deltaberg.delta.transaction.commit_words import USER_METADATA, check_hooks, checked_members
from deltaberg.delta.transaction.conflict import Claims, FilterRead, files_of_filter, means_the_same
from deltaberg.delta.transaction.entry import Rebase, build_entry, version_made
from deltaberg.delta.transaction.file_changes import encode_path, total_rows
from deltaberg.delta.transaction.find import new_token
from deltaberg.delta.transaction.isolation import isolation_level
from deltaberg.delta.transaction.log_change import LogChange
from deltaberg.delta.transaction.pending_changes import PendingChanges
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import CommitConflictError, StorageError, TableExistsError, UnsupportedFeatureError, in_context
from deltaberg.expressions.build.filters import Filter
from deltaberg.table.commit.commit import ClockedPolicy, CommitResult, commit_change
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import DELTA
from deltaberg.table.transaction.operation import with_rows
from deltaberg.table.write.sources import WriteRoad

__all__ = ["Transaction"]

#: Metrics of operations that count files themselves.
_COUNTED = frozenset({"numAddedFiles", "numCopiedFiles", "numRestoredFiles", "numTargetFilesAdded"})
#: An instant that no clock reaches, in milliseconds.
_NEVER = 1 << 62
#: Errors of a commit after which it surely is not part of the table, though it may have been sent.
_NOT_COMMITTED = (CommitConflictError, StorageError, TableExistsError)
#: What the history calls operations of both formats, in the words of delta-spark.
_NAMES = {
    "append": "WRITE",
    "clone": "CLONE",
    "compact": "OPTIMIZE",
    "delete": "DELETE",
    "merge": "MERGE",
    "overwrite": "WRITE",
    "reorg": "REORG",
    "repair": "FSCK",
    "restore": "RESTORE",
    "update": "UPDATE",
}


class Transaction(PendingChanges):
    """Changes of a Delta table that become visible together, as one version.

    Later changes see earlier ones: `snapshot` is the table as the transaction leaves it.

    Parameters
    ----------
    log
        The log of the table.
    snapshot
        The version that the transaction is planned on; None creates the table.
    options
        How the commit is made, and what it records. If the table has the progress of an application that they name, or
        a later one, nothing is committed.
    timezone
        The zone of timestamps without one in filters and partition values.
    committed
        What is told the version that the commit made, or that is current where nothing was to be done.

    Raises
    ------
    UnsupportedFeatureError
        The table has writer features that are not supported, or the store has no conditional put.
    """

    def __init__(
        self,
        log: LogDirectory,
        snapshot: Snapshot | None,
        options: CommitOptions | None = None,
        *,
        timezone: str = "UTC",
        committed: Callable[[Snapshot], object] | None = None,
    ) -> None:
        options = CommitOptions() if options is None else options
        DELTA.refuse(options, str(log.root))
        if options.isolation is not None:
            isolation_level({}, options.isolation)
        if snapshot is not None:
            check_writable(snapshot)
        super().__init__(snapshot, log, options, timezone)
        self._options = options
        check_hooks(options.post_commithook_properties)
        self._custom = checked_members(options.properties)
        given = options.user_metadata
        self._user_metadata = self._custom.get(USER_METADATA) if given is None else given
        self._policy = options.clocked or ClockedPolicy()
        self._claims = Claims(timezone=timezone)
        self._view: Snapshot | None = snapshot
        #: How many operations changed rows.
        self._row_operations = 0
        self._committed = committed
        self.token = new_token(0 if snapshot is None else snapshot.version + 1)
        self._once = options.txn
        once = () if options.txn is None else (options.txn,)
        for application, version in (*(options.app_transactions or ()), *once):
            self.set_transaction(application, version)
        if not options.unsafe_single_writer:
            check_conditional_put(log)

    @property
    def snapshot(self) -> Snapshot:
        """The table as the transaction leaves it, as far as it goes.

        Raises
        ------
        InvalidArgumentError
            The table is created by the transaction, and has no protocol or no metadata yet.
        """
        if self._view is None:
            attempt = Attempt(self._policy.now(), self.token)
            entry = build_entry(self._changes, self._base, self._provenance, attempt)
            self._view = version_made(self._log, self._base, entry)
        return self._view

    @property
    def is_done(self) -> bool:
        """Whether the progress that the transaction would record is recorded already, so that it has nothing to do."""
        return self._has_progress(self._policy.now())

    @property
    def is_done_for_good(self) -> bool:
        """Whether it is done, and the record does not expire."""
        return self._has_progress(_NEVER)

    def _has_progress(self, at: int) -> bool:
        return self._once is not None and self._base is not None and self._base.has_progress(*self._once, at)

    @property
    def is_empty(self) -> bool:
        """Whether the transaction changes nothing so far."""
        return self._changes.is_empty if self._base is None else self._changes.leave_as_it_is(self._base)

    def _file_numbers(self) -> tuple[int, int]:
        return len(self._changes.new_files), len(self._changes.gone_files)

    def _mark(self) -> Callable[[], object]:
        changes, claims, dropped = self._changes.copy(), self._claims.copy(), set(self._dropped)
        row_operations, self._before = self._row_operations, changes

        def take_back() -> None:
            self._changes, self._claims, self._dropped, self._view = changes, claims, dropped, None
            self._row_operations = row_operations

        return take_back

    def _check_ready(self) -> None:
        """Do nothing: commits go by properties that were checked when they were set."""

    def _check_operation(self) -> None:
        """Refuse change data files beside other changes of rows, which readers of changes would not see."""
        if self._before.has_other_files(self._changes):
            self._row_operations += 1
        if self._changes.change_files and self._row_operations > 1:
            raise UnsupportedFeatureError(
                "changes of single rows cannot share a commit with other operations on rows while changes are recorded",
                hint="commit them on their own, or set delta.enableChangeDataFeed to false",
                feature="changeDataFeed",
            )

    def note_written(self, paths: Iterable[str], road: WriteRoad | None = None) -> None:
        """Take charge of files that were written for the transaction: they are deleted if it surely does not commit.

        Parameters
        ----------
        paths
            Decoded paths, relative to the table. Never name files that were there before.
        road
            The road that the rows took to them; None for files without rows of the table.
        """
        self._files.note(self.root, paths, road)

    # What it reads

    def read(self, condition: Filter | None = None, timezone: str | None = None) -> None:
        """Declare that the changes depend on rows of the table: on all, or on those that match a filter.

        A commit that adds or removes such rows meanwhile is a conflict.

        Parameters
        ----------
        condition
            The filter.
        timezone
            The zone of literals in the filter; that of the transaction by default.
        """
        zone = self.timezone if timezone is None else timezone
        if condition is None:
            self._claims.whole = True
        elif self._base is None:
            return
        elif self._changes.metadata is not None and not means_the_same(
            condition, self._base.schema, self.snapshot.schema, zone
        ):
            self._claims.whole = True
        else:
            read = FilterRead(condition, zone)
            self._claims.filters.append(read)
            self._claims.read_paths.update(files_of_filter(self._base, read, self.timezone))

    def require(self, check: Callable[[Snapshot], object]) -> None:
        """Let a check raise an exception if the newest version does not allow the changes.

        It is called immediately before every attempt, with a version that has none of the changes.
        """
        self._claims.checks.append(check)

    def follow_deletes(self, rebase: Rebase) -> None:
        """Let the changes follow deletes of rows that move: these are no conflict then."""
        self._claims.rebase = rebase

    def _changed(self) -> None:
        self._check_open()
        self._view = None

    @property
    def _provenance(self) -> Provenance:
        """The provenance of the operations, which the history shows."""
        names = ((one, _NAMES.get(one.name, one.name)) for one in self._operations)
        return together([Provenance(name, one.parameters, one.metrics) for one, name in names])

    # The commit

    def commit(
        self,
        operation: str | None = None,
        parameters: Mapping[str, str] | None = None,
        *,
        metrics: Mapping[str, int] | None = None,
        even_if_empty: bool = False,
    ) -> CommitResult:
        """Commit the changes as the next version, unless there are none.

        If they surely are not committed, the files that were written for the transaction are deleted.

        Parameters
        ----------
        operation
            The operation as the history shall name it, such as ``WRITE``; by default the one that ran.
        parameters
            Its parameters, beside those of the operations that ran. Values that are not text become JSON text.
        metrics
            What it did, besides the files, rows and bytes that are counted anyway.
        even_if_empty
            Make a version that changes nothing and only records the operation.

        Raises
        ------
        CommitConflictError
            Another commit came first, and the changes do not fit on top of it. Nothing was committed.
        CommitUnknownError
            The commit was sent, but it is not known whether it took effect.
        TableExistsError
            The table was to be created, and exists.
        """
        self._check_open()
        provenance = self._provenance
        if operation is not None:
            provenance = Provenance(
                operation, {**provenance.parameters, **(parameters or {})}, {**provenance.metrics, **(metrics or {})}
            )
        self._is_ended = True
        if self._base is not None and not self._operations and self._changes.is_empty and not even_if_empty:
            self._delete_all()
            return self._committed_as(self._unchanged(self._base, replace(provenance, operation=operation or SEVERAL)))
        begun = time.monotonic()
        change: LogChange | None = None
        try:
            with in_context(table=str(self.root)):
                provenance = replace(provenance, user_metadata=self._user_metadata, custom=self._custom)
                change = self._change(provenance, even_if_empty=even_if_empty)
                retries = commit_change(change, self._policy, str(self.root))
        except BaseException as error:
            if change is None or not change.is_sent or isinstance(error, _NOT_COMMITTED):
                self._delete_all()
            raise
        return self._committed_as(self._finish(change, retries, begun))

    def _change(self, provenance: Provenance, *, even_if_empty: bool) -> LogChange:
        changes, claims = self._changes, self._claims
        claims.removed_paths = changes.removes.keys()
        claims.applications = changes.transactions.keys()
        claims.domains = changes.domains.keys()
        claims.changes_metadata = changes.metadata is not None
        claims.changes_protocol = changes.protocol is not None
        metadata = changes.metadata or (self._base.metadata if self._base else None)
        level = isolation_level(
            metadata.configuration if metadata else {},
            self._options.isolation,
            changes_data=changes.changes_data,
            changes_metadata=claims.changes_metadata,
        )
        if not self.is_empty and (len(self._operations) > 1 or _COUNTED.isdisjoint(provenance.metrics)):
            provenance = replace(provenance, metrics={**changes.counted, **provenance.metrics})
        return LogChange(
            self._log,
            self._base,
            changes,
            claims,
            level,
            provenance,
            self.token,
            self._once,
            self._policy.now,
            even_if_empty=even_if_empty,
        )

    def _finish(self, change: LogChange, retries: int, begun: float) -> CommitResult:
        changes, entry, state, after = change.changes, change.entry, change.state, change.after
        road = self._files.road
        if entry is None or after is None:
            # The loop had nothing to send: the newest version is as the changes leave it, or records the progress.
            if state is None:
                raise AssertionError("a new table is always committed")
            if not (self.has_foreign_files or change.was_made):
                self._delete_all()
            self._tell(state)
            made = change.provenance
            if not self.is_empty:
                made = replace(made, metrics=dict.fromkeys(made.metrics, 0))
            return replace(self._unchanged(state, made), retries=retries, road=road.name)
        gone, rebase = self._dropped.difference(changes.adds), self._claims.rebase
        unused = frozenset[str]() if rebase is None else rebase.unused
        self._files.delete_if(lambda _, path: encode_path(path) in gone or path in unused)
        warnings = finish_commit(state, changes, after, follows_checksum=change.follows_checksum)
        self._tell(after)
        if self.follow is not None and changes.changes_data:
            warnings += self.follow(self, [path for path, file in changes.adds.items() if file.is_new])
        added, removed = changes.new_files, changes.gone_files
        result = CommitResult(
            entry.version,
            self.token,
            change.provenance.operation,
            added_files=len(added),
            removed_files=len(removed),
            added_bytes=sum(file.size for file in added),
            removed_bytes=sum(file.size for file in removed),
            added_rows=total_rows(added),
            retries=retries,
            seconds=time.monotonic() - begun,
            warnings=tuple(warnings),
            metrics=change.provenance.metrics,
            road=road.name,
            why_not_native=road.why_not_native,
        )
        return with_rows(result, self._operations)

    def following(self) -> Transaction:
        """Return another transaction, on the version that this one made, which records nothing of its caller."""
        asked = self._options
        options = CommitOptions(policy=asked.policy, unsafe_single_writer=asked.unsafe_single_writer)
        return Transaction(self._log, self.snapshot, options, timezone=self.timezone, committed=self._tell)

    def refresh(self) -> None:
        """Move to the newest version after the commit, as `following` and the caller see it."""
        self._tell(self.snapshot.newer())

    def _unchanged(self, state: Snapshot, made: Provenance) -> CommitResult:
        return CommitResult(state.version, self.token, made.operation, committed=False, metrics=made.metrics)

    def _tell(self, state: Snapshot) -> None:
        self._view = state
        if self._committed is not None:
            self._committed(state)
