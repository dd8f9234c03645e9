"""Small Iceberg tables, and what pyiceberg reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from deltaberg import create_table
from deltaberg.iceberg import IcebergTable

__all__ = ["as_pyiceberg_reads", "ids_of", "new_table", "rows_of"]

_COLUMNS = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])


def new_table(root: Path, version: str = "3", **more: Any) -> IcebergTable:
    table: IcebergTable = create_table(
        root / "t", _COLUMNS, format="iceberg", properties={"format-version": version}, **more
    )
    return table


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "name": [f"n{number}" for number in ids]})


def ids_of(table: Any) -> list[int]:
    found: list[int] = sorted(table.scan().to_arrow()["id"].to_pylist())
    return found


def as_pyiceberg_reads(table: IcebergTable, **more: Any) -> list[dict[str, Any]]:
    rows = StaticTable.from_metadata(table.metadata_location).scan(**more).to_arrow()
    found: list[dict[str, Any]] = rows.sort_by("id").to_pylist()
    return found
