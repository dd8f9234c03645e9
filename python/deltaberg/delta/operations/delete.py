"""Deleting rows."""

from __future__ import annotations

import json

from deltaberg.delta.operations.row_changes import RowChanges, check_changeable, scan_to_change
from deltaberg.delta.operations.rows import RowOptions
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.expressions import Filter, as_expression
from deltaberg.table.rewrite import find_rows

__all__ = ["delete_rows"]


def delete_rows(
    transaction: Transaction, where: Filter | None, options: RowOptions, *, strategy: str | None = None
) -> None:
    """Delete the rows that match a filter, or all rows, unless the progress of the transaction is recorded already.

    Parameters
    ----------
    where
        The filter; None for all rows.
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
        condition = None if where is None else as_expression(where)
        if not transaction.is_done:
            matched = find_rows(scan_to_change(table, condition, transaction.timezone))
            if not matched.is_empty:
                check_changeable(table)
                transaction.read(condition)
                changes.apply(matched)
        made.metrics.update(changes.metrics)
        if changes.deleted_rows is not None:
            made.metrics["numDeletedRows"] = changes.deleted_rows
        predicate = [] if condition is None else [str(condition)]
        made.parameters["predicate"] = json.dumps(predicate, ensure_ascii=False)
