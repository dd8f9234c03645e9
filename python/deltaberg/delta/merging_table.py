"""The verbs of a Delta table that join it with other rows: merge and upsert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltaberg.delta.operations.merge import MergeOptions
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.writable_table import WritableTable
from deltaberg.errors import InvalidArgumentError
from deltaberg.schema import ColumnName
from deltaberg.table import CommitResult
from deltaberg.table.rewrite import MergeBuilder, MergeClause

__all__ = ["MergingTable"]


class MergingTable(WritableTable):
    """A table that rows can be merged into."""

    def merge(  # noqa: PLR0913
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
        timezone, allow_truncation
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
        rows = RowOptions(schema_mode, timezone, allow_truncation)
        options = MergeOptions(rows, source_alias, target_alias, strategy, memory)

        def run(clauses: tuple[MergeClause, ...]) -> CommitResult:
            with self.transaction(
                txn=txn, user_metadata=user_metadata, unsafe_single_writer=unsafe_single_writer
            ) as transaction:
                transaction.merge_clauses(source, predicate if on is None else on, clauses, options)
                if transaction.is_empty:
                    return CommitResult(self._snapshot.version, transaction.token, "MERGE", committed=False)
                return transaction.commit()

        return MergeBuilder(run)

    def upsert(  # noqa: PLR0913
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
            The column, or columns, whose values identify a row. They must not be null, and no two new rows may have the
            same.
        when_matched
            ``update``, or ``ignore`` to leave the rows of the table as they are.
        when_not_matched
            ``insert``, or ``ignore`` to leave out new rows without a row in the table.
        schema_mode, strategy, memory, timezone, allow_truncation, txn, user_metadata, unsafe_single_writer
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
            )
            if transaction.is_empty:
                return CommitResult(self._snapshot.version, transaction.token, "MERGE", committed=False)
            return transaction.commit()
