"""The operations of a transaction of a Delta table, as its verbs call them."""

from __future__ import annotations

from collections.abc import Sequence

from deltaberg.delta.alter.alter import Alteration
from deltaberg.delta.change.target import ChangeTarget
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.delta.write.write_rows import append_rows, check_partitioning, overwrite_rows
from deltaberg.schema.columns import ColumnName
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.transaction.operations import Operations, Overwritten
from deltaberg.table.write.sources import Rows

__all__ = ["DeltaOperations"]


class DeltaOperations(Operations[Transaction]):
    """The operations of a transaction of a Delta table."""

    def check_partitioning(self, partition_by: Sequence[ColumnName]) -> None:
        """Refuse a partitioning that is not that of the table."""
        check_partitioning(self.transaction.snapshot, partition_by)

    def _append(self, made: Operation, rows: Rows, options: RowOptions) -> None:
        append_rows(self.transaction, made, rows, options)

    def _overwrite(self, made: Operation, rows: Rows, options: RowOptions, which: Overwritten) -> None:
        overwrite_rows(self.transaction, made, rows, options, which)

    def alter(self, *, is_part: bool = True) -> Alteration:
        """Begin changes of the table."""
        return Alteration(self.transaction, is_part=is_part)

    def target(self, operation: str, options: RowOptions, strategy: str | None) -> ChangeTarget:
        """Return the table, as all operations change it alike."""
        return ChangeTarget(self.transaction, options, strategy)
