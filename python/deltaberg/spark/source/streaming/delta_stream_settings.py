"""The options of ``spark.readStream.format("delta")``, as delta-spark spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from deltaberg.delta.stream.commit_rules import DeltaStreamOptions
from deltaberg.delta.stream.delta_stream import DeltaStream
from deltaberg.delta.streams import delta_stream
from deltaberg.delta.table import DeltaTable
from deltaberg.spark.source.options import IN_CATALOG, NOT_IN_CATALOG
from deltaberg.spark.source.streaming.stream_settings import LIMITS_ANYWHERE, StreamSettings
from deltaberg.table.arguments import parse_instant, zone_of
from deltaberg.table.streaming.follow import LATEST

__all__ = ["DeltaStreamSettings"]


class DeltaStreamSettings(StreamSettings):
    """The options of a stream of a Delta table."""

    format = "delta"
    limits_of: ClassVar[Mapping[str, str]] = {"maxFilesPerTrigger": "files", "maxBytesPerTrigger": "bytes"}
    default_files = 1000
    only_streams = ("ignoreDeletes", "ignoreChanges", "skipChangeCommits", "excludeRegex", "failOnDataLoss")
    own = (
        *("startingVersion", "startingTimestamp", "readChangeFeed", "readChangeData"),
        *(*only_streams, *limits_of, LIMITS_ANYWHERE),
    )
    others: ClassVar[Mapping[str, str]] = {
        "versionasof": "use startingVersion",
        "timestampasof": "use startingTimestamp",
        "schematrackinglocation": "leave it out: a stream stops at a change of the schema, and says how to go on",
        IN_CATALOG: NOT_IN_CATALOG,
        "ignorefiledeletion": "use skipChangeCommits or ignoreChanges",
        "stream-from-timestamp": 'use startingTimestamp, which takes text such as "2026-01-31 12:00:00"',
    }

    @property
    def may_lose(self) -> bool:
        """Whether commits that were cleaned up and data files that were vacuumed are passed over."""
        return "failondataloss" in self._options and not self._flag("failOnDataLoss")

    def stream(self) -> DeltaStream:
        """Open the table, and return the stream that the options describe."""
        self._exclude("startingVersion", "startingTimestamp")
        table = DeltaTable(self._path(), storage_options=self._store, timezone=self._timezone)
        return delta_stream(table, self._stream_options())

    def _stream_options(self) -> DeltaStreamOptions:
        start: int | str | None = None
        if "startingversion" in self._options:
            text = self._options["startingversion"].strip().lower()
            start = text if text == LATEST else self._integer("startingVersion")
        instant = self._options.get("startingtimestamp")
        return DeltaStreamOptions(
            start=start,
            start_millis=None if instant is None else parse_instant(instant, zone_of(self._timezone)),
            change_feed=self._flag("readChangeFeed") or self._flag("readChangeData"),
            ignore_deletes=self._flag("ignoreDeletes"),
            ignore_changes=self._flag("ignoreChanges"),
            skip_changes=self._flag("skipChangeCommits"),
            exclude=self._options.get("excluderegex"),
            allow_data_loss=self.may_lose,
        )
