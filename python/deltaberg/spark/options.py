"""The options of ``spark.read.format("delta")``, as delta-spark spells them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltaberg.delta import DeltaTable
from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions import Expression, all_of, as_expression
from deltaberg.schema import ColumnName
from deltaberg.storage import is_store_option, parse_location
from deltaberg.table import Scan, ScanOptions

__all__ = ["ReadOptions"]

_TRAVEL = ("versionAsOf", "timestampAsOf")
_CHANGES = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_OWN = {
    name.lower(): name
    for name in (
        "path",
        "paths",
        *_TRAVEL,
        "readChangeFeed",
        "readChangeData",
        *_CHANGES,
        "columns",
        "filter",
        "batchSize",
        "timezone",
    )
}
_BOOLEANS = {"true": True, "false": False}


class ReadOptions:
    """The options of a read, and the table that they name.

    They travel with the reader, and with them the version that was found first: Spark asks for the schema, the plan
    and the rows in processes of their own, which must see one version. The open table does not travel.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items() if name.lower() in _OWN}
        self._store = {name: value for name, value in options.items() if name.lower() not in _OWN}
        self._version: int | None = None
        self._table: DeltaTable | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    def scan(self, pushed: Expression | None = None) -> Scan:
        """Describe the rows that are wanted, of which a pushed filter is true."""
        feed = self._flag("readChangeFeed") or self._flag("readChangeData")
        self._check_together(feed)
        columns, condition = self._columns(), self._condition(pushed)
        options = ScanOptions(timezone=self._timezone)
        if "batchsize" in self._options:
            options = ScanOptions(batch_size=self._integer("batchSize"), timezone=self._timezone)
        table = self._open()
        if not feed:
            return table.scan(filter=condition, columns=columns, options=options)
        start, end = self._bound("starting"), self._bound("ending")
        if start is None:
            raise InvalidArgumentError("changes need the option startingVersion or startingTimestamp")
        return table.changes(start, end, filter=condition, columns=columns, options=options)

    def _check_together(self, feed: bool) -> None:
        """Refuse options that contradict each other: one of them would be passed over in silence."""
        self._exclude(*_TRAVEL)
        self._exclude("startingVersion", "startingTimestamp")
        self._exclude("endingVersion", "endingTimestamp")
        misplaced = [name for name in (_TRAVEL if feed else _CHANGES) if name.lower() in self._options]
        if misplaced and feed:
            raise InvalidArgumentError(
                f"a change feed takes no option {misplaced[0]}", hint="use endingVersion or endingTimestamp"
            )
        if misplaced:
            raise InvalidArgumentError(
                f"the option {misplaced[0]} belongs to a change feed", hint="set the option readChangeFeed to true"
            )

    def _exclude(self, *names: str) -> None:
        if all(name.lower() in self._options for name in names):
            raise InvalidArgumentError(f"the options {' and '.join(names)} exclude each other")

    def _open(self) -> DeltaTable:
        if self._table is not None:
            return self._table
        path = self._options.get("path")
        if not path:
            raise InvalidArgumentError(
                'format("delta") needs one path',
                hint="use load(path), or CREATE TEMPORARY VIEW ... USING delta OPTIONS (path '...'); Spark gives a "
                "Python source nothing of CREATE TABLE's LOCATION, nor of delta.`/path`",
            )
        self._check_names(path)
        version = self._version
        if version is None and "versionasof" in self._options:
            version = self._integer("versionAsOf")
        self._table = DeltaTable(
            path,
            version=version,
            timestamp=self._options.get("timestampasof") if version is None else None,
            storage_options=self._store,
            timezone=self._timezone,
        )
        self._version = self._table.version
        return self._table

    def _check_names(self, path: str) -> None:
        """Refuse options that nobody knows; other stores than that of this machine check their own."""
        if parse_location(path).scheme != "file":
            return
        for name in self._store:
            if not is_store_option(name):
                near = difflib.get_close_matches(name.lower(), _OWN, n=1)
                hint = f"did you mean {_OWN[near[0]]}?" if near else f"known are {', '.join(_OWN.values())}"
                raise InvalidArgumentError(f'format("delta") has no option {name}', hint=hint)

    @property
    def _timezone(self) -> str:
        return self._options.get("timezone", "UTC")

    def _columns(self) -> Sequence[ColumnName] | None:
        text = self._options.get("columns")
        if text is None:
            return None
        names = _json_names(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
        if not all(names):
            raise InvalidArgumentError(f"the option columns is {text!r}", hint="name columns, separated by commas")
        return names

    def _condition(self, pushed: Expression | None) -> Expression | None:
        parts = [] if pushed is None else [pushed]
        if "filter" in self._options:
            parts.append(as_expression(self._options["filter"]))
        return all_of(parts) if parts else None

    def _bound(self, side: str) -> int | str | None:
        if f"{side}version" in self._options:
            return self._integer(f"{side}Version")
        return self._options.get(f"{side}timestamp")

    def _integer(self, name: str) -> int:
        text = self._options[name.lower()]
        try:
            return int(text)
        except ValueError:
            raise InvalidArgumentError(f"the option {name} is {text!r}, no number") from None

    def _flag(self, name: str) -> bool:
        text = self._options.get(name.lower(), "false").strip().lower()
        if text not in _BOOLEANS:
            raise InvalidArgumentError(f"the option {name} is {text!r}", hint="use true or false")
        return _BOOLEANS[text]


def _json_names(text: str) -> list[ColumnName]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"the option columns is {text!r}, no JSON list") from None
    if not names:
        raise InvalidArgumentError("the option columns names none", hint="Spark cannot count rows without columns")
    return [tuple(map(str, name)) if isinstance(name, list) else str(name) for name in names]
