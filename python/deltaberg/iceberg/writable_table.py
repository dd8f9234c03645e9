"""The verbs of an Iceberg table that change it. Each makes one commit, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions import Filter
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.metadata.refs import MAIN
from deltaberg.schema import ColumnName
from deltaberg.signatures import public
from deltaberg.table import CommitPolicy, CommitResult, OpenOptions, checked_flag
from deltaberg.table.deltalake_words import WRITE_NAMES, WRITE_WORDS, our_words
from deltaberg.table.rewrite import SearchedTable
from deltaberg.table.write import ExplainedTable

# What writes is loaded by the first write: it has more modules than all that reads.
if TYPE_CHECKING:
    from deltaberg.iceberg.operations.alter import Alteration
    from deltaberg.iceberg.table_transaction import TableTransaction
    from deltaberg.table.compact import CompactResult
    from deltaberg.table.write import Progress

__all__ = ["WritableTable"]


@public
class WritableTable(SearchedTable, ExplainedTable, ABC):
    """The verbs that change a table. The table object moves to the new snapshot; scans that were made before do not."""

    _pointer: TablePointer
    _loaded: LoadedTable
    _options: OpenOptions

    @abstractmethod
    def _set(self, loaded: LoadedTable, snapshot_id: int | None, millis: int | None) -> None:
        """Show a snapshot of loaded metadata: this one, or the one of this time, else the newest."""

    @abstractmethod
    def refresh(self) -> WritableTable:
        """Move to the newest snapshot of the branch, and return the table."""

    def transaction(
        self,
        *,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
        policy: CommitPolicy | None = None,
        progress: Progress | None = None,
        unsafe_single_writer: bool = False,
    ) -> TableTransaction:
        """Begin a transaction on this snapshot: several operations that become one new snapshot, or none.

        The result is a context manager, which commits at the end. Its operations have the names of those of the table,
        and each sees what the ones before it did. An exception commits nothing, and the files that were written are
        deleted. After the commit the table object moves to the new snapshot, and ``result`` of the transaction says
        what was done. Outside of a ``with`` block nothing is committed until its ``commit()`` is called. A transaction
        that has ended cannot be used again.

        Parameters
        ----------
        branch
            The branch that gets the snapshot; by default the one that the table was opened with, else ``main``.
        properties
            What the summary of the snapshot says besides the numbers of files and rows. With ``wap.id`` the snapshot
            is staged: it becomes a part of the table by `publish`. With ``wap.branch`` it goes to that branch, which
            is created if there is none.
        policy
            How long the commit is tried; by default, as the properties ``commit.retry.*`` say.
        progress
            What is called with a `WriteProgress` after every batch of rows that this process writes. Operations that
            write files anew count the rows that are only copied.
        unsafe_single_writer
            Write to a store in which two writers would overwrite one another. Make sure that nobody else writes to it.

        Raises
        ------
        InvalidArgumentError
            The table was opened at a snapshot, at a timestamp, at a tag, or with a ``location_map``. Or there is no
            such branch.
        UnsupportedFeatureError
            The table needs what is not written, such as encrypted files.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/orders", {"id": pa.int64()}, format="iceberg")
        >>> with table.transaction() as transaction:
        ...     transaction.append(pa.table({"id": [1, 2]}))
        ...     transaction.alter().add("name", pa.string())
        ...     transaction.append(pa.table({"id": [3], "name": ["c"]}))
        Alteration(['add column'])
        >>> transaction.result.added_rows, table.scan("name = 'c'").to_arrow()["id"].to_pylist()
        (3, [3])
        """
        checked_flag("unsafe_single_writer", unsafe_single_writer)
        pins = [*self._options.pins, *(["location_map"] if self._options.location_map is not None else [])]
        if pins:
            raise InvalidArgumentError(
                f"the table was opened with {pins[0]}, and cannot be written to",
                hint="open it without that argument",
                table=str(self._loaded.root),
            )
        from deltaberg.iceberg.table_transaction import TableTransaction
        from deltaberg.iceberg.transaction.target import WAP_BRANCH

        wanted = properties.get(WAP_BRANCH) if isinstance(properties, Mapping) else None
        if wanted is not None and branch not in (None, wanted):
            raise InvalidArgumentError(
                f"{WAP_BRANCH} is {wanted!r}, but the branch is {branch!r}", hint="choose one place for the new rows"
            )
        made = TableTransaction(
            self._loaded,
            self._pointer.committer(unsafe_single_writer=unsafe_single_writer),
            branch=self._options.ref or MAIN if branch is None else branch,
            timezone=self._options.timezone,
            summary=properties,
            policy=policy,
            progress=progress,
            committed=lambda loaded: self._set(loaded, None, None),
        )
        made.row_tasks = self._row_tasks
        return made

    def alter(self) -> Alteration:
        """Begin changes of columns, properties and partitioning that become one commit with ``commit()``.

        Rows are not rewritten. See `Alteration` for the changes.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/altered", {"id": pa.int32()}, format="iceberg")
        >>> table.alter().widen("id", pa.int64()).add("name", pa.string()).set({"owner": "ada"}).commit().committed
        True
        >>> str(table.schema), table.properties
        ('struct<id: long, name: string>', {'owner': 'ada'})
        """
        from deltaberg.iceberg.operations.alter import Alteration

        return Alteration(self.transaction())

    @our_words(WRITE_WORDS, names=WRITE_NAMES)
    def append(
        self,
        data: Any,
        *,
        schema_mode: str | None = None,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
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
        branch, properties
            As for `transaction`.
        timezone
            The zone of timestamps without one that go into a column of the type ``timestamp``.
        allow_truncation
            Cut off what is smaller than a column holds; by default such values are refused.
        target_file_size
            Bytes of a data file, approximately; by default the property ``write.target-file-size-bytes``.
        compression
            The codec of data files; by default the property ``write.parquet.compression-codec``, else zstd.
        writer_properties
            How Parquet files are written: `ParquetOptions`.

        Returns
        -------
        CommitResult
            The snapshot, and how many files, rows and bytes were added.

        Raises
        ------
        SchemaError
            The rows do not fit the columns.
        UnsupportedFeatureError
            The table needs what is not written.
        CommitConflictError
            Another commit came first that the rows do not fit on, such as one that changed the columns.
        CommitUnknownError
            It is not known whether the commit took effect.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/events", {"id": pa.int64()}, format="iceberg")
        >>> result = table.append(pa.table({"id": [1, 2]}))
        >>> result.added_rows, result.snapshot_id == table.snapshot_id
        (2, True)
        """
        with self.transaction(branch=branch, properties=properties) as transaction:
            transaction.append(
                data,
                schema_mode=schema_mode,
                timezone=timezone,
                allow_truncation=allow_truncation,
                target_file_size=target_file_size,
                compression=compression,
                writer_properties=writer_properties,
            )
            return transaction.commit()

    @our_words(WRITE_WORDS, names=WRITE_NAMES)
    def overwrite(
        self,
        data: Any,
        *,
        where: Filter | None = None,
        dynamic: bool = False,
        check: bool = True,
        schema_mode: str | None = None,
        partition_by: ColumnName | Sequence[ColumnName] | None = None,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
    ) -> CommitResult:
        """Replace all rows, those that match a filter, or those of the partitions of the new rows.

        The old files stay in the store, so that older snapshots can still be read.

        Parameters
        ----------
        data
            The new rows, as for `append`.
        where
            A filter: rows that match it are replaced, and the others stay. Files that hold both are written anew.
        dynamic
            Replace the partitions that the new rows are in, and leave the others.
        check
            Refuse new rows that do not match ``where``.
        schema_mode
            ``merge`` adds columns that the table lacks, and ``overwrite`` replaces the columns by those of the rows.
        partition_by
            With ``schema_mode="overwrite"``, the new partitioning: columns or transforms; an empty list for none.
        branch, properties, timezone, allow_truncation, target_file_size, compression, writer_properties
            As for `append`.

        Returns
        -------
        CommitResult
            The snapshot, and how many files were added and removed.

        Raises
        ------
        ConstraintViolationError
            A new row does not match ``where``.
        CommitConflictError
            Another commit added or removed rows that are replaced. The other errors are those of `append`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/days", {"day": pa.int32(), "x": pa.int64()}, format="iceberg",
        ...     partition_by="day")
        >>> _ = table.append(pa.table({"day": [1, 2], "x": [10, 20]}))
        >>> table.overwrite(pa.table({"day": [2], "x": [21]}), where="day = 2").removed_files
        1
        >>> sorted(table.scan().to_arrow()["x"].to_pylist())
        [10, 21]
        """
        with self.transaction(branch=branch, properties=properties) as transaction:
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
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CompactResult:
        """Put small files together, and drop deleted rows from files, without any change of the rows.

        Files of a partition that are smaller than three quarters of the target size are put together in the order in
        which they were written, and their rows stay in order. Rows of files of an older partitioning go to the
        partitions that new rows go to. From format version 3 on, rows keep their ids. The work is divided into groups,
        each of which is one snapshot of the operation ``replace``. A group is left as it is if another commit removed
        one of its files, or deleted rows of them, meanwhile; appends do not matter.

        The old files stay in the store, so that older snapshots can still be read.

        Parameters
        ----------
        where
            Only files in which rows can match this filter are rewritten.
        target_size
            Bytes of a new file at most, approximately; by default the property ``write.target-file-size-bytes``.
        min_files
            How many files are put into a new one at least.
        max_deleted
            Files with a larger share of deleted rows are rewritten whatever their size, and so are files to which
            delete files other than deletion vectors apply.
        group_size
            Bytes of the files that one commit replaces.
        max_concurrent
            How many new files are written at a time; by default the number of processors.
        compression
            The codec of the new files, as for `append`.
        branch, properties
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
            The table needs what is not written, or has ids of rows that cannot be kept.
        CommitUnknownError
            It is not known whether the commit of a group took effect. Groups before it are committed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/small", {"id": pa.int64()}, format="iceberg")
        >>> for number in (1, 2):
        ...     _ = table.append(pa.table({"id": [number]}))
        >>> done = table.compact()
        >>> done.removed_files, done.added_files, table.scan().to_arrow()["id"].to_pylist()
        (2, 1, [1, 2])
        """
        from deltaberg.iceberg.operations.compact import compact_table
        from deltaberg.table.compact import Compaction, Packing
        from deltaberg.table.write import RowOptions

        packing = Packing(1 if target_size is None else target_size, min_files, max_deleted, group_size)
        rows = RowOptions(target_file_size=target_size, compression=compression)
        return compact_table(
            lambda: self.transaction(branch=branch, properties=properties),
            lambda: self._set(self._pointer.load(self._loaded), None, None),
            Compaction(where, packing, rows, max_concurrent, self._options.timezone),
        )

    def add_files(
        self,
        file_paths: Sequence[str],
        *,
        check_duplicate_files: bool = True,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Add Parquet, ORC and Avro files of others. They stay where they are, and become data files of the table.

        Only the footers of Parquet files are read; the rows of the other files are read for their metrics, once.
        Formats are known by the ends of names, or by the first bytes of files. Columns are found by their names: the
        property ``schema.name-mapping.default`` is set, unless the table has it. The statistics of a file have to prove
        that all of its rows belong to one partition. Columns that a file lacks and a partition field takes as they are
        get the values of directories that are named as Hive names them, such as ``day=2024-01-01``.

        Parameters
        ----------
        file_paths
            Paths or URLs of files, or of directories, of which all files below are added, but for those whose names
            begin with ``_`` or ``.``.
        check_duplicate_files
            Refuse files that the table has already.
        branch, properties
            As for `transaction`.

        Raises
        ------
        InvalidArgumentError
            The table has one of the files already, there is none, or the rows of one belong to several partitions.
        InvalidPartitionValueError
            The name of a directory gives a partition column a value that is none of its type.
        SchemaError
            The columns of a file do not fit those of the table.
        CorruptDataFileError
            A file cannot be decoded.

        Examples
        --------
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from deltaberg import create_table
        >>> pq.write_table(pa.table({"id": [1, 2]}), f"{new_path}.parquet")
        >>> table = create_table(f"{new_path}/added", {"id": pa.int64()}, format="iceberg")
        >>> table.add_files([f"{new_path}.parquet"]).added_rows, table.scan("id > 1").to_arrow()["id"].to_pylist()
        (2, [2])
        """
        from deltaberg.iceberg.operations.add_files import add_existing_files

        with self.transaction(branch=branch, properties=properties) as transaction:
            add_existing_files(transaction, file_paths, check_duplicates=check_duplicate_files)
            return transaction.commit()
