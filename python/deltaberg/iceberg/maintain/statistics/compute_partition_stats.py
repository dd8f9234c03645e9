"""Computing partition statistics of a snapshot."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pyarrow as pa

from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.iceberg.maintain.statistics.named_file import Namer, StatsKind, StatsRequest, of_snapshot
from deltaberg.iceberg.maintain.statistics.partition_sums import partition_sums, sums_since
from deltaberg.iceberg.manifests.partition_stats_file import NewPartitionStats, is_exact, read_partition_stats
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
    table, base, exact = _computed(source, namer.snapshot)
    file = NewPartitionStats.of(table, number, exact=exact)
    entry, made = namer.name(_KIND, file.name, file.write)
    return PartitionStatsResult(number, entry["statistics-path"], entry["file-size-in-bytes"], len(table), base, made)


def _computed(source: IcebergSource, snapshot: Snapshot) -> tuple[pa.Table, int | None, bool]:
    """Return statistics, the ancestor from whose statistics they were made, if that is possible, and if they are exact.

    Those that are made from statistics of others count as others count.
    """
    since: list[Snapshot] = []
    for one in source.metadata.ancestors(snapshot):
        known = known_file(source.metadata, _KIND.name, one.snapshot_id)
        if known is not None:
            path = known[0]
            # Other formats are not read.
            if path.endswith(".parquet"):
                try:
                    data = source.reader.fetch(path)
                    base = read_partition_stats(data, path, source.partition, source.metadata)
                    exact = is_exact(path, one.snapshot_id, data)
                    return sums_since(source, base, since[::-1]), one.snapshot_id, exact
                except (DeltabergError, ValueError):
                    # What an ancestor had, or lists of snapshots between, may be lost or damaged: it is not needed.
                    break
        since.append(one)
    return partition_sums(source), None, True
