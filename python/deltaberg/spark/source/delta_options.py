"""The options of ``spark.read.format("delta")``, as delta-spark spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from deltaberg.delta.table import DeltaTable
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.tree.tree import Value
from deltaberg.spark.source.options import IN_CATALOG, NOT_IN_CATALOG, OF_WRITES, ReadOptions
from deltaberg.table.read.scan import Scan

__all__ = ["DeltaReadOptions"]

_TRAVEL = ("versionAsOf", "timestampAsOf")
_FEED = "set readChangeFeed to true, with startingVersion and endingVersion"
_CHANGES = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")


class DeltaReadOptions(ReadOptions):
    """The options of reading a Delta table; the version that was found first is kept."""

    format = "delta"
    own = (*_TRAVEL, "readChangeFeed", "readChangeData", "derived", *_CHANGES)
    others: ClassVar[Mapping[str, str]] = {
        "snapshot-id": "use versionAsOf, which takes the number of a version",
        "as-of-timestamp": 'use timestampAsOf, which takes text such as "2026-01-31 12:00:00"',
        "branch": "a Delta table has versions in place of branches: use versionAsOf",
        "tag": "a Delta table has versions in place of tags: use versionAsOf",
        "changes": _FEED,
        "start-snapshot-id": _FEED,
        "end-snapshot-id": _FEED,
        IN_CATALOG: NOT_IN_CATALOG,
        **OF_WRITES,
    }

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._version: int | None = None

    def scan(self, pushed: Value | None = None) -> Scan:
        """Return the scan that the options and a pushed filter describe."""
        feed = self._flag("readChangeFeed") or self._flag("readChangeData")
        self._check_together(feed)
        columns, condition = self._columns(), self._condition(pushed)
        options = self._scan_options()
        table = self._open()
        if not feed:
            return table.scan(filter=condition, columns=columns, options=options)
        start, end = self._bound("starting"), self._bound("ending")
        if start is None:
            raise InvalidArgumentError("a change feed needs the option startingVersion or startingTimestamp")
        derived = self._flag("derived")
        return table.changes(start, end, filter=condition, columns=columns, derived=derived, options=options)

    def _check_together(self, feed: bool) -> None:
        """Refuse options that contradict each other; one of them would be ignored silently."""
        self._exclude(*_TRAVEL)
        self._exclude("startingVersion", "startingTimestamp")
        self._exclude("endingVersion", "endingTimestamp")
        misplaced = [name for name in (_TRAVEL if feed else (*_CHANGES, "derived")) if name.lower() in self._options]
        if misplaced and feed:
            raise InvalidArgumentError(
                f"the option {misplaced[0]} cannot be used with a change feed",
                hint="use endingVersion or endingTimestamp",
            )
        if misplaced:
            raise InvalidArgumentError(
                f"the option {misplaced[0]} needs a change feed", hint="set the option readChangeFeed to true"
            )

    def _open(self) -> DeltaTable:
        opened: DeltaTable | None = self._table
        if opened is not None:
            return opened
        path = self._path()
        version = self._version
        if version is None and "versionasof" in self._options:
            version = self._integer("versionAsOf")
        table = DeltaTable(
            path,
            version=version,
            timestamp=self._options.get("timestampasof") if version is None else None,
            storage_options=self._store,
            timezone=self._timezone,
        )
        self._table, self._version = table, table.version
        return table

    def _bound(self, side: str) -> int | str | None:
        if f"{side}version" in self._options:
            return self._integer(f"{side}Version")
        return self._options.get(f"{side}timestamp")
