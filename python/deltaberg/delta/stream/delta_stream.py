"""Streams of Delta tables: the rows that commits add, or the changes that they make.

The order of files, and so what a position means, is delta-spark's: those of the snapshot that a stream begins with are
ordered by modification time and path, and those of a commit stand as its actions do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.log.directory import LogEntry
from deltaberg.delta.scan.changed_files import ChangedFiles
from deltaberg.delta.scan.changes import ChangesSource
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.stream.commit_rules import DeltaStreamOptions, SchemaRule, appended_files
from deltaberg.delta.stream.new_commits import NewCommits
from deltaberg.delta.stream.position import NOTHING, Position, read_position
from deltaberg.errors import UnsupportedFeatureError, VersionNotFoundError, in_context
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver
from deltaberg.table.read.source import ScanSource
from deltaberg.table.streaming.batch_source import BatchSource
from deltaberg.table.streaming.follow import LATEST
from deltaberg.table.streaming.table_stream import NEW_STREAM, Step, TableStream

__all__ = ["DeltaStream"]


class DeltaStream(TableStream[Position]):
    """A stream of a Delta table.

    Parameters
    ----------
    snapshot
        The newest version, whose columns the stream has.
    timezone
        The zone of partition values without one.
    resolver
        What finds the places that recorded paths lead to.
    options
        What is read.
    """

    def __init__(self, snapshot: Snapshot, timezone: str, resolver: PathResolver, options: DeltaStreamOptions) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._own = (timezone, resolver)
        self._options = options
        self._schemas = SchemaRule(snapshot)
        self._commits = NewCommits(snapshot, may_lose=options.allow_data_loss)
        #: The version that the stream begins with, and its files in order, until all of them are read.
        self._initial: tuple[int, pa.Table] | None = None
        self._is_start_known = False
        #: The commit that was read last, and its files: batches may divide it.
        self._parsed: tuple[LogEntry, pa.Table] | None = None
        #: When the commits of a change feed were made, as far as they have been listed.
        self._times: CommitTimes | None = None
        _ = options.excluded(pa.array([], pa.string()))

    @cached_property
    def source(self) -> ScanSource:
        """The rows of the version that was the newest, or its changes."""
        return self._feed if self._options.change_feed else self._rows

    @cached_property
    def _rows(self) -> SnapshotSource:
        return SnapshotSource(self._snapshot, *self._own)

    @cached_property
    def _feed(self) -> ChangesSource:
        return self._feed_of(self._snapshot, self._times_from(self._snapshot.version))

    def _feed_of(self, snapshot: Snapshot, times: CommitTimes) -> ChangesSource:
        return ChangesSource(snapshot, *self._own, snapshot, snapshot.version, times, derived=None)

    def _times_from(self, version: int) -> CommitTimes:
        # A commit is younger than the one before it, whatever their log entries say.
        return CommitTimes(self._snapshot.log, self._snapshot, max(version - 1, 0), and_later=True)

    @property
    def _table(self) -> str:
        return str(self._snapshot.log.root)

    def initial(self) -> Position:
        """Return the position before all that a new stream reads."""
        start, newest = self._options.start, self._snapshot
        if self._options.start_millis is not None:
            return Position(CommitTimes(newest.log, newest).first_after(self._options.start_millis))
        if start is None:
            return Position(newest.version, is_initial=True)
        if start == LATEST:
            return Position(newest.version + 1)
        version = int(start)
        kept = CommitTimes(newest.log, newest).versions(0)
        if kept and version < kept[0] and self._options.allow_data_loss:
            return Position(kept[0])
        if version not in kept:
            raise VersionNotFoundError(
                f"the stream cannot begin at version {version}",
                hint=f"the log has the commits of versions {kept[0]} to {kept[-1]}" if kept else None,
                table=self._table,
            )
        return Position(version)

    @property
    def begins_empty(self) -> bool:
        """Whether the stream begins with what comes after the newest version, so that its first batch has no rows."""
        return self._options.start == LATEST

    def newest(self) -> Position:
        """Return the position after the newest commit of the log."""
        return Position(self._commits.newest() + 1)

    def first_before(self, end: Position) -> Position:
        """Return where a stream began whose first batch has this end."""
        if self.begins_empty:
            return end
        if self._options.start is not None or self._options.start_millis is not None:
            begin, opened = self.initial(), self._snapshot
            if self._options.start_millis is None or not begin.version or self._options.allow_data_loss:
                return begin
            if begin.version - 1 in CommitTimes(opened.log, opened).versions(0):
                return begin
            raise VersionNotFoundError(
                f"the stream was stopped in its first batch, which ends at version {end.version}, and nothing tells "
                f"where it began: the log entries before version {begin.version} were cleaned up",
                hint=NEW_STREAM,
                table=self._table,
            )
        # After the snapshot, a batch may go on with commits: the rows of the version before its end are the same ones.
        return Position(end.version if end.is_initial else max(end.version - 1, 0), is_initial=True)

    def read_position(self, recorded: Mapping[str, Any]) -> Position:
        """Return the position that an offset of delta-spark says."""
        return read_position(recorded, self._snapshot.metadata.id or "", self._table)

    def record(self, position: Position) -> dict[str, Any]:
        """Return a position as the offset of delta-spark."""
        return position.record(self._snapshot.metadata.id or "")

    def commit_of(self, position: Position) -> int:
        """Return the version that ends at a position."""
        return position.version - 1

    def _within(self, step: Step[Position], count: int) -> Position:
        return Position(self.commit_of(step.end), step.first + count - 1, step.is_initial)

    def steps(self, start: Position, end: Position | None = None) -> Iterator[Step[Position]]:
        """Yield the files of each version between two positions; see `TableStream`."""
        version = start.version
        skipped = start.index + 1
        if start.is_initial:
            try:
                yield self._initial_step(start, end)
            except VersionNotFoundError as error:
                if not self._options.allow_data_loss:
                    raise
                warnings.warn(f"{error.message}: rows of {self._table} are lost", stacklevel=2)
                yield Step(self._no_files, Position(version + 1), is_initial=True)
            if end is not None and end.version <= version:
                return
            version, skipped = version + 1, 0
        else:
            # The stream is past the snapshot, which may be large.
            self._initial = None
            if not self._is_start_known:
                self._schemas.check_start(version, changes=self._options.change_feed)
                self._is_start_known = True
        last = None if end is None else end.version - (end.index == NOTHING)
        parsed = self._parsed
        for entry, data in self._commits.read(version, last, None if parsed is None else parsed[0]):
            number = entry.version
            with in_context(table=self._table, version=number):
                # Only of the commit that was parsed before this range nothing is read.
                files = parsed[1] if parsed is not None and data is None else self._files_of(number, data or b"")
                self._parsed = (entry, files)
                step = self._step(number, files, skipped if number == start.version else 0)
            if end is not None and number == end.version:
                count = max(end.index + 1 - step.first, 0)
                if step.is_whole and count < len(step.files):
                    raise self._inside(end)
                step = Step(step.files.slice(0, count), end, step.first)
            yield step

    def _inside(self, position: Position) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"the position {position.index} is in the middle of the changes of version {position.version}",
            hint="finish this commit with delta-spark: a batch of changes holds whole commits here",
            table=self._table,
            version=position.version,
        )

    def _initial_step(self, start: Position, end: Position | None) -> Step[Position]:
        files = self._initial_files(start.version)
        first = start.index + 1
        if first > len(files):
            raise VersionNotFoundError(
                f"the stream has read file {start.index} of version {start.version}, which has {len(files)} files",
                hint=NEW_STREAM,
                table=self._table,
                version=start.version,
            )
        stop = len(files)
        after = Position(start.version + 1)
        if end is not None and end.version == start.version:
            stop, after = min(end.index + 1, stop), end
        return Step(files.slice(first, max(stop - first, 0)), after, first, is_initial=True)

    def _initial_files(self, version: int) -> pa.Table:
        if self._initial is None or self._initial[0] != version:
            opened = self._snapshot
            try:
                snapshot = opened if version == opened.version else Snapshot.load(opened.log, version)
            except VersionNotFoundError as error:
                raise VersionNotFoundError(
                    f"the stream has not read all files of version {version}, with which it began, and its log is gone",
                    hint=NEW_STREAM,
                    table=self._table,
                    version=version,
                ) from error
            if version != opened.version:
                self._schemas.check_start(version, changes=self._options.change_feed)
            live = snapshot.live.table
            order = pc.sort_indices(live, [("modificationTime", "ascending"), ("path", "ascending")])
            added = live.take(order)
            if self._options.change_feed:
                time = self._times_from(version).time_of(version)
                changed = ChangedFiles(version, time).whole_files(added, "insert")
                files = self._feed.file_table(changed)
            else:
                files = self._rows.file_table(added)
            self._initial = (version, files)
        return self._initial[1]

    def _step(self, version: int, files: pa.Table, first: int) -> Step[Position]:
        if first and self._options.change_feed and first < len(files):
            raise self._inside(Position(version, first - 1))
        return Step(files.slice(first), Position(version + 1), first, is_whole=self._options.change_feed)

    def _files_of(self, version: int, data: bytes) -> pa.Table:
        replay = kernels.replay([(version, data)])
        self._schemas.check(version, replay)
        if self._options.change_feed:
            return self._changed(version, data)
        return self._rows.file_table(appended_files(version, replay, self._options, self._table))

    def _changed(self, version: int, data: bytes) -> pa.Table:
        if self._times is None or not self._times.knows(version):
            # A listing serves all commits of a batch.
            self._times = self._times_from(version)
        self._times.keep(version, data)
        source = self._feed_of(self._snapshot.alone(version, data), self._times)
        return source.select_files(TRUE).files

    def rows_of(self, files: list[pa.Table], start: Position, end: Position) -> ScanSource:
        """Return what reads files; see `TableStream`."""
        whole = pa.concat_tables([self._no_files, *files])
        excluded = self._options.excluded(as_array(whole.column("path")))
        if excluded is not None:
            whole = whole.filter(pc.invert(excluded))
        return BatchSource(self.source, whole, f"from version {start.version} to {end.version}")

    @cached_property
    def _no_files(self) -> pa.Table:
        # Those of the snapshot are not asked for: they may be very many.
        none = kernels.replay([]).adds
        if self._options.change_feed:
            return self._feed.file_table(ChangedFiles(0, 0).whole_files(none, "insert"))
        return self._rows.file_table(none)
