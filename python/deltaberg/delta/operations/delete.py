"""Deleting rows."""

from __future__ import annotations

import json

from deltaberg.delta.operations.row_changes import RowChanges, check_changeable, scan_to_change
from deltaberg.delta.operations.rows import RowOptions, commit_files
from deltaberg.delta.transaction.commit_info import Provenance
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.expressions import Filter, as_expression
from deltaberg.table import CommitResult
from deltaberg.table.rewrite import find_rows

__all__ = ["delete_rows"]


def delete_rows(
    transaction: Transaction,
    where: Filter | None,
    options: RowOptions,
    *,
    strategy: str | None = None,
    timezone: str = "UTC",
    user_metadata: str | None = None,
) -> CommitResult:
    """Delete the rows that match a filter, or all rows, and commit.

    Parameters
    ----------
    where
        The filter; None for all rows.
    options
        How rows are written that stay where files are written anew.
    strategy
        ``merge-on-read`` or ``copy-on-write``; None for what the table says.
    timezone
        The zone of timestamps without one.
    user_metadata
        Text that the history keeps with the commit.

    Raises
    ------
    ConstraintViolationError
        The table only grows.
    InvalidArgumentError
        The strategy is not one that the table allows.
    """
    table = transaction.snapshot
    changes = RowChanges(transaction, options, strategy)
    condition = None if where is None else as_expression(where)
    if not transaction.is_done:
        matched = find_rows(scan_to_change(table, condition, timezone))
        if not matched.is_empty:
            check_changeable(table)
            transaction.read(condition)
            changes.apply(matched)
        elif transaction.is_empty:
            return CommitResult(table.version, transaction.token, "DELETE", committed=False)
    metrics = changes.metrics
    if changes.deleted_rows is not None:
        metrics["numDeletedRows"] = changes.deleted_rows
    parameters = {"predicate": json.dumps([] if condition is None else [str(condition)], ensure_ascii=False)}
    provenance = Provenance("DELETE", parameters, metrics, user_metadata)
    return commit_files(transaction, table, changes.paths, provenance)
