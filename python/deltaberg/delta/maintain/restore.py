"""Restore: one commit gives a table the rows, the schema and the properties that it had at an older version.

What may never fall stays as it is: the protocol, and the marks up to which column ids, row ids and identity values were
given. Files that a vacuum may take are not restored.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN, row_id_high_water_mark, row_id_text
from deltaberg.delta.data.swapped_files import rows_of_swap
from deltaberg.delta.features import supported_features
from deltaberg.delta.maintain.restorable import (
    absent_keys,
    check_unexpired,
    check_unmoved,
    file_keys,
    is_rearranged,
    lost_files,
    metadata_over,
    renumbered_files,
    row_id_mark,
)
from deltaberg.delta.properties.protocols import raised_protocol
from deltaberg.delta.schema.row_tracking import ROW_TRACKING
from deltaberg.delta.snapshot.history import snapshot_at
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import CommitConflictError, DataFileNotFoundError
from deltaberg.expressions.time.instants import format_instant
from deltaberg.storage.location import PathResolver
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.table.rows.progress import Told
from deltaberg.table.transaction.operation import RowNumbers

__all__ = ["restore_table"]

#: How often a restore is planned, while others rearrange the table.
_PLANNED_AT_MOST = 100


def restore_table(
    begin: Callable[[], Transaction],
    newest: Snapshot,
    asked: RestoreRequest,
    resolver: PathResolver,
    tasks: FileTasks | None = None,
) -> RestoreResult:
    """Set a table back.

    Parameters
    ----------
    begin
        What begins a transaction on the newest version.
    newest
        The newest version.
    asked
        What is asked for.
    resolver
        Locates files.
    tasks
        What lists a large table in place of this process.

    Raises
    ------
    InvalidArgumentError
        A vacuum may take files that are needed.
    DataFileNotFoundError
        Files that are needed are gone.
    CommitConflictError
        Another commit changed rows, or the table, meanwhile. Nothing was committed.
    StorageError
        The store fails, so that it is not known whether files are there. Nothing was committed.
    """
    at = asked.instant
    target = snapshot_at(newest, None if at is not None else asked.target, at)
    for planned in range(1, _PLANNED_AT_MOST + 1):
        with begin() as transaction:
            if transaction.is_done:
                # The progress that would be recorded is recorded already.
                return RestoreResult(target.version, transaction.commit())
            plan = _Plan(transaction.base or target, target, asked, resolver, tasks, transaction.tell)
            if asked.dry_run:
                transaction.abort()
                plan.check_there()
                return plan.result(None)
            with transaction.operation("restore", writes_files=False) as operation:
                plan.apply(transaction)
                transaction.require(plan.check)
                at = asked.instant
                operation.parameters["version"] = json.dumps(target.version if at is None else None)
                operation.parameters["timestamp"] = json.dumps(None if at is None else format_instant(at))
                operation.metrics.update(plan.metrics)
                operation.rows = plan.rows
            try:
                return plan.result(transaction.commit())
            except CommitConflictError:
                if planned == _PLANNED_AT_MOST or not is_rearranged(plan.base):
                    raise
    raise AssertionError("the last attempt returns or raises")


@dataclass
class _Plan:
    """The changes that make one version of a table equal to another.

    Parameters
    ----------
    base
        The newest version.
    told
        What is told how many files were looked for.
    """

    base: Snapshot
    target: Snapshot
    asked: RestoreRequest
    resolver: PathResolver
    tasks: FileTasks | None
    told: Told
    missing: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        target = self.target
        here, there = file_keys(self.base.live.table), file_keys(target.live.table)
        self.added = absent_keys(there, here)
        self.removed = absent_keys(here, there)
        #: Files that stay, whose rows get the ids again that they had.
        self.renumbered = renumbered_files(target.live.table, self.base.live.table)
        if not self.asked.unsafe_expired:
            check_unexpired(
                self.base,
                self._restored,
                target.version,
                "choose a later version; or make sure that nobody vacuums the table, and pass ⟪unsafe_expired=True⟫",
                dry_run=self.asked.dry_run,
            )
        if self.asked.ignore_missing_files:
            gone = self._gone()
            self.missing = target.live.table.column("path").take(self.added.filter(gone)).to_pylist()
            self.added = self.added.filter(pc.invert(gone))

    @property
    def _restored(self) -> pa.Table:
        return self.target.live.table.take(self.added)

    def _gone(self) -> pa.BooleanArray:
        """Return which of the restored files are gone, or have lost their vectors.

        Raises
        ------
        StorageError
            The store does not say whether one is there.
        """
        return lost_files(self.base.log, self._restored, self.resolver, self.tasks, self.told)

    def check_there(self) -> None:
        """Refuse the restore if a file is gone.

        Raises
        ------
        DataFileNotFoundError
            One is.
        """
        gone = self._restored.column("path").filter(self._gone()).to_pylist()
        if gone:
            raise DataFileNotFoundError(
                f"{len(gone)} files of version {self.target.version} do not exist any more: {first_paths(gone)}",
                hint="pass ⟪ignore_missing_files=True⟫ to do without their rows",
            )

    def check(self, newest: Snapshot) -> None:
        """Refuse the commit on top of any other version, or if a file is gone."""
        check_unmoved(newest, self.base, "look at what it did, and restore the table again if you still want to")
        self.check_there()

    def apply(self, transaction: Transaction) -> None:
        """Change the table."""
        base, target = self.base, self.target
        lacking = supported_features(target.protocol) - supported_features(base.protocol)
        if lacking:
            transaction.set_protocol(raised_protocol(sorted(lacking), base.protocol))
        metadata = metadata_over(base, target)
        is_other = metadata.action != base.metadata.action
        if is_other:
            # Rows are tracked from when all files have row ids, which those have only then that get theirs again.
            transaction.set_metadata(metadata.with_properties({ROW_TRACKING: None}))
        for name in sorted({*base.domains, *target.domains} - {ROW_TRACKING_DOMAIN}):
            if base.domains.get(name) != target.domains.get(name):
                transaction.set_domain(name, target.domains.get(name), system=True)
        mark = row_id_mark(base, target)
        if mark is not None and mark != row_id_high_water_mark(base.domains):
            transaction.set_domain(ROW_TRACKING_DOMAIN, row_id_text(mark), system=True)
        if len(self.removed):
            transaction.remove_files(base.live.table.take(self.removed))
        if len(self.added):
            actions = recorded_adds(target.live, self.added)
            transaction.add_actions(action.with_members({"dataChange": True}) for action in actions)
        if len(self.renumbered):
            actions = recorded_adds(target.live, self.renumbered)
            transaction.add_actions(action.with_members({"dataChange": False}) for action in actions)
        if is_other:
            transaction.set_metadata(metadata)

    @property
    def rows(self) -> RowNumbers:
        """How many rows come back, and how many go."""
        return rows_of_swap(self._restored, self.base.live.table.take(self.removed))

    @property
    def metrics(self) -> dict[str, int]:
        """The metrics that the history records, in the words of the reference implementation."""
        sizes = self.base.live.table.column("size")
        restored, removed = _total(self._restored.column("size")), _total(sizes.take(self.removed))
        return {
            "numRestoredFiles": len(self.added),
            "restoredFilesSize": restored,
            "numRemovedFiles": len(self.removed),
            "removedFilesSize": removed,
            "numOfFilesAfterRestore": len(sizes) + len(self.added) - len(self.removed),
            "tableSizeAfterRestore": _total(sizes) + restored - removed,
        }

    def result(self, commit: CommitResult | None) -> RestoreResult:
        counts = self.metrics
        return RestoreResult(
            self.target.version,
            commit,
            commit is None,
            counts["numRestoredFiles"],
            counts["restoredFilesSize"],
            counts["numRemovedFiles"],
            counts["removedFilesSize"],
            tuple(self.missing),
        )


def _total(sizes: pa.ChunkedArray) -> int:
    return pc.sum(sizes).as_py() or 0
