"""A transaction: several changes of a table that become one version, or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from deltaberg.delta.log.commit import check_conditional_put
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.afterwards import finish_commit
from deltaberg.delta.transaction.change import LogChange
from deltaberg.delta.transaction.commit_info import Attempt, Provenance, together
from deltaberg.delta.transaction.conflict import Claims, FilterRead, files_of_filter, means_the_same
from deltaberg.delta.transaction.entry import Changes, build_entry, version_made
from deltaberg.delta.transaction.file_changes import (
    total_rows,
)
from deltaberg.delta.transaction.find import new_token
from deltaberg.delta.transaction.isolation import isolation_level
from deltaberg.delta.transaction.own_files import OwnFiles
from deltaberg.delta.transaction.pending_changes import PendingChanges
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import (
    CommitConflictError,
    InvalidArgumentError,
    StorageError,
    TableExistsError,
    UnsupportedFeatureError,
)
from deltaberg.expressions import Filter
from deltaberg.signatures import public
from deltaberg.table import CommitPolicy, CommitResult, checked_flag, checked_note, checked_policy, commit_change
from deltaberg.table.rewrite import RowTasks
from deltaberg.table.write import Progress, ProgressSum, WriteRoad

__all__ = ["Transaction"]

_Own = TypeVar("_Own", bound="Transaction")
#: Metrics of operations that count files themselves.
_COUNTED = frozenset({"numAddedFiles", "numTargetFilesAdded"})
#: Errors of a commit after which it surely is not part of the table, though it may have been sent.
_NOT_COMMITTED = (CommitConflictError, StorageError, TableExistsError)


@public
class Transaction(PendingChanges):
    """Changes of a Delta table that become visible together, as one version.

    As a context manager it commits at the end, unless an exception ends the block, or nothing was changed. Later
    changes see earlier ones: `snapshot` is the table as the transaction leaves it. If it ends without a commit, the
    files that were written for it are deleted.

    Parameters
    ----------
    log
        The log of the table.
    snapshot
        The version that the transaction is planned on; None creates the table.
    isolation
        The isolation level by its name; the table property ``delta.isolationLevel`` by default.
    once
        An application and the version of its progress. The version is recorded with the commit, and where the table
        has that version or a later one, nothing is committed.
    timezone
        The zone of timestamps without one in filters and partition values.
    user_metadata
        Text that the history keeps with the commit.
    unsafe_single_writer
        Write to a store in which two writers would overwrite one another. Make sure that nobody else writes to it.
    policy
        How long the commit is tried.
    progress
        What is told how far rows are written, after every batch.
    committed
        What is told the version that the commit made, or that is current where nothing was to be done.

    Raises
    ------
    UnsupportedFeatureError
        The table has writer features that are not supported, or the store has no conditional put.

    Examples
    --------
    >>> with table.transaction() as transaction:
    ...     transaction.set_metadata(table.metadata.with_members({"description": "three rows"}))
    >>> transaction.result.version
    1
    """

    def __init__(
        self,
        log: LogDirectory,
        snapshot: Snapshot | None,
        *,
        isolation: str | None = None,
        once: tuple[str, int] | None = None,
        timezone: str = "UTC",
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
        policy: CommitPolicy | None = None,
        progress: Progress | None = None,
        committed: Callable[[Snapshot], object] | None = None,
    ) -> None:
        _check_words(once, user_metadata, isolation)
        if snapshot is not None:
            check_writable(snapshot)
        super().__init__(snapshot, OwnFiles(log))
        self._log = log
        self._isolation = isolation
        self._once = once
        self._user_metadata = user_metadata
        #: Further members of what the history says of the commit.
        self.custom_metadata: dict[str, Any] = {}
        self._policy = checked_policy(policy) or CommitPolicy()
        self._claims = Claims(timezone=timezone)
        self._view: Snapshot | None = snapshot
        #: The operations that changed something, in their order.
        self._operations: list[Provenance] = []
        #: How many of them changed rows.
        self._row_operations = 0
        self._is_ended = False
        #: What the commit did; None before it.
        self.result: CommitResult | None = None
        self._committed = committed
        self._progress = None if progress is None else ProgressSum(progress)
        #: What looks for rows in the files of the table; None for this machine.
        self.row_tasks: RowTasks | None = None
        #: What finds the commit later, whatever became of it.
        self.token = new_token(0 if snapshot is None else snapshot.version + 1)
        if once is not None:
            self.set_transaction(*once)
        if not checked_flag("unsafe_single_writer", unsafe_single_writer):
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
            attempt = Attempt(self._policy.time(), self.token)
            entry = build_entry(self._changes, self._base, together(self._operations), attempt)
            self._view = version_made(self._log, self._base, entry)
        return self._view

    @property
    def is_done(self) -> bool:
        """Whether the progress that the transaction would record is recorded already, so that it has nothing to do."""
        if self._once is None or self._base is None:
            return False
        return self._base.has_progress(*self._once, self._policy.time())

    @property
    def is_empty(self) -> bool:
        """Whether the transaction changes nothing so far."""
        return self._changes.is_empty

    @property
    def progress(self) -> Progress | None:
        """The receiver of the progress of the next write; None if there is none."""
        return None if self._progress is None else self._progress.next_write()

    @property
    def timezone(self) -> str:
        """The zone of timestamps without one in filters and partition values."""
        return self._claims.timezone

    # Its operations

    @contextmanager
    def operation(self, name: str) -> Iterator[Provenance]:
        """Run one of the operations that the transaction consists of. If it fails, it has changed nothing.

        Parameters
        ----------
        name
            The operation as the history shall name it, such as ``WRITE``.

        Returns
        -------
        Provenance
            What the history says of it. The block fills in its parameters, and its metrics besides those that are
            counted anyway.
        """
        self._check_open()
        # A clock that does not tell the time is refused before rows are written.
        self._policy.time()
        changes, claims, files = self._changes.copy(), self._claims.copy(), self._files.mark()
        row_operations = self._row_operations
        made = Provenance(name, {}, {})
        try:
            yield made
            self._check_change_files(changes)
        except BaseException:
            self._changes, self._claims, self._view = changes, claims, None
            self._row_operations = row_operations
            self._files.return_to(files)
            raise
        self._operations.append(made)

    def _check_change_files(self, before: Changes) -> None:
        """Refuse change data files beside other changes of rows, which readers of changes would not see."""
        if before.has_other_files(self._changes):
            self._row_operations += 1
        if self._changes.change_files and self._row_operations > 1:
            raise UnsupportedFeatureError(
                "changes of single rows cannot share a commit with other operations on rows while changes are recorded",
                hint="commit them on their own, or set delta.enableChangeDataFeed to false",
                table=str(self._log.root),
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
        self._files.note(paths, road)

    def abort(self) -> None:
        """End the transaction without a commit, and delete the files that were written for it.

        After a commit was tried this does nothing.
        """
        if not self._is_ended:
            self._is_ended = True
            self._files.delete_all()

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

    def read_files(self, paths: Iterable[str]) -> None:
        """Declare that the changes depend on these files, by their recorded paths, being live."""
        self._claims.read_paths.update(paths)

    def _changed(self) -> None:
        self._check_open()
        self._view = None

    def _check_open(self) -> None:
        if self._is_ended:
            state = "not committed" if self.result is None else "committed already"
            raise InvalidArgumentError(f"the transaction is {state}, and has ended", hint="begin another one")

    # The commit

    def commit(
        self,
        operation: str | None = None,
        parameters: Mapping[str, str] | None = None,
        *,
        metrics: Mapping[str, int] | None = None,
        user_metadata: str | None = None,
    ) -> CommitResult:
        """Commit the changes as the next version.

        If they surely are not committed, the files that were written for the transaction are deleted.

        Parameters
        ----------
        operation
            The operation as the history shall name it, such as ``WRITE``; by default the one that ran.
        parameters
            Its parameters, by default those of the operations that ran. Values that are not text become JSON text.
        metrics
            What it did, besides the files, rows and bytes that are counted anyway.
        user_metadata
            Text that the history keeps with the commit.

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
        made = together(self._operations)
        if operation is not None:
            given = made.parameters if parameters is None else parameters
            made = Provenance(operation, {**given}, {**made.metrics, **(metrics or {})})
        begun = time.monotonic()
        change: LogChange | None = None
        self._is_ended = True
        try:
            text = user_metadata or self._user_metadata
            _check_words(None, text, None)
            change = self._change(replace(made, user_metadata=text, custom=self.custom_metadata))
            retries = commit_change(change, self._policy)
        except BaseException as error:
            if change is None or not change.is_sent or isinstance(error, _NOT_COMMITTED):
                self._files.delete_all()
            raise
        self.result = self._finish(change, retries, begun)
        return self.result

    def _change(self, made: Provenance) -> LogChange:
        changes, claims = self._changes, self._claims
        claims.removed_paths = changes.removes.keys()
        claims.applications = changes.transactions.keys()
        claims.domains = changes.domains.keys()
        claims.changes_metadata = changes.metadata is not None
        claims.changes_protocol = changes.protocol is not None
        metadata = changes.metadata or (self._base.metadata if self._base else None)
        level = isolation_level(
            metadata.configuration if metadata else {},
            self._isolation,
            changes_data=changes.changes_data,
            changes_metadata=claims.changes_metadata,
        )
        if len(self._operations) > 1 or _COUNTED.isdisjoint(made.metrics):
            made = replace(made, metrics={**changes.counted, **made.metrics})
        return LogChange(self._log, self._base, changes, claims, level, made, self.token, self._once, self._policy.time)

    def _finish(self, change: LogChange, retries: int, begun: float) -> CommitResult:
        changes, entry, state, after = self._changes, change.entry, change.state, change.after
        road = self._files.road
        if entry is None or after is None:
            # The loop had nothing to send: the progress is recorded in a version that exists.
            if state is None:
                raise AssertionError("a new table is always committed")
            self._files.delete_all()
            self._tell(state)
            made = change.provenance
            return CommitResult(
                state.version,
                self.token,
                made.operation,
                committed=False,
                retries=retries,
                metrics=dict.fromkeys(made.metrics, 0),
                road=road.name,
            )
        self._files.delete_dropped(changes.adds.keys())
        warnings = finish_commit(state, changes, after, follows_checksum=change.follows_checksum)
        self._tell(after)
        added, removed = changes.new_files, changes.gone_files
        return CommitResult(
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

    def unchanged(self) -> CommitResult:
        """Return what operations report that have found nothing to change: the version that the table has."""
        made = together(self._operations)
        if self._base is None:
            raise AssertionError("a new table is always committed")
        return CommitResult(self._base.version, self.token, made.operation, committed=False, metrics=made.metrics)

    def _tell(self, state: Snapshot) -> None:
        self._view = state
        if self._committed is not None:
            self._committed(state)

    def __enter__(self: _Own) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._is_ended and not self._changes.is_empty:
            self.commit()
        self.abort()


def _check_words(once: object, user_metadata: object, isolation: str | None) -> None:
    """Refuse words of a commit that could not be recorded, before any row is written."""
    if once is not None and not (isinstance(once, (tuple, list)) and len(once) == 2):
        raise InvalidArgumentError(
            f"txn must be the name of an application and a version, not {once!r:.200}",
            hint='pass txn=("nightly load", 7)',
        )
    checked_note("user_metadata", user_metadata, "pass a text, such as what json.dumps returns")
    if isolation is not None:
        isolation_level({}, isolation)
