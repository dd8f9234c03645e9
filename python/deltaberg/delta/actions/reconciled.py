"""The actions about the table as a whole, reconciled (Delta protocol, "Action Reconciliation")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from deltaberg import kernels
from deltaberg.delta.actions.table_actions import Metadata, Protocol, Transaction, read_metadata, read_protocol
from deltaberg.errors import in_context

__all__ = ["TableActions"]

_Action = TypeVar("_Action")


@dataclass(frozen=True)
class TableActions:
    """The newest action of each kind that describes the table as a whole.

    Parameters
    ----------
    protocol, metadata
        The newest of these actions; None if there was none.
    transactions
        The newest ``txn`` action of each application, by application id.
    domains
        The configuration of each live metadata domain, by name, including domains that this library does not
        understand.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)

    def after(self, replay: kernels.Replay) -> TableActions:
        """Return the actions after the commits of a replay.

        Raises
        ------
        CorruptLogError
            If ``protocol`` or ``metaData`` of a commit is not what the protocol says.
        UnsupportedFeatureError
            If the data files are not Parquet.
        """
        transactions, domains = dict(self.transactions), dict(self.domains)
        for app_id, version, updated in zip(*_columns(replay.transactions), strict=True):
            transactions[app_id] = Transaction(app_id, version, updated)
        for domain, configuration, removed in zip(*_columns(replay.domains), strict=True):
            if removed:
                domains.pop(domain, None)
            else:
                domains[domain] = configuration
        return TableActions(
            _read(replay.protocol, read_protocol) or self.protocol,
            _read(replay.metadata, read_metadata) or self.metadata,
            transactions,
            domains,
        )


def _columns(batch: pa.RecordBatch) -> list[list[Any]]:
    return [column.to_pylist() for column in batch.columns]


def _read(found: tuple[int, str] | None, read: Callable[[str], _Action]) -> _Action | None:
    if found is None:
        return None
    version, text = found
    with in_context(commit=version):
        return read(text)
