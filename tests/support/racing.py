"""A commit to an Iceberg table that others come before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deltaberg.iceberg.location.committer import Attempt, Committer, Proposal
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.operations import IcebergOperations
from deltaberg.iceberg.table_transaction import IcebergTransaction
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.table.commit.commit_options import CommitOptions

__all__ = ["Racing", "racing"]


class Racing:
    """Commits as another committer does, after somebody else has committed between preparing and sending."""

    def __init__(self, inner: Committer, race: Callable[[], object]) -> None:
        self._inner = inner
        self._race: Callable[[], object] | None = race

    @property
    def applies_to_newer(self) -> bool:
        return self._inner.applies_to_newer

    def load(self, known: LoadedTable | None = None) -> LoadedTable | None:
        return self._inner.load(known)

    def stage(self, raw: Mapping[str, Any]) -> LoadedTable:
        return self._inner.stage(raw)

    def check(self, metadata: TableMetadata) -> None:
        self._inner.check(metadata)

    def attempt(self, proposal: Proposal) -> Attempt:
        race, self._race = self._race, None
        if race is not None:
            race()
        return self._inner.attempt(proposal)


def racing(table: Any, race: Callable[[], object], **options: Any) -> IcebergTransaction:
    """Return a transaction of a table, between whose first attempt and its commit somebody else acts."""
    committer = Racing(table._pointer.committer(), race)
    return IcebergTransaction(IcebergOperations(Transaction(table._loaded, committer, CommitOptions(**options))))
