"""Transactions below the verbs: tests add files and actions of their own, and declare what they have read."""

from __future__ import annotations

from typing import Any, overload

from deltaberg import DeltaTable, IcebergTable
from deltaberg.delta import table_transaction as of_delta
from deltaberg.delta.transaction import transaction as delta
from deltaberg.iceberg import table_transaction as of_iceberg
from deltaberg.iceberg.transaction import transaction as iceberg

__all__ = ["begin", "engine_of"]


@overload
def engine_of(transaction: of_delta.DeltaTransaction) -> delta.Transaction: ...


@overload
def engine_of(transaction: of_iceberg.IcebergTransaction) -> iceberg.Transaction: ...


def engine_of(transaction: Any) -> Any:
    """Return what the verbs of a transaction call."""
    of_format: Any = of_delta if isinstance(transaction, of_delta.DeltaTransaction) else of_iceberg
    return of_format.pending_of(transaction)


@overload
def begin(table: DeltaTable, **commit: Any) -> delta.Transaction: ...


@overload
def begin(table: IcebergTable, **commit: Any) -> iceberg.Transaction: ...


def begin(table: Any, **commit: Any) -> Any:
    """Begin a transaction as `transaction` of the table does, and return what its verbs call."""
    return engine_of(table.transaction(**commit))
