"""Transactions below the verbs: tests add files and actions of their own, and declare what they have read."""

from __future__ import annotations

from typing import Any, TypeVar

from deltaberg.table.transaction.operations import Operations
from deltaberg.table.transaction.transaction import Transaction
from deltaberg.table.verbs.table import Table, operations_of
from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["begin", "engine_of"]

_Engine = TypeVar("_Engine", bound=Transaction)


def engine_of(transaction: TableTransaction[Operations[_Engine], Any]) -> _Engine:
    """Return what the verbs of a transaction call."""
    return operations_of(transaction).transaction


def begin(table: Table[TableTransaction[Operations[_Engine], Any], Any], **commit: Any) -> _Engine:
    """Begin a transaction as `transaction` of the table does, and return what its verbs call."""
    return engine_of(table.transaction(**commit))
