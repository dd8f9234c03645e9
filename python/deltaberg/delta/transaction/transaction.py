"""A transaction: several changes of a table that become one version, or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType

import pyarrow as pa

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.data.change_files import change_file_texts
from deltaberg.delta.features import supports
from deltaberg.delta.log.commit import check_conditional_put
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.afterwards import finish_commit
from deltaberg.delta.transaction.change import LogChange
from deltaberg.delta.transaction.commit_info import Attempt, Provenance
from deltaberg.delta.transaction.conflict import Claims, files_of_filter
from deltaberg.delta.transaction.entry import Changes, build_entry
from deltaberg.delta.transaction.file_changes import (
    AddedFile,
    encode_path,
    new_adds,
    recorded_add,
    removes_of,
    total_rows,
)
from deltaberg.delta.transaction.find import new_token
from deltaberg.delta.transaction.isolation import isolation_level
from deltaberg.delta.transaction.writable import check_protocol_change, check_writable
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions import Filter
from deltaberg.table import CommitPolicy, CommitResult, commit_change

__all__ = ["Transaction"]

_SYSTEM = "delta."


class Transaction:
    """Changes of a Delta table that become visible together, as one version.

    As a context manager it commits at the end, unless an exception ends the block, or nothing was changed. Later
    changes see earlier ones: `snapshot` is the table as the transaction leaves it.

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
    unsafe_single_writer
        Write to a store in which two writers would overwrite one another. Surely nobody else must write.
    policy
        How long the commit is tried.
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
        unsafe_single_writer: bool = False,
        policy: CommitPolicy | None = None,
        committed: Callable[[Snapshot], object] | None = None,
    ) -> None:
        if snapshot is not None:
            check_writable(snapshot)
        self._log = log
        self._base = snapshot
        self._isolation = isolation
        self._once = once
        self._policy = policy or CommitPolicy()
        self._changes = Changes()
        self._claims = Claims(timezone=timezone)
        self._view: Snapshot | None = snapshot
        #: Where the commit comes from; operations put their own in its place.
        self.provenance = Provenance("Manual Update")
        #: What the commit did; None before it.
        self.result: CommitResult | None = None
        self._committed = committed
        #: What finds the commit later, whatever became of it.
        self.token = new_token(0 if snapshot is None else snapshot.version + 1)
        if once is not None:
            self.set_transaction(*once)
        if not unsafe_single_writer:
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
            entry = build_entry(self._changes, self._base, self.provenance, Attempt(self._policy.now(), self.token))
            if self._base is None:
                self._view = Snapshot.first(self._log, entry.data)
            else:
                self._view = self._base.after(entry.version, entry.data)
        return self._view

    @property
    def is_done(self) -> bool:
        """Whether the progress that the transaction would record is recorded already, so that it has nothing to do."""
        if self._once is None or self._base is None:
            return False
        application, version = self._once
        known = self._base.transactions.get(application)
        return known is not None and known.version >= version

    @property
    def is_empty(self) -> bool:
        """Whether the transaction changes nothing so far."""
        return self._changes.is_empty

    # What it reads

    def read(self, condition: Filter | None = None) -> None:
        """Declare that the changes depend on rows of the table: on all, or on those that match a filter.

        A commit that adds or removes such rows meanwhile is a conflict.
        """
        if condition is None:
            self._claims.whole = True
        elif self._base is not None:
            self._claims.filters.append(condition)
            self._claims.read_paths.update(files_of_filter(self._base, condition, self._claims.timezone))

    def read_files(self, paths: Iterable[str]) -> None:
        """Declare that the changes depend on these files, by their recorded paths, being live."""
        self._claims.read_paths.update(paths)

    # What it changes

    def add_files(self, files: pa.Table, *, data_change: bool = True) -> None:
        """Add files that were written for the transaction.

        Parameters
        ----------
        files
            A row for each file: ``path`` (relative to the table, decoded), ``size`` in bytes, ``modified`` in
            milliseconds since 1970, ``record_count``, ``partition`` (a struct of typed values, in the order of the
            partition columns), and statistics: the structs ``lower``, ``upper``, ``null_count`` and ``nan_count``.
        data_change
            Whether the rows are new. It is false for rows that only move to another file.

        Raises
        ------
        InvalidArgumentError
            The transaction adds a file of this path already.
        InvalidPartitionValueError
            A partition value cannot be recorded.
        """
        table = self.snapshot
        tight = supports(table.protocol, "deletionVectors")
        self._add(new_adds(files, table.schema, table.partition_fields, data_change=data_change, tight=tight))

    def add_actions(self, actions: Iterable[LogAction]) -> None:
        """Add files by ``add`` actions that are recorded as they are, such as those of `recorded_adds`.

        Raises
        ------
        InvalidArgumentError
            An action is not an ``add``, lacks a member, has other partition columns than the table, or the transaction
            adds a file of this path already.
        """
        added = list(actions)
        partitions = {field.physical_name for field in self.snapshot.partition_fields}
        for action in added:
            if action.name == "add" and set(action.members.get("partitionValues") or ()) != partitions:
                raise InvalidArgumentError(
                    "a file needs values for exactly the partition columns of the table",
                    path=action.members.get("path"),
                )
        self._add([recorded_add(action) for action in added])

    def _add(self, files: Iterable[AddedFile]) -> None:
        adds, removes = self._changes.adds, self._changes.removes
        for file in files:
            if file.path in adds:
                raise InvalidArgumentError("a transaction adds a file only once", path=file.path)
            removed = removes.get(file.path)
            if removed is not None and removed.vector == file.vector:
                raise InvalidArgumentError("a transaction cannot remove a file and add it as it was", path=file.path)
            adds[file.path] = file
        self._changed()

    def remove_files(self, files: pa.Table, *, data_change: bool = True) -> None:
        """Remove live files.

        Parameters
        ----------
        files
            Rows of the live files of `snapshot` (``snapshot.live.table``).
        data_change
            Whether rows are deleted. It is false for rows that only move to another file.

        Raises
        ------
        InvalidArgumentError
            The transaction removes one of the files already.
        """
        adds, removes = self._changes.adds, self._changes.removes
        for file in removes_of(files, data_change=data_change):
            added = adds.get(file.path)
            if added is not None and added.vector == file.vector:
                # What the transaction itself added is not recorded at all.
                del adds[file.path]
                continue
            if file.path in removes:
                raise InvalidArgumentError("a transaction removes a file only once", path=file.path)
            removes[file.path] = file
        self._changed()

    def add_change_files(self, files: pa.Table) -> None:
        """Add change data files: readers of changes take these rows, and not the files that are added and removed.

        Parameters
        ----------
        files
            A row for each file, as for `add_files`; its rows have ``_change_type`` as well.

        Raises
        ------
        InvalidPartitionValueError
            A partition value cannot be recorded.
        """
        paths = [encode_path(path) for path in files.column("path").to_pylist()]
        self._changes.change_files += change_file_texts(paths, files, self.snapshot.partition_fields)
        self._changed()

    def lose_row_ids(self) -> None:
        """Record that rows moved to other files without their ids, so that these are not stable."""
        self._changes.loses_row_ids = True
        self._changed()

    def set_metadata(self, metadata: Metadata) -> None:
        """Replace the metadata of the table."""
        self._changes.metadata = metadata
        self._changed()

    def set_protocol(self, protocol: Protocol) -> None:
        """Replace the protocol of the table, which only rises.

        Raises
        ------
        InvalidArgumentError
            The protocol contradicts itself, or takes back what the table's demands.
        UnsupportedFeatureError
            It demands what is not supported.
        """
        before = self._changes.protocol or (self._base.protocol if self._base else Protocol(1, 1))
        check_protocol_change(before, protocol)
        self._changes.protocol = protocol
        self._changed()

    def set_transaction(self, application: str, version: int) -> None:
        """Record the progress of an application, whatever was recorded before."""
        self._changes.transactions[application] = version
        self._changed()

    def set_domain(self, name: str, configuration: str | None, *, system: bool = False) -> None:
        """Set the configuration of a metadata domain, or remove the domain.

        Parameters
        ----------
        configuration
            The configuration; None removes the domain.
        system
            Allow a domain of the protocol itself, whose name begins with ``delta.``.

        Raises
        ------
        InvalidArgumentError
            The domain belongs to the protocol.
        """
        if name.startswith(_SYSTEM) and not system:
            raise InvalidArgumentError(
                f"the domain {name} belongs to the protocol", hint="choose a name that does not begin with delta."
            )
        self._changes.domains[name] = configuration
        self._changed()

    def _changed(self) -> None:
        if self.result is not None:
            raise InvalidArgumentError("the transaction is committed already", hint="begin another one")
        self._view = None

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

        Parameters
        ----------
        operation
            The operation as the history shall name it, such as ``WRITE``.
        parameters
            Its parameters. Values that are no text are given as JSON text.
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
        if self.result is not None:
            raise InvalidArgumentError("the transaction is committed already", hint="begin another one")
        if operation is not None:
            self.provenance = Provenance(operation, parameters or {}, metrics or {}, user_metadata)
        begun = time.monotonic()
        change = self._change()
        retries = commit_change(change, self._policy)
        self.result = self._finish(change, retries, begun)
        return self.result

    def _change(self) -> LogChange:
        changes, claims = self._changes, self._claims
        claims.removed_paths = changes.removes.keys()
        claims.applications = changes.transactions.keys()
        claims.domains = changes.domains.keys()
        claims.changes_metadata = changes.metadata is not None
        claims.changes_protocol = changes.protocol is not None
        metadata = changes.metadata or (self._base.metadata if self._base else None)
        level = isolation_level(
            metadata.configuration if metadata else {}, self._isolation, changes_data=changes.changes_data
        )
        provenance = self.provenance
        if "numAddedFiles" not in provenance.metrics:
            provenance = replace(provenance, metrics={**_counted(changes), **provenance.metrics})
        return LogChange(
            self._log, self._base, changes, claims, level, provenance, self.token, self._once, self._policy.now
        )

    def _finish(self, change: LogChange, retries: int, begun: float) -> CommitResult:
        changes, entry, state = self._changes, change.entry, change.state
        if entry is None:
            # The loop had nothing to send: the progress is recorded in a version that exists.
            if state is None:
                raise AssertionError("a new table is always committed")
            self._tell(state)
            return CommitResult(state.version, self.token, self.provenance.operation, committed=False, retries=retries)
        after = Snapshot.first(self._log, entry.data) if state is None else state.after(entry.version, entry.data)
        warnings = finish_commit(state, changes, after, follows_checksum=change.follows_checksum)
        self._tell(after)
        added, removed = changes.new_files, changes.gone_files
        return CommitResult(
            entry.version,
            self.token,
            self.provenance.operation,
            added_files=len(added),
            removed_files=len(removed),
            added_bytes=sum(file.size for file in added),
            removed_bytes=sum(file.size for file in removed),
            added_rows=total_rows(added),
            retries=retries,
            seconds=time.monotonic() - begun,
            warnings=tuple(warnings),
            metrics=change.provenance.metrics,
        )

    def _tell(self, state: Snapshot) -> None:
        self._view = state
        if self._committed is not None:
            self._committed(state)

    def __enter__(self) -> Transaction:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.result is None and not self._changes.is_empty:
            self.commit()


def _counted(changes: Changes) -> dict[str, int]:
    """Return what a commit says that it did, as far as its files tell."""
    added, removed = changes.new_files, changes.gone_files
    if not added and not removed:
        return {}
    counted = {"numFiles": len(added), "numOutputBytes": sum(file.size for file in added)}
    rows = total_rows(added)
    if rows is not None:
        counted["numOutputRows"] = rows
    if removed:
        counted["numRemovedFiles"] = len(removed)
        counted["numRemovedBytes"] = sum(file.size for file in removed)
    return counted
