"""The verbs of a Delta table that change it. Each makes one new version, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions import Filter
from deltaberg.schema import ColumnName
from deltaberg.signatures import public
from deltaberg.table import CommitPolicy, CommitResult, OpenOptions
from deltaberg.table.rewrite import SearchedTable
from deltaberg.table.write import ExplainedTable

# What writes is loaded by the first write: it has more modules than all that reads.
if TYPE_CHECKING:
    from deltaberg.delta.operations.alter import Alteration
    from deltaberg.delta.table_transaction import TableTransaction
    from deltaberg.table.compact import CompactResult
    from deltaberg.table.rewrite import Condition
    from deltaberg.table.write import Progress

__all__ = ["WritableTable"]


@public
class WritableTable(SearchedTable, ExplainedTable, ABC):
    """The verbs that change a table. The table object moves to the new version; scans that were made before do not."""

    _log: LogDirectory
    _snapshot: Snapshot
    _options: OpenOptions

    @abstractmethod
    def _set(self, snapshot: Snapshot) -> None:
        """Show a version of the table."""

    def transaction(
        self,
        *,
        txn: tuple[str, int] | None = None,
        isolation: str | None = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
        policy: CommitPolicy | None = None,
        progress: Progress | None = None,
    ) -> TableTransaction:
        """Begin a transaction on this version: several operations that become one new version, or none.

        The result is a context manager, which commits at the end. Its operations have the names of those of the table,
        and each sees what the ones before it did. An exception commits nothing, and the files that were written are
        deleted. After the commit the table object moves to the new version, and ``result`` of the transaction says
        what was done. Outside of a ``with`` block nothing is committed until its ``commit()`` is called. A transaction
        that has ended cannot be used again.

        Parameters
        ----------
        txn
            The name of an application and the version of its progress, which is recorded with the commit. If the
            table has that version or a later one, nothing is committed.
        isolation
            ``Serializable``, ``WriteSerializable`` or ``SnapshotIsolation``; by default what the table property
            ``delta.isolationLevel`` says, else ``Serializable``.
        user_metadata
            Text that the history keeps with the commit.
        unsafe_single_writer
            Write to a store in which two writers would overwrite one another. Make sure that nobody else writes to it.
        policy
            How long the commit is tried.
        progress
            What is called with a `WriteProgress` after every batch of rows that this process writes. Operations that
            write files anew count the rows that are only copied.

        Raises
        ------
        InvalidArgumentError
            The table was opened at a version, at a timestamp, or with a ``location_map``.
        UnsupportedFeatureError
            The table has writer features that are not supported, or the store has no conditional put.

        Examples
        --------
        >>> import pyarrow as pa
        >>> with table.transaction(user_metadata="nightly load") as transaction:
        ...     transaction.overwrite(pa.table({"id": [7], "name": ["g"]}))
        ...     transaction.append(pa.table({"id": [8], "name": ["h"]}))
        >>> transaction.result.added_rows, table.scan().to_arrow()["id"].to_pylist()
        (2, [7, 8])
        """
        if self._options.pins:
            raise InvalidArgumentError(
                f"the table was opened with {self._options.pins[0]}, and cannot be written to",
                hint="open it without that argument",
                table=str(self._log.root),
            )
        from deltaberg.delta.table_transaction import TableTransaction

        made = TableTransaction(
            self._log,
            self._snapshot,
            isolation=isolation,
            once=txn,
            timezone=self._options.timezone,
            user_metadata=user_metadata,
            unsafe_single_writer=unsafe_single_writer,
            policy=policy,
            progress=progress,
            committed=self._set,
        )
        made.row_tasks = self._row_tasks
        return made

    def alter(self, *, unsafe_single_writer: bool = False) -> Alteration:
        """Begin changes of columns, properties, features and clustering that become one version with ``commit()``.

        Rows are not rewritten. See `Alteration` for the changes.

        Parameters
        ----------
        unsafe_single_writer
            As for `transaction`.

        Examples
        --------
        >>> table.alter().set({"owner": "ada"}).commit().committed
        True
        >>> table.properties
        {'owner': 'ada'}
        """
        from deltaberg.delta.operations.alter import Alteration

        return Alteration(self.transaction(unsafe_single_writer=unsafe_single_writer))

    def append(
        self,
        data: Any,
        *,
        schema_mode: str | None = None,
        partition_by: ColumnName | Sequence[ColumnName] | None = None,
        txn: tuple[str, int] | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
    ) -> CommitResult:
        """Append rows.

        Columns are found by name, in any order. Columns that may be null can be left out. Values are converted only if
        they stay the same; whatever does not fit raises an error that names the field, and the table stays as it was.

        Parameters
        ----------
        data
            Anything with ``__arrow_c_stream__``, a table, batch, reader or dataset of pyarrow, a pandas or Polars data
            frame, or a scan. A Spark DataFrame is written by Spark's tasks.
        schema_mode
            ``merge`` adds columns that the table lacks; by default they are refused.
        partition_by
            What the caller takes for the partition columns of the table. Others are refused.
        txn
            The name of an application and the version of its progress. If the table has recorded that version or a
            later one, nothing is written, so that the same call can be repeated.
        timezone
            The zone of timestamps without one that go into a column of the type ``timestamp``.
        allow_truncation
            Cut off what is smaller than a microsecond; by default such values are refused.
        target_file_size
            Bytes of a data file, approximately.
        compression
            The codec of data files; by default the property ``delta.parquet.compression.codec``, else snappy.
        writer_properties
            How Parquet files are written: `ParquetOptions`, or ``WriterProperties`` of deltalake.
        user_metadata
            Text that the history keeps with the commit.
        unsafe_single_writer
            As for `transaction`.

        Returns
        -------
        CommitResult
            The version, and how many files, rows and bytes were added.

        Raises
        ------
        SchemaError
            The rows do not fit the columns.
        UnsupportedFeatureError
            The table has writer features or rules that are not supported.
        CommitConflictError
            Another commit came first that the rows do not fit on, such as one that changed the columns.
        CommitUnknownError
            It is not known whether the commit took effect.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table.append(pa.table({"id": [4], "name": ["d"]})).added_rows
        1
        >>> table.append({"name": "e"})
        Traceback (most recent call last):
            ...
        deltaberg.errors.InvalidArgumentError: data of type dict cannot be written
        hint: pass an Arrow table, stream or dataset, a data frame of pandas, Polars or Spark, or a scan
        """
        with self.transaction(
            txn=txn, user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer
        ) as transaction:
            transaction.append(
                data,
                schema_mode=schema_mode,
                partition_by=partition_by,
                timezone=timezone,
                allow_truncation=allow_truncation,
                target_file_size=target_file_size,
                compression=compression,
                writer_properties=writer_properties,
            )
            return transaction.commit()

    def overwrite(
        self,
        data: Any,
        *,
        where: Condition | None = None,
        dynamic: bool = False,
        check: bool = True,
        schema_mode: str | None = None,
        partition_by: ColumnName | Sequence[ColumnName] | None = None,
        txn: tuple[str, int] | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
    ) -> CommitResult:
        """Replace all rows, those that match a filter, or those of the partitions of the new rows.

        The old files stay in the store until vacuum, so that older versions can still be read.

        Parameters
        ----------
        data
            The new rows, as for `append`.
        where
            A condition, as for `delete`: rows that match it are replaced, and the others stay. A filter on partition
            columns needs no reading.
        dynamic
            Replace the partitions that the new rows are in, and leave the others.
        check
            Refuse new rows that do not match ``where``.
        schema_mode
            ``merge`` adds columns that the table lacks, and ``overwrite`` replaces the columns by those of the rows.
        partition_by
            The partition columns, which may change with ``schema_mode="overwrite"``.
        txn, timezone, allow_truncation, target_file_size, compression, writer_properties, user_metadata,
        unsafe_single_writer
            As for `append`.

        Returns
        -------
        CommitResult
            The version, and how many files were added and removed.

        Raises
        ------
        ConstraintViolationError
            A new row does not match ``where``, or rows of the table must not be removed (``delta.appendOnly``).
        ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentDeleteDeleteError
            Another commit changed the rows that are replaced. The other errors are those of `append`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table.overwrite(pa.table({"id": [7], "name": ["g"]})).added_rows
        1
        >>> table.scan().to_arrow().to_pylist()
        [{'id': 7, 'name': 'g'}]
        """
        with self.transaction(
            txn=txn, user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer
        ) as transaction:
            transaction.overwrite(
                data,
                where=where,
                dynamic=dynamic,
                check=check,
                schema_mode=schema_mode,
                partition_by=partition_by,
                timezone=timezone,
                allow_truncation=allow_truncation,
                target_file_size=target_file_size,
                compression=compression,
                writer_properties=writer_properties,
            )
            return transaction.commit()

    def compact(
        self,
        where: Filter | None = None,
        *,
        target_size: int | None = None,
        min_files: int = 2,
        max_deleted: float = 0.05,
        group_size: int = 16 << 30,
        max_concurrent: int | None = None,
        compression: str | None = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
    ) -> CompactResult:
        """Put small files together, and drop deleted rows from files, without any change of the rows.

        Files of a partition that are smaller than three quarters of the target size are put together in the order in
        which they were written, and their rows stay in order. The work is divided into groups, each of which is one
        commit. A group is left as it is if another commit changed one of its files meanwhile; appends do not matter.
        Where row tracking is enabled, rows keep their ids and versions (Delta protocol, "Row Tracking").

        The old files stay in the store until vacuum, so that older versions can still be read.

        Parameters
        ----------
        where
            Only files in which rows can match this filter are rewritten; a filter on partition columns chooses whole
            partitions.
        target_size
            Bytes of a new file at most, approximately; by default the property ``delta.targetFileSize``, else 128 MiB.
        min_files
            How many files are put into a new one at least.
        max_deleted
            Files with a larger share of deleted rows are rewritten whatever their size.
        group_size
            Bytes of the files that one commit replaces.
        max_concurrent
            How many new files are written at a time; by default the number of processors. Memory does not depend on
            it.
        compression
            The codec of the new files, as for `append`.
        user_metadata
            Text that the history keeps with the commits.
        unsafe_single_writer
            As for `transaction`.

        Returns
        -------
        CompactResult
            What became of each group: its commit, or the conflict because of which its files stay.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.
        UnsupportedFeatureError
            The table has writer features that are not supported, or ids of rows that cannot be kept.
        CommitUnknownError
            It is not known whether the commit of a group took effect. Groups before it are committed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> for number in (4, 5):
        ...     _ = table.append(pa.table({"id": [number], "name": ["x"]}))
        >>> done = table.compact()
        >>> done.removed_files > done.added_files == 1, done.conflicts
        (True, [])
        """
        from deltaberg.delta.operations.compact import compact_table
        from deltaberg.table.compact import Compaction, Packing
        from deltaberg.table.write import RowOptions

        packing = Packing(1 if target_size is None else target_size, min_files, max_deleted, group_size)
        rows = RowOptions(target_file_size=target_size, compression=compression)
        compaction = Compaction(where, packing, rows, max_concurrent, self._options.timezone)
        return compact_table(
            lambda: self.transaction(user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer),
            lambda: self._set(self._snapshot.newer()),
            compaction,
        )
