"""Following a table without Spark: the rows of each of its commits, one after another."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import at_fault, shown_value
from deltaberg.signatures import public
from deltaberg.table.arguments import check_flags, checked_kind, checked_seconds, integer_of, parse_instant
from deltaberg.table.read.scan import Scan
from deltaberg.table.read.source import ScanSource
from deltaberg.table.streaming.table_stream import TableStream

__all__ = ["LATEST", "FollowRequest", "FollowedCommit", "follow"]

#: What begins after all that a table has.
LATEST = "latest"


@dataclass(frozen=True)
class FollowRequest:
    """What of a table is followed.

    Parameters
    ----------
    version
        The first version of a Delta table, or the first snapshot of an Iceberg table, whose rows are given.
    millis
        The instant, in milliseconds since 1970, from which on commits are given.
    token
        The token of the commit after which others are given, or ``latest``.
    changes
        Whether to give all changes in place of added rows.
    skip_changes
        Whether commits that change or delete rows are passed over.
    poll
        How many seconds to wait where nothing is new; None to end there.
    stop
        What ends it.

    Raises
    ------
    InvalidArgumentError
        An argument is not of its type.
    """

    version: int | None = None
    millis: int | None = None
    token: str | None = None
    changes: bool = False
    skip_changes: bool = False
    poll: float | None = None
    stop: threading.Event | None = None

    def __post_init__(self) -> None:
        check_flags(self, "changes", "skip_changes")
        if self.poll is not None:
            object.__setattr__(self, "poll", checked_seconds("poll", self.poll))
        if self.stop is not None:
            checked_kind("stop", self.stop, threading.Event, "or leave it out")

    @classmethod
    def of(cls, start: Any, zone: dt.tzinfo, **others: Any) -> FollowRequest:
        """Return the request whose beginning callers name in any way: see `follow` of tables."""
        if start is None:
            return cls(**others)
        if isinstance(start, str) and (start == LATEST or start.lstrip().startswith("{")):
            return cls(token=start, **others)
        version = integer_of(start)
        return cls(version, parse_instant(start, zone) if version is None else None, **others)

    def position(self, stream: TableStream[Any], begin: Any) -> Any:
        """Return where a stream goes on: after a token, or where the table has it begin."""
        if self.token is None:
            return begin
        return stream.newest() if self.token == LATEST else stream.read_position(_read_token(self.token))


@public
@dataclass(frozen=True)
class FollowedCommit:
    """A commit of a table that is followed, or the rows that the table had before.

    Parameters
    ----------
    version
        The version of the Delta table, or the snapshot of the Iceberg table.
    rows
        The rows that it added, or its changes, as a scan: ``rows.to_batches()`` reads them one batch at a time, and
        Polars and DuckDB take the scan as it is. They can be read as long as nothing has removed their files.
    token
        A text by which `follow` goes on after this commit.
    is_initial
        Whether these are the rows that the table had when it was first followed.
    """

    version: int
    rows: Scan
    token: str
    is_initial: bool


def _read_token(token: str) -> dict[str, Any]:
    """Return the JSON object that a token is."""
    try:
        recorded = json.loads(token)
    except (ValueError, RecursionError):
        recorded = None
    if not isinstance(recorded, dict):
        raise InvalidArgumentError(
            at_fault("start", f"is no token: {shown_value(token)}"), hint="pass the ⟪token⟫ of a commit as it was"
        )
    return recorded


def follow(
    stream: TableStream[Any],
    start: Any,
    scan_of: Callable[[ScanSource], Scan],
    asked: FollowRequest,
) -> Iterator[FollowedCommit]:
    """Yield the commits of a stream that have rows, one after another.

    Parameters
    ----------
    stream
        The stream.
    start
        Its position; None for its beginning.
    scan_of
        What makes a scan of the rows of a commit.
    asked
        When it waits, and what ends it.
    """
    position = stream.initial() if start is None else start
    ended = threading.Event() if asked.stop is None else asked.stop
    while True:
        for step in stream.steps(position):
            if ended.is_set():
                return
            if len(step.files):
                rows = scan_of(stream.rows_of([step.files], position, step.end))
                token = json.dumps(stream.record(step.end), separators=(",", ":"))
                yield FollowedCommit(stream.commit_of(step.end), rows, token, step.is_initial)
            position = step.end
        if asked.poll is None or ended.wait(asked.poll):
            return
