"""Computing partition statistics of a snapshot, and naming them in the metadata of the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CommitUnknownError, DeltabergError, InvalidArgumentError, VersionNotFoundError, in_context
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.maintain.statistics.partition_stats_file import read_partition_stats, write_partition_stats
from deltaberg.iceberg.maintain.statistics.partition_sums import partition_sums, sums_since
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.statistics_files import statistics_files
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.result import commit_result
from deltaberg.iceberg.transaction.summary import Tally
from deltaberg.iceberg.transaction.table_commit import TableChange
from deltaberg.iceberg.transaction.writable import check_writable
from deltaberg.iceberg.updates.updates import SetPartitionStatistics, Update
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.removal import FileKind, discard_locations
from deltaberg.table.write.sources import LOCAL_ROAD

__all__ = ["PartitionStatsResult", "compute_partition_stats"]

#: Of so many snapshots at most, one after the other, statistics are computed where each has expired meanwhile.
_MOST_SNAPSHOTS = 10
_STATS_FILE = FileKind("a file of partition statistics", re.compile(r".*partition-stats-[0-9]+-[0-9a-f-]+\.parquet"))


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


def compute_partition_stats(
    pointer: TablePointer,
    snapshot_id: int | None,
    ref: str | None,
    options: CommitOptions,
    committed: Callable[[LoadedTable], object],
) -> PartitionStatsResult | None:
    """Compute the statistics of a snapshot, unless the table has them; None if the table has no snapshot.

    Parameters
    ----------
    pointer
        What finds the newest metadata.
    snapshot_id, ref
        The snapshot, or else the branch or tag, or else the main branch.
    options
        How the commit is made.
    committed
        What is told the table as it is after the commit.

    Raises
    ------
    VersionNotFoundError
        The table has no such snapshot, or has it no more when the file is to be named. If nobody named it, the newest
        one is counted then, and only if each of them has expired, this is raised.
    InvalidArgumentError
        The table was never partitioned.
    CommitConflictError, CommitUnknownError
        See `TableChange.commit`. The file is deleted, unless the commit is unknown.
    """
    left = _MOST_SNAPSHOTS
    while True:
        left -= 1
        try:
            return _compute(pointer, snapshot_id, ref, options, committed)
        except VersionNotFoundError:
            if snapshot_id is not None or not left:
                raise


def _compute(
    pointer: TablePointer,
    snapshot_id: int | None,
    ref: str | None,
    options: CommitOptions,
    committed: Callable[[LoadedTable], object],
) -> PartitionStatsResult | None:
    loaded = pointer.load()
    with in_context(table=str(loaded.root)):
        metadata, resolver = loaded.metadata, loaded.resolver
        check_writable(metadata, resolver)
        snapshot = _chosen(metadata, snapshot_id, ref)
        if snapshot is None:
            return None
        source = IcebergSource.of(loaded, snapshot)
        if not len(source.partition):
            raise InvalidArgumentError("the table has no partitions, of which there could be statistics")
        known = _known(metadata, snapshot.snapshot_id)
        if known is not None:
            return PartitionStatsResult(snapshot.snapshot_id, *known)
        committer = pointer.committer(unsafe_single_writer=options.unsafe_single_writer)
        table, base = _computed(source, snapshot)
        entry = write_partition_stats(source, table)
        file = resolver.resolve(entry["statistics-path"])

        def make(newest: TableMetadata) -> tuple[list[Update], None]:
            check_writable(newest, resolver)
            # A file of a snapshot that has expired meanwhile would be named for ever.
            newest.snapshot_by_id(snapshot.snapshot_id)
            return [SetPartitionStatistics(entry)], None

        change = TableChange(committer, make, planned=loaded)
        try:
            done = change.commit(options.clocked)
        except BaseException as error:
            if not change.is_sent or (isinstance(error, DeltabergError) and not isinstance(error, CommitUnknownError)):
                folder = resolver.resolve(entry["statistics-path"].rpartition("/")[0])
                discard_locations(loaded.store, [(folder, file)], _STATS_FILE)
            raise
        made = commit_result(
            done.loaded,
            done,
            Tally(),
            operation="compute partition statistics",
            token=done.token,
            snapshot_id=done.loaded.metadata.current_snapshot_id,
            road=LOCAL_ROAD,
            metrics={},
        )
        committed(done.loaded)
        path, size = entry["statistics-path"], entry["file-size-in-bytes"]
        return PartitionStatsResult(snapshot.snapshot_id, path, size, len(table), base, made)


def _chosen(metadata: TableMetadata, snapshot_id: int | None, ref: str | None) -> Snapshot | None:
    if snapshot_id is not None:
        return metadata.snapshot_by_id(snapshot_id)
    if ref is not None and ref in metadata.all_refs:
        return metadata.snapshot_by_id(metadata.all_refs[ref].snapshot_id)
    return metadata.current_snapshot


def _known(metadata: TableMetadata, snapshot_id: int) -> tuple[str, int] | None:
    """Return the path and the size of the file that the table has; an entry that lacks one of them counts for none."""
    for one in statistics_files(metadata)["partition statistics"]:
        if one.snapshot_id == snapshot_id and one.path is not None and one.size is not None:
            return one.path, one.size
    return None


def _computed(source: IcebergSource, snapshot: Snapshot) -> tuple[Any, int | None]:
    """Return statistics, and the ancestor from whose statistics they were made, if that is possible."""
    since: list[Snapshot] = []
    for one in source.metadata.ancestors(snapshot):
        known = _known(source.metadata, one.snapshot_id)
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
