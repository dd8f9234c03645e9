"""Deleting, updating and merging rows, as parts of a transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.metadata.new_columns import own_types
from deltaberg.iceberg.operations.row_changes import RowChanges
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema import ColumnName
from deltaberg.table.rewrite import (
    Condition,
    MergeClause,
    MergeOptions,
    change_matching,
    row_condition,
    update_change,
)
from deltaberg.table.rewrite.merge_operation import MergeOutcome, check_upsert, merge_into, upsert_into
from deltaberg.table.write import RowOptions

__all__ = ["delete_rows", "merge_rows", "update_rows", "upsert_rows"]


def delete_rows(
    transaction: Transaction, where: Condition | None, options: RowOptions, *, strategy: str | None = None
) -> None:
    """Delete the rows that match a condition, or all rows.

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
    InvalidArgumentError
        The strategy is not one that the table allows.
    """
    with transaction.operation("delete"):
        target = RowChanges(transaction, options, "delete", strategy)
        change_matching(target, row_condition(target.schema, where, target.timezone))
        if where is None and target.is_serializable:
            # What is left of delete files is about nothing: nobody can have added rows that they delete.
            transaction.pending.removes_deletes = True
        transaction.metrics.update(target.metrics)
        if target.deleted_rows is not None:
            transaction.metrics["numDeletedRows"] += target.deleted_rows


def update_rows(
    transaction: Transaction,
    values: Mapping[ColumnName, Any],
    where: Condition | None,
    options: RowOptions,
    *,
    strategy: str | None = None,
) -> None:
    """Set columns of the rows that match a condition, or of all rows.

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
        A column that must not be null is set to null.
    EvaluationError
        The value of a row cannot be computed, or does not fit its column.
    """
    with transaction.operation("update"):
        target = RowChanges(transaction, options, "update", strategy)
        now = dt.datetime.now(dt.timezone.utc)
        condition = row_condition(target.schema, where, target.timezone, now)
        change_matching(target, condition, update_change(target, values, now))
        transaction.metrics.update(target.metrics)
        transaction.metrics["numUpdatedRows"] += target.updated_rows


def merge_rows(
    transaction: Transaction, data: Any, on: Any, clauses: Sequence[MergeClause], options: MergeOptions
) -> None:
    """Merge rows into a table. The parameters and exceptions are those of `merge_into`."""
    own = own_types(transaction.metadata.format_version)
    _merge(transaction, options, lambda target: merge_into(target, data, on, clauses, options, own))


def upsert_rows(
    transaction: Transaction,
    data: Any,
    keys: ColumnName | Sequence[ColumnName] | None,
    options: MergeOptions,
    *,
    when_matched: str = "update",
    when_not_matched: str = "insert",
) -> None:
    """Update the rows of a table that have the keys of new rows, and insert the others.

    The parameters and exceptions are those of `upsert_into`; without keys, the identifier fields are taken.
    """
    names = _identifier(transaction) if keys is None else keys
    check_upsert(names, when_matched, when_not_matched)

    def run(target: RowChanges) -> MergeOutcome:
        own = own_types(transaction.metadata.format_version)
        return upsert_into(
            target, data, names, options, when_matched=when_matched, when_not_matched=when_not_matched, own=own
        )

    _merge(transaction, options, run)


def _merge(transaction: Transaction, options: MergeOptions, merge: Callable[[RowChanges], MergeOutcome]) -> None:
    with transaction.operation("merge"):
        target = RowChanges(transaction, options.rows, "merge", options.strategy)
        outcome = merge(target)
        transaction.metrics.update({**target.metrics, **outcome.metrics, "numTargetRowsInserted": target.inserted_rows})


def _identifier(transaction: Transaction) -> list[ColumnName]:
    """Return the columns that identify rows (Iceberg spec, "Identifier Field IDs")."""
    schema = transaction.metadata.current_schema
    paths = [path_to_id(schema.struct, number) for number in schema.identifier_field_ids]
    if not paths:
        raise InvalidArgumentError(
            "an upsert needs keys, and the table has no identifier fields",
            hint="name the columns that identify a row, or set identifier fields by alter()",
            table=transaction.metadata.location,
        )
    return [tuple(part.name for part in path) for path in paths]
