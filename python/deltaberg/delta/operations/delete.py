"""Deleting rows."""

from __future__ import annotations

from deltaberg.delta.operations.conditions import Condition, row_condition
from deltaberg.delta.operations.row_changes import RowChanges, check_changeable
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.transaction.transaction import Transaction

__all__ = ["delete_rows"]


def delete_rows(
    transaction: Transaction, where: Condition | None, options: RowOptions, *, strategy: str | None = None
) -> None:
    """Delete the rows that match a condition, or all rows, unless the progress of the transaction is recorded already.

    Parameters
    ----------
    where
        The condition; None for all rows.
    options
        How rows are written that stay where files are written anew.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says.

    Raises
    ------
    ConstraintViolationError
        The table only grows.
    InvalidArgumentError
        The strategy is not one that the table allows.
    """
    with transaction.operation("DELETE") as made:
        table = transaction.snapshot
        changes = RowChanges(transaction, options, strategy)
        condition = row_condition(table, where, transaction.timezone)
        if not transaction.is_done:
            matched = condition.find(transaction, transaction.timezone, transaction.search)
            # Even if no row matches, rows that others append meanwhile may.
            transaction.read(condition.filter)
            if not matched.is_empty:
                check_changeable(table)
                changes.apply(matched)
        made.metrics.update(changes.metrics)
        if changes.deleted_rows is not None:
            made.metrics["numDeletedRows"] = changes.deleted_rows
        made.parameters["predicate"] = condition.recorded
