"""Updating rows: new values for some columns, computed from the rows as they are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from deltaberg.delta.operations.conditions import Condition, row_condition
from deltaberg.delta.operations.row_changes import RowChanges, check_changeable
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.operations.rules import rules_of
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.schema import ColumnName, count_up
from deltaberg.table.rewrite import Replacement, bind_assignments

__all__ = ["update_rows"]


def update_rows(
    transaction: Transaction,
    values: Mapping[ColumnName, Any],
    where: Condition | None,
    options: RowOptions,
    *,
    strategy: str | None = None,
) -> None:
    """Set columns of the rows that match a condition, or of all rows, unless the transaction's progress is recorded.

    Parameters
    ----------
    values
        The values, as `bind_assignments` takes them.
    where
        The condition; None for all rows.
    options
        How rows are written.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says.

    Raises
    ------
    ConstraintViolationError
        The table only grows, or a new row violates a rule of the table.
    EvaluationError
        The value of a row cannot be computed, or does not fit its column.
    """
    with transaction.operation("UPDATE") as made:
        table, timezone = transaction.snapshot, transaction.timezone
        changes = RowChanges(transaction, options, strategy)
        now = dt.datetime.now(dt.timezone.utc)
        condition = row_condition(table, where, timezone, now)
        rules = rules_of(table, timezone, now)
        assignments = bind_assignments(
            table.schema, rules.with_defaults(values), table.schema, timezone=timezone, now=now
        )
        rules.check_given(assignments.columns)
        # Generated columns follow the columns that they are computed from.
        given = rules.given_to_update(assignments.columns - rules.defaulted(values))
        width = len(table.schema)

        def change(batch: pa.RecordBatch) -> Replacement:
            rows = batch.select(range(width))
            changed = rules.rows.apply(assignments.apply(rows, rows), given)
            return Replacement(changed, count_up(0, batch.num_rows))

        if not transaction.is_done:
            matched = condition.find(transaction, timezone, transaction.search)
            # Even if no row matches, rows that others append meanwhile may.
            transaction.read(condition.filter)
            if not matched.is_empty:
                check_changeable(table)
                changes.apply(matched, change)
        made.metrics.update(changes.metrics)
        made.metrics["numUpdatedRows"] = changes.updated_rows
        made.parameters["predicate"] = condition.recorded
