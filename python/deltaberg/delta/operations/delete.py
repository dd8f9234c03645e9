"""Deleting rows."""

from __future__ import annotations

from deltaberg.delta.operations.change_target import ChangeTarget, recorded_condition
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.table.rewrite import Condition, change_matching, row_condition

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
        target = ChangeTarget(transaction, options, strategy)
        changes = target.changes
        condition = row_condition(target.schema, where, target.timezone)
        if not transaction.is_done:
            change_matching(target, condition)
        made.metrics.update(changes.metrics)
        if changes.deleted_rows is not None:
            made.metrics["numDeletedRows"] = changes.deleted_rows
        made.parameters["predicate"] = recorded_condition(condition)
