"""Streams of Iceberg tables that are open."""

from __future__ import annotations

from deltaberg.iceberg.stream.iceberg_stream import IcebergStream, IcebergStreamOptions
from deltaberg.iceberg.table import IcebergTable

__all__ = ["iceberg_stream"]


def iceberg_stream(table: IcebergTable, options: IcebergStreamOptions) -> IcebergStream:
    """Return a stream of a branch of a table, in the columns of the metadata that is open."""
    return IcebergStream(table._pointer, table._loaded, table._source, options)  # noqa: SLF001
