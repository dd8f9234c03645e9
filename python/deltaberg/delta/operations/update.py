"""Updating rows: new values for some columns, computed from the rows as they are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from deltaberg.delta.operations.change_target import ChangeTarget, recorded_condition
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.schema import ColumnName
from deltaberg.table.rewrite import Condition, change_matching, row_condition, update_change

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
        target = ChangeTarget(transaction, options, strategy)
        changes = target.changes
        now = dt.datetime.now(dt.timezone.utc)
        condition = row_condition(target.schema, where, target.timezone, now)
        change = update_change(target, values, now)
        if not transaction.is_done:
            change_matching(target, condition, change)
        made.metrics.update(changes.metrics)
        made.metrics["numUpdatedRows"] = changes.updated_rows
        made.parameters["predicate"] = recorded_condition(condition)
