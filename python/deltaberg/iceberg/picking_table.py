"""The verbs of an Iceberg table that make the changes of other snapshots a part of it."""

from __future__ import annotations

from deltaberg.errors import CommitConflictError, DeltabergError
from deltaberg.iceberg.metadata.refs import MAIN
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.writable_table import WritableTable
from deltaberg.signatures import public
from deltaberg.table import CommitPolicy, CommitResult

__all__ = ["PickingTable"]


@public
class PickingTable(WritableTable):
    """A table that takes in the changes of snapshots that its branch does not have."""

    def publish(self, wap_id: str, *, policy: CommitPolicy | None = None) -> CommitResult:
        """Make a snapshot that was staged under a ``wap.id`` a part of the table, as `cherrypick_snapshot` does.

        Parameters
        ----------
        wap_id
            The ``wap.id`` that the snapshot was written with.
        policy
            As for `transaction`.

        Raises
        ------
        InvalidArgumentError
            No snapshot is staged under that id, or several are.
        CommitConflictError
            It was published already, or the table has changed, and the changes of the snapshot do not fit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/audited", {"id": pa.int64()}, format="iceberg")
        >>> staged = table.append(pa.table({"id": [1]}), properties={"wap.id": "load-7"})
        >>> table.scan().count(), table.publish("load-7").snapshot_id == staged.snapshot_id, table.scan().count()
        (0, True, 1)
        """
        from deltaberg.iceberg.operations.cherry_pick import staged_snapshot

        return self._pick(staged_snapshot(self._loaded.metadata, wap_id), MAIN, policy)

    def cherrypick_snapshot(
        self, snapshot_id: int, *, branch: str | None = None, policy: CommitPolicy | None = None
    ) -> CommitResult:
        """Make a snapshot that another branch or no branch has a part of the table.

        If the snapshot follows on the newest one, it becomes the newest one itself. Otherwise, a new snapshot makes the
        same changes: it adds the files of an append, or replaces partitions as ``overwrite(dynamic=True)`` did, if
        these have got no files since. Its summary names the other one as ``source-snapshot-id``.

        Parameters
        ----------
        snapshot_id
            The snapshot.
        branch, policy
            As for `transaction`.

        Raises
        ------
        VersionNotFoundError
            The table has no such snapshot.
        CommitConflictError
            The branch has the snapshot or its changes already, or has moved on, and the changes do not fit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/picked", {"id": pa.int64()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1]}))
        >>> _ = table.alter().create_branch("audit").commit()
        >>> side = table.append(pa.table({"id": [2]}), branch="audit")
        >>> _ = table.append(pa.table({"id": [3]}))
        >>> result = table.cherrypick_snapshot(side.snapshot_id)
        >>> result.operation, sorted(table.scan().to_arrow()["id"].to_pylist())
        ('append', [1, 2, 3])
        """
        try:
            picked = self._loaded.metadata.snapshot_by_id(snapshot_id)
        except DeltabergError as error:
            raise error.with_context(table=str(self._loaded.root)) from None
        return self._pick(picked, branch, policy)

    def _pick(self, picked: Snapshot, branch: str | None, policy: CommitPolicy | None) -> CommitResult:
        from deltaberg.iceberg.operations.cherry_pick import follows

        try:
            return self._pick_once(picked, branch, policy)
        except CommitConflictError:
            name = branch or self._options.ref or MAIN
            was_next = follows(picked, self._loaded.metadata, name)
            self._set(self._pointer.load(self._loaded), None, None)
            if not was_next or follows(picked, self._loaded.metadata, name):
                raise
        # The branch has moved meanwhile, so that the snapshot is no longer the next one.
        return self._pick_once(picked, branch, policy)

    def _pick_once(self, picked: Snapshot, branch: str | None, policy: CommitPolicy | None) -> CommitResult:
        from deltaberg.iceberg.operations.cherry_pick import about_pick, cherry_pick

        with self.transaction(branch=branch, properties=about_pick(picked), policy=policy) as transaction:
            cherry_pick(transaction, picked)
            return transaction.commit()
