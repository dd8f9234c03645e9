"""The smallest rows that show what a table holds: one column of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

__all__ = ["ID", "ids", "ids_of", "live_files", "tombstones"]

#: The schema of the rows.
ID = pa.schema([("id", pa.int64())])


def ids(*values: int) -> pa.Table:
    """Give rows with these ids."""
    return pa.table({"id": pa.array(values, pa.int64())})


def ids_of(table: Any, **scan: Any) -> list[int]:
    """Give the ids that a scan of a table finds, sorted."""
    found: list[int] = sorted(table.scan(**scan).to_arrow().column("id").to_pylist())
    return found


def live_files(table: Any) -> list[tuple[str, int]]:
    """Give the live files of a table by name, with how many of their rows are deleted."""
    files = table.scan().files()
    names = [str(path).rsplit("/", 1)[-1] for path in files["file_path"].to_pylist()]
    return sorted(zip(names, files["deleted_record_count"].to_pylist(), strict=True))


def tombstones(table: Any) -> list[tuple[str, str | None]]:
    """Give the tombstones of a table as (path, place of the deletion vector)."""
    found = table.tombstones
    vectors: Iterable[Any] = found["deletionVector"].to_pylist()
    places = [None if vector is None else vector["pathOrInlineDv"] for vector in vectors]
    return sorted(zip(found["path"].to_pylist(), places, strict=True), key=repr)
