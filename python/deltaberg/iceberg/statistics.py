"""Statistics of an Iceberg table, which are computed for a snapshot and kept beside it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from deltaberg.iceberg.location.pointer import LoadedTable, TablePointer
from deltaberg.signatures import public
from deltaberg.table.commit.commit import CommitPolicy
from deltaberg.table.open.opening import OpenOptions

if TYPE_CHECKING:
    from deltaberg.iceberg.maintain.statistics.compute_partition_stats import PartitionStatsResult

__all__ = ["IcebergStatistics"]


@public
class IcebergStatistics:
    """The statistics of an Iceberg table. No verb of it changes a row or makes a snapshot."""

    _options: OpenOptions
    _pointer: TablePointer

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the table is."""

    @abstractmethod
    def _set(self, loaded: LoadedTable, snapshot_id: int | None, millis: int | None) -> None:
        """Move to a snapshot of some metadata."""

    def compute_partition_stats(
        self,
        snapshot_id: int | None = None,
        *,
        policy: CommitPolicy | None = None,
        unsafe_single_writer: bool = False,
    ) -> PartitionStatsResult | None:
        """Compute how many files and rows each partition of a snapshot has, for engines that plan with that.

        The statistics are a Parquet file that the metadata names beside the snapshot (Iceberg spec, "Partition
        Statistics"). If an ancestor of the snapshot has such a file, only what later snapshots added is summed up, and
        the partitions that they removed files from. No data file is read.

        Parameters
        ----------
        snapshot_id
            The snapshot; by default the newest one.
        policy, unsafe_single_writer
            How the commit is made: see `Verbs`.

        Returns
        -------
        PartitionStatsResult or None
            The file, and how many partitions there are. Without a commit, if the table had it already; None if the
            table has no snapshot.

        Raises
        ------
        InvalidArgumentError
            The table was never partitioned, or an argument is not valid.
        VersionNotFoundError
            The table has no such snapshot, or has it no more.
        DataFileNotFoundError, CorruptTableError
            A manifest cannot be read. Nothing was committed.
        CommitConflictError
            Other commits came first every time. Nothing was committed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> columns = {"id": pa.int64(), "day": pa.date32()}
        >>> table = create_table(f"{new_path}/counted", columns, format="iceberg", partition_by=["day"])
        >>> _ = table.append(pa.table({"id": [1, 2, 3], "day": pa.array([0, 0, 1], pa.date32())}))
        >>> table.compute_partition_stats().partitions
        2
        """
        from deltaberg.iceberg.maintain.statistics.compute_partition_stats import compute_partition_stats
        from deltaberg.table.commit.commit_options import CommitOptions

        self._options.require_newest()
        return compute_partition_stats(
            self._pointer,
            snapshot_id,
            self._options.ref,
            CommitOptions(policy=policy, unsafe_single_writer=unsafe_single_writer),
            lambda loaded: self._set(loaded, None, None),
        )
