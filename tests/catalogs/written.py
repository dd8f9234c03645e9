"""Tables that pyiceberg writes through its catalogs, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["FIRST", "SECOND", "ids", "peer_sql", "publish", "write_orders"]

FIRST = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})
SECOND = pa.table({"id": pa.array([4, 5], pa.int64()), "name": ["d", ""]})


def peer_sql(name: str, uri: str, warehouse: Path) -> Any:
    """Return pyiceberg's SQL catalog; it makes the layout where there is none."""
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(name, uri=uri, warehouse=warehouse.as_uri())


def write_orders(catalog: Any, identifier: str = "sales.orders") -> Any:
    """Make a table of two snapshots, with its namespace."""
    catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
    table = catalog.create_table(identifier, FIRST.schema)
    table.append(FIRST)
    table.append(SECOND)
    return table


def ids(table: Any) -> list[int]:
    """Return the ids of a table's rows, sorted."""
    return sorted(table.scan(columns=["id"]).to_arrow().column("id").to_pylist())


def publish(server: Any, table: Any, name: str = "sales.orders") -> None:
    """Let the REST catalog give the newest metadata of a table."""
    server.tables[tuple(name.split("."))] = Path(table.metadata_location.removeprefix("file://"))
