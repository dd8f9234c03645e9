"""A transaction of an Iceberg table with the verbs of the table, each of which becomes a part of one commit."""

from __future__ import annotations

from deltaberg.iceberg.alter.alter import Alteration
from deltaberg.iceberg.operations import IcebergOperations
from deltaberg.iceberg.verbs import IcebergVerbs
from deltaberg.signatures import public
from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["IcebergTransaction"]


@public
class IcebergTransaction(IcebergVerbs[None], TableTransaction[IcebergOperations, Alteration]):
    """Several operations on an Iceberg table that become one snapshot, or none: see `TableTransaction`."""
