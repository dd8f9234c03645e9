"""A Delta table whose rows an operation of a transaction changes."""

from __future__ import annotations

import datetime as dt
import json
from functools import cached_property

from deltaberg.delta.alter.columns_of_rows import merge_columns
from deltaberg.delta.change.row_changes import RowChanges, scan_to_change
from deltaberg.delta.properties.writer_properties import parquet_options
from deltaberg.delta.rows.row_rules import empty_as_null, record_marks, rules_of
from deltaberg.delta.rows.row_spec import RowOptions
from deltaberg.delta.schema.writer_rules import identity_columns
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.delta.transaction.writable import check_changeable
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.changed_rows import RowCounts, RowTasks
from deltaberg.table.change.match import MatchedRows
from deltaberg.table.change.matched_rows import Change
from deltaberg.table.change.target import Rows
from deltaberg.table.merge.clauses import MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE
from deltaberg.table.merge.merge import MergePlan
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.rows.table_rules import TableRules
from deltaberg.table.transaction.operation import Operation

__all__ = ["ChangeTarget"]

_KINDS = {
    "matchedPredicates": MATCHED,
    "notMatchedPredicates": NOT_MATCHED,
    "notMatchedBySourcePredicates": NOT_MATCHED_BY_SOURCE,
}


class ChangeTarget:
    """A table as an operation changes it: a `RowTarget`.

    Parameters
    ----------
    transaction
        The transaction, in one of its operations.
    options
        How rows are written.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says.

    Raises
    ------
    InvalidArgumentError
        The strategy is not one that the table allows, or an option of Parquet files is not valid.
    """

    def __init__(self, transaction: Transaction, options: RowOptions, strategy: str | None) -> None:
        if options.writer_properties is not None:
            # They are refused even if no file has to be written.
            parquet_options(transaction.snapshot, options.writer_properties, options.compression)
        self._transaction = transaction
        self._options = options
        self._strategy = strategy
        self._rules: TableRules | None = None

    @cached_property
    def _changes(self) -> RowChanges:
        """The changes, with the columns that the table had when they were first asked for."""
        return RowChanges(self._transaction, self._options, self._strategy)

    @property
    def counts(self) -> RowCounts:
        """How many rows were changed."""
        return self._changes.counts

    @property
    def metrics(self) -> dict[str, int]:
        """The effect on files, by the names that delta-spark gives to it."""
        return self._changes.metrics

    def emptied(self) -> None:
        """Take note that all rows were deleted, which needs nothing more."""

    def describe(self, operation: Operation, what: Value | MergePlan | None) -> None:
        """Fill in the parameters that delta-spark records."""
        if isinstance(what, MergePlan):
            operation.parameters.update(_merge_parameters(what))
        else:
            texts = [] if what is None else [str(what)]
            operation.parameters["predicate"] = json.dumps(texts, ensure_ascii=False)

    @property
    def schema(self) -> Struct:
        """The columns."""
        return self._transaction.snapshot.schema

    @property
    def timezone(self) -> str:
        """The zone of timestamps without one in conditions and values."""
        return self._options.timezone or self._transaction.timezone

    @property
    def store(self) -> StoreSpec:
        """The opener of the stores of the table."""
        return self._transaction.snapshot.log.store

    @property
    def root(self) -> Location:
        """Where the table is."""
        return self._transaction.snapshot.log.root

    @property
    def tasks(self) -> RowTasks | None:
        """The tasks that read and write files; None to do so on this machine."""
        return self._transaction.row_tasks

    @property
    def fixed(self) -> frozenset[str]:
        """The identity columns."""
        return frozenset(identity_columns(self.schema))

    @property
    def empty_as_null(self) -> frozenset[str]:
        """The names of columns whose empty values become null."""
        return empty_as_null(self._transaction.snapshot)

    def rules(self, timezone: str, now: dt.datetime) -> TableRules:
        """Return the rules of the table for new rows."""
        self._rules = rules_of(self._transaction.snapshot, timezone, now)
        return self._rules

    def add_columns(self, columns: Struct) -> None:
        """Add those columns, and fields of structs, that the table lacks."""
        merge_columns(self._transaction, columns)

    def scan(self, condition: Value | None, timezone: str) -> BoundScan:
        """Return the scan of the rows that match a filter, or of all, which the transaction relies on from now on."""
        # A strategy that the table does not allow is refused before anything is read.
        _ = self._changes
        self._transaction.read(condition, timezone)
        return scan_to_change(self._transaction, condition, timezone, self._options.reading)

    def apply(self, matched: MatchedRows, change: Change | None = None, inserted: Rows | None = None) -> None:
        """Delete or replace rows that `scan` has found, and insert others.

        Raises
        ------
        ConstraintViolationError
            The table only grows.
        """
        if not matched.is_empty:
            check_changeable(self._transaction.snapshot)
        self._changes.apply(matched, change, inserted)
        if self._rules is not None:
            record_marks(self._transaction, self._rules)


def _merge_parameters(plan: MergePlan) -> dict[str, str]:
    """Return the parameters as delta-spark records them."""
    parameters = {"predicate": json.dumps([plan.condition.sql], ensure_ascii=False)}
    for name, kind in _KINDS.items():
        shown = []
        for clause in plan.of(kind):
            condition = {} if clause.condition is None else {"predicate": clause.condition.sql}
            shown.append({**condition, "actionType": clause.clause.action})
        parameters[name] = json.dumps(shown, ensure_ascii=False)
    return parameters
