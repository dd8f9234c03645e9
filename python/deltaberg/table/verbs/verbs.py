"""The verbs that change the rows of a table, on a table or in a transaction, of both formats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from deltaberg.schema.columns import ColumnNames, column_names
from deltaberg.signatures import NEEDED, NamesOfClass, public, takes
from deltaberg.table.verbs.shared_arguments import (
    AppendArguments,
    DeleteArguments,
    MergeArguments,
    OverwriteArguments,
    UpdateArguments,
    UpsertArguments,
)

# What writes is loaded by the first write: it has more modules than all that reads.
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.choices import WhenMatched, WhenNotMatched
    from deltaberg.expressions.build.filters import Condition, Filter
    from deltaberg.schema.columns import ColumnValues
    from deltaberg.schema.types import Struct
    from deltaberg.table.merge.clauses import MergeBuilder
    from deltaberg.table.transaction.operations import Operations
    from deltaberg.table.transaction.transaction import Transaction

__all__ = ["Verbs"]

_Done = TypeVar("_Done")


@public
class Verbs(Generic[_Done], metaclass=NamesOfClass):
    """The verbs that change rows.

    On a table, each makes one commit, or none if there is nothing to change, and returns what it did; the table object
    moves to the new state. In a transaction, each becomes a part of the commit, sees what the ones before it did, and
    returns nothing. What is said of the commit, from ``txn`` on, is said once then, when the transaction begins.

    Arguments that the verbs share:

    ``target_file_size``
        Bytes of a data file, approximately; by default as the table says.
    ``compression``
        The codec of data files; by default the property ``delta.parquet.compression.codec``, else snappy, or
        ``write.parquet.compression-codec``, else zstd. It is also that of delete files of the same format.
    ``writer_properties``
        How Parquet files are written: `ParquetOptions`, or for Delta tables ``WriterProperties`` of deltalake.
    ``memory``
        Bytes of rows that are held in memory, approximately, for those that are read ahead and those that wait to be
        written, 512 MiB by default; each of Spark's tasks holds at most as many. It bounds the keys of a `merge` and an
        `upsert` as well. Fewer bytes make smaller row groups. A write by Spark's own writer cannot be bounded, so that
        the rows of a DataFrame take another road with it.
    ``schema_mode``
        What becomes of columns that the table lacks: ``merge`` adds them, and `overwrite` also takes ``overwrite``,
        which replaces the columns by those of the rows. By default they are refused.
    ``timezone``
        The zone of timestamps without one that go into a column of the type ``timestamp``.
    ``allow_truncation``
        Cut off what is smaller than a column holds; by default such values are refused.
    ``safe``
        False has values cast that do not fit their column, by Spark's cast in ANSI mode: 1.7 becomes 1 in a column of
        integers, and the text 7 becomes 7. What that cast refuses is refused, too, such as numbers out of range.
        By default all values are refused that would change.
    ``strategy``
        ``merge-on-read`` hides rows by deletion vectors or delete files, and ``copy-on-write`` writes their files anew.
        By default ``delta.enableDeletionVectors`` decides, or ``write.delete.mode``, ``write.update.mode`` and
        ``write.merge.mode``; `overwrite` of an Iceberg table writes files anew by default. ``merge-on-read`` is refused
        if the table does not allow it.
    ``txn``
        The name of an application and the version of its progress, which the table records. If it has that version or
        a later one, nothing is written, so that the same call can be repeated. ``auto`` stands for the query and the
        batch in a function that Spark's ``foreachBatch`` calls, and ``auto:NAME`` for a further verb of the batch.
    ``properties``
        What the history says of the commit besides the numbers of files and rows: members of ``commitInfo``, or of the
        summary of the snapshot. There, ``wap.id`` stages the snapshot until `IcebergTable.publish`, and ``wap.branch``
        names a branch that is created if there is none.
    ``user_metadata``
        Text that the history of a Delta table keeps with the commit.
    ``branch``
        The branch of an Iceberg table; by default the one that is open, else ``main``.
    ``isolation``
        ``Serializable``, ``WriteSerializable`` or ``SnapshotIsolation``, and for Iceberg tables ``serializable`` or
        ``snapshot``; by default as ``delta.isolationLevel`` or ``write.delete.isolation-level`` and so on say.
    ``policy``
        How long the commit is tried: a `CommitPolicy`.
    ``progress``
        True shows the progress by the package rich, at a terminal or in a notebook and nowhere else. A function is
        called with a `WriteProgress` after every batch of rows that this process writes, and for a compaction
        by Spark's tasks after each of its jobs. Verbs that write files anew count the rows that are only copied. Where
        rows are hidden, their data files are counted, and not the rows. Verbs that write no rows count what they are
        done with: a clone the files that it has copied, a restore and a repair those that they have looked for, and so
        on. What only changes metadata tells nothing.
    ``unsafe_single_writer``
        Write to a store in which two writers would overwrite one another. Make sure that nobody else writes to it.
    ``commit_properties``, ``post_commithook_properties``
        ``CommitProperties`` and ``PostCommitHookProperties`` of deltalake.

    Whatever a verb raises, the table stays as it was. Besides the errors that it names, there are `SchemaError` for
    rows that do not fit the columns, `UnsupportedFeatureError` for tables that need what is not written and for
    arguments that tables of the other format have, `CommitConflictError` if another commit came first that the change
    does not fit on, and `CommitUnknownError` if it is not known whether the commit took effect.
    """

    @abstractmethod
    def _run(self, verb: Callable[[Operations[Transaction]], object], arguments: Mapping[str, Any]) -> _Done:
        """Carry out a verb as an operation of a transaction."""

    @property
    @abstractmethod
    def _table_at(self) -> str:
        """The location of the table, for errors."""

    @property
    @abstractmethod
    def _columns(self) -> Struct:
        """The columns that a verb finds."""

    @takes(AppendArguments)
    def append(
        self,
        data: Any = NEEDED,
        *,
        partition_by: ColumnNames | None = None,
        **arguments: Unpack[AppendArguments],
    ) -> _Done:
        """Append rows.

        Columns are found by name, in any order. Columns that may be null can be left out. Values are converted only if
        they stay the same; whatever does not fit raises an error that names the field.

        Parameters
        ----------
        data
            Anything with ``__arrow_c_stream__``, a table, batch, reader or dataset of pyarrow, a pandas or Polars data
            frame, or a scan. A Spark DataFrame is written by Spark's tasks.
        partition_by
            What the caller takes for the partitioning of the table. Another one is refused.
        **arguments
            How files are written, the columns and the commit: see `Verbs`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table.append(pa.table({"id": [4], "name": ["d"]})).inserted_rows
        1
        >>> table.append({"name": "e"})
        Traceback (most recent call last):
            ...
        deltaberg.errors.InvalidArgumentError: data of type dict cannot be written (table: ...)
        hint: pass pyarrow.table(data)
        """
        from deltaberg.table.rows.row_options import RowOptions

        rows, names = RowOptions.of(arguments), None if partition_by is None else column_names(partition_by)
        return self._run(lambda run: run.append(data, rows, names), arguments)

    @takes(OverwriteArguments)
    def overwrite(
        self,
        data: Any = NEEDED,
        *,
        where: Filter | None = None,
        dynamic: bool = False,
        check: bool = True,
        partition_by: ColumnNames | None = None,
        **arguments: Unpack[OverwriteArguments],
    ) -> _Done:
        """Replace all rows, those that match a condition, or those of the partitions of the new rows.

        The old files stay in the store, so that older states of the table can still be read.

        Parameters
        ----------
        data
            The new rows, as for `append`.
        where
            A condition, as for `delete`: rows that match it are replaced, and the others stay.
        dynamic
            Replace the partitions that the new rows are in, and leave the others.
        check
            Refuse new rows that do not match ``where``.
        partition_by
            The partitioning, which may change with ``schema_mode="overwrite"``; an empty list for none.
        **arguments
            As for `append`, and ``strategy`` for files of which some rows match ``where``.

        Raises
        ------
        ConstraintViolationError
            A new row does not match ``where``, or rows of the table must not be removed (``delta.appendOnly``).
        CommitConflictError
            Another commit added or removed rows that are replaced.

        Examples
        --------
        >>> import pyarrow as pa
        >>> result = table.overwrite(pa.table({"id": [7], "name": ["g"]}), where="id > 6")
        >>> result.inserted_rows, result.deleted_rows
        (1, 0)
        """
        from deltaberg.table.rows.row_options import RowOptions
        from deltaberg.table.transaction.operations import Overwritten

        rows, names = RowOptions.of(arguments), None if partition_by is None else column_names(partition_by)
        which = Overwritten(where, dynamic, check, names, arguments.get("strategy"))
        return self._run(lambda run: run.overwrite(data, rows, which), arguments)

    @takes(DeleteArguments)
    def delete(self, where: Filter | None = NEEDED, **arguments: Unpack[DeleteArguments]) -> _Done:
        """Delete the rows that match a condition.

        Files in which every row matches are removed without being read. In others the rows are hidden, or the files are
        written anew without them, as ``strategy`` says. If ``delta.enableChangeDataFeed`` is true, the deleted rows are
        written to change data files as well. If only whole files of an Iceberg table are to be removed, and another
        commit adds rows that may match, or changes rows of these files, the condition is evaluated again, as often as
        the commit may be tried, unless the columns of the table were changed.

        Parameters
        ----------
        where
            The condition; None for all rows. Comparisons are decided by metadata as far as possible. SQL text is
            evaluated as Spark does in its ANSI mode.
        **arguments
            ``strategy``, how files are written, and the commit: see `Verbs`.

        Raises
        ------
        ConstraintViolationError
            Rows of the table must not be removed (``delta.appendOnly``).
        ConcurrentAppendError
            Another commit added rows that may match, and the change has to be serializable.
        ConcurrentDeleteReadError, ConcurrentDeleteDeleteError
            Another commit changed rows that match, or files that hold such rows.
        ExpressionError, ColumnNotFoundError
            The condition is not valid, cannot be evaluated exactly, or names no column and is not ``true``.
        EvaluationError
            The condition cannot be computed for a row.

        Examples
        --------
        >>> table.delete("id = 3").deleted_rows
        1
        >>> table.scan("id = 3").count()
        0
        """
        from deltaberg.table.rows.row_options import RowOptions

        rows, strategy = RowOptions.of(arguments), arguments.get("strategy")
        return self._run(lambda run: run.delete(where, rows, strategy), arguments)

    @takes(UpdateArguments)
    def update(
        self,
        set: ColumnValues = NEEDED,
        where: Filter | None = None,
        **arguments: Unpack[UpdateArguments],
    ) -> _Done:
        """Set columns of the rows that match a condition to new values.

        All values are computed from the rows as they were. The old rows are hidden, or their files written anew, as
        ``strategy`` says. Updated rows keep their row ids.

        Parameters
        ----------
        set
            The new value of each column, by its name; dots lead into structs. Text is SQL, so that the value of a
            string is quoted twice: ``{"name": "'ada'"}``. Other Python objects are literals. Values are evaluated as
            Spark does in its ANSI mode, and converted to the types of their columns; what does not fit raises.
        where
            The condition, as for `delete`; None for all rows.
        **arguments
            As for `delete`.

        Raises
        ------
        EvaluationError
            A value cannot be computed for a row, or does not fit its column.
        ConstraintViolationError
            A new value is not allowed, or rows of the table must not change (``delta.appendOnly``).
        InvalidArgumentError
            Nothing is set, or a column is set twice. The other errors are those of `delete`.

        Examples
        --------
        >>> table.update({"name": "'ada'"}, "id % 2 = 1").committed
        True
        >>> set(table.scan("id IN (1, 3, 7)").to_arrow()["name"].to_pylist())
        {'ada'}
        """
        from deltaberg.table.rows.row_options import RowOptions

        rows, strategy = RowOptions.of(arguments), arguments.get("strategy")
        return self._run(lambda run: run.update(set, where, rows, strategy), arguments)

    @takes(MergeArguments)
    def merge(self, source: Any, on: Condition = NEEDED, **arguments: Unpack[MergeArguments]) -> MergeBuilder[_Done]:
        """Begin a merge of other rows. Its clauses say what becomes of rows that match.

        The source is read once. Equalities of the condition make it a join by keys; a condition without any looks at
        every pair of rows. What does not fit into memory is stored in temporary files. Files of the table that cannot
        hold rows with the keys of the source are not read.

        Parameters
        ----------
        source
            The rows: an Arrow table or stream, a data frame, a `Scan` or a table.
        on
            Which rows of the table and of the source match, as SQL text, such as ``target.id = source.id``.
        **arguments
            ``source_alias`` and ``target_alias``: what the source and the table are called in conditions and values,
            by default ``source`` and ``target``. A column that only one of them has needs no alias.
            ``schema_mode="merge"`` adds columns of the source that the table lacks, as far as clauses take or assign
            them; without it, they are left out. For others see `Verbs`.

        Returns
        -------
        MergeBuilder
            Clauses are added to it, and ``execute()`` carries the merge out.

        Raises
        ------
        InvalidArgumentError, ExpressionError, ColumnNotFoundError
            An argument is not valid, or the condition does not fit the columns. The latter is told by ``execute()`` if
            the columns of the source are known only as its rows are read.

        Examples
        --------
        >>> import pyarrow as pa
        >>> merge = table.merge(pa.table({"id": [3, 4], "name": ["C", "d"]}), "target.id = source.id")
        >>> print(merge.when_matched_update_all().when_not_matched_insert_all().execute().inserted_rows)
        1
        >>> table.scan("id > 2").to_arrow().sort_by("id").to_pylist()
        [{'id': 3, 'name': 'C'}, {'id': 4, 'name': 'd'}]
        """
        from deltaberg.table.merge.clauses import MergeBuilder
        from deltaberg.table.merge.merge_operation import check_merge
        from deltaberg.table.merge.merge_options import MergeOptions

        options = MergeOptions.of(arguments)
        check_merge(self._columns, source, on, options)
        return MergeBuilder(
            lambda clauses: self._run(lambda run: run.merge(source, on, clauses, options), arguments), self._table_at
        )

    @takes(UpsertArguments)
    def upsert(
        self,
        data: Any = NEEDED,
        keys: ColumnNames | None = None,
        *,
        when_matched: WhenMatched = "update",
        when_not_matched: WhenNotMatched = "insert",
        **arguments: Unpack[UpsertArguments],
    ) -> _Done:
        """Update the rows that have the keys of new rows, and insert the other new rows.

        Rows that would stay as they are are left alone.

        Parameters
        ----------
        data
            The new rows, as for `merge`. Columns of the table that they lack keep their values. In inserted rows they
            are filled as by `append`: with default, generated and identity values, or else with nulls.
        keys
            The column, or columns, whose values identify a row; dots lead into structs. By default the identifier
            fields of an Iceberg table. They must not be null, and no two new rows may have the same.
        when_matched
            ``update``, or ``ignore`` to leave the rows of the table as they are.
        when_not_matched
            ``insert``, or ``ignore`` to leave out new rows without a row in the table.
        **arguments
            See `Verbs`.

        Raises
        ------
        ConstraintViolationError
            A key is null, or that of two new rows. Nothing was written.
        CommitConflictError
            Another commit changed rows that may have one of the keys.

        Examples
        --------
        >>> import pyarrow as pa
        >>> result = table.upsert(pa.table({"id": [1, 8], "name": ["A", "h"]}), "id")
        >>> result.updated_rows, result.inserted_rows
        (1, 1)
        >>> table.scan("id IN (1, 8)").to_arrow().sort_by("id").to_pylist()
        [{'id': 1, 'name': 'A'}, {'id': 8, 'name': 'h'}]
        """
        from deltaberg.table.merge.merge_options import MergeOptions

        options = MergeOptions.of(arguments)
        how = {"when_matched": when_matched, "when_not_matched": when_not_matched}
        names = None if keys is None else column_names(keys, ordered=False)
        return self._run(lambda run: run.upsert(data, names, options, **how), arguments)
