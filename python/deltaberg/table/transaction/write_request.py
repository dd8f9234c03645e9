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
    compact_seconds
        For how many seconds small files are put together after the commit, if the table asks for that; 0 for none.
    """

    overwrite: bool
    rows: RowOptions = field(default_factory=RowOptions)
    where: Filter | None = None
    dynamic: bool = False
    partition_by: tuple[str, ...] | None = None
    commit: CommitOptions = field(default_factory=CommitOptions)
    timezone: str = "UTC"
    write_properties: Mapping[str, str] = field(default_factory=dict)
    compact_seconds: float = 60

    def of_batch(self, txn: tuple[str, int] | None, compact_seconds: float) -> WriteRequest:
        """Return the same request, as that of the batch of a stream; see `StagedFiles`."""
        commit = self.commit if txn is None else replace(self.commit, txn=txn)
        return replace(self, commit=commit, compact_seconds=compact_seconds)

    def carry_out(self, run: Operations[Transaction], data: Any) -> None:
        """Write rows as an operation of a transaction."""
        if self.overwrite:
            which = Overwritten(self.where, self.dynamic, partition_by=self.partition_by)
            run.overwrite(data, self.rows, which)
        else:
            run.append(data, self.rows, self.partition_by)
