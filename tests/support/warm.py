"""Has a process import and run once what its children use, so that each of them starts in milliseconds."""

from __future__ import annotations

import tempfile

import pyarrow as pa

import deltaberg

__all__ = ["warm_up"]


def warm_up() -> None:
    """Create, append to, overwrite and read local tables. No object store is used: its client survives no fork."""
    rows = pa.table({"id": [1], "part": ["a"]})
    with tempfile.TemporaryDirectory() as folder:
        table = deltaberg.create_table(f"{folder}/table", rows.schema, partition_by="part")
        table.append(rows)
        table.overwrite(rows, where="part = 'a'")
        table.overwrite(rows, dynamic=True)
        table.checkpoint()
        table.refresh().scan(columns=["id"]).to_arrow()
        catalog = deltaberg.load_catalog("warm", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=folder)
        catalog.create_namespace("db")
        other = deltaberg.create_table("db.t", rows.schema, catalog=catalog, partition_by="part")
        other.append(rows)
        other.overwrite(rows, where="part = 'a'")
        other.refresh().scan(columns=["id"]).to_arrow()
