"""The model of Delta tables: the operations that both formats have, and those of Delta alone."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock
from urllib.parse import unquote

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import deltaberg
from deltaberg import DeltaTable
from deltaberg.delta.maintain.cleaning import vacuum_candidates
from deltaberg.errors import DataFileNotFoundError, VersionNotFoundError
from deltaberg.table.maintain import auto_compact
from tests.model.rules import KINDS, ModelMachine
from tests.model.values import Columns, Row, as_arrow, counted, rows_of

__all__ = ["TableMachine"]

_FAR = dt.datetime(2100, 1, 1, tzinfo=dt.timezone.utc)
_SWITCHES = [
    "delta.enableDeletionVectors",
    "delta.enableRowTracking",
    "delta.enableInCommitTimestamps",
    "delta.enableChangeDataFeed",
    "delta.autoOptimize.autoCompact",
]


class TableMachine(ModelMachine):
    """A Delta table."""

    #: How many files all vacuums have deleted.
    vacuumed: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.first = 0
        #: The versions of which a vacuum may have taken files.
        self.gone: set[int] = set()
        #: The versions that replaced all columns: their deleted rows are read by no column of theirs.
        self.replaced: set[int] = set()
        #: The versions that changed the partitioning, past which no feed leads.
        self.partitionings: set[int] = set()
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
        """Return the versions that were not cleaned up, and that no vacuum was allowed to take files of."""
        return [version for version in range(self.first, len(self.versions)) if version not in self.gone]

    def leads_to(self, before: int, moment: int) -> bool:
        """Return whether no version in between has lost files, other partition columns, or replaced mapped columns."""
        replaced = self.partitionings | (self.replaced if self.mapped else set())
        return self.gone.isdisjoint(range(before, moment)) and replaced.isdisjoint(range(before + 1, moment + 1))

    def _landed(self) -> None:
        super()._landed()
        version = len(self.versions) - 1
        if version and version % self.interval == 0:
            self.checkpoints.add(version)

    def _write(self, how: Any, *, lagging: bool, rows: list[Row], columns: Columns | None = None) -> None:
        with mock.patch.object(auto_compact, "MIN_FILES", 3):
            super()._write(how, lagging=lagging, rows=rows, columns=columns)
        # A compaction may have followed the commit.
        for _ in range(len(self.versions), self._writer(lagging=lagging).version + 1):
            self._landed()

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
        self.has_bounds = indexed != "0"
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
        self.replaced.add(len(self.versions) - 1)

    @rule()
    def partition_anew(self) -> None:
        """Write all files anew, partitioned if they were not, or the other way round."""
        self.table.refresh()
        names = () if self.partitioned else (self.part,)
        self._write(lambda table: table.alter().partition_by(*names).commit(), lagging=False, rows=self.rows)
        self.partitioned = not self.partitioned
        self.partitionings.add(len(self.versions) - 1)
        assert self.open().partition_columns == list(names)
        self.stale.refresh()

    @precondition(lambda self: self.versions)
    @rule(shallow=st.booleans())
    def clone(self, shallow: bool) -> None:
        """Make a table of the newest version, or have the one that was made follow: it has the rows of the model."""
        place = self.folder / ("shallow" if shallow else "deep")
        self.open().clone(place, shallow=shallow)
        cloned = DeltaTable(place)
        self._compare(cloned, len(self.versions) - 1)
        if shallow:
            # The source does not notice what becomes of a clone.
            cloned.delete("id < 5")
            assert counted(cloned.scan().to_arrow().to_pylist()) == counted(
                [row for row in self.rows if not row["id"] < 5]
            )
            shutil.rmtree(place)

    @precondition(lambda self: self.versions)
    @rule(name=st.sampled_from(["deletionVectors", "v2Checkpoint"]))
    def drop_feature(self, name: str) -> None:
        """Take a feature out of the table, in some versions: each has the same rows, and older ones stay."""
        table = self.table.refresh()
        if name not in table.features:
            return
        table.drop_feature(name)
        assert name not in self.open().features
        for _ in range(len(self.versions), table.version + 1):
            self._landed()
        # Some of these are the checkpoints that keep readers from older versions.
        self.checkpoints.add(table.version)

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

    @precondition(lambda self: self.versions)
    @rule(data=st.data(), emptied=st.booleans(), keeps=st.booleans(), logging=st.booleans())
    def vacuum(self, data: st.DataObject, emptied: bool, keeps: bool, logging: bool) -> None:
        """Delete what only versions before one of them need, apart from those that are to be kept."""
        self._vacuum(data, emptied, keeps, logging=logging)

    @precondition(lambda self: self.versions)
    @rule(data=st.data(), emptied=st.booleans(), keeps=st.booleans(), logging=st.booleans())
    def vacuum_by_the_log(self, data: st.DataObject, emptied: bool, keeps: bool, logging: bool) -> None:
        """Do the same without a listing, unless the log has been cleaned up since the last time."""
        try:
            self._vacuum(data, emptied, keeps, logging=logging, full=False)
        except VersionNotFoundError:
            assert self.first

    def _vacuum(self, data: st.DataObject, emptied: bool, keeps: bool, **options: Any) -> None:
        if emptied:
            # All files that there are go, unless a version needs them that is to be kept.
            self._change(lambda table: table.delete("true"), [], lambda _: True, lagging=False)
            moments = [len(self.versions) - 1]
        else:
            # A young one, and one whose files the next version has removed.
            moments = self.moments()
            rows = [counted(self.versions[version][1]) for version in moments]
            last = [moment for moment, one, other in zip(moments, rows, rows[1:], strict=False) if one - other]
            moments = last[-3:] or moments[-3:]
        oldest = data.draw(st.sampled_from(moments))
        older = [version for version in self.moments() if version < oldest]
        kept = data.draw(st.lists(st.sampled_from(older), max_size=2)) if keeps and older else []
        entry = Path(self.root, "_delta_log", f"{oldest:020}.json")
        # As if the clock stood a week after the commit.
        now = entry.stat().st_mtime_ns // 1_000_000 + 7 * 24 * 3_600_000
        with mock.patch.object(vacuum_candidates, "earlier_clock", return_value=now):
            table = self.table.refresh()
            planned = table.vacuum(keep_versions=kept, **options)
            done = table.vacuum(dry_run=False, keep_versions=kept, **options)
        assert done.files.equals(planned.files)
        assert (done.failed, done.warnings) == ({}, ())
        TableMachine.vacuumed += done.deleted_files
        for _ in range(2 if options["logging"] else 0):
            self._landed()
        self.gone.update(version for version in range(oldest) if version not in kept)
        self.held = [(version, table) for version, table in self.held if version not in self.gone]
        if self.stale.version in self.gone:
            self.stale.refresh()
        for version in older:
            try:
                self._compare(self.open(version), version)
            except DataFileNotFoundError:
                assert version not in kept

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def repair(self, data: st.DataObject) -> None:
        """Lose a live file, or none, and take it out of the table. Older versions get it back."""
        table = self.table.refresh()
        files = sorted(table.live_files["path"].to_pylist())
        lost = data.draw(st.sampled_from([None, *files]))
        if lost is None:
            assert table.repair().files == ()
            return
        path = Path(self.root, unquote(lost))
        content, described = path.read_bytes(), path.stat()
        path.unlink()
        result = table.repair()
        path.write_bytes(content)
        os.utime(path, ns=(described.st_atime_ns, described.st_mtime_ns))
        assert [one.path for one in result.files] == [lost]
        left, rows = counted(self.open().scan().to_arrow().to_pylist()), []
        for row in self.rows:
            (text,) = counted([row])
            if left[text]:
                left[text] -= 1
                rows.append(row)
        assert not +left
        assert len(self.rows) - len(rows) == result.rows
        self.rows = rows
        self._landed()
