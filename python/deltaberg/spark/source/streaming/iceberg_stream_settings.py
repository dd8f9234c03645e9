"""The options of ``spark.readStream.format("iceberg")``, as iceberg-spark spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.stream.iceberg_stream import IcebergStream, IcebergStreamOptions
from deltaberg.iceberg.streams import iceberg_stream
from deltaberg.iceberg.table import IcebergTable
from deltaberg.spark.source.options import IN_CATALOG
from deltaberg.spark.source.streaming.stream_settings import LIMITS_ANYWHERE, StreamSettings
from deltaberg.table.arguments import AUTO

__all__ = ["IcebergStreamSettings"]

_SKIPS = ("streaming-skip-overwrite-snapshots", "streaming-skip-delete-snapshots")
_START = "stream-from-timestamp"


class IcebergStreamSettings(StreamSettings):
    """The options of a stream of an Iceberg table."""

    format = "iceberg"
    limits_of: ClassVar[Mapping[str, str]] = {
        "streaming-max-files-per-micro-batch": "files",
        "streaming-max-rows-per-micro-batch": "rows",
    }
    only_streams = (_START, *_SKIPS)
    own = (*only_streams, *limits_of, LIMITS_ANYWHERE, "branch", "changes", "location-map", IN_CATALOG)
    others: ClassVar[Mapping[str, str]] = {
        "snapshot-id": f"use {_START}, which takes milliseconds since 1970",
        "start-snapshot-id": f"use {_START}, which takes milliseconds since 1970",
        "as-of-timestamp": f"use {_START}",
        "startingtimestamp": f"use {_START}, which takes milliseconds since 1970",
        "tag": "a stream follows a branch: use branch",
    }

    def stream(self) -> IcebergStream:
        """Open the table, and return the stream that the options describe."""
        branch = self._options.get("branch", MAIN)
        moved = self._options.get("location-map")
        if moved not in (None, AUTO):
            raise InvalidArgumentError(f'the option location-map must be "{AUTO}", not {shown_value(moved)}')
        path = self._path()
        table = IcebergTable(
            self.pointer or self._named() or path,
            ref=None if branch == MAIN else branch,
            storage_options=self._store,
            location_map=moved,
            timezone=self._timezone,
        )
        options = IcebergStreamOptions(
            start_millis=self._integer(_START) if _START in self._options else None,
            branch=branch,
            changes=self._flag("changes"),
            skip_overwrites=self._flag(_SKIPS[0]),
            skip_deletes=self._flag(_SKIPS[1]),
        )
        return iceberg_stream(table, options)
