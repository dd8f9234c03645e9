"""Replacing the rows that match a condition by new rows, which must match it, too."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.change.row_changes import RowChanges, scan_to_change
from deltaberg.delta.rows.row_spec import RowOptions
from deltaberg.delta.transaction.file_changes import encode_path
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.arrow import as_array
from deltaberg.table.change.match import find_rows
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.transaction.operation import Operation, RowNumbers

__all__ = ["replace_rows", "total_rows"]


def replace_rows(
    transaction: Transaction,
    operation: Operation,
    condition: Value,
    write: Callable[[], pa.Table],
    options: RowOptions,
    strategy: str | None,
) -> None:
    """Delete the rows that match a condition, and add new ones.

    Parameters
    ----------
    transaction, operation
        The transaction, with the columns that the new rows need, and the operation that it is in.
    condition
        The condition.
    write
        Writes the new rows, which it checks, and returns a row for each of their files.
    options
        How rows are written that stay where files are written anew.
    strategy
        How the old rows go that are in files with others.
    """
    timezone = options.timezone or transaction.timezone
    matched = find_rows(scan_to_change(transaction, condition, timezone, options.reading))
    changes = RowChanges(transaction, options, strategy)
    transaction.read(condition, timezone)
    written = write()
    transaction.add_files(written)
    changes.apply(matched, added=lambda: _new_rows(transaction, written, timezone).batches())
    operation.metrics.update({name: changes.metrics[name] for name in ("numCopiedRows", "numAddedChangeFiles")})
    operation.rows = RowNumbers(total_rows(written), 0, changes.counts.deleted, changes.counts.copied)
    if changes.counts.deleted is not None:
        operation.metrics["numDeletedRows"] = changes.counts.deleted


def total_rows(written: pa.Table) -> int:
    """Return the number of rows in files that were written."""
    return pc.sum(written.column("record_count")).as_py() or 0


def _new_rows(transaction: Transaction, written: pa.Table, timezone: str) -> BoundScan:
    """Return the scan of rows that were just written."""
    bound = scan_to_change(transaction, None, timezone)
    paths = pa.array([encode_path(path) for path in written.column("path").to_pylist()], pa.string())
    return bound.of_files(pc.is_in(as_array(bound.plan.files.column("path")), value_set=paths))
