"""What a transaction has read, and whether others changed it meanwhile."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CommitConflictError, ConcurrentAppendError, ConcurrentDeleteReadError
from deltaberg.expressions import TRUE, Bound
from deltaberg.iceberg.manifests.fields import ADDED, DATA, EQUALITY_DELETES, ManifestPart
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema import as_array
from deltaberg.table.read.plan import make_plan

__all__ = ["Claims", "check_conflicts"]


@dataclass
class Claims:
    """What a transaction relies on.

    Parameters
    ----------
    conditions
        Filters: no rows that match one may be added meanwhile.
    partitions
        The ids of specs and the values of partitions to which no files may be added meanwhile, nor any files of other
        specs.
    moved
        The recorded paths of files whose rows move: no rows of them may be deleted meanwhile.
    """

    conditions: list[Bound] = field(default_factory=list)
    partitions: set[tuple[int, Hashable]] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)

    @property
    def reads_nothing(self) -> bool:
        """Whether whatever others add does not matter."""
        return not self.conditions and not self.partitions and not self.moved

    def copy(self) -> Claims:
        """Return a copy that does not change with this one."""
        return Claims(list(self.conditions), set(self.partitions), set(self.moved))


def check_conflicts(claims: Claims, planned: Snapshot | None, newest: IcebergSource) -> None:
    """Check that nothing was added since a transaction was planned that it would have had to replace.

    Files that are gone are noticed where they are removed.

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
        If files were added that may hold rows that were to be replaced.
    ConcurrentDeleteReadError
        If rows were deleted that move to other files.
    CommitConflictError
        If the planned snapshot is not among the ancestors of the newest one.
    """
    current = newest.snapshot
    if claims.reads_nothing or current is None or (planned and planned.snapshot_id == current.snapshot_id):
        return
    since = []
    for found in newest.metadata.ancestors(current):
        if planned is not None and found.snapshot_id == planned.snapshot_id:
            break
        since.append(found)
    else:
        if planned is not None or since[-1].parent_snapshot_id is not None:
            raise CommitConflictError(
                "the snapshot that the change was planned on is no ancestor of the newest one any more",
                hint="refresh the table, and repeat the operation",
                table=newest.table,
            )
    if claims.moved:
        _check_moved(claims.moved, newest, pa.array([found.snapshot_id for found in since], pa.int64()))
    if not claims.conditions and not claims.partitions:
        return
    # A rewrite adds files, but no rows. Later snapshots may have merged the manifests of earlier ones, or moved rows.
    added = [newest.at(found) for found in since if found.operation != "replace"]
    for paths in chain.from_iterable(_added_files(claims, source) for source in added):
        if paths:
            raise ConcurrentAppendError(
                f"another commit added {len(paths)} data files that may hold rows to be replaced, such as {paths[0]}",
                hint="refresh the table, and repeat the operation",
                table=newest.table,
            )


def _check_moved(moved: AbstractSet[str], newest: IcebergSource, snapshots: pa.Int64Array) -> None:
    """Refuse to move rows of files that others have deleted rows of."""
    manifests = newest.manifests
    is_new = pc.is_in(manifests.column("added_snapshot_id"), value_set=snapshots)
    deletes = manifests.filter(pc.and_(is_new, pc.not_equal(manifests.column("content"), DATA)))
    if not len(deletes):
        return
    partitions: set[tuple[int, Hashable]] | None = None
    for entries in newest.reader.read(deletes.to_pylist(), ManifestPart(rest=("referenced_data_file",))):
        table = entries.table
        table = table.filter(pc.is_in(table.column("snapshot_id"), value_set=snapshots))
        keys = partition_keys(as_array(table.column("partition")), entries.partition)
        for key, content, path in zip(
            keys, table.column("content").to_pylist(), table.column("referenced_data_file").to_pylist(), strict=True
        ):
            if path is None and partitions is None:
                partitions = _partitions_of(moved, newest)
            is_global = content == EQUALITY_DELETES and not entries.spec.is_partitioned
            own = (entries.spec.spec_id, key)
            if path in moved or (path is None and (is_global or (partitions is not None and own in partitions))):
                raise ConcurrentDeleteReadError(
                    "another commit deleted rows of files whose rows are moved",
                    hint="refresh the table, and repeat the operation",
                    table=newest.table,
                )


def _partitions_of(paths: AbstractSet[str], newest: IcebergSource) -> set[tuple[int, Hashable]]:
    """Return the partitions of live data files, each with the id of its spec."""
    data = newest.manifests.filter(pc.equal(newest.manifests.column("content"), DATA))
    chosen = pa.array(sorted(paths), pa.string())
    found: set[tuple[int, Hashable]] = set()
    for entries in newest.reader.read(data.to_pylist(), ManifestPart()):
        table = entries.table.filter(pc.is_in(entries.table.column("file_path"), value_set=chosen))
        keys = partition_keys(as_array(table.column("partition")), entries.partition)
        found.update((entries.spec.spec_id, key) for key in keys)
    return found


def _added_files(claims: Claims, source: IcebergSource) -> list[list[str]]:
    """Return the paths of files that a snapshot adds, for each of the claims those that may be in its way."""
    snapshot_id = None if source.snapshot is None else source.snapshot.snapshot_id
    manifests = source.manifests.filter(
        pc.and_(
            pc.equal(source.manifests.column("content"), DATA),
            pc.equal(source.manifests.column("added_snapshot_id"), snapshot_id),
        )
    )
    found: list[list[str]] = []
    added: set[str] = set()
    for entries in source.reader.read(manifests.to_pylist(), ManifestPart()) if len(manifests) else []:
        table = entries.table
        mine = pc.and_(pc.equal(table.column("status"), ADDED), pc.equal(table.column("snapshot_id"), snapshot_id))
        table = table.filter(mine)
        paths = table.column("file_path").to_pylist()
        added.update(paths)
        if claims.partitions:
            number = entries.spec.spec_id
            keys = partition_keys(as_array(table.column("partition")), entries.partition)
            is_other = number not in {spec_id for spec_id, _ in claims.partitions}
            pairs = zip(paths, keys, strict=True)
            found.append([path for path, key in pairs if is_other or (number, key) in claims.partitions])
    for condition in claims.conditions:
        if condition == TRUE:
            found.append(sorted(added))
            continue
        pieces = manifests.append_column("length", manifests.column("manifest_length"))
        may = make_plan(source.part(pieces), condition).files.column("path").to_pylist()
        found.append(sorted(added.intersection(may)))
    return found
