"""Metadata tables of manifests."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.inspect.readable import readable_summaries
from deltaberg.iceberg.manifests.fields import DATA
from deltaberg.iceberg.scan.source import IcebergSource

__all__ = ["all_manifests_table", "manifests_table"]

_MANIFEST_NAMES = {
    "content": "content",
    "path": "manifest_path",
    "length": "manifest_length",
    "partition_spec_id": "partition_spec_id",
    "added_snapshot_id": "added_snapshot_id",
}


def manifests_table(source: IcebergSource) -> pa.Table:
    """Return the manifests of the snapshot."""
    manifests = source.manifests
    columns = {name: manifests.column(column) for name, column in _MANIFEST_NAMES.items()}
    is_data = pc.equal(manifests.column("content"), DATA)
    for kind, mask in (("data", is_data), ("delete", pc.invert(is_data))):
        for state in ("added", "existing", "deleted"):
            counts = manifests.column(f"{state}_files_count")
            columns[f"{state}_{kind}_files_count"] = pc.if_else(mask, counts, pa.scalar(0, pa.int32()))
    columns["partition_summaries"] = readable_summaries(manifests, source.reader)
    return pa.table(columns)


def all_manifests_table(source: IcebergSource) -> pa.Table:
    """Return the manifests of all snapshots, each with the snapshot that lists it."""
    parts = []
    for snapshot in source.metadata.snapshots.values():
        then = source.at(snapshot)
        found = manifests_table(then)
        number = pa.repeat(pa.scalar(snapshot.snapshot_id, pa.int64()), len(found))
        found = found.append_column("reference_snapshot_id", number)
        parts.append(found.append_column("key_metadata", then.manifests.column("key_metadata")))
    if not parts:
        none = manifests_table(source).append_column("reference_snapshot_id", pa.array([], pa.int64()))
        return none.append_column("key_metadata", pa.array([], pa.binary()))
    return pa.concat_tables(parts)
