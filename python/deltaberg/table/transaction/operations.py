"""The operations of a transaction of any format, as its verbs call them."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.build.filters import Filter
from deltaberg.expressions.tree.tree import Value
from deltaberg.hints import Hint
from deltaberg.schema.columns import ColumnName, ColumnValues
from deltaberg.schema.from_arrow import OwnTypes
from deltaberg.table.arguments import check_flags
from deltaberg.table.change.changed_rows import RowCounts
from deltaberg.table.change.conditions import row_condition
from deltaberg.table.change.strategies import checked_strategy
from deltaberg.table.change.target import RowTarget, change_matching, update_change
from deltaberg.table.merge.clauses import MergeClause
from deltaberg.table.merge.merge import MergePlan
from deltaberg.table.merge.merge_operation import MergeOutcome, check_upsert, merge_into, upsert_into
from deltaberg.table.merge.merge_options import MergeOptions
from deltaberg.table.rows.row_options import RowOptions, naming_overwrite
from deltaberg.table.transaction.operation import Operation, RowNumbers
from deltaberg.table.transaction.transaction import Transaction
from deltaberg.table.write.sources import Rows, open_rows

__all__ = ["ChangeTarget", "Operations", "Overwritten"]

_Engine_co = TypeVar("_Engine_co", bound=Transaction, covariant=True)

#: What the metrics of a merge call those of other operations.
_OF_MERGES = {
    "numTargetRowsCopied": "numCopiedRows",
    "numTargetFilesAdded": "numAddedFiles",
    "numTargetFilesRemoved": "numRemovedFiles",
    "numTargetBytesAdded": "numAddedBytes",
    "numTargetBytesRemoved": "numRemovedBytes",
    "numTargetDeletionVectorsAdded": "numDeletionVectorsAdded",
    "numTargetDeletionVectorsRemoved": "numDeletionVectorsRemoved",
    "numTargetDeletionVectorsUpdated": "numDeletionVectorsUpdated",
    "numTargetChangeFilesAdded": "numAddedChangeFiles",
    "numDeleteFilesAdded": "numDeleteFilesAdded",
}


class ChangeTarget(RowTarget, Protocol):
    """The table as an operation changes it, and what the operation did."""

    @property
    def counts(self) -> RowCounts:
        """How many rows were changed."""

    @property
    def metrics(self) -> dict[str, int]:
        """The effect on files, by the names that delta-spark gives to it."""

    def emptied(self) -> None:
        """Take note that all rows of the table were deleted."""

    def describe(self, made: Operation, what: Value | MergePlan | None) -> None:
        """Fill in what the history of the table says of a condition, None for all rows, or of a merge."""


@dataclass(frozen=True)
class Overwritten:
    """The rows of a table that others replace: all of them by default.

    Parameters
    ----------
    where
        A condition: only rows that match it are replaced.
    dynamic
        Replace the partitions that the new rows are in, and leave the others.
    check
        Whether new rows that do not match ``where`` are refused.
    partition_by
        The partitioning. Another one than that of the table is allowed only if its columns are replaced.
    strategy
        ``merge-on-read`` or ``copy-on-write`` for files of which some rows match ``where``; None for what the verb does
        by default.

    Raises
    ------
    InvalidArgumentError
        ``dynamic`` or ``check`` is neither True nor False, there is no such strategy, or two exclude each other.
    """

    where: Filter | None = None
    dynamic: bool = False
    check: bool = True
    partition_by: Sequence[ColumnName] | None = None
    strategy: str | None = None

    def __post_init__(self) -> None:
        check_flags(self, "dynamic", "check")
        checked_strategy(self.strategy)
        if self.where is not None and self.dynamic:
            raise InvalidArgumentError(Hint("⟪where⟫ and ⟪dynamic⟫ exclude each other"), hint="pass one of them")
        if self.strategy is not None and self.dynamic:
            raise InvalidArgumentError(
                Hint("⟪strategy⟫ is about files of which some rows match ⟪where⟫, and ⟪dynamic⟫ replaces partitions"),
                hint="leave one of them out",
            )

    def check_columns(self, schema_mode: str | None) -> None:
        """Refuse to replace the columns where some rows of the table stay."""
        if schema_mode == "overwrite" and not self.is_whole:
            raise InvalidArgumentError(
                Hint('⟪schema_mode="overwrite"⟫ replaces all columns, but some rows of the table stay'),
                hint="leave out ⟪where⟫ and ⟪dynamic⟫",
            )

    @property
    def is_whole(self) -> bool:
        """Whether all rows are replaced."""
        return self.where is None and not self.dynamic


class Operations(ABC, Generic[_Engine_co]):
    """The operations of a transaction. Nothing is done if all that the transaction is for was committed before.

    Parameters
    ----------
    transaction
        The transaction.
    """

    def __init__(self, transaction: _Engine_co) -> None:
        self.transaction = transaction

    @abstractmethod
    def check_partitioning(self, partition_by: Sequence[ColumnName]) -> None:
        """Refuse a partitioning that is not that of the table."""

    @abstractmethod
    def _append(self, made: Operation, rows: Rows, options: RowOptions) -> None:
        """Write rows to new files."""

    @abstractmethod
    def _overwrite(self, made: Operation, rows: Rows, options: RowOptions, which: Overwritten) -> None:
        """Replace rows by others."""

    def append(self, data: Any, options: RowOptions, partition_by: Sequence[ColumnName] | None) -> None:
        """Write rows to new files.

        Parameters
        ----------
        partition_by
            What the caller takes for the partitioning of the table; None for any.

        Raises
        ------
        SchemaError
            The rows do not fit the columns of the table.
        InvalidArgumentError
            The data holds no rows of any kind, or the columns are to be replaced.
        """
        if options.schema_mode == "overwrite":
            raise InvalidArgumentError(
                Hint('⟪schema_mode="overwrite"⟫ would leave the rows of the table without their columns'),
                hint='append with ⟪schema_mode="merge"⟫, or overwrite the table',
            )
        with self.transaction.operation("append") as made:
            if not self.transaction.is_done:
                if partition_by is not None:
                    self.check_partitioning(partition_by)
                self._append(made, open_rows(data, self.transaction.progress), options)

    def overwrite(self, data: Any, options: RowOptions, which: Overwritten) -> None:
        """Replace rows by others.

        Raises
        ------
        ConstraintViolationError
            A new row does not match the condition of the rows that are replaced.
        SchemaError
            The rows do not fit the columns of the table.
        """
        which.check_columns(options.schema_mode)
        replaces_columns = options.schema_mode == "overwrite"
        with self.transaction.operation("overwrite") as made, naming_overwrite(whole=which.is_whole):
            if not self.transaction.is_done:
                if which.partition_by is not None and not replaces_columns:
                    self.check_partitioning(which.partition_by)
                self._overwrite(made, open_rows(data, self.transaction.progress), options, which)

    @abstractmethod
    def alter(self, *, is_part: bool = True) -> Any:
        """Begin changes of the table that are a part of the transaction, or that make all of it."""

    @abstractmethod
    def target(self, operation: str, options: RowOptions, strategy: str | None) -> ChangeTarget:
        """Return the table for ``delete``, ``update`` or ``merge``, with the strategy that the caller asks for."""

    @property
    def own_types(self) -> OwnTypes | None:
        """Returns the types that the format of the table has, and not all formats; None if it has none."""
        return None

    @property
    def identifier(self) -> Sequence[ColumnName]:
        """The columns that identify rows, if the table has such."""
        return ()

    def delete(self, where: Filter | None, options: RowOptions, strategy: str | None = None) -> None:
        """Delete the rows that match a condition, or all rows.

        Parameters
        ----------
        where
            The condition; None for all rows.
        options
            How rows are written that stay where files are written anew.
        strategy
            ``merge-on-read`` or ``copy-on-write``; None for what the table says.
        """
        again = partial(self.delete, where, options, strategy)
        with self.transaction.operation("delete", again=again) as operation:
            target = self.target("delete", options, strategy)
            condition = row_condition(target.schema, where, target.timezone)
            if not self.transaction.is_done:
                change_matching(target, condition)
                if where is None:
                    target.emptied()
            _note(operation, target, condition)
            if target.counts.deleted is not None:
                operation.metrics["numDeletedRows"] = target.counts.deleted

    def update(
        self,
        values: ColumnValues,
        where: Filter | None,
        options: RowOptions,
        strategy: str | None = None,
    ) -> None:
        """Set columns of the rows that match a condition, or of all rows.

        Parameters
        ----------
        values
            The values, as `bind_assignments` takes them.
        where
            The condition; None for all rows.

        Raises
        ------
        ConstraintViolationError
            A new row violates a rule of the table.
        EvaluationError
            The value of a row cannot be computed, or does not fit its column.
        """
        with self.transaction.operation("update") as operation:
            target = self.target("update", options, strategy)
            now = dt.datetime.now(dt.timezone.utc)
            condition = row_condition(target.schema, where, target.timezone)
            change = update_change(target, values, now)
            if not self.transaction.is_done:
                change_matching(target, condition, change)
                # Each row that went came again, even where nobody knows how many were there.
                target.counts.deleted = 0
            _note(operation, target, condition)
            operation.metrics["numUpdatedRows"] = target.counts.updated

    def merge(self, data: Any, on: Any, clauses: Sequence[MergeClause], options: MergeOptions) -> None:
        """Merge rows into the table; the parameters and exceptions are those of `merge_into`."""
        self._merge(options, lambda target: merge_into(target, data, on, clauses, options, self.own_types))

    def upsert(
        self,
        data: Any,
        keys: Sequence[ColumnName] | None,
        options: MergeOptions,
        *,
        when_matched: str,
        when_not_matched: str,
    ) -> None:
        """Update the rows that have the keys of new rows, and insert the others.

        The parameters and exceptions are those of `upsert_into`; without keys, those that identify rows are taken.
        """
        names = self.identifier if keys is None else keys
        check_upsert(names, when_matched, when_not_matched)

        def run(target: ChangeTarget) -> MergeOutcome:
            own = self.own_types
            return upsert_into(
                target, data, names, options, when_matched=when_matched, when_not_matched=when_not_matched, own=own
            )

        self._merge(options, run)

    def _merge(self, options: MergeOptions, merge: Callable[[ChangeTarget], MergeOutcome]) -> None:
        with self.transaction.operation("merge") as operation:
            if self.transaction.is_done:
                return
            target = self.target("merge", options.rows, options.strategy)
            outcome = merge(target)
            _note(operation, target, outcome.plan)
            counts, own, of_merge = target.counts, target.metrics, outcome.metrics
            operation.rows.updated = of_merge["numTargetRowsUpdated"]
            operation.rows.deleted = of_merge["numTargetRowsDeleted"]
            operation.metrics = {
                **of_merge,
                "numTargetRowsInserted": counts.inserted,
                "numOutputRows": counts.copied + counts.inserted + counts.updated,
                **{name: own[known] for name, known in _OF_MERGES.items() if known in own},
            }


def _note(made: Operation, target: ChangeTarget, what: Value | MergePlan | None) -> None:
    target.describe(made, what)
    counts = target.counts
    made.rows = RowNumbers(counts.inserted, counts.updated, counts.deleted, counts.copied)
    made.metrics.update(target.metrics)
