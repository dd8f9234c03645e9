"""Streams of Delta tables that are open."""

from __future__ import annotations

from deltaberg.delta.stream.commit_rules import DeltaStreamOptions
from deltaberg.delta.stream.delta_stream import DeltaStream
from deltaberg.delta.table import DeltaTable

__all__ = ["delta_stream"]


def delta_stream(table: DeltaTable, options: DeltaStreamOptions) -> DeltaStream:
    """Return a stream of a table, in the columns of the version that is open."""
    return DeltaStream(table._snapshot, table._options.timezone, table._resolver, options)  # noqa: SLF001
