"""The request of a write that is planned in one process and committed by another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltaberg.expressions.build.filters import Filter
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.transaction.operations import Operations, Overwritten
from deltaberg.table.transaction.transaction import Transaction

__all__ = ["WriteRequest"]


@dataclass(frozen=True)
class WriteRequest:
    """The request of a write. It pickles.

    Parameters
    ----------
    overwrite
        Whether rows of the table are replaced.
    rows
        How rows are written.
    where, dynamic
        Which rows are replaced; by default all.
    partition_by
        The partitioning; None for that of the table.
    commit
        How the commit is made.
    timezone
        The zone of timestamps without one in ``where`` and in partition values.
    write_properties
        Properties of an Iceberg table that are otherwise for this write.
    """

    overwrite: bool
    rows: RowOptions = field(default_factory=RowOptions)
    where: Filter | None = None
    dynamic: bool = False
    partition_by: tuple[str, ...] | None = None
    commit: CommitOptions = field(default_factory=CommitOptions)
    timezone: str = "UTC"
    write_properties: Mapping[str, str] = field(default_factory=dict)

    def recording(self, txn: tuple[str, int]) -> WriteRequest:
        """Return the same request, with a commit that records the progress of an application."""
        return replace(self, commit=replace(self.commit, txn=txn))

    def carry_out(self, run: Operations[Transaction], data: Any) -> None:
        """Write rows as an operation of a transaction."""
        if self.overwrite:
            which = Overwritten(self.where, self.dynamic, partition_by=self.partition_by)
            run.overwrite(data, self.rows, which)
        else:
            run.append(data, self.rows, self.partition_by)
