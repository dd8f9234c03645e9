"""Writes rows where the tests find them; it runs in the judge."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

__all__ = ["write_rows"]


def write_rows(rows: pa.Table, folder: Path, name: str) -> str:
    """Write rows for `Written.rows`, and give the name."""
    with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return name
