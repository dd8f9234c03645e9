"""Iceberg tables: metadata, manifests, deletes and scans (Iceberg table spec, versions 1, 2 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.lazy_names import lazy_names

if TYPE_CHECKING:
    from deltaberg.iceberg.alter.alter import Alteration
    from deltaberg.iceberg.metadata.metadata import TableMetadata
    from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
    from deltaberg.iceberg.metadata.snapshots import Snapshot
    from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder
    from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec
    from deltaberg.iceberg.schema.schema import Schema
    from deltaberg.iceberg.table import IcebergTable
    from deltaberg.iceberg.table_transaction import IcebergTransaction

__all__ = [
    "Alteration",
    "IcebergTable",
    "IcebergTransaction",
    "PartitionField",
    "PartitionSpec",
    "Schema",
    "Snapshot",
    "SnapshotRef",
    "SortField",
    "SortOrder",
    "TableMetadata",
]

_HOMES = {
    "Alteration": "alter.alter",
    "IcebergTable": "table",
    "PartitionField": "metadata.specs",
    "PartitionSpec": "metadata.specs",
    "Schema": "schema.schema",
    "Snapshot": "metadata.snapshots",
    "SnapshotRef": "metadata.snapshot_refs",
    "SortField": "metadata.sort_orders",
    "SortOrder": "metadata.sort_orders",
    "TableMetadata": "metadata.metadata",
    "IcebergTransaction": "table_transaction",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
