"""Streams of Iceberg tables that are open."""

from __future__ import annotations

from typing import Protocol

from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.stream.iceberg_stream import IcebergStream, IcebergStreamOptions
from deltaberg.iceberg.stream.snapshot_position import SnapshotPosition
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.streaming.follow import FollowRequest

__all__ = ["followed", "iceberg_stream"]


class OpenSnapshot(Protocol):
    """What a stream takes of an open table."""

    _pointer: TablePointer
    _loaded: LoadedTable
    _source: IcebergSource
    _options: OpenOptions


def iceberg_stream(table: OpenSnapshot, options: IcebergStreamOptions) -> IcebergStream:
    """Return a stream of a branch of a table, in the columns of the metadata that is open."""
    return IcebergStream(table._pointer, table._loaded, table._source, options)  # noqa: SLF001 - of a table


def followed(table: OpenSnapshot, asked: FollowRequest) -> tuple[IcebergStream, SnapshotPosition | None]:
    """Return the stream by which a table is followed, and its position if it begins with a snapshot that is named."""
    options = IcebergStreamOptions(
        start_millis=asked.millis,
        branch=table._options.ref or MAIN,  # noqa: SLF001 - of a table
        changes=asked.changes,
        skip_overwrites=asked.skip_changes,
        skip_deletes=asked.skip_changes,
    )
    return iceberg_stream(table, options), None if asked.version is None else SnapshotPosition(asked.version)
