"""Clone: one commit gives a table the rows, the schema and the properties of a version of another one.

A shallow clone names the files of its source, a deep clone has copies of them. A deep clone that is repeated copies
only what is new.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN
from deltaberg.delta.alter.track_rows import give_row_ids
from deltaberg.delta.create.create import newest_version
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.maintain.cloning.clone_files import ClonedFile, CopiedFiles, Naming, SourceFiles, is_copy
from deltaberg.delta.maintain.cloning.clone_metadata import (
    Origin,
    cloned_metadata,
    cloned_protocol,
    origin_of,
)
from deltaberg.delta.maintain.restorable import (
    absent_keys,
    check_unexpired,
    check_unmoved,
    file_keys,
    is_rearranged,
    lost_files,
)
from deltaberg.delta.schema.row_tracking import ROW_TRACKING
from deltaberg.delta.snapshot.history import snapshot_at
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import (
    CommitConflictError,
    DataFileNotFoundError,
    InvalidArgumentError,
    TableExistsError,
    VersionNotFoundError,
)
from deltaberg.kernels.results import DELETION_VECTOR
from deltaberg.storage.location import Location, PathResolver, parse_location
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.cloning.clone_places import check_apart, check_empty, check_one_store
from deltaberg.table.maintain.cloning.cloned import CloneRequest, CloneResult
from deltaberg.table.maintain.cloning.copies import copy_files, leftovers
from deltaberg.table.maintain.cloning.file_copy import FileCopy
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.table.rows.progress import Told
from deltaberg.table.transaction.operation import RowNumbers

__all__ = ["clone_table"]

#: How often a clone is planned, while others rearrange the table that it becomes.
_PLANNED_AT_MOST = 10
#: Members of an ``add`` that belong to the table that gave them.
_OF_SOURCE: dict[str, object] = {"baseRowId": None, "defaultRowCommitVersion": None, "dataChange": True}


def clone_table(
    opened: Snapshot,
    resolver: PathResolver,
    asked: CloneRequest,
    tasks: FileTasks | None = None,
) -> CloneResult:
    """Clone a version of a table.

    Parameters
    ----------
    opened
        The version that is open.
    resolver
        Locates its files.
    asked
        What is asked for.
    tasks
        What copies files, and lists a large table, in place of this process.

    Raises
    ------
    InvalidArgumentError
        The place does not suit a clone; or a vacuum may take files that a shallow clone would name.
    TableExistsError
        There is a table that is no clone of this one.
    CommitConflictError
        Others changed the clone, or do so meanwhile. Nothing was committed.
    DataFileNotFoundError
        Files that are needed are gone.
    StorageError
        A store fails. Nothing was committed.
    """
    instant = asked.instant
    source = snapshot_at(opened if instant is None else opened.newer(), asked.version, instant)
    log = LogDirectory(parse_location(asked.target), asked.store)
    check_apart(source.log.store, source.log.root, log.store, log.root)
    for left in reversed(range(_PLANNED_AT_MOST)):
        plan = _planned(source, opened.newer, resolver, asked, log, tasks)
        if asked.dry_run:
            plan.rehearse()
            return plan.result(None)
        try:
            return plan.carry_out()
        except CommitConflictError:
            # A vacuum or a compaction of the clone is no reason to give up. What was copied is not copied again.
            if not left or plan.base is None or not is_rearranged(plan.base):
                raise
    raise AssertionError("the last attempt returns or raises")


def _planned(
    source: Snapshot,
    newest: Callable[[], Snapshot],
    resolver: PathResolver,
    asked: CloneRequest,
    log: LogDirectory,
    tasks: FileTasks | None,
) -> _Plan:
    base = newest_version(log)
    if base is None:
        check_empty(log.storage, log.root, lambda path: not asked.shallow and is_copy(path))
    elif asked.shallow and not asked.replace:
        raise _exists(base, "there is a table already")
    origin = None if asked.shallow else _origin(source, base, asked)
    _check_mapping(source, base, origin)
    naming: Naming
    if asked.shallow:
        check_one_store(source.log.store, source.log.root, log.store, log.root)
        newer = newest()
        files = source.live.table
        removed = files.take(absent_keys(file_keys(files), file_keys(newer.live.table)))
        hint = "choose a later version, or make a deep clone"
        check_unexpired(newer, removed, source.version, hint, dry_run=asked.dry_run)
        naming = SourceFiles(resolver, log.root)
    else:
        generation = 0 if base is None else _generation(base, origin)
        partitions = len(source.partition_fields)
        naming = CopiedFiles(resolver, source.metadata.id, log.root, base, generation, partitions)
    return _Plan(source, base, log, resolver, asked, naming, tasks)


@dataclass
class _Plan:
    """The changes that make a table the clone of a version.

    Parameters
    ----------
    base
        The newest version of the clone; None if it is new.
    log
        Its log.
    """

    source: Snapshot
    base: Snapshot | None
    log: LogDirectory
    resolver: PathResolver
    asked: CloneRequest
    naming: Naming
    tasks: FileTasks | None
    copied_bytes: int = field(default=0, init=False)
    found: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._name()

    def _name(self) -> None:
        """Find which files the clone lacks, and which it has no use for."""
        self.named = self.naming.name(self.source.live.table)
        wanted = {file.key for file in self.named}
        live = [] if self.base is None else _live_keys(self.base)
        present = set(live)
        self.added = _numbers(file.key not in present for file in self.named)
        self.removed = _numbers(key not in wanted for key in live)

    @property
    def _added_files(self) -> list[ClonedFile]:
        return [self.named[number] for number in self.added.to_pylist()]

    @property
    def copies(self) -> list[FileCopy]:
        """The copies that are to be made."""
        return list(self.naming.copies.values()) if isinstance(self.naming, CopiedFiles) else []

    def carry_out(self) -> CloneResult:
        """Copy the files, and commit."""
        asked = self.asked
        transaction = Transaction(self.log, self.base, asked.commit)
        with transaction:
            if transaction.is_done:
                # The progress that would be recorded is recorded already.
                return CloneResult(str(self.log.root), None, transaction.commit())
            self._copy(transaction.tell)
            with transaction.operation("clone", writes_files=False) as operation:
                self._apply(transaction)
                operation.parameters.update(
                    source=f"delta.`{_uri(self.source.log.root)}`",
                    sourceVersion=json.dumps(self.source.version),
                    isShallow=json.dumps(asked.shallow),
                )
                operation.metrics.update(self.metrics)
                operation.rows = RowNumbers.uncounted()
            if self.base is None:
                self._check_there()
            else:
                transaction.require(self._check)
            return self.result(transaction.commit())

    def rehearse(self) -> None:
        """Do all but copy and commit: what would be refused then is refused now."""
        # Whether the store keeps two writers apart only a put would tell.
        options = dataclasses.replace(self.asked.commit, unsafe_single_writer=True)
        with Transaction(self.log, self.base, options) as transaction:
            if not transaction.is_done:
                self._apply(transaction)
                self._check_sources()
            transaction.abort()

    def _copy(self, told: Told) -> None:
        if not isinstance(self.naming, CopiedFiles):
            return
        made, unsafe = leftovers(self.log.store, self.log.root, self.copies)
        if unsafe:
            self.naming.avoid(unsafe)
            self._name()
        wanted = [copy for copy in self.copies if copy.target not in made]
        self.found = len(self.naming.copies) - len(wanted)
        self.copied_bytes = sum(copy_files(self.tasks, self.source.log.store, self.log.store, wanted, told))

    def _apply(self, transaction: Transaction) -> None:
        source, base, asked = self.source, self.base, self.asked
        properties = asked.properties or {}
        protocol = cloned_protocol(source, base, properties)
        if base is None or protocol is not base.protocol:
            transaction.set_protocol(protocol)
        metadata = cloned_metadata(source, base, self._new_origin, properties)
        begins_to_track = (
            base is not None and metadata.is_enabled(ROW_TRACKING) and "rowTracking" not in base.active_features
        )
        if not self._is_same(metadata.configuration):
            # Files that stay get row ids before rows are tracked.
            transaction.set_metadata(metadata.with_properties({ROW_TRACKING: None} if begins_to_track else {}))
        known = {} if base is None else base.domains
        for name in sorted({*known, *source.domains} - {ROW_TRACKING_DOMAIN}):
            if known.get(name) != source.domains.get(name):
                transaction.set_domain(name, source.domains.get(name), system=True)
        if base is not None and len(self.removed):
            transaction.remove_files(base.live.table.take(self.removed))
            # Rows that moved to other files have no ids there that the clone knows.
            transaction.lose_row_ids()
        if len(self.added):
            actions = recorded_adds(source.live, self.added)
            transaction.add_actions(
                action.with_members({**_OF_SOURCE, "path": file.path, "deletionVector": file.vector})
                for action, file in zip(actions, self._added_files, strict=True)
            )
        if begins_to_track:
            give_row_ids(transaction)
            transaction.set_metadata(metadata)

    @property
    def _new_origin(self) -> Origin | None:
        if self.asked.shallow:
            return None
        made = 0 if self.base is None else self.base.version + 1
        return Origin(self.source.metadata.id, self.source.version, made)

    def _is_same(self, properties: object) -> bool:
        """Return whether the clone is what it would become, so that there is nothing to record of it."""
        base, origin = self.base, self._new_origin
        if base is None or origin is None or len(self.added) or len(self.removed):
            return False
        known = origin_of(base.metadata.configuration)
        if known is None or known[:2] != origin[:2] or known.made != base.version:
            # Commits that changed no row are noted while the log still tells what they did.
            return False
        metadata = cloned_metadata(self.source, base, known, self.asked.properties or {})
        return metadata.action == base.metadata.action

    def _check(self, newest: Snapshot) -> None:
        """Refuse the commit on top of any other version, or if a file is gone."""
        if self.base is not None:
            check_unmoved(newest, self.base, "look at what it did, and clone the table again if you still want to")
        self._check_there()

    def _check_there(self) -> None:
        """Refuse the commit if a file that it adds is gone."""
        if self.asked.shallow:
            self._check_sources()
            return
        files = _recorded(self._added_files)
        lost = lost_files(self.log, files, PathResolver(self.log.root), self.tasks)
        self._refuse_lost(files, lost, "that were copied")

    def _check_sources(self) -> None:
        """Refuse the clone if a file of the source that it needs is gone."""
        files = self.source.live.table.take(self.added)
        lost = lost_files(self.source.log, files, self.resolver, self.tasks)
        self._refuse_lost(files, lost, "that the table names")

    def _refuse_lost(self, files: pa.Table, lost: pa.BooleanArray, whose: str) -> None:
        gone = files.column("path").filter(lost).to_pylist()
        if gone:
            raise DataFileNotFoundError(
                f"{len(gone)} files {whose} do not exist any more: {first_paths(gone)}",
                hint="somebody deletes them: see that no vacuum takes them, and clone the table again",
                table=str(self.log.root),
            )

    @property
    def metrics(self) -> dict[str, int]:
        """The metrics that the history records, in the words of the reference implementation."""
        sizes = self.source.live.table.column("size").to_pylist()
        before = [] if self.base is None else self.base.live.table.column("size").take(self.removed).to_pylist()
        return {
            "sourceTableSize": sum(sizes),
            "sourceNumOfFiles": len(sizes),
            "numRemovedFiles": len(self.removed),
            "removedFilesSize": sum(before),
            "numCopiedFiles": len(self.copies) - self.found,
            "copiedFilesSize": self.copied_bytes,
        }

    def result(self, commit: CommitResult | None) -> CloneResult:
        """Return the result of the clone, or of its dry run."""
        counts = self.metrics
        is_dry = self.asked.dry_run
        planned = sum(copy.size or 0 for copy in self.copies)
        return CloneResult(
            str(self.log.root),
            self.source.version,
            commit,
            is_dry,
            counts["sourceNumOfFiles"],
            counts["sourceTableSize"],
            counts["numCopiedFiles"],
            planned if is_dry else self.copied_bytes,
            self.found,
            counts["numRemovedFiles"],
            counts["removedFilesSize"],
        )


def _numbers(chosen: Iterable[bool]) -> pa.Int64Array:
    return pa.array([number for number, is_chosen in enumerate(chosen) if is_chosen], pa.int64())


def _live_keys(base: Snapshot) -> list[tuple[str, str, int | None]]:
    """Return what the live files of the clone are recognized by, as `ClonedFile.key` says it."""
    files = base.live.table
    pairs = zip(files.column("path").to_pylist(), files.column("deletionVector").to_pylist(), strict=True)
    return [ClonedFile(path, vector).key for path, vector in pairs]


def _recorded(files: list[ClonedFile]) -> pa.Table:
    vectors = pa.array([file.vector for file in files], DELETION_VECTOR)
    return pa.table({"path": pa.array([file.path for file in files], pa.string()), "deletionVector": vectors})


def _uri(root: Location) -> str:
    return f"file:{root.path}" if root.scheme == "file" else str(root)


def _origin(source: Snapshot, base: Snapshot | None, asked: CloneRequest) -> Origin | None:
    """Return what a deep clone that is there was made of; None if there is none, or if it is replaced.

    Raises
    ------
    TableExistsError
        The table is no deep clone of this one.
    CommitConflictError
        Others changed it since.
    """
    if base is None:
        return None
    origin = origin_of(base.metadata.configuration)
    is_of_this = origin is not None and (origin.table, origin.clone) == (source.metadata.id, base.metadata.id)
    if origin is None or not is_of_this or origin.made > base.version:
        if asked.replace:
            return None
        raise _exists(base, "there is a table already, which is no deep clone of this one")
    if not asked.replace:
        _check_unchanged(base, origin)
    return origin


def _check_unchanged(base: Snapshot, origin: Origin) -> None:
    if origin.made == base.version:
        return
    try:
        changed = not is_rearranged(Snapshot.load(base.log, origin.made))
    except VersionNotFoundError:
        raise _changed(base, f"its log does not tell what happened since version {origin.made}") from None
    if changed:
        raise _changed(base, f"others changed it since version {origin.made}, which was the clone")


def _changed(base: Snapshot, why: str) -> CommitConflictError:
    hint = "pass ⟪replace=True⟫ to give up what others did, or choose another place"
    return CommitConflictError(
        f"the clone is not as it was left: {why}", hint=hint, table=str(base.log.root), winner=base.version
    )


def _exists(base: Snapshot, why: str) -> TableExistsError:
    hint = "choose another place, or pass ⟪replace=True⟫ to make that table the clone; its history stays"
    return TableExistsError(why, hint=hint, table=str(base.log.root))


def _generation(base: Snapshot, origin: Origin | None) -> int:
    """Return a number that no clone before had. It stays the same if the clone is interrupted and repeated."""
    return base.version + 1 if origin is None else origin.made + 1


def _check_mapping(source: Snapshot, base: Snapshot | None, origin: Origin | None) -> None:
    """Refuse to make a table with other names of columns in its files the clone: its history has these names."""
    if base is not None and origin is None and base.mapping_mode != source.mapping_mode:
        raise InvalidArgumentError(
            f"the column mapping of the table that is there is {base.mapping_mode}, and {source.mapping_mode} here",
            hint="choose another place for the clone",
            table=str(base.log.root),
        )
