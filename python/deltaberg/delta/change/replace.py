"""Replacing the rows that match a condition by new rows, which must match it, too."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.change.row_changes import RowChanges, scan_to_change
from deltaberg.delta.rows.row_spec import RowOptions
from deltaberg.delta.transaction.file_changes import encode_path
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import ConstraintViolationError
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.arrow import as_array
from deltaberg.table.change.match import find_rows
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.rows.row_rules import ONLY_MATCHING
from deltaberg.table.transaction.operation import Operation, RowNumbers
from deltaberg.table.transaction.operations import Overwritten

__all__ = ["replace_rows", "total_rows"]


def replace_rows(
    transaction: Transaction,
    operation: Operation,
    condition: Value,
    write: Callable[[], pa.Table],
    options: RowOptions,
    which: Overwritten,
) -> None:
    """Delete the rows that match a condition, and add new ones.

    Parameters
    ----------
    transaction, operation
        The transaction, with the columns that the new rows need, and the operation that it is in.
    condition
        The condition.
    write
        Writes the new rows, and returns a row for each of their files.
    options
        How rows are written that stay where files are written anew.
    which
        Whether new rows are refused that do not match the condition, and how the others go.

    Raises
    ------
    ConstraintViolationError
        A new row does not match the condition.
    """
    timezone = options.timezone or transaction.timezone
    matched = find_rows(scan_to_change(transaction, condition, timezone))
    changes = RowChanges(transaction, options, which.strategy)
    transaction.read(condition, timezone)
    written = write()
    transaction.add_files(written)
    if which.check:
        _check_rows(transaction, condition, written, timezone)
    changes.apply(matched, added=lambda: _new_rows(transaction, None, written, timezone).batches())
    operation.metrics.update({name: changes.metrics[name] for name in ("numCopiedRows", "numAddedChangeFiles")})
    operation.rows = RowNumbers(total_rows(written), 0, changes.counts.deleted, changes.counts.copied)
    if changes.counts.deleted is not None:
        operation.metrics["numDeletedRows"] = changes.counts.deleted


def total_rows(written: pa.Table) -> int:
    """Return the number of rows in files that were written."""
    return pc.sum(written.column("record_count")).as_py() or 0


def _new_rows(transaction: Transaction, condition: Value | None, written: pa.Table, timezone: str) -> BoundScan:
    """Return the scan of rows that were just written, by a condition."""
    bound = scan_to_change(transaction, condition, timezone)
    paths = pa.array([encode_path(path) for path in written.column("path").to_pylist()], pa.string())
    return bound.of_files(pc.is_in(as_array(bound.plan.files.column("path")), value_set=paths))


def _check_rows(transaction: Transaction, condition: Value, written: pa.Table, timezone: str) -> None:
    """Refuse new rows of which one does not match the condition by which rows are replaced."""
    matched = find_rows(_new_rows(transaction, condition, written, timezone))
    whole = pc.sum(matched.of(matched.whole).plan.row_counts(), min_count=0).as_py()
    rows = pc.sum(written.column("record_count"), min_count=0).as_py()
    wrong = rows - whole - matched.rows.total
    if wrong:
        raise ConstraintViolationError(f"{wrong} of {rows} new rows do not match {condition}", hint=ONLY_MATCHING)
