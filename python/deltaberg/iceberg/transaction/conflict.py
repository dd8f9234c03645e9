"""What a transaction has read, and whether others changed it meanwhile."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CommitConflictError, ConcurrentAppendError
from deltaberg.expressions import TRUE, Bound
from deltaberg.iceberg.manifests.fields import ADDED, DATA, ManifestPart
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
        The ids of specs and the values of partitions to which no files may be added meanwhile.
    """

    conditions: list[Bound] = field(default_factory=list)
    partitions: set[Hashable] = field(default_factory=set)

    @property
    def reads_nothing(self) -> bool:
        """Whether whatever others add does not matter."""
        return not self.conditions and not self.partitions

    def copy(self) -> Claims:
        """Return a copy that does not change with this one."""
        return Claims(list(self.conditions), set(self.partitions))


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
    # A rewrite adds files, but no rows.
    numbers = [found.snapshot_id for found in since if found.operation != "replace"]
    for paths in _added_files(claims, newest, pa.array(numbers, pa.int64())):
        if paths:
            raise ConcurrentAppendError(
                f"another commit added {len(paths)} data files that may hold rows to be replaced, such as {paths[0]}",
                hint="refresh the table, and repeat the operation",
                table=newest.table,
            )


def _added_files(claims: Claims, newest: IcebergSource, snapshots: pa.Int64Array) -> list[list[str]]:
    manifests = newest.manifests.filter(
        pc.and_(
            pc.equal(newest.manifests.column("content"), DATA),
            pc.is_in(newest.manifests.column("added_snapshot_id"), value_set=snapshots),
        )
    )
    found: list[list[str]] = []
    added: set[str] = set()
    for entries in newest.reader.read(manifests.to_pylist(), ManifestPart()) if len(manifests) else []:
        table = entries.table
        mine = pc.and_(
            pc.equal(table.column("status"), ADDED), pc.is_in(table.column("snapshot_id"), value_set=snapshots)
        )
        table = table.filter(mine)
        paths = table.column("file_path").to_pylist()
        added.update(paths)
        if claims.partitions:
            number = entries.spec.spec_id
            keys = partition_keys(as_array(table.column("partition")), entries.partition)
            found.append([path for path, key in zip(paths, keys, strict=True) if (number, key) in claims.partitions])
    for condition in claims.conditions:
        if condition == TRUE:
            found.append(sorted(added))
            continue
        pieces = manifests.append_column("length", manifests.column("manifest_length"))
        may = make_plan(newest.part(pieces), condition).files.column("path").to_pylist()
        found.append(sorted(added.intersection(may)))
    return found
