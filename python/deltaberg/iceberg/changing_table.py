"""The verbs of an Iceberg table that change rows: delete, update, merge and upsert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaberg.errors import ConcurrentAppendError, ConcurrentDeleteReadError
from deltaberg.iceberg.keyed_table import KeyedTable
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
    WRITE_WORDS,
    our_words,
)

if TYPE_CHECKING:
    from deltaberg.table.rewrite import Condition, MergeBuilder, MergeClause

__all__ = ["ChangingTable"]


#: What the properties of a commit are called here.
_COMMIT_WORDS = {
    "case_sensitive": WRITE_WORDS["case_sensitive"],
    **dict.fromkeys(("commit_properties", "user_metadata"), "pass properties="),
    "post_commithook_properties": "set write.metadata.delete-after-commit.enabled",
    "txn": "pass properties=, and look for them in the summaries of snapshots",
    "unsafe_single_writer": "write by transaction(unsafe_single_writer=True)",
}
_COMMIT_NAMES = {"snapshot_properties": "properties"}
_OF_UPSERT = {
    "when_matched_update_all": 'pass when_matched="update" or "ignore"',
    "when_not_matched_insert_all": 'pass when_not_matched="insert" or "ignore"',
}


@public
class ChangingTable(KeyedTable):
    """A table whose rows can be changed."""

    @our_words(_COMMIT_WORDS, NEEDED_TO_DELETE, DELETE_NAMES | _COMMIT_NAMES)
    def delete(
        self,
        where: Condition | None,
        *,
        strategy: str | None = None,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Delete the rows that match a condition.

        Files in which every row matches are removed. In others, the rows are hidden by delete files (from format
        version 3 on by deletion vectors), or the files are written anew without them, as ``strategy`` says. If nothing
        matches, there is no new snapshot. If only whole files are to be removed, and another commit adds rows that may
        match, or changes rows of these files, the condition is evaluated again, as often as the property
        ``commit.retry.num-retries`` says, unless the columns of the table were changed.

        Parameters
        ----------
        where
            The condition; None for all rows. Filters, as `scan` takes them, are decided by metadata as far as possible.
            Any other SQL text is evaluated as Spark does in its ANSI mode.
        strategy
            ``merge-on-read`` hides rows, and ``copy-on-write`` writes files anew. By default, the property
            ``write.delete.mode`` says it, and for `update` and `merge` the properties ``write.update.mode`` and
            ``write.merge.mode``; without them, files are written anew. Format version 1 has no delete files.
        target_file_size, compression, writer_properties
            As for `append`, for files that are written anew.
        branch, properties
            As for `transaction`.

        Returns
        -------
        CommitResult
            The snapshot; ``metrics`` has the number of deleted rows (``numDeletedRows``).

        Raises
        ------
        ConcurrentAppendError
            Another commit added rows that may match, ``write.delete.isolation-level`` is not ``snapshot``, and rows
            were hidden, or files written anew.
        CommitConflictError
            Another commit removed files that hold rows that match, or deleted rows of these files.
        UnsupportedFeatureError
            The table needs what is not written, or has ids of rows that cannot be kept.
        ExpressionError, ColumnNotFoundError
            The condition is not valid, or cannot be evaluated exactly.
        EvaluationError
            The condition cannot be computed for a row.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/rows", {"id": pa.int64()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1, 2, 3]}))
        >>> table.delete("id % 2 = 1").metrics["numDeletedRows"], table.scan().to_arrow()["id"].to_pylist()
        (2, [2])
        """
        from deltaberg.iceberg.transaction.table_commit import commit_policy

        left = commit_policy(self._loaded.metadata.properties).retries
        while True:
            removes_only = False
            try:
                with self.transaction(branch=branch, properties=properties) as transaction:
                    transaction.delete(
                        where,
                        strategy=strategy,
                        target_file_size=target_file_size,
                        compression=compression,
                        writer_properties=writer_properties,
                    )
                    removes_only = not transaction.pending.added
                    return transaction.commit()
            except (ConcurrentAppendError, ConcurrentDeleteReadError) as error:
                if not removes_only or not left:
                    raise
                conflict = error
            left -= 1
            # The names of other columns may mean something else.
            columns = self._loaded.metadata.current_schema.struct
            self.refresh()
            if self._loaded.metadata.current_schema.struct != columns:
                raise conflict

    @our_words(UPDATE_WORDS | _COMMIT_WORDS, NEEDED_TO_UPDATE, UPDATE_NAMES | _COMMIT_NAMES)
    def update(
        self,
        set: Mapping[ColumnName, Any],
        where: Condition | None = None,
        *,
        strategy: str | None = None,
        target_file_size: int | None = None,
        compression: str | None = None,
        writer_properties: Any = None,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Set columns of the rows that match a condition to new values.

        All values are computed from the rows as they were. The old rows are hidden, or their files written anew, as
        ``strategy`` says. From format version 3 on, updated rows keep their ids. If no row matches, there is no new
        snapshot.

        Parameters
        ----------
        set
            The new value of each column, by its name; dots lead into structs. Text is SQL, so that the value of a
            string is quoted twice: ``{"name": "'ada'"}``. Other Python objects are literals. Values are evaluated as
            Spark does in its ANSI mode, and converted to the types of their columns; what does not fit raises.
        where
            The condition, as for `delete`; None for all rows.
        strategy, target_file_size, compression, writer_properties, branch, properties
            As for `delete`.

        Returns
        -------
        CommitResult
            The snapshot; ``metrics`` has the number of updated rows (``numUpdatedRows``).

        Raises
        ------
        EvaluationError
            A value cannot be computed for a row, or does not fit its column.
        ConstraintViolationError
            A column that must not be null is set to null.
        InvalidArgumentError
            Nothing is set, or a column is set twice. The other errors are those of `delete`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/prices", {"id": pa.int64(), "price": pa.int64()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1, 2], "price": [10, 20]}))
        >>> table.update({"price": "price * 2"}, "id = 2").metrics["numUpdatedRows"]
        1
        >>> table.scan().to_arrow()["price"].to_pylist()
        [10, 40]
        """
        with self.transaction(branch=branch, properties=properties) as transaction:
            transaction.update(
                set,
                where,
                strategy=strategy,
                target_file_size=target_file_size,
                compression=compression,
                writer_properties=writer_properties,
            )
            return transaction.commit()

    @our_words(MERGE_WORDS | _COMMIT_WORDS, names={"predicate": "on", **_COMMIT_NAMES})
    def merge(
        self,
        source: Any,
        on: Any,
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
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
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
        branch, properties
            As for `transaction`.

        Returns
        -------
        MergeBuilder
            Clauses are added to it, and ``execute()`` carries the merge out. If nothing changes, there is no new
            snapshot.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/names", {"id": pa.int64(), "name": pa.string()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [3], "name": ["c"]}))
        >>> merge = table.merge(pa.table({"id": [3, 4], "name": ["C", "d"]}), "target.id = source.id")
        >>> result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        >>> table.scan().to_arrow().sort_by("id").to_pylist()
        [{'id': 3, 'name': 'C'}, {'id': 4, 'name': 'd'}]
        """
        from deltaberg.table.rewrite import MergeBuilder, MergeOptions
        from deltaberg.table.write import RowOptions

        rows = RowOptions(schema_mode, timezone, allow_truncation, target_file_size, compression, writer_properties)
        options = MergeOptions(rows, source_alias, target_alias, strategy, memory)

        def run(clauses: tuple[MergeClause, ...]) -> CommitResult:
            with self.transaction(branch=branch, properties=properties) as transaction:
                transaction.merge_clauses(source, on, clauses, options)
                return transaction.commit()

        return MergeBuilder(run)

    @our_words(_OF_UPSERT | _COMMIT_WORDS, names={"join_cols": "keys", "df": "data", **_COMMIT_NAMES})
    def upsert(
        self,
        data: Any,
        keys: ColumnName | Sequence[ColumnName] | None = None,
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
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Update the rows that have the keys of new rows, and insert the other new rows.

        Parameters
        ----------
        data
            The new rows, as for `merge`. Columns of the table that they lack keep their values. In inserted rows they
            are filled as by `append`: with default values, or else with nulls.
        keys
            The column, or columns, whose values identify a row, with dots that lead into structs; by default the
            identifier fields of the table. They must not be null, and no two new rows may have the same.
        when_matched
            ``update``, or ``ignore`` to leave the rows of the table as they are.
        when_not_matched
            ``insert``, or ``ignore`` to leave out new rows without a row in the table.
        schema_mode, strategy, memory, timezone, allow_truncation, target_file_size, compression, writer_properties,
        branch, properties
            As for `merge`.

        Returns
        -------
        CommitResult
            The snapshot; ``metrics`` has the numbers of rows (``numTargetRowsUpdated``, ``numTargetRowsInserted``).

        Raises
        ------
        ConstraintViolationError
            A key is null, or that of two new rows. Nothing was written.
        CommitConflictError
            Another commit changed rows that may have one of the keys.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/keyed", {"id": pa.int64(), "name": pa.string()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1], "name": ["a"]}))
        >>> table.upsert(pa.table({"id": [1, 7], "name": ["A", "g"]}), "id").metrics["numTargetRowsInserted"]
        1
        >>> table.scan().to_arrow().sort_by("id").to_pylist()
        [{'id': 1, 'name': 'A'}, {'id': 7, 'name': 'g'}]
        """
        with self.transaction(branch=branch, properties=properties) as transaction:
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
            return transaction.commit()
