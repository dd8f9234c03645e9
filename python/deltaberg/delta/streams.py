"""Streams of Delta tables that are open."""

from __future__ import annotations

from typing import Protocol

from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.stream.commit_rules import DeltaStreamOptions
from deltaberg.delta.stream.delta_stream import DeltaStream
from deltaberg.storage.location import PathResolver
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.streaming.follow import FollowRequest

__all__ = ["delta_stream", "followed"]


class OpenVersion(Protocol):
    """What a stream takes of an open table."""

    _snapshot: Snapshot
    _resolver: PathResolver
    _options: OpenOptions


def delta_stream(table: OpenVersion, options: DeltaStreamOptions) -> DeltaStream:
    """Return a stream of a table, in the columns of the version that is open."""
    return DeltaStream(table._snapshot, table._options.timezone, table._resolver, options)  # noqa: SLF001 - of a table


def followed(table: OpenVersion, asked: FollowRequest) -> DeltaStream:
    """Return the stream by which a table is followed."""
    options = DeltaStreamOptions(
        start=asked.version, start_millis=asked.millis, change_feed=asked.changes, skip_changes=asked.skip_changes
    )
    return delta_stream(table, options)
