"""The model of Delta tables: the operations that both formats have, and those of Delta alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import deltaberg
from deltaberg import DeltaTable
from deltaberg.errors import VersionNotFoundError
from tests.model.rules import KINDS, ModelMachine
from tests.model.values import Row, as_arrow, rows_of

__all__ = ["TableMachine"]

_FAR = dt.datetime(2100, 1, 1, tzinfo=dt.timezone.utc)
_SWITCHES = [
    "delta.enableDeletionVectors",
    "delta.enableRowTracking",
    "delta.enableInCommitTimestamps",
    "delta.enableChangeDataFeed",
]


class TableMachine(ModelMachine):
    """A Delta table."""

    def __init__(self) -> None:
        super().__init__()
        self.first = 0
        self.checkpoints: set[int] = set()
        self.interval = 10
        self.progress = 0

    def open(self, version: int | None = None) -> DeltaTable:
        """Open the newest version, or an older one."""
        return DeltaTable(self.root, version=version)

    def number(self, table: Any) -> int:
        """Return which version an open table shows."""
        return int(table.version)

    def landed(self, result: Any) -> int:
        """Return which version a commit made."""
        return int(result.version)

    def moments(self) -> list[int]:
        """Return the versions that were not cleaned up."""
        return list(range(self.first, len(self.versions)))

    def _landed(self) -> None:
        super()._landed()
        version = len(self.versions) - 1
        if version and version % self.interval == 0:
            self.checkpoints.add(version)

    def feed(self, first: int, last: int) -> tuple[list[int], Any]:
        """Return all versions of a range: those without a recorded feed are derived from files."""
        scan = self.open(last).changes(first + 1, last, derived=True)
        return list(range(first, last + 1)), scan

    def version_of(self, known: list[int], row: Row) -> int:
        """Return the version that a row of a change feed names."""
        return int(row["_commit_version"])

    @initialize(
        mode=st.sampled_from(["none", "name", "id"]),
        partitioned=st.booleans(),
        interval=st.integers(2, 6),
        policy=st.sampled_from(["classic", "v2"]),
        indexed=st.sampled_from(["-1", "0", "2", "32"]),
        enabled=st.sets(st.sampled_from(_SWITCHES)),
    )
    def create(self, mode: str, partitioned: bool, interval: int, policy: str, indexed: str, enabled: set[str]) -> None:
        """Create the table with random properties."""
        self.mapped = mode != "none"
        self.partitioned = partitioned
        self.interval = interval
        self.records_changes = "delta.enableChangeDataFeed" in enabled
        properties = {
            "delta.columnMapping.mode": mode,
            "delta.checkpointInterval": str(interval),
            "delta.checkpointPolicy": policy,
            "delta.dataSkippingNumIndexedCols": indexed,
            **dict.fromkeys(enabled, "true"),
        }
        self.table = deltaberg.create_table(
            self.root,
            as_arrow([], self.columns).schema,
            partition_by=self.part if partitioned else None,
            properties=properties,
        )
        self.stale = DeltaTable(self.root)
        self._landed()

    @rule(data=st.data())
    def append_once(self, data: st.DataObject) -> None:
        """Append rows with progress, twice: the second time nothing happens."""
        rows = data.draw(rows_of(self.columns, self.part))
        self.progress += 1
        progress = ("model", self.progress)
        given = as_arrow(rows, self.columns)
        self._write(lambda table: table.append(given, txn=progress), lagging=False, rows=self.rows + rows)
        again = self.table.append(given, txn=progress)
        assert not again.committed

    def _change(self, how: Any, rows: list[Row], matches: Any, *, lagging: bool) -> None:
        """Change the rows that match: nothing is committed if there are none."""
        if lagging and not any(matches(row) for row in self.versions[self.stale.version][1]):
            return
        if not lagging:
            self.table.refresh()
        if any(matches(row) for row in self.rows):
            self._write(how, lagging=lagging, rows=rows)
        elif not lagging:
            assert not how(self.table).committed

    @rule(low=st.integers(0, 9), add=st.integers(0, 9), lagging=st.booleans(), copies=st.booleans())
    def update(self, low: int, add: int, lagging: bool, copies: bool) -> None:
        """Give rows other keys, and move them to another partition."""

        def matches(row: Row) -> bool:
            return bool(row["id"] < low)

        if lagging and self._stale_columns() != self.columns:
            return
        new = [{**row, "id": (row["id"] + add) % 10, self.part: "a"} if matches(row) else row for row in self.rows]
        values = {("id",): f"(id + {add}) % 10", (self.part,): "'a'"}
        strategy = "copy-on-write" if copies else None
        self._change(
            lambda table: table.update(values, f"id < {low}", strategy=strategy), new, matches, lagging=lagging
        )

    @rule(data=st.data(), low=st.integers(0, 9))
    def overwrite_by_a_condition(self, data: st.DataObject, low: int) -> None:
        """Replace the rows of a condition."""
        rows = [{**row, "id": max(row["id"], low)} for row in data.draw(rows_of(self.columns, self.part))]
        left = [row for row in self.rows if row["id"] < low]
        given = as_arrow(rows, self.columns)
        self._write(lambda table: table.overwrite(given, where=f"id >= {low}"), lagging=False, rows=left + rows)

    @rule(data=st.data(), kinds=st.lists(st.sampled_from(KINDS), max_size=3))
    def overwrite_the_columns(self, data: st.DataObject, kinds: list[str]) -> None:
        """Replace all rows and the columns besides the key and the partition column."""
        columns = {"id": "long", self.part: "text", **{self._fresh_name(): kind for kind in kinds}}
        rows = data.draw(rows_of(columns, self.part))
        given = as_arrow(rows, columns)
        self._write(
            lambda table: table.overwrite(given, schema_mode="overwrite"), lagging=False, rows=rows, columns=columns
        )

    @rule()
    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version."""
        self.table.refresh().checkpoint()
        self.checkpoints.add(self.table.version)

    @rule(data=st.data())
    def compact_the_log(self, data: st.DataObject) -> None:
        """Write a log compaction of some commits."""
        newest = len(self.versions) - 1
        if newest - self.first < 1:
            return
        begin = data.draw(st.integers(self.first, newest - 1))
        end = data.draw(st.integers(begin + 1, newest))
        self.table.refresh().compact_log(begin, end)

    @rule()
    def clean_up_the_log(self) -> None:
        """Clean up as if everything were old: the newest checkpoint is what the log begins with."""
        self.table.cleanup_metadata(_FAR)
        if self.checkpoints:
            self.first = max(self.first, *self.checkpoints)
        if self.first:
            try:
                DeltaTable(self.root, version=self.first - 1)
            except VersionNotFoundError:
                pass
            else:
                raise AssertionError("a version that was cleaned up can be opened")
        self.held = [(version, table) for version, table in self.held if version >= self.first]
