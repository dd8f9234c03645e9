"""A transaction: several changes of a table that become one commit, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from deltaberg.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    InvalidArgumentError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata, say_the_same
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction import expiry_guard
from deltaberg.iceberg.transaction.commit_properties import check_commit_properties
from deltaberg.iceberg.transaction.conflict import Claims, are_deleted_from, check_conflicts, checked_isolation
from deltaberg.iceberg.transaction.pending import AddedFiles, DeleteKey, PendingFiles, Regrouping
from deltaberg.iceberg.transaction.pending_source import PendingSource
from deltaberg.iceberg.transaction.production import Production, new_snapshot_id
from deltaberg.iceberg.transaction.result import commit_result, rows_of_moves
from deltaberg.iceberg.transaction.summary import Tally
from deltaberg.iceberg.transaction.table_commit import Committed, TableChange, commit_policy
from deltaberg.iceberg.transaction.target import SnapshotTarget
from deltaberg.iceberg.transaction.writable import check_writable
from deltaberg.iceberg.updates.metadata_changes import MetadataChanges
from deltaberg.iceberg.updates.requirements import Requirement, requirements_of
from deltaberg.iceberg.updates.updates import AddSnapshot, Update, apply_updates
from deltaberg.storage.location import Location
from deltaberg.table.commit.commit import ClockedPolicy, CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import ICEBERG
from deltaberg.table.transaction import transaction as shared
from deltaberg.table.transaction.operation import without_deleted
from deltaberg.table.write.sources import WriteRoad

__all__ = ["Transaction"]

#: Errors of a commit after which it surely is not part of the table, though it may have been sent.
_NOT_COMMITTED = (CommitConflictError, StorageError, TableExistsError, TableNotFoundError)


class Transaction(shared.Transaction):
    """Changes of an Iceberg table that become visible together.

    Later changes see earlier ones: `metadata` and `pending` are the table as the transaction leaves it.

    Parameters
    ----------
    loaded
        The table that the transaction is planned on.
    committer
        What sends the changes to where the table is recorded.
    options
        How the commit is made, and what it records. What their properties say of write, audit, publish goes before
        the branch: with ``wap.branch`` the snapshot goes to that branch, which is created if there is none, and with
        ``wap.id`` to none.
    creates
        Whether the table is staged, and comes into being by the commit.
    records
        What the summary of the snapshot says of the library itself, beside numbers.
    timezone
        The zone of timestamps without one in filters.
    committed
        What is told the table as it is after the commit.

    Raises
    ------
    UnsupportedFeatureError
        The table needs what is not written yet.
    InvalidArgumentError
        The table has no such branch.
    """

    def __init__(
        self,
        loaded: LoadedTable,
        committer: Committer,
        options: CommitOptions | None = None,
        *,
        creates: bool = False,
        records: Mapping[str, str] | None = None,
        timezone: str = "UTC",
        committed: Callable[[LoadedTable], object] | None = None,
    ) -> None:
        options = CommitOptions() if options is None else options
        ICEBERG.refuse(options, str(loaded.root))
        #: How isolated changes of rows are; None for what the table says.
        self.isolation = checked_isolation(options.isolation)
        super().__init__(loaded.root, loaded.store, options, timezone)
        self.resolver = loaded.resolver
        check_writable(loaded.metadata, self.resolver)
        #: What the caller has the snapshot say.
        self.says = options.properties or {}
        self._target = SnapshotTarget.of(loaded.metadata, options, records)
        self._creates = creates
        self._committer = committer
        self._policy = options.clocked
        self._committed = committed
        #: Properties of the table that are otherwise for rows that the transaction writes.
        self.write_properties: Mapping[str, str] = {}
        #: What is committed, once the transaction has ended.
        self._change: TableChange | None = None
        self.token = str(new_snapshot_id(loaded.metadata))
        self._plan_on(loaded)

    def _plan_on(self, loaded: LoadedTable) -> None:
        """Begin anew, without any changes of a table."""
        self._loaded = loaded
        self._changes = MetadataChanges(loaded.metadata)
        self.pending = PendingFiles()
        self.claims = Claims()
        self._checks: list[Callable[[TableMetadata], None]] = []
        own = (int(self.token), self.pending, self._target.summary)
        self._production = Production(self.store, self.resolver, *own)

    def stand_for(self, token: str, *, was_tried: bool, is_late: bool = False) -> None:
        """Have the commit be the one with this token; see the base."""
        super().stand_for(token, was_tried=was_tried, is_late=is_late)
        self._plan_on(self._loaded)

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table as the transaction leaves it, but for its snapshot."""
        return self._changes.metadata

    @property
    def planned(self) -> Snapshot | None:
        """The snapshot of the branch that the transaction is planned on."""
        return self._target.parent(self.metadata)

    @property
    def planned_metadata(self) -> TableMetadata:
        """The metadata of the table that the transaction is planned on."""
        return self._loaded.metadata

    @property
    def branch(self) -> str:
        """The branch that gets the snapshot."""
        return self._target.branch

    @property
    def is_on_main(self) -> bool:
        """Whether the snapshot becomes the newest one of the table, and not that of another branch, or of none yet."""
        return self.branch == MAIN and not self._target.is_staged

    @property
    def source(self) -> IcebergSource:
        """The rows of the snapshot that the transaction is planned on, in the columns that the table will have."""
        return self._source(self.metadata, self.planned)

    @property
    def changed_source(self) -> IcebergSource:
        """The rows as the transaction leaves them. Files of the planned snapshot have the numbers of `source`."""
        return self.source if self.pending.is_empty else PendingSource(self.source, self.pending, int(self.token))

    def _source(self, metadata: TableMetadata, snapshot: Snapshot | None) -> IcebergSource:
        return IcebergSource.of(replace(self._loaded, metadata=metadata), snapshot)

    @property
    def is_done(self) -> bool:
        """Whether the progress that the transaction would record is recorded already."""
        return self._target.is_done(self._loaded.metadata)

    @property
    def is_empty(self) -> bool:
        """Whether the transaction changes nothing so far."""
        says_nothing = not self._creates and self._target.progress is None
        return says_nothing and self.pending.is_empty and say_the_same(self.metadata, self._loaded.metadata)

    @property
    def _asks_nothing(self) -> bool:
        """Whether the newest state of the table does not matter, since nothing was asked for."""
        return self.is_empty and not self._operations

    def _check_ready(self) -> None:
        check_commit_properties(self.metadata)
        self._committer.check(self.metadata)
        _ = self._commit_policy

    def _check_operation(self) -> None:
        """Do nothing: operations go together as they are."""

    def _file_numbers(self) -> tuple[int, int]:
        return self.pending.numbers

    def _mark(self) -> Callable[[], object]:
        changes, claims, checks = self._changes, self.claims.copy(), list(self._checks)
        pending = self.pending.copy()
        self.pending.replaces_partitions = False

        def take_back() -> None:
            self._changes, self.claims, self._checks = changes, claims, checks
            self.pending = self._production.pending = pending

        return take_back

    def change_metadata(self, *updates: Update) -> None:
        """Change the metadata of the table.

        Raises
        ------
        InvalidArgumentError, SchemaError, ConstraintViolationError
            A change is not allowed, or names what the table does not have.
        """
        self._check_open()
        changes = self._changes.then(updates, self._now())
        if not self.pending.is_empty and self._target.parent(changes.metadata) != self.planned:
            raise InvalidArgumentError(
                f"the transaction has changed rows of {self.branch!r} before, which is to move to another snapshot",
                hint="move it first, or in a commit of its own",
            )
        if changes.metadata.format_version >= VECTORS_SINCE and any(
            files.has_position_files for files in self.pending.added
        ):
            raise InvalidArgumentError(
                "the transaction has deleted rows by position delete files, which the later format version has none of",
                hint="commit the deletes first, or upgrade the table before them",
            )
        self._changes = changes

    def change_columns(self, make: Callable[[TableMetadata], Sequence[Update]]) -> None:
        """Change the columns of the table. Of changes that follow each other, the last one takes the place of all.

        Parameters
        ----------
        make
            Returns the changes of some metadata.
        """
        files, kept = len(self._files) + len(self.pending.added), self._changes
        before = kept.without_columns(files)
        made = make(before.metadata)
        self._changes = before
        try:
            self.change_metadata(*made)
        except BaseException:
            self._changes = kept
            raise
        self._changes = replace(self._changes, before_columns=(before, files))

    def require(self, check: Callable[[TableMetadata], None]) -> None:
        """Let a check raise an exception if the newest metadata does not allow the changes.

        It is called before every attempt, with metadata that has none of the changes.
        """
        self._checks.append(check)

    def note_written(self, folder: Location, paths: Iterable[str], road: WriteRoad | None = None) -> None:
        """Take charge of files that were written for the transaction: they are deleted if it surely does not commit.

        Parameters
        ----------
        folder
            The folder of data files.
        paths
            The paths below it of the files, none of which was there before.
        road
            The road that the rows took to them; None for files without rows of the table.
        """
        self._files.note(folder, paths, road)

    def add_entries(self, files: AddedFiles) -> None:
        """Add new files. What new delete files delete in the planned snapshot is up to the caller to claim."""
        self._check_open()
        if len(files.entries):
            self.pending.added.append(files)

    def remove_deletes(self, keys: Iterable[DeleteKey], manifests: pa.Table) -> None:
        """Remove delete files of the planned snapshot.

        Parameters
        ----------
        keys
            Their recorded paths, each with the offset of the blob if it is a deletion vector, else None.
        manifests
            The manifests that hold them, of all manifests of the snapshot.
        """
        self._check_open()
        self.pending.removed_deletes.update(keys)
        self._look_in(manifests)

    def remove_files(self, paths: Sequence[str], manifests: pa.Table) -> None:
        """Remove data files of the planned snapshot.

        Parameters
        ----------
        paths
            Their recorded paths.
        manifests
            The manifests that hold them, of all manifests of the snapshot.
        """
        self._check_open()
        self.check_moves()
        self.pending.removed.update(paths)
        self.pending.drop_deletes_of(paths)
        self.claims.forget(paths)
        self._look_in(manifests)

    def regroup_manifests(self, regrouping: Regrouping) -> None:
        """Put the entries of manifests into others. No file is added or removed."""
        self._check_open()
        self.pending.regrouping, self.pending.keeps_rows = regrouping, True

    def check_moves(self) -> None:
        """Refuse to write rows anew: rows that the transaction has deleted by keys would come back.

        Raises
        ------
        UnsupportedFeatureError
            The transaction has deleted rows by keys.
        """
        if self.pending.deletes_by_keys:
            raise UnsupportedFeatureError(
                "the transaction has deleted rows by keys, which later operations do not see",
                hint="commit the deletes first",
                feature="equality deletes",
            )

    def _look_in(self, manifests: pa.Table) -> None:
        """Note which manifests hold what is removed, and that all others of the planned snapshot do not."""
        self.pending.removed_in.update(manifests.column("manifest_path").to_pylist())
        self.pending.planned_on.update(self.source.manifests.column("manifest_path").to_pylist())

    def commit(self) -> CommitResult:
        """Commit the changes.

        If they surely are not committed, the files that were written for the transaction are deleted.

        Raises
        ------
        CommitConflictError
            Another commit came first, and the changes do not fit on top of it. Nothing was committed.
        CommitUnknownError
            The commit was sent, but it is not known whether it took effect.
        """
        if self.is_member:
            raise InvalidArgumentError(
                "the transaction is a part of one of several tables, which commits it",
                hint="end the block of that transaction",
            )
        self._check_open()
        self._is_ended = True
        left = 0 if self._asks_nothing else self._commit_policy.retries
        while not self._asks_nothing:
            staged = self._loaded if self._creates else None
            try:
                self._change = TableChange(self._committer, self._make, self._snapshot_id, staged, self._loaded)
                done = self._change.commit(self._commit_policy)
            except BaseException as error:
                lost = isinstance(error, (ConcurrentAppendError, ConcurrentDeleteReadError))
                if not lost or not left or not self._runs_again():
                    self.end_failed(error)
                    raise
                left -= 1
            else:
                result = self.end_committed(done)
                if done.committed:
                    self.check_returned(done)
                return result
        return self.end_committed(None)

    def _runs_again(self) -> bool:
        """Run the operations again on the newest state of the table, if none of them has written rows.

        Where the columns were changed meanwhile, their names may mean something else.
        """
        operations, planned = self._operations, self._loaded.metadata
        if self._changes.updates or self.pending.added or not all(one.again for one in operations):
            return False
        try:
            loaded = self._committer.load()
            if loaded is None or loaded.metadata.table_uuid != planned.table_uuid:
                return False
            if loaded.metadata.current_schema.struct != planned.current_schema.struct:
                return False
            self._delete_all()
            self._plan_on(loaded)
            self._operations, self._is_ended = [], False
            for one in operations:
                if one.again is not None:
                    one.again()
        except BaseException:
            self._delete_all()
            raise
        finally:
            self._is_ended = True
        return True

    @property
    def _commit_policy(self) -> ClockedPolicy:
        # A change of these properties may be what makes them valid.
        return self._policy or commit_policy(self.metadata.properties)

    @property
    def _snapshot_id(self) -> int | None:
        """The snapshot that the commit adds, if it adds one."""
        return None if self.pending.is_empty else int(self.token)

    def hand_over(self) -> TableChange | None:
        """End the transaction, and return what a commit of several tables is to carry out; None if that is nothing.

        What becomes of it has to be told by `end_committed` or `end_failed`.
        """
        self._check_open()
        self._is_ended = True
        if not self._asks_nothing:
            self._change = TableChange(self._committer, self._make, self._snapshot_id, None, self._loaded)
        return self._change

    def end_committed(self, committed: Committed | None) -> CommitResult:
        """Return the result of the commit, and delete the files that nothing needs. None stands for no commit."""
        if committed is None or not committed.committed:
            # Files of one operation may have been dropped by a later one. What was sent may be there all the same.
            if not (self.has_foreign_files or (self._change is not None and self._change.was_sent)):
                self._delete_all()
        else:
            self._production.delete_unused(committed.loaded.metadata)
            self._delete_dropped(self._production.hiding_of(committed.loaded.metadata))
        return self._finish(committed)

    def check_returned(self, done: Committed) -> None:
        """Make sure that the table still has the snapshots that the commit went back to."""
        returned = expiry_guard.returned_snapshots(self._changes.updates, self.claims.picked)
        expiry_guard.check_returned(self._committer, done, returned, self._policy)

    def end_failed(self, error: BaseException) -> None:
        """Delete the files that were written for the transaction if it surely is not committed."""
        change = self._change
        if change is None or not change.is_sent or (isinstance(error, _NOT_COMMITTED) and not change.is_committed):
            self._delete_all()

    def _make(self, base: TableMetadata) -> tuple[list[Update], list[Requirement]] | None:
        """Return the changes on top of the newest metadata; None if they leave it as it is."""
        if self._target.is_done(base):
            return None
        check_writable(base, self.resolver)
        for check in self._checks:
            check(base)
        expiry_guard.check_snapshots(base, expiry_guard.returned_snapshots(self._changes.updates, self.claims.picked))
        updates = [*self._changes.on_top_of(base), *self._target.updates]
        held = requirements_of(self._loaded.metadata, updates) + self._target.held(base)
        after = apply_updates(base, updates, now_ms=self._now()) if updates else base
        source = self._source(after, self._target.parent(after))
        check_conflicts(self.claims, self.planned, source)
        deleted = {*self.pending.removed, *self.claims.hidden} if self.numbers[2] else set()
        self.claims.shares_deletes = are_deleted_from(deleted, self.planned, source)
        if self.pending.is_empty and not self._creates and say_the_same(after, base):
            return None
        if not self.pending.is_empty:
            hiding = () if self.claims.rebase is None else self.claims.rebase(source)
            snapshot = self._production.produce(source, self._now(), hiding)
            moved: list[Update] = [AddSnapshot(snapshot), *self._target.moves(after, snapshot.snapshot_id)]
            updates += [*moved, *expiry_guard.required_snapshots(self._committer, self.claims.picked)]
            held += requirements_of(base, moved)
        return updates, list(dict.fromkeys(held))

    def _finish(self, committed: Committed | None) -> CommitResult:
        loaded = self._loaded if committed is None else committed.loaded
        is_new = committed is not None and committed.committed
        has_snapshot = is_new and not self.pending.is_empty
        operation = ", ".join(dict.fromkeys(one.name for one in self._operations)) or "commit"
        tally = self._production.tally if is_new else Tally()
        result = commit_result(
            loaded,
            committed,
            tally,
            operation=tally.operation if has_snapshot else operation,
            token=self.token,
            snapshot_id=int(self.token) if has_snapshot else self._target.newest(loaded.metadata),
            road=self._files.road,
            operations=without_deleted(self._operations) if self.claims.shares_deletes else self._operations,
            moved=None if has_snapshot else rows_of_moves(self._loaded.metadata, self.metadata),
        )
        if self._committed is not None and committed is not None:
            self._committed(loaded)
        if self.follow is not None and has_snapshot and not (self.pending.keeps_rows or self._target.is_staged):
            result = replace(result, warnings=(*result.warnings, *self.follow(self, self.pending.paths)))
        return self._committed_as(result)

    def _delete_dropped(self, hiding: Sequence[AddedFiles]) -> None:
        """Delete the files that later operations, or later attempts to commit, have replaced."""
        added = (*self.pending.added, *hiding)
        kept = {self.resolver.resolve(path) for files in added for path in files.entries["file_path"].to_pylist()}
        self._files.delete_if(lambda folder, path: folder.join(path) not in kept)

    def _delete_all(self) -> None:
        self._production.delete_unused(None, self._files.home)
        super()._delete_all()
