"""The operations of a transaction of a Delta table, as its verbs call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltaberg.delta.operations.alter import Alteration
from deltaberg.delta.operations.change_target import ChangeTarget
from deltaberg.delta.operations.write import append_rows, overwrite_rows
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.schema import ColumnName
from deltaberg.table.rewrite import Condition
from deltaberg.table.transaction.operations import Operations
from deltaberg.table.write import RowOptions

__all__ = ["DeltaOperations"]


class DeltaOperations(Operations):
    """The operations of a transaction of a Delta table."""

    transaction: Transaction

    def append(self, data: Any, options: RowOptions, partition_by: Sequence[ColumnName] | None) -> None:
        """Write rows to new files."""
        append_rows(self.transaction, data, options, partition_by)

    def overwrite(
        self,
        data: Any,
        options: RowOptions,
        *,
        where: Condition | None,
        dynamic: bool,
        check: bool,
        partition_by: Sequence[ColumnName] | None,
    ) -> None:
        """Replace rows by others."""
        overwrite_rows(
            self.transaction, data, options, where=where, dynamic=dynamic, check=check, partition_by=partition_by
        )

    def alter(self, *, is_part: bool = True) -> Alteration:
        """Begin changes of the table."""
        return Alteration(self.transaction, is_part=is_part)

    def target(self, operation: str, options: RowOptions, strategy: str | None) -> ChangeTarget:
        """Return the table, as all operations change it alike."""
        return ChangeTarget(self.transaction, options, strategy)
