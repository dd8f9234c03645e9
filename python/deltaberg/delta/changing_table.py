"""The verbs of a Delta table that change rows: delete, update, merge and upsert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaberg.delta.writable_table import WritableTable
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema import ColumnName
from deltaberg.signatures import public
from deltaberg.table import CommitResult
from deltaberg.table.deltalake_words import (
    DELETE_NAMES,
    MERGE_WORDS,
    NEEDED_TO_DELETE,
    NEEDED_TO_UPDATE,
    UPDATE_NAMES,
    UPDATE_WORDS,
    our_words,
)

if TYPE_CHECKING:
    from deltaberg.table.rewrite import Condition, MergeBuilder, MergeClause

__all__ = ["ChangingTable"]

#: What the properties of a commit are called here.
_COMMIT_WORDS = {
    "commit_properties": "pass txn= and user_metadata=, or write with deltaberg.write_table",
    "post_commithook_properties": "set delta.checkpointInterval and delta.enableExpiredLogCleanup",
}


@public
class ChangingTable(WritableTable):
    """A table whose rows can be changed."""

    @our_words(_COMMIT_WORDS, NEEDED_TO_DELETE, DELETE_NAMES)
    def delete(
        self,
        where: Condition | None,
        *,
        strategy: str | None = None,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
    ) -> CommitResult:
        """Delete the rows that match a condition.

        Files in which every row matches are removed without being read. In others the rows are hidden by deletion
        vectors if the property ``delta.enableDeletionVectors`` is true, and else the files are written anew without
        them. If the property ``delta.enableChangeDataFeed`` is true, the deleted rows are written to change data files
        as well. If nothing matches, there is no new version.

        Parameters
        ----------
        where
            The condition; None for all rows. Filters, as `DeltaTable.scan` takes them, are decided by metadata as far
            as possible. Any other SQL text is evaluated as Spark does in its ANSI mode.
        strategy
            ``copy-on-write`` writes files anew, although the table allows deletion vectors. ``merge-on-read`` is
            refused if it does not.
        target_file_size, compression, writer_properties
            As for `append`, for files that are written anew.
        txn, user_metadata, unsafe_single_writer
            As for `append`.

        Returns
        -------
        CommitResult
            The version; ``metrics`` has the number of deleted rows (``numDeletedRows``).

        Raises
        ------
        ConstraintViolationError
            Rows of the table must not be removed (``delta.appendOnly``).
        ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentDeleteDeleteError
            Another commit changed rows that match, or files that hold such rows.
        ExpressionError, ColumnNotFoundError
            The condition is not valid, or cannot be evaluated exactly.
        EvaluationError
            The condition cannot be computed for a row.

        Examples
        --------
        >>> table.delete("id = 3").metrics["numDeletedRows"]
        1
        >>> table.scan("id = 3").count()
        0
        """
        with self.transaction(
            txn=txn, user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer
        ) as transaction:
            transaction.delete(
                where,
                strategy=strategy,
                target_file_size=target_file_size,
                compression=compression,
                writer_properties=writer_properties,
            )
            if transaction.is_empty:
                return transaction.unchanged()
            return transaction.commit()

    @our_words(UPDATE_WORDS | _COMMIT_WORDS, NEEDED_TO_UPDATE, UPDATE_NAMES)
    def update(
        self,
        set: Mapping[ColumnName, Any],
        where: Condition | None = None,
        *,
        strategy: str | None = None,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
    ) -> CommitResult:
        """Set columns of the rows that match a condition to new values.

        All values are computed from the rows as they were. If the property ``delta.enableDeletionVectors`` is true,
        deletion vectors hide the old rows, and new files hold the new ones. Otherwise files with such rows are written
        anew. Updated rows keep their row ids. If no row matches, there is no new version.

        Parameters
        ----------
        set
            The new value of each column, by its name; dots lead into structs. Text is SQL, so that the value of a
            string is quoted twice: ``{"name": "'ada'"}``. Other Python objects are literals. Values are evaluated as
            Spark does in its ANSI mode, and converted to the types of their columns; what does not fit raises.
        where
            The condition, as for `delete`; None for all rows.
        strategy, target_file_size, compression, writer_properties, txn, user_metadata, unsafe_single_writer
            As for `delete`.

        Returns
        -------
        CommitResult
            The version; ``metrics`` has the number of updated rows (``numUpdatedRows``).

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
        with self.transaction(
            txn=txn, user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer
        ) as transaction:
            transaction.update(
                set,
                where,
                strategy=strategy,
                target_file_size=target_file_size,
                compression=compression,
                writer_properties=writer_properties,
            )
            if transaction.is_empty:
                return transaction.unchanged()
            return transaction.commit()

    @our_words(MERGE_WORDS | _COMMIT_WORDS)
    def merge(
        self,
        source: Any,
        on: Any = None,
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        schema_mode: str | None = None,
        strategy: str | None = None,
        memory: int | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        predicate: Any = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
    ) -> MergeBuilder[CommitResult]:
        """Begin a merge of other rows into the table. Its clauses say what becomes of rows that match.

        The source is read once. Equalities of the condition make it a join by keys; a condition without any looks at
        every pair of rows. What does not fit into memory is stored in temporary files. Files of the table that cannot
        hold rows with the keys of the source are not read.

        Parameters
        ----------
        source
            The rows: an Arrow table or stream, a data frame, a `Scan` or a table.
        on
            Which rows of the table and of the source match, as SQL text, such as ``target.id = source.id``.
        source_alias, target_alias
            What the source and the table are called in conditions and values. A column that only one of them has needs
            no alias.
        schema_mode
            ``merge`` adds columns of the source that the table lacks, as far as clauses take or assign them. Without
            it, columns of the source that the table lacks are left out.
        strategy
            As for `delete`.
        memory
            Bytes of rows and keys that are held in memory, approximately; 512 MiB by default.
        timezone, allow_truncation, target_file_size, compression, writer_properties
            As for `append`.
        predicate
            Another name of ``on``.
        txn, user_metadata, unsafe_single_writer
            As for `append`.

        Returns
        -------
        MergeBuilder
            Clauses are added to it, and ``execute()`` carries the merge out. If nothing changes, there is no new
            version.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.

        Examples
        --------
        >>> import pyarrow as pa
        >>> merge = table.merge(pa.table({"id": [3, 4], "name": ["C", "d"]}), "target.id = source.id")
        >>> result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        >>> table.scan("id > 2").to_arrow().sort_by("id").to_pylist()
        [{'id': 3, 'name': 'C'}, {'id': 4, 'name': 'd'}]
        """
        if (on is None) == (predicate is None):
            raise InvalidArgumentError(
                "a merge needs one condition", hint='say which rows match, such as "target.id = source.id"'
            )
        from deltaberg.table.rewrite import MergeBuilder, MergeOptions
        from deltaberg.table.write import RowOptions

        rows = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        options = MergeOptions(rows, source_alias, target_alias, strategy, memory)

        def run(clauses: tuple[MergeClause, ...]) -> CommitResult:
            with self.transaction(
                txn=txn, user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer
            ) as transaction:
                transaction.merge_clauses(source, predicate if on is None else on, clauses, options)
                if transaction.is_empty:
                    return transaction.unchanged()
                return transaction.commit()

        return MergeBuilder(run)

    @our_words(_COMMIT_WORDS)
    def upsert(
        self,
        data: Any,
        keys: ColumnName | Sequence[ColumnName],
        *,
        when_matched: str = "update",
        when_not_matched: str = "insert",
        schema_mode: str | None = None,
        strategy: str | None = None,
        memory: int | None = None,
        timezone: str | None = None,
        allow_truncation: bool = False,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        unsafe_single_writer: bool = False,
    ) -> CommitResult:
        """Update the rows that have the keys of new rows, and insert the other new rows.

        Parameters
        ----------
        data
            The new rows, as for `merge`. Columns of the table that they lack keep their values. In inserted rows they
            are filled as by `append`: with default, generated and identity values, or else with nulls.
        keys
            The column, or columns, whose values identify a row; dots lead into structs. They must not be null, and no
            two new rows may have the same.
        when_matched
            ``update``, or ``ignore`` to leave the rows of the table as they are.
        when_not_matched
            ``insert``, or ``ignore`` to leave out new rows without a row in the table.
        schema_mode, strategy, memory, timezone, allow_truncation, target_file_size, compression, writer_properties,
        txn, user_metadata, unsafe_single_writer
            As for `merge`.

        Returns
        -------
        CommitResult
            The version; ``metrics`` has the numbers of rows (``numTargetRowsUpdated``, ``numTargetRowsInserted``).

        Raises
        ------
        ConstraintViolationError
            A key is null, or that of two new rows. Nothing was written.
        CommitConflictError
            Another commit changed rows that may have one of the keys.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table.upsert(pa.table({"id": [1, 7], "name": ["A", "g"]}), "id").metrics["numTargetRowsInserted"]
        1
        >>> table.scan("id IN (1, 7)").to_arrow().sort_by("id").to_pylist()
        [{'id': 1, 'name': 'A'}, {'id': 7, 'name': 'g'}]
        """
        with self.transaction(
            txn=txn, user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer
        ) as transaction:
            transaction.upsert(
                data,
                keys,
                when_matched=when_matched,
                when_not_matched=when_not_matched,
                schema_mode=schema_mode,
                strategy=strategy,
                memory=memory,
                timezone=timezone,
                allow_truncation=allow_truncation,
                target_file_size=target_file_size,
                compression=compression,
                writer_properties=writer_properties,
            )
            if transaction.is_empty:
                return transaction.unchanged()
            return transaction.commit()
