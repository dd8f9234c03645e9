"""Statistics of an Iceberg table, which are computed for a snapshot and kept beside it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltaberg.iceberg.location.pointer import LoadedTable, TablePointer
from deltaberg.schema.columns import ColumnName
from deltaberg.signatures import public
from deltaberg.table.commit.commit import CommitPolicy
from deltaberg.table.open.opening import OpenOptions

if TYPE_CHECKING:
    from deltaberg.iceberg.maintain.statistics.compute_partition_stats import PartitionStatsResult
    from deltaberg.iceberg.maintain.statistics.compute_table_stats import TableStatsResult
    from deltaberg.iceberg.maintain.statistics.named_file import StatsRequest
    from deltaberg.table.change.changed_rows import RowTasks

__all__ = ["IcebergStatistics"]


@public
class IcebergStatistics:
    """The statistics of an Iceberg table. No verb of it changes a row or makes a snapshot."""

    _options: OpenOptions
    _pointer: TablePointer
    _row_tasks: RowTasks | None

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

        return compute_partition_stats(self._stats_request(snapshot_id, policy, unsafe_single_writer))

    def compute_table_stats(
        self,
        columns: ColumnName | Sequence[ColumnName] | None = None,
        snapshot_id: int | None = None,
        *,
        policy: CommitPolicy | None = None,
        unsafe_single_writer: bool = False,
    ) -> TableStatsResult | None:
        """Estimate how many distinct values columns of a snapshot have, for engines that plan joins with that.

        The statistics are a Puffin file that the metadata names beside the snapshot (Iceberg spec, "Table Statistics").
        It has a theta sketch for each column, as iceberg-spark writes it, of the values that are not null and not an
        empty text. What the file of the snapshot has already is taken over. Only the columns are read that are
        missing.

        Parameters
        ----------
        columns
            The names of the columns, where dots lead into structs; by default all columns outside of structs whose
            values have a single-value form, which all primitive types but variants and void have.
        snapshot_id
            The snapshot; by default the newest one.
        policy, unsafe_single_writer
            How the commit is made: see `Verbs`.

        Returns
        -------
        TableStatsResult or None
            The file, and the number of distinct values of each column (``ndv``). Without a commit, if the table had all
            of them already; None if the table has no snapshot.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        InvalidArgumentError
            Values of a column have no single-value form, or an argument is not valid.
        VersionNotFoundError
            The table has no such snapshot, branch or tag, or has it no more.
        DataFileNotFoundError, CorruptTableError
            A file cannot be read. Nothing was committed.
        CommitConflictError
            Other commits came first every time. Nothing was committed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/distinct", {"id": pa.int64(), "kind": pa.string()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1, 2, 3], "kind": ["a", "b", "a"]}))
        >>> table.compute_table_stats().ndv
        {'id': 3, 'kind': 2}
        """
        from deltaberg.iceberg.maintain.statistics.compute_table_stats import compute_table_stats

        return compute_table_stats(
            self._stats_request(snapshot_id, policy, unsafe_single_writer), columns, self._row_tasks
        )

    def _stats_request(
        self, snapshot_id: int | None, policy: CommitPolicy | None, unsafe_single_writer: bool
    ) -> StatsRequest:
        from deltaberg.iceberg.maintain.statistics.named_file import StatsRequest
        from deltaberg.table.commit.commit_options import CommitOptions

        self._options.require_newest()
        return StatsRequest(
            self._pointer,
            snapshot_id,
            self._options.ref,
            CommitOptions(policy=policy, unsafe_single_writer=unsafe_single_writer),
            lambda loaded: self._set(loaded, None, None),
        )
