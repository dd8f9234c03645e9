"""Computing partition statistics of a snapshot."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.iceberg.maintain.statistics.named_file import Namer, StatsKind, StatsRequest, of_snapshot
from deltaberg.iceberg.maintain.statistics.partition_stats_file import read_partition_stats, write_partition_stats
from deltaberg.iceberg.maintain.statistics.partition_sums import partition_sums, sums_since
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.statistics_files import known_file
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.updates.updates import SetPartitionStatistics
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.removal import FileKind

__all__ = ["PartitionStatsResult", "compute_partition_stats"]

_KIND = StatsKind(
    "partition statistics",
    "compute partition statistics",
    SetPartitionStatistics,
    FileKind("a file of partition statistics", re.compile(r".*partition-stats-[0-9]+-[0-9a-f-]+\.parquet")),
)


@dataclass(frozen=True)
class PartitionStatsResult:
    """The partition statistics of a snapshot.

    Parameters
    ----------
    snapshot_id
        The snapshot.
    path, bytes
        The file, as the metadata names it, and its size.
    partitions
        How many partitions it describes; None where the table had the file already.
    base_snapshot_id
        The ancestor whose statistics were taken over; None if all manifests were read.
    commit
        The commit that names the file; None where the table had it already.
    """

    snapshot_id: int
    path: str
    bytes: int
    partitions: int | None = None
    base_snapshot_id: int | None = None
    commit: CommitResult | None = field(default=None, compare=False)


def compute_partition_stats(request: StatsRequest) -> PartitionStatsResult | None:
    """Compute the statistics of a snapshot, unless the table has them; None if the table has no snapshot.

    Raises
    ------
    VersionNotFoundError
        See `of_snapshot`.
    InvalidArgumentError
        The table was never partitioned.
    CommitConflictError, CommitUnknownError
        See `Namer.name`.
    """
    return of_snapshot(request, _compute)


def _compute(source: IcebergSource, namer: Namer) -> PartitionStatsResult:
    if not len(source.partition):
        raise InvalidArgumentError("the table has no partitions, of which there could be statistics")
    number = namer.snapshot.snapshot_id
    known = known_file(source.metadata, _KIND.name, number)
    if known is not None:
        return PartitionStatsResult(number, *known)
    table, base = _computed(source, namer.snapshot)
    name = f"partition-stats-{number}-{uuid.uuid4()}.parquet"
    entry, made = namer.name(_KIND, name, lambda store, path: write_partition_stats(store, path, table))
    return PartitionStatsResult(number, entry["statistics-path"], entry["file-size-in-bytes"], len(table), base, made)


def _computed(source: IcebergSource, snapshot: Snapshot) -> tuple[Any, int | None]:
    """Return statistics, and the ancestor from whose statistics they were made, if that is possible."""
    since: list[Snapshot] = []
    for one in source.metadata.ancestors(snapshot):
        known = known_file(source.metadata, _KIND.name, one.snapshot_id)
        if known is not None:
            try:
                base = read_partition_stats(source, known[0])
                if base is not None:
                    return sums_since(source, base, since[::-1]), one.snapshot_id
            except (DeltabergError, ValueError):
                # What an ancestor had, or lists of snapshots between, may be lost or damaged: this one needs neither.
                break
        since.append(one)
    return partition_sums(source), None
