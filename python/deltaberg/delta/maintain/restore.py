"""Restore: one commit gives a table the rows, the schema and the properties that it had at an older version.

What may never fall stays as it is: the protocol, and the marks up to which column ids, row ids and identity values were
given. Files that a vacuum may take are not restored.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN
from deltaberg.delta.actions.log_action import read_actions
from deltaberg.delta.actions.table_actions import Metadata
from deltaberg.delta.data.deletion_vectors import locate_vectors, unique_ids
from deltaberg.delta.features import supported_features
from deltaberg.delta.properties.protocols import raised_protocol
from deltaberg.delta.schema.enforce import with_marks
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID
from deltaberg.delta.schema.writer_rules import identity_columns
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.retention import (
    KEPT_VERSIONS,
    PROTECTED_BEFORE,
    deleted_file_retention,
    unexpired,
)
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import (
    CommitConflictError,
    DataFileNotFoundError,
    DeltabergError,
    InvalidArgumentError,
)
from deltaberg.expressions.time.instants import format_instant
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.findings import first_paths
from deltaberg.table.maintain.listed_files import later_clock
from deltaberg.table.maintain.presence import find_files, look_up
from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult
from deltaberg.whole_numbers import whole_number

__all__ = ["restore_table"]

#: A vacuum that runs may have begun so many milliseconds ago, with files that had expired by then.
_HOUR = 3_600_000
#: How often a restore is planned, while others rearrange the table.
_PLANNED_AT_MOST = 100
#: With fewer files to look for, each is asked for; otherwise the table is listed.
_ASKED_AT_MOST = 1000
#: Properties that stay: they say what holds for the history, and not for one version of the table.
_OF_HISTORY = (IN_COMMIT_TIMESTAMPS, SINCE_VERSION, SINCE_TIMESTAMP, PROTECTED_BEFORE, KEPT_VERSIONS)


def restore_table(
    begin: Callable[[], Transaction],
    target: Snapshot,
    asked: RestoreRequest,
    resolver: PathResolver,
    tasks: FileTasks | None = None,
) -> RestoreResult:
    """Set a table back.

    Parameters
    ----------
    begin
        What begins a transaction on the newest version.
    target
        The version that the table is set back to.
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
    for planned in range(1, _PLANNED_AT_MOST + 1):
        with begin() as transaction:
            if transaction.is_done:
                # The progress that would be recorded is recorded already.
                return RestoreResult(target.version, transaction.commit())
            plan = _Plan(transaction.base or target, target, asked, resolver, tasks)
            if asked.dry_run:
                transaction.abort()
                plan.check_there()
                return plan.result(None)
            with transaction.operation("restore", writes_files=False) as made:
                plan.apply(transaction)
                transaction.require(plan.check)
                at = asked.instant
                made.parameters["version"] = json.dumps(target.version if at is None else None)
                made.parameters["timestamp"] = json.dumps(None if at is None else format_instant(at))
                made.metrics.update(plan.metrics)
            try:
                return plan.result(transaction.commit())
            except CommitConflictError:
                if planned == _PLANNED_AT_MOST or not _is_rearranged(plan.base):
                    raise
    raise AssertionError("the last attempt returns or raises")


@dataclass
class _Plan:
    """What makes one version of a table equal to another.

    Parameters
    ----------
    base
        The newest version.
    """

    base: Snapshot
    target: Snapshot
    asked: RestoreRequest
    resolver: PathResolver
    tasks: FileTasks | None
    missing: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        target = self.target
        self._table = str(self.base.log.root)
        here, there = _keys(self.base.live.table), _keys(target.live.table)
        self.added = _absent(there, here)
        self.removed = _absent(here, there)
        self._check_unexpired()
        if self.asked.ignore_missing_files:
            gone = self._gone()
            self.missing = target.live.table.column("path").take(self.added.filter(gone)).to_pylist()
            self.added = self.added.filter(pc.invert(gone))

    @property
    def _restored(self) -> pa.Table:
        return self.target.live.table.take(self.added)

    def _check_unexpired(self) -> None:
        """Refuse files that were removed too long ago, and so may be deleted by a vacuum that is running.

        Raises
        ------
        InvalidArgumentError
            There is one.
        """
        if self.asked.unsafe_expired or not len(self.added):
            return
        log, retention = self.base.log, deleted_file_retention(self.base.metadata.configuration)
        # The store tells its time by an object that is written, which a dry run must not do.
        at = time.time_ns() // 1_000_000 if self.asked.dry_run else later_clock(log.storage, log.path)
        kept = unexpired(self.base.tombstones, at, max(retention - _HOUR, 0))
        files = self._restored
        vectors = as_array(files.column("deletionVector"))
        in_files = pc.fill_null(pc.not_equal(pc.struct_field(vectors, "storageType"), "i"), False)
        # A live file is not taken, nor is a vector that has no file of its own.
        live = pc.and_(
            pc.is_in(files.column("path"), value_set=self.base.live.table.column("path")), pc.invert(in_files)
        )
        safe = pc.or_(live, pc.is_in(_keys(files), value_set=_keys(kept)))
        unsafe = files.column("path").filter(pc.invert(safe)).to_pylist()
        if unsafe:
            raise InvalidArgumentError(
                f"{len(unsafe)} files of version {self.target.version} were removed so long ago that a vacuum "
                f"may be deleting them: {first_paths(unsafe)}",
                hint="choose a later version; or make sure that nobody vacuums the table, and pass "
                "⟪unsafe_expired=True⟫",
                table=self._table,
            )

    def _gone(self) -> pa.BooleanArray:
        """Return which of the restored files are gone, or have lost their vectors.

        Raises
        ------
        StorageError
            The store does not say whether one is there.
        """
        files = self._restored
        data = as_array(self.resolver.locate(files.column("path")))
        descriptors = as_array(files.column("deletionVector"))
        vectors = pc.struct_field(locate_vectors(descriptors, self.resolver), "location")
        wanted = pc.unique(pa.concat_arrays([data, vectors])).drop_null()
        log = self.base.log
        if len(wanted) <= _ASKED_AT_MOST:
            answers = look_up(log.store, log.root, wanted.to_pylist())
        else:
            sought = kernels.PathSet([wanted])
            (found,) = find_files(log.store, log.root, [sought], self.tasks)
            answers = [found.of(number) for number in sought.numbers(wanted).to_pylist()]
        for answer in answers:
            if isinstance(answer, DeltabergError):
                raise answer
        gone = wanted.filter(pa.array([answer is None for answer in answers], pa.bool_()))
        return pc.or_(*(pc.is_in(one, value_set=gone, skip_nulls=True) for one in (data, vectors)))

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
                table=self._table,
            )

    def check(self, newest: Snapshot) -> None:
        """Refuse the commit on top of any other version, or if a file is gone."""
        if newest.version != self.base.version:
            raise CommitConflictError(
                f"version {newest.version} was committed meanwhile",
                hint="look at what it did, and restore the table again if you still want to",
                table=self._table,
                winner=newest.version,
            )
        self.check_there()

    def apply(self, transaction: Transaction) -> None:
        """Change the table."""
        base, target = self.base, self.target
        lacking = supported_features(target.protocol) - supported_features(base.protocol)
        if lacking:
            transaction.set_protocol(raised_protocol(sorted(lacking), base.protocol))
        metadata = _metadata(base, target)
        if metadata.action != base.metadata.action:
            transaction.set_metadata(metadata)
        for name in sorted({*base.domains, *target.domains} - {ROW_TRACKING_DOMAIN}):
            if base.domains.get(name) != target.domains.get(name):
                transaction.set_domain(name, target.domains.get(name), system=True)
        if len(self.removed):
            transaction.remove_files(base.live.table.take(self.removed))
        if len(self.added):
            actions = recorded_adds(target.live, self.added)
            transaction.add_actions(action.with_members({"dataChange": True}) for action in actions)

    @property
    def metrics(self) -> dict[str, int]:
        """What the history records, in the words of the reference implementation."""
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


def _keys(files: pa.Table) -> pa.StringArray:
    """Return what files are recognized by in other versions."""
    vectors = pc.fill_null(unique_ids(as_array(files.column("deletionVector"))), "")
    return pc.binary_join_element_wise(as_array(files.column("path")), vectors, "\n")


def _absent(keys: pa.StringArray, others: pa.StringArray) -> pa.Int64Array:
    """Return the numbers of the keys that are not among others."""
    return pc.indices_nonzero(pc.invert(pc.is_in(keys, value_set=others))).cast(pa.int64())


def _total(sizes: pa.ChunkedArray) -> int:
    return pc.sum(sizes).as_py() or 0


def _metadata(base: Snapshot, target: Snapshot) -> Metadata:
    """Return the metadata of the target, with what may not fall."""
    now, then = base.metadata.configuration, target.metadata.configuration
    kept: dict[str, str | None] = {name: now.get(name) for name in _OF_HISTORY if now.get(name) != then.get(name)}
    greatest = whole_number(now.get(MAX_COLUMN_ID, ""), 0)
    if greatest is not None and greatest > (whole_number(then.get(MAX_COLUMN_ID, ""), 0) or 0):
        kept[MAX_COLUMN_ID] = now[MAX_COLUMN_ID]
    metadata = target.metadata.with_properties(kept) if kept else target.metadata
    if metadata.id != base.metadata.id:
        metadata = metadata.with_members({"id": base.metadata.id})
    marks = _marks(base, target)
    return (
        metadata.with_members({"schemaString": with_marks(metadata.schema_string or "", marks)}) if marks else metadata
    )


def _marks(base: Snapshot, target: Snapshot) -> dict[str, int]:
    """Return the marks of the identity columns of the target up to which values were given since."""
    rules = identity_columns(base.schema)
    given = {field.physical_name: rules[field.name] for field in base.schema if field.name in rules}
    rules = identity_columns(target.schema)
    marks = {}
    for field in target.schema:
        old, since = rules.get(field.name), given.get(field.physical_name)
        if old is None or since is None or since.high_water_mark is None:
            continue
        mark = since.high_water_mark
        if old.high_water_mark is None or (mark - old.high_water_mark) * old.step > 0:
            marks[field.name] = mark
    return marks


def _is_rearranged(base: Snapshot) -> bool:
    """Return whether all commits after a version only move rows to other files, or change nothing."""
    actions = (
        action
        for _, data in base.newer_commits().commits
        for action in read_actions(data, "add", "remove", "metaData", "protocol")
    )
    return all(action.name in ("add", "remove") and action.members.get("dataChange") is False for action in actions)
