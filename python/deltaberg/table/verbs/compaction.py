"""The verbs that write rows to other files, as they are: small files are put together, and what is deleted goes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from deltaberg.choices import MaintenanceStep
from deltaberg.expressions.build.filters import Filter
from deltaberg.schema.columns import ColumnName
from deltaberg.signatures import public, takes
from deltaberg.table.arguments import checked_flag
from deltaberg.table.verbs.shared_arguments import CompactArguments, DescribedArguments, arguments_of
from deltaberg.table.verbs.table import Table, operations_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.table.maintain.compact import Compaction
    from deltaberg.table.maintain.compact_result import CompactResult
    from deltaberg.table.maintain.maintenance import MaintenancePolicy, Step
    from deltaberg.table.transaction.transaction import Transaction
    from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["CompactedTable"]

_Transaction_co = TypeVar("_Transaction_co", bound="TableTransaction[Any, Any]", covariant=True)
_Alteration = TypeVar("_Alteration")


@public
class CompactedTable(Table[_Transaction_co, _Alteration]):
    """A table whose files can be written anew."""

    @abstractmethod
    def _compact(self, begin: Callable[[], Transaction], compaction: Compaction) -> CompactResult:
        """Write files anew."""

    def _maintenance(self, policy: MaintenancePolicy) -> Mapping[MaintenanceStep, Step]:
        from deltaberg.table.maintain.compact import Compaction
        from deltaberg.table.maintain.maintenance import compaction_step
        from deltaberg.table.maintain.packing import Packing
        from deltaberg.table.rows.row_options import RowOptions

        target = policy.target_file_size
        packing = Packing(target or 1, policy.min_files, policy.max_deleted, large=0.5)
        rows = RowOptions(target_file_size=target)
        asked = Compaction(packing=packing, rows=rows, timezone=self._options.timezone, is_gradual=True)
        return {"compact": compaction_step(lambda dry_run: self._rewrite(replace(asked, dry_run=dry_run), {}))}

    @takes(CompactArguments)
    def compact(
        self,
        where: Filter | None = None,
        *,
        min_files: int = 2,
        max_deleted: float = 0.05,
        group_size: int = 16 << 30,
        min_file_size: int | None = None,
        max_file_size: int | None = None,
        sort_by: ColumnName | Sequence[ColumnName] | None = None,
        z_order_by: ColumnName | Sequence[ColumnName] | None = None,
        hilbert_by: ColumnName | Sequence[ColumnName] | None = None,
        cluster: bool | Literal["full"] | None = None,
        rewrite_all: bool = False,
        max_concurrent: int | None = None,
        dry_run: bool = False,
        **arguments: Unpack[CompactArguments],
    ) -> CompactResult:
        """Put small files together, and drop deleted rows from files, without any change of the rows.

        Small files of a partition are put together in the order in which they were written, and their rows stay in
        order. Rows of Iceberg files of an older partitioning go to the partitions that new rows go to. Rows keep their
        ids, where they have such. The work is divided into groups, each of which is one commit. Appends meanwhile do
        not matter, and rows that are deleted meanwhile, without writing their files anew, are deleted from the new
        files. A group is left as it is if anything else became of one of its files. The old files stay in the store, so
        that older states can still be read.

        Parameters
        ----------
        where
            Only files in which rows can match this filter are rewritten; a filter on partition columns chooses whole
            partitions.
        min_files
            How many files are put into a new one at least. Fewer are if together they have more than half of the target
            size, and none of them alone. Where rows are put into an order, or the table is clustered, this and bounds
            of sizes do not count.
        max_deleted
            Files with a larger share of deleted rows are rewritten whatever their size. So are files to which equality
            deletes apply, or position delete files about several data files, and files with a deletion vector whose
            rows nobody has counted.
        group_size
            Bytes of the files that one commit replaces.
        min_file_size
            Files of at least so many bytes are large enough to stay; by default three quarters of the target size.
        max_file_size
            Files with more bytes are divided into files of the target size; by default they stay.
        sort_by
            Sort the rows of each partition by these columns, with ``desc`` and ``nulls last`` where it is not the
            default, as in ``"day desc"``; of Iceberg tables also by transforms. Then all files in which rows can match
            are rewritten, whatever their size.
        z_order_by, hilbert_by
            The same along the Z-order curve or along Hilbert's curve through these columns, so that a filter on any of
            them skips most files. Hilbert's curve skips a little more. The columns need statistics.
        cluster
            A Delta table with clustering columns is clustered by default, as delta-spark does it: new files are put
            along Hilbert's curve, together with what was clustered before, until that has 100 GiB. Pass ``full``
            for files that were clustered by other columns, too, and False to put small files together as in any table.
        rewrite_all
            Rewrite files whatever their size, such as those of an older partitioning.
        max_concurrent
            How many new files are written at a time; by default the number of processors. Memory does not depend on it.
        dry_run
            Say how many files would be put together, and into how many, and write nothing.
        **arguments
            How files are written, and how the commits are made, from ``user_metadata`` on: see `Verbs`. New files have
            ``target_file_size`` at most, by default as the table says (``delta.targetFileSize``, else 128 MiB;
            ``write.target-file-size-bytes``). ``memory`` is 384 MiB by default; each of Spark's tasks has 512 MiB.

        Returns
        -------
        CompactResult
            What became of each group: its commit, or the conflict because of which its files stay.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.
        UnsupportedFeatureError
            The table needs what is not written, or has ids of rows that cannot be kept.
        CommitUnknownError
            It is not known whether the commit of a group took effect. Groups before it are committed, as the fact
            ``committed`` of this and of every other error says.

        Examples
        --------
        >>> import pyarrow as pa
        >>> for number in (4, 5):
        ...     _ = table.append(pa.table({"id": [number], "name": ["x"]}))
        >>> done = table.compact()
        >>> done.removed_files > done.added_files == 1, done.conflicts
        (True, [])
        """
        from deltaberg.table.maintain.compact import Compaction
        from deltaberg.table.maintain.packing import Packing
        from deltaberg.table.maintain.row_order import RowOrder
        from deltaberg.table.rows.row_options import RowOptions

        rows, order = RowOptions.of(arguments), RowOrder.of(sort_by, z_order_by, hilbert_by)
        sizes = (rows.target_file_size or 1, min_files, max_deleted, group_size, min_file_size, max_file_size)
        packing = Packing(*sizes, takes_all=checked_flag("rewrite_all", rewrite_all))
        zone, memory = self._options.timezone, arguments.get("memory")
        compaction = Compaction(where, packing, rows, max_concurrent, memory, zone, order, dry_run, cluster)
        return self._rewrite(compaction, arguments)

    @takes(CompactArguments)
    def reorg(
        self,
        where: Filter | None = None,
        *,
        group_size: int = 16 << 30,
        max_concurrent: int | None = None,
        dry_run: bool = False,
        **arguments: Unpack[CompactArguments],
    ) -> CompactResult:
        """Write those files anew that hold deleted rows or dropped columns, and no other ones: a purge.

        Afterwards no file has a deletion vector, and none holds a column, or a field of one, that the table lacks. Of
        an Iceberg table, no delete file applies to a file any more. Whether a file holds a dropped column only its
        footer tells, so that the footer of each file is read that has no deleted rows. Rows keep their ids, and change
        feeds show nothing. Like `compact`, this makes a commit for each group of files.

        The old files stay in the store until they are vacuumed, and older states show what they hold.

        Parameters
        ----------
        where
            Only files in which rows can match this filter are looked at.
        group_size, max_concurrent
            As for `compact`: files of a partition that are written anew are put together up to the target size.
        dry_run
            Say how many files would be written anew, and write nothing.
        **arguments
            As for `compact`.

        Returns
        -------
        CompactResult
            What became of each group: its commit, or the conflict because of which its files stay.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.
        UnsupportedFeatureError
            The table needs what is not written, or has ids of rows that cannot be kept.
        DataFileNotFoundError, CorruptDataFileError
            The footer of a file cannot be read.
        CommitUnknownError
            It is not known whether the commit of a group took effect. Groups before it are committed, as the fact
            ``committed`` of this and of every other error says.

        Examples
        --------
        >>> table.reorg().removed_files
        0
        """
        from deltaberg.table.maintain.compact import Compaction
        from deltaberg.table.maintain.packing import Packing
        from deltaberg.table.rows.row_options import RowOptions

        rows = RowOptions.of(arguments)
        packing = Packing(rows.target_file_size or 1, group_size=group_size, takes_all=True)
        zone, memory = self._options.timezone, arguments.get("memory")
        asked = Compaction(where, packing, rows, max_concurrent, memory, zone, None, dry_run, False, purge="all")
        return self._rewrite(asked, arguments)

    def _rewrite(self, compaction: Compaction, arguments: Mapping[str, Any]) -> CompactResult:
        from deltaberg.table.rows.progress import ProgressSum

        commit: Any = arguments_of(DescribedArguments, arguments)
        # The rows of all groups are told together, and not those of each commit.
        told = commit.pop("progress", None)
        if told is not None:
            compaction = replace(compaction, progress=ProgressSum(told))
        return self._compact(lambda: operations_of(self.transaction(**commit)).transaction, compaction)
