"""Has a process import and run once what its children use, so that each of them starts in milliseconds."""

from __future__ import annotations

import tempfile

import pyarrow as pa

import deltaberg

__all__ = ["warm_up"]


def warm_up() -> None:
    """Create, append, overwrite and read a local table. No object store is used: its client survives no fork."""
    rows = pa.table({"id": [1], "part": ["a"]})
    with tempfile.TemporaryDirectory() as folder:
        table = deltaberg.create_table(f"{folder}/table", rows.schema, partition_by="part")
        table.append(rows)
        table.overwrite(rows, where="part = 'a'")
        table.overwrite(rows, dynamic=True)
        table.checkpoint()
        table.refresh().scan(columns=["id"]).to_arrow()
