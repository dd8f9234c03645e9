"""The options of ``spark.read.format("iceberg")``, as iceberg-spark spells them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, ClassVar

from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError, TableNotFoundError
from deltaberg.expressions.tree.tree import Value
from deltaberg.hints import shown_value
from deltaberg.iceberg.table import IcebergTable
from deltaberg.spark.source.options import IN_CATALOG, OF_WRITES, ReadOptions
from deltaberg.table.arguments import AUTO
from deltaberg.table.read.scan import Scan

__all__ = ["IcebergReadOptions"]

_CHANGELOG = ("carry-over", "net-changes", "compute-updates", "identifier-columns")
_TRAVEL = ("snapshot-id", "as-of-timestamp", "branch", "tag")
#: What delta-spark has in place of changelogs, and what iceberg-spark lets callers tune.
_FEED = ("readchangefeed", "startingversion", "startingtimestamp", "endingversion", "endingtimestamp")
_TUNING = ("split-size", "lookback", "file-open-cost", "vectorization-enabled", "batch-size")
_RANGE = ("start-snapshot-id", "end-snapshot-id")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


class IcebergReadOptions(ReadOptions):
    """The options of reading an Iceberg table; the metadata file and the snapshot that were found first are kept."""

    format = "iceberg"
    own = (*_TRAVEL, *_RANGE, "changes", *_CHANGELOG, "location-map", IN_CATALOG)
    others: ClassVar[Mapping[str, str]] = {
        "versionasof": "use snapshot-id, or branch or tag for a name",
        "timestampasof": "use as-of-timestamp, which takes milliseconds since 1970",
        **dict.fromkeys(_FEED, "set changes to true, with start-snapshot-id and end-snapshot-id"),
        **OF_WRITES,
        **dict.fromkeys(_TUNING, "leave it out: tasks are planned without it; batchSize sets the rows of a batch"),
    }

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._found: tuple[str, int | None] | None = None

    def scan(self, pushed: Value | None = None) -> Scan:
        """Return the scan that the options and a pushed filter describe."""
        self._check_together()
        arguments: dict[str, Any] = {
            "filter": self._condition(pushed),
            "columns": self._columns(),
            "options": self._scan_options(),
        }
        table = self._open()
        start = self._number("start-snapshot-id")
        if self._flag("changes"):
            return table.changes(start, self._number("end-snapshot-id"), **self._changelog(), **arguments)
        if start is not None:
            return table.appends(start, self._number("end-snapshot-id"), **arguments)
        return table.scan(**arguments)

    def _changelog(self) -> dict[str, Any]:
        """Return the arguments that say what becomes of the recorded changes."""
        arguments: dict[str, Any] = {
            name.replace("-", "_"): self._flag(name) for name in _CHANGELOG[:3] if name in self._options
        }
        if "identifier-columns" in self._options:
            arguments["identifier_columns"] = [name.strip() for name in self._options["identifier-columns"].split(",")]
        return arguments

    def _check_together(self) -> None:
        """Refuse options that contradict each other; one of them would be ignored silently."""
        self._exclude(*_TRAVEL)
        ranged = [name for name in _RANGE if name in self._options]
        travel = [name for name in _TRAVEL if name in self._options]
        if ranged and travel:
            raise InvalidArgumentError(f"the options {ranged[0]} and {travel[0]} cannot be used together")
        misplaced = [name for name in _CHANGELOG if name in self._options]
        if misplaced and not self._flag("changes"):
            raise InvalidArgumentError(
                f"the option {misplaced[0]} needs changes", hint="set the option changes to true"
            )
        if ranged == ["end-snapshot-id"] and not self._flag("changes"):
            raise InvalidArgumentError("the option end-snapshot-id needs start-snapshot-id")

    def _open(self) -> IcebergTable:
        opened: IcebergTable | None = self._table
        if opened is not None:
            return opened
        by_name = self._named()
        common: dict[str, Any] = {
            "storage_options": self._store,
            "location_map": self._map(),
            "timezone": self._timezone,
        }
        if self._found is None:
            millis = self._number("as-of-timestamp")
            table = IcebergTable(
                by_name or self._path(),
                snapshot_id=self._number("snapshot-id"),
                ref=self._options.get("branch", self._options.get("tag")),
                timestamp=None if millis is None else _EPOCH + dt.timedelta(milliseconds=millis),
                **common,
            )
            self._found = (table.metadata_location, table.snapshot_id)
        else:
            # A branch has the current schema of the table, unless a snapshot is named.
            file, number = self._found
            named = any(name in self._options for name in ("snapshot-id", "as-of-timestamp", "tag"))
            ref = self._options.get("branch")
            place: Any = by_name.at(file) if by_name else file
            try:
                table = IcebergTable(place, snapshot_id=number if named else None, ref=ref, **common)
            except (ObjectNotFoundError, TableNotFoundError) as error:
                raise ObjectNotFoundError(
                    "the metadata file that the read was planned on is gone",
                    hint="load the table again; write.metadata.previous-versions-max says how many such files it keeps",
                    file=file,
                ) from error
        self._table = table
        return table

    def _map(self) -> str | None:
        text = self._options.get("location-map")
        if text not in (None, AUTO):
            raise InvalidArgumentError(f'the option location-map must be "{AUTO}", not {shown_value(text)}')
        return text

    def _number(self, name: str) -> int | None:
        return self._integer(name) if name in self._options else None
