"""The claims of a transaction, and the commits of others that break them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    InvalidArgumentError,
    ProtocolChangedError,
)
from deltaberg.expressions.compute.bound import Bound
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.hints import shown_value
from deltaberg.iceberg.manifests.fields import ADDED, DATA, EQUALITY_DELETES, ManifestPart
from deltaberg.iceberg.manifests.prune import prune_manifests
from deltaberg.iceberg.metadata.property_values import choice_of
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.scan.file_table import FURTHER_FIELDS
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.schema.arrow import as_array
from deltaberg.table.read.plan import make_plan

__all__ = [
    "SERIALIZABLE",
    "SNAPSHOT",
    "Claims",
    "PlannedSnapshotExpiredError",
    "Rebase",
    "are_deleted_from",
    "check_conflicts",
    "checked_isolation",
    "conflict",
    "isolation_level",
]

SERIALIZABLE, SNAPSHOT = "serializable", "snapshot"


def checked_isolation(level: str | None) -> str | None:
    """Refuse an isolation level that there is not.

    Raises
    ------
    InvalidArgumentError
        There is none of that name.
    """
    if level is not None and level.lower() not in (SERIALIZABLE, SNAPSHOT):
        raise InvalidArgumentError(
            f"there is no isolation level {shown_value(level)}",
            hint=f"an Iceberg table has {SERIALIZABLE} and {SNAPSHOT}",
        )
    return None if level is None else level.lower()


def isolation_level(properties: Mapping[str, str], operation: str, requested: str | None = None) -> str:
    """Return whether files that others add meanwhile matter to a change of rows: ``serializable`` or ``snapshot``.

    Parameters
    ----------
    properties
        The properties of the table.
    operation
        ``delete``, ``update`` or ``merge``, for the property ``write.delete.isolation-level`` and so on.
    requested
        The level that the caller asks for; None for what the property says.

    Raises
    ------
    InvalidArgumentError
        The property has another value.

    Examples
    --------
    >>> isolation_level({"write.merge.isolation-level": "snapshot"}, "merge"), isolation_level({}, "delete")
    ('snapshot', 'serializable')
    """
    if requested is not None:
        return requested
    return choice_of(properties, f"write.{operation}.isolation-level", (SERIALIZABLE, SNAPSHOT))


def conflict(kind: type[CommitConflictError], what: str, file: str | None = None) -> CommitConflictError:
    """Return the error of changes that do not fit on top of what others have committed."""
    return kind(what, hint="refresh the table, and repeat the operation", file=file)


class PlannedSnapshotExpiredError(CommitConflictError):
    """The snapshots since a change was planned have expired, so that their changes are not known any more."""


class Rebase(Protocol):
    """Applies later deletes to rows that move to other files, for each attempt to commit."""

    def __call__(self, newest: IcebergSource) -> Sequence[AddedFiles]:
        """Return delete files of the new files, for what was deleted since the rows were read.

        Raises
        ------
        CommitConflictError
            Something else became of the files.
        """


@dataclass
class Claims:
    """The claims of a transaction: the files and rows that it relies on.

    Parameters
    ----------
    conditions
        Filters: no rows that match one may be added meanwhile.
    partitions
        The ids of specs and the values of partitions to which no files may be added meanwhile, nor any files of other
        specs.
    moved
        The recorded paths of files whose rows move: no rows of them may be deleted meanwhile.
    hidden
        The recorded paths of files of which rows are deleted, each with that of its manifest: the files must stay, and
        must get no deletion vector meanwhile.
    reached
        The ids of the specs whose files deletes by keys apply to: no files of others may be added meanwhile. None if
        there are no such deletes, or they apply to all files.
    picked
        The snapshots whose files are added again: they must stay in the table.
    unneeded
        The recorded paths of delete files that are removed though they are about more than one data file: none that
        they apply to may be added meanwhile.
    rebase
        What follows deletes of rows that move; None if no rows move, or none of them may be deleted meanwhile.
    shares_deletes
        Whether others may have deleted rows meanwhile that the transaction deletes, too, so that nobody knows how many
        it has deleted.
    """

    conditions: list[Bound] = field(default_factory=list)
    partitions: set[tuple[int, Hashable]] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    hidden: dict[str, str] = field(default_factory=dict)
    reached: frozenset[int] | None = None
    picked: set[int] = field(default_factory=set)
    unneeded: set[str] = field(default_factory=set)
    rebase: Rebase | None = None
    shares_deletes: bool = False

    @property
    def reads_nothing(self) -> bool:
        """Whether neither rows nor files of others matter, but for those that `reached` leaves out."""
        claimed = (self.conditions, self.partitions, self.moved, self.hidden, self.unneeded)
        return not any(claimed) and self.rebase is None

    @property
    def moves_rows(self) -> bool:
        """Whether rows of the table are written to other files."""
        return bool(self.moved) or self.rebase is not None

    def copy(self) -> Claims:
        """Return a copy that does not change with this one."""
        return replace(
            self,
            conditions=list(self.conditions),
            partitions=set(self.partitions),
            moved=set(self.moved),
            hidden=dict(self.hidden),
            picked=set(self.picked),
            unneeded=set(self.unneeded),
        )

    def reach_only(self, specs: Iterable[int]) -> None:
        """Take note of deletes by keys that apply to the files of some specs, by their ids."""
        self.reached = frozenset(specs) if self.reached is None else self.reached.intersection(specs)

    def forget(self, paths: Iterable[str]) -> None:
        """Leave out files of which rows were deleted: the transaction removes them now."""
        for path in self.hidden.keys() & set(paths):
            del self.hidden[path]


def check_conflicts(claims: Claims, planned: Snapshot | None, newest: IcebergSource) -> None:
    """Check that nothing was added since a transaction was planned that it would have had to replace.

    Files that are to be removed, and are gone, are noticed where they are removed.

    Parameters
    ----------
    claims
        What the transaction relies on.
    planned
        The snapshot that it was planned on.
    newest
        The newest snapshot of the branch.

    Raises
    ------
    ConcurrentAppendError
        If files were added that may hold rows that were to be replaced, or that removed delete files apply to.
    ConcurrentDeleteReadError
        If rows were deleted that move to other files, or a file has got a deletion vector of another commit.
    ConcurrentDeleteDeleteError
        If a file is gone of which rows are deleted.
    PlannedSnapshotExpiredError
        If the planned snapshot has expired, or one between it and the newest one.
    ProtocolChangedError
        If rows move that have been given ids meanwhile.
    CommitConflictError
        If the planned snapshot is not among the ancestors of the newest one, as after a rollback.
    """
    current = newest.snapshot
    if current is None or (planned and planned.snapshot_id == current.snapshot_id):
        return
    if claims.reached is not None:
        _check_reached(claims.reached, newest)
    if claims.reads_nothing:
        return
    since = _snapshots_since(planned, current, newest)
    _check_ids(claims, planned, current)
    if claims.hidden:
        _check_live(claims.hidden, newest)
    ids = pa.array([snapshot.snapshot_id for snapshot in since], pa.int64())
    if claims.moved or claims.hidden:
        _check_deletes(claims, newest, ids)
    if claims.unneeded:
        _check_unneeded(claims.unneeded, newest, ids)
    if not claims.conditions and not claims.partitions:
        return
    # A rewrite adds files, but no rows. Later snapshots may have merged the manifests of earlier ones, or moved rows.
    added = [newest.at(snapshot) for snapshot in since if snapshot.operation != "replace"]
    for paths in chain.from_iterable(_added_files(claims, source) for source in added):
        if paths:
            raise conflict(
                ConcurrentAppendError,
                f"another commit added data files that may hold rows to be replaced, such as {paths[0]}",
            )


def _snapshots_since(planned: Snapshot | None, current: Snapshot, newest: IcebergSource) -> list[Snapshot]:
    since: list[Snapshot] = []
    for found in newest.metadata.ancestors(current):
        if planned is not None and found.snapshot_id == planned.snapshot_id:
            return since
        since.append(found)
    if since[-1].parent_snapshot_id is not None:
        raise conflict(
            PlannedSnapshotExpiredError,
            "snapshots have expired since the change was planned, so that it is not known what others have changed",
        )
    if planned is not None:
        raise conflict(
            CommitConflictError,
            "the snapshot that the change was planned on is no longer an ancestor of the newest one",
        )
    return since


def _check_ids(claims: Claims, planned: Snapshot | None, current: Snapshot) -> None:
    """Refuse to move rows that had no ids when they were read, and have some now."""
    if claims.moves_rows and planned and planned.first_row_id is None and current.first_row_id is not None:
        raise conflict(ProtocolChangedError, "another commit gave ids to the rows of files whose rows are moved")


def _check_reached(specs: AbstractSet[int], newest: IcebergSource) -> None:
    """Refuse deletes by keys if there are data files of other specs, whose rows they would leave."""
    live = prune_manifests(newest.data_manifests, newest.reader, TRUE)
    if not specs >= {*live.column("partition_spec_id").to_pylist()}:
        raise conflict(
            ConcurrentAppendError,
            "another commit added data files of another partition spec, to which the deletes by keys do not apply",
        )


def _check_live(files: Mapping[str, str], newest: IcebergSource) -> None:
    """Refuse to delete rows of files that are gone."""
    data = newest.data_manifests
    known, live = set(files.values()), set(data.column("manifest_path").to_pylist())
    left = {path for path, manifest in files.items() if manifest not in live}
    if not left:
        return
    others = [row for row in data.to_pylist() if row["manifest_path"] not in known]
    for entries in newest.reader.read(others, ManifestPart()):
        left.difference_update(entries.table.column("file_path").to_pylist())
    if left:
        raise conflict(
            ConcurrentDeleteDeleteError, "another commit removed data files of which rows are deleted", min(left)
        )


def are_deleted_from(files: AbstractSet[str], planned: Snapshot | None, newest: IcebergSource) -> bool:
    """Return whether rows of some files may have been deleted since a snapshot; True if nobody knows.

    Parameters
    ----------
    files
        The recorded paths of the files, which are still in the table.
    planned, newest
        As for `check_conflicts`.
    """
    current = newest.snapshot
    if not files or current is None or (planned and planned.snapshot_id == current.snapshot_id):
        return False
    try:
        since = _snapshots_since(planned, current, newest)
    except CommitConflictError:
        return True
    ids = pa.array([snapshot.snapshot_id for snapshot in since], pa.int64())
    return any(applies for _, _, applies in _later_deletes(files, newest, ids))


def _check_deletes(claims: Claims, newest: IcebergSource, snapshots: pa.Int64Array) -> None:
    """Refuse to move rows of files that others have deleted rows of, and to give a file a second deletion vector."""
    for path, is_vector, applies in _later_deletes(claims.moved, newest, snapshots):
        if is_vector and path in claims.hidden:
            raise conflict(
                ConcurrentDeleteReadError,
                "another commit deleted other rows of a file, which can have one deletion vector only",
                path,
            )
        if applies:
            raise conflict(ConcurrentDeleteReadError, "another commit deleted rows of files whose rows are moved")


def _later_deletes(
    files: AbstractSet[str], newest: IcebergSource, snapshots: pa.Int64Array
) -> Iterator[tuple[str | None, bool, bool]]:
    """Yield the one data file that each delete file of some snapshots is about, and whether it is a deletion vector.

    The third member is whether the delete file may apply to some files, given by their recorded paths.
    """
    manifests = newest.manifests
    is_new = pc.is_in(manifests.column("added_snapshot_id"), value_set=snapshots)
    deletes = manifests.filter(pc.and_(is_new, pc.not_equal(manifests.column("content"), DATA)))
    if not len(deletes):
        return
    partitions: set[tuple[int, Hashable]] | None = None
    part = ManifestPart(rest=("referenced_data_file", "content_offset"))
    for found in newest.reader.read(deletes.to_pylist(), part):
        entries = found.filter(pc.is_in(found.table.column("snapshot_id"), value_set=snapshots))
        table = entries.table
        columns = (table.column(name).to_pylist() for name in ("content", "referenced_data_file", "content_offset"))
        for key, content, path, offset in zip(entries.keys, *columns, strict=True):
            if path is None and partitions is None and files:
                partitions = _partitions_of(files, newest)
            is_global = content == EQUALITY_DELETES and not entries.spec.is_partitioned
            own = (entries.spec.spec_id, key)
            may_apply = is_global or (partitions is not None and own in partitions)
            yield path, offset is not None, path in files or (path is None and bool(files) and may_apply)


def _check_unneeded(deletes: AbstractSet[str], newest: IcebergSource, snapshots: pa.Int64Array) -> None:
    """Refuse to remove delete files that apply to data files of others, such as rewritten ones of an older number."""
    data = newest.data_manifests
    fresh = data.filter(pc.is_in(data.column("added_snapshot_id"), value_set=snapshots))
    found = newest.reader.read(fresh.to_pylist(), ManifestPart(rest=FURTHER_FIELDS))
    # A manifest that others merged also has files that were there before.
    added = [part.filter(pc.is_in(part.table.column("snapshot_id"), value_set=snapshots)) for part in found]
    files = newest.file_table(added)
    if "delete_files" not in files.column_names:
        return
    removed = pc.is_in(newest.deletes.table.column("file_path"), value_set=pa.array(sorted(deletes), pa.string()))
    lists = as_array(files.column("delete_files"))
    numbers = pc.indices_nonzero(as_array(removed)).cast(pa.int32())
    hit = pc.list_parent_indices(lists).filter(pc.is_in(pc.list_flatten(lists), value_set=numbers))
    if len(hit):
        raise conflict(
            ConcurrentAppendError,
            "another commit added data files that delete files apply to which are removed",
            files.column("path")[hit[0].as_py()].as_py(),
        )


def _partitions_of(paths: AbstractSet[str], newest: IcebergSource) -> set[tuple[int, Hashable]]:
    """Return the partitions of live data files, each with the id of its spec."""
    chosen = pa.array(sorted(paths), pa.string())
    found: set[tuple[int, Hashable]] = set()
    for entries in newest.reader.read(newest.data_manifests.to_pylist(), ManifestPart()):
        own = entries.filter(pc.is_in(entries.table.column("file_path"), value_set=chosen))
        found.update((own.spec.spec_id, key) for key in own.keys)
    return found


def _added_files(claims: Claims, source: IcebergSource) -> list[list[str]]:
    """Return the paths of files that a snapshot adds, for each of the claims those that may be in its way."""
    snapshot_id = None if source.snapshot is None else source.snapshot.snapshot_id
    data = source.data_manifests
    manifests = data.filter(pc.equal(data.column("added_snapshot_id"), snapshot_id))
    in_the_way: list[list[str]] = []
    added: set[str] = set()
    for entries in source.reader.read(manifests.to_pylist(), ManifestPart()):
        own = entries.with_values(status=ADDED, snapshot_id=snapshot_id)
        paths = own.table.column("file_path").to_pylist()
        added.update(paths)
        if claims.partitions:
            number = entries.spec.spec_id
            is_other = number not in {spec_id for spec_id, _ in claims.partitions}
            pairs = zip(paths, own.keys, strict=True)
            in_the_way.append([path for path, key in pairs if is_other or (number, key) in claims.partitions])
    for condition in claims.conditions:
        if condition == TRUE:
            in_the_way.append(sorted(added))
            continue
        pieces = manifests.append_column("length", manifests.column("manifest_length"))
        may = make_plan(source.part(pieces), condition).files.column("path").to_pylist()
        in_the_way.append(sorted(added.intersection(may)))
    return in_the_way
