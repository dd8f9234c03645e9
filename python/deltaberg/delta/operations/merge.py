"""Merging rows into a table: updating and deleting rows that match, and inserting those that do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from deltaberg.delta.operations.change_target import ChangeTarget
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.schema import ColumnName
from deltaberg.table.rewrite import MergeClause, MergeOptions
from deltaberg.table.rewrite.clauses import MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE
from deltaberg.table.rewrite.merge import MergePlan
from deltaberg.table.rewrite.merge_operation import MergeOutcome, check_upsert, merge_into, upsert_into

__all__ = ["merge_rows", "upsert_rows"]

_KINDS = {
    "matchedPredicates": MATCHED,
    "notMatchedPredicates": NOT_MATCHED,
    "notMatchedBySourcePredicates": NOT_MATCHED_BY_SOURCE,
}


def merge_rows(
    transaction: Transaction, data: Any, on: Any, clauses: Sequence[MergeClause], options: MergeOptions
) -> None:
    """Merge rows into a table, as a part of a transaction. The parameters and exceptions are those of `merge_into`."""
    _run(transaction, options, lambda target: merge_into(target, data, on, clauses, options))


def upsert_rows(
    transaction: Transaction,
    data: Any,
    keys: ColumnName | Sequence[ColumnName],
    options: MergeOptions,
    *,
    when_matched: str = "update",
    when_not_matched: str = "insert",
) -> None:
    """Update the rows of a table that have the keys of new rows, and insert the others, as a part of a transaction.

    The parameters and exceptions are those of `upsert_into`.
    """
    check_upsert(keys, when_matched, when_not_matched)

    def run(target: ChangeTarget) -> MergeOutcome:
        return upsert_into(target, data, keys, options, when_matched=when_matched, when_not_matched=when_not_matched)

    _run(transaction, options, run)


def _run(transaction: Transaction, options: MergeOptions, merge: Callable[[ChangeTarget], MergeOutcome]) -> None:
    """Merge, unless the progress of the transaction is recorded already, and tell the history of it."""
    with transaction.operation("MERGE") as made:
        if transaction.is_done:
            return
        target = ChangeTarget(transaction, options.rows, options.strategy)
        outcome = merge(target)
        changes = target.changes
        own = changes.metrics
        made.parameters.update(_parameters(outcome.plan))
        made.metrics.update(
            {
                **outcome.metrics,
                "numTargetRowsInserted": changes.inserted_rows,
                "numTargetRowsCopied": own["numCopiedRows"],
                "numOutputRows": own["numCopiedRows"] + changes.inserted_rows + changes.updated_rows,
                "numTargetFilesAdded": own["numAddedFiles"],
                "numTargetFilesRemoved": own["numRemovedFiles"],
                "numTargetBytesAdded": own["numAddedBytes"],
                "numTargetBytesRemoved": own["numRemovedBytes"],
                "numTargetDeletionVectorsAdded": own["numDeletionVectorsAdded"],
                "numTargetDeletionVectorsRemoved": own["numDeletionVectorsRemoved"],
                "numTargetDeletionVectorsUpdated": own["numDeletionVectorsUpdated"],
                "numTargetChangeFilesAdded": own["numAddedChangeFiles"],
            }
        )


def _parameters(plan: MergePlan) -> dict[str, str]:
    """Return the parameters as delta-spark records them."""
    parameters = {"predicate": json.dumps([plan.condition.sql], ensure_ascii=False)}
    for name, kind in _KINDS.items():
        shown = []
        for clause in plan.of(kind):
            condition = {} if clause.condition is None else {"predicate": clause.condition.sql}
            shown.append({**condition, "actionType": clause.clause.action})
        parameters[name] = json.dumps(shown, ensure_ascii=False)
    return parameters
