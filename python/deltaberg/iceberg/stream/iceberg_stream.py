"""Streams of Iceberg tables: the rows that the snapshots of a branch append, or the changes that they make.

The order of files is that of the manifests of a snapshot, as it is for iceberg-spark. A stream begins with all files of
the newest snapshot, and no batch holds these and others.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from deltaberg.errors import (
    CorruptMetadataError,
    SchemaError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    in_context,
)
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.deletes.key_fields import all_key_fields
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.scan.changelog import Changelog, ChangelogSource
from deltaberg.iceberg.scan.changes import INSERT, ChangesSource
from deltaberg.iceberg.scan.compare import with_places
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.stream.snapshot_position import BEFORE_ALL, SnapshotPosition, read_snapshot_position
from deltaberg.schema.types import Field
from deltaberg.table.read.source import FILE_NUMBER, ScanSource
from deltaberg.table.streaming.batch_source import BatchSource
from deltaberg.table.streaming.table_stream import NEW_COLUMNS, NEW_STREAM, WAYS_ON, Step, TableStream

__all__ = ["IcebergStream", "IcebergStreamOptions"]

#: More files than a snapshot has: the position is after the snapshot, whatever it did.
_ALL_FILES = (1 << 63) - 1


@dataclass(frozen=True)
class IcebergStreamOptions:
    """What a stream of an Iceberg table reads.

    Parameters
    ----------
    start_millis
        Begin at the first snapshot that is not older than this, in milliseconds since 1970, which may be still to come;
        None to begin with the rows of the table.
    branch
        The branch.
    changes
        Whether to read all changes in place of appended rows.
    skip_overwrites, skip_deletes
        Whether snapshots that replace or only delete rows are passed over.
    """

    start_millis: int | None = None
    branch: str = MAIN
    changes: bool = False
    skip_overwrites: bool = False
    skip_deletes: bool = False


class IcebergStream(TableStream[SnapshotPosition]):
    """A stream of a branch of an Iceberg table.

    Parameters
    ----------
    pointer
        Finds the newest metadata of the table.
    loaded
        The metadata, whose columns the stream has.
    source
        The rows of the table.
    options
        What is read.
    """

    def __init__(
        self, pointer: TablePointer, loaded: LoadedTable, source: IcebergSource, options: IcebergStreamOptions
    ) -> None:
        super().__init__()
        self._pointer = pointer
        self._loaded = loaded
        self._options = options
        self._own = source
        self._schema_id = loaded.metadata.current_schema_id
        self._known_schemas = frozenset(loaded.metadata.schemas)
        #: What compares rows with the equality deletes of the batch that was planned last.
        self._keys: list[tuple[Field, ...]] = []
        #: The files of the snapshot that the stream begins with, in order, until all of them are read.
        self._initial: tuple[int, pa.Table, tuple[Field, ...]] | None = None
        #: Likewise, of the snapshot that was read last: batches may divide what it added.
        self._parsed: tuple[int, pa.Table, tuple[Field, ...]] | None = None

    @property
    def source(self) -> ScanSource:
        """The rows of no snapshot, or its changes."""
        return self._changes

    @cached_property
    def _changes(self) -> ChangesSource:
        return ChangesSource(self._own, [], appends=not self._options.changes)

    @property
    def _table(self) -> str:
        return self._own.table

    def _refreshed(self) -> list[Snapshot]:
        """Load the newest metadata, and return the snapshots of the branch, the oldest first."""
        before = self._loaded.metadata.table_uuid
        loaded = self._pointer.load(self._loaded)
        metadata = loaded.metadata
        if before is not None and metadata.table_uuid != before:
            raise CorruptMetadataError(
                f"the table was dropped and made anew: its table-uuid was {before}, and is now {metadata.table_uuid}",
                hint=NEW_STREAM,
                table=self._table,
            )
        if loaded is not self._loaded:
            if metadata.specs != self._loaded.metadata.specs:
                # File tables have a column of the partition fields of all specs.
                self._initial = self._parsed = None
            self._loaded = loaded
            own = self._own
            self._own = IcebergSource.of(loaded, None, own.schema, own.resolver)
            self.__dict__.pop("_changes", None)
        with in_context(table=self._table):
            head = metadata.snapshot_of_ref(self._options.branch)
        return [] if head is None else list(metadata.ancestors(head))[::-1]

    def initial(self) -> SnapshotPosition:
        """Return the position before all that a new stream reads."""
        chain, millis = self._refreshed(), self._options.start_millis
        if millis is None:
            return SnapshotPosition(chain[-1].snapshot_id, 0, scan_all_files=True) if chain else BEFORE_ALL
        later = self._first_after_start(chain)
        if later == len(chain):
            return BEFORE_ALL
        if not later and chain[0].parent_snapshot_id is not None:
            warnings.warn(
                f"the stream of {self._table} begins at snapshot {chain[0].snapshot_id}: older ones were expired",
                stacklevel=2,
            )
        return SnapshotPosition(chain[later].snapshot_id)

    def _first_after_start(self, chain: list[Snapshot]) -> int:
        """Return the place of the first snapshot that the stream does not leave out as too old."""
        millis = self._options.start_millis
        old = (
            number for number, snapshot in enumerate(chain, 1) if millis is not None and snapshot.timestamp_ms < millis
        )
        return max(old, default=0)

    def newest(self) -> SnapshotPosition:
        """Return the position after the newest snapshot of the branch."""
        chain = self._refreshed()
        return SnapshotPosition(chain[-1].snapshot_id, _ALL_FILES) if chain else BEFORE_ALL

    def first_before(self, end: SnapshotPosition) -> SnapshotPosition:
        """Return where a stream began whose first batch has this end."""
        if end == BEFORE_ALL:
            return BEFORE_ALL
        if self._options.start_millis is not None:
            begin = self.initial()
            chain = self._refreshed()
            if chain and begin.snapshot_id == chain[0].snapshot_id and chain[0].parent_snapshot_id is not None:
                raise self._unknown_beginning(end, "older snapshots were expired")
            return begin
        if end.scan_all_files:
            # All files of a snapshot are never in a batch with others.
            return replace(end, position=0)
        chain = self._refreshed()
        before = chain[: self._place(chain, end)]
        if any(snapshot.operation not in ("append", "replace") for snapshot in before):
            raise self._unknown_beginning(end, "the table may have had no rows")
        return BEFORE_ALL

    def _unknown_beginning(self, end: SnapshotPosition, why: str) -> VersionNotFoundError:
        return VersionNotFoundError(
            f"the stream was stopped in its first batch, which ends in snapshot {end.snapshot_id}, and nothing "
            f"tells where it began: {why}",
            hint=NEW_STREAM,
            table=self._table,
        )

    def read_position(self, recorded: Mapping[str, Any]) -> SnapshotPosition:
        """Return the position that an offset of iceberg-spark says."""
        return read_snapshot_position(recorded, self._table)

    def record(self, position: SnapshotPosition) -> dict[str, Any]:
        """Return a position as the offset of iceberg-spark."""
        return position.record()

    def commit_of(self, position: SnapshotPosition) -> int:
        """Return the snapshot of a position."""
        return position.snapshot_id

    def _within(self, step: Step[SnapshotPosition], count: int) -> SnapshotPosition:
        return replace(step.end, position=step.first + count)

    def steps(self, start: SnapshotPosition, end: SnapshotPosition | None = None) -> Iterator[Step[SnapshotPosition]]:
        """Yield the files of each snapshot between two positions; see `TableStream`."""
        self._keys = []
        if not start.scan_all_files:
            # The stream is past the snapshot, which may be large.
            self._initial = None
        chain = self._refreshed()
        begin = self._first_after_start(chain) if start == BEFORE_ALL else self._place(chain, start)
        if end == BEFORE_ALL or (end is None and not chain):
            return
        stop = len(chain) - 1 if end is None else self._place(chain, end)
        if start == BEFORE_ALL and not begin and chain[0].parent_snapshot_id is not None:
            raise VersionNotFoundError(
                "the first snapshots of the table were expired before the stream had read them",
                hint=NEW_STREAM,
                table=self._table,
            )
        for number in range(begin, stop + 1):
            snapshot = chain[number]
            is_first = number == begin and start != BEFORE_ALL
            is_initial = is_first and start.scan_all_files
            first = start.position if is_first else 0
            with in_context(table=self._table):
                if not is_initial and not self._is_read(snapshot, first):
                    if not first:
                        # The position moves over what is skipped, since the snapshots before may be expired.
                        yield Step(self._changes.no_files, SnapshotPosition(snapshot.snapshot_id))
                    continue
                step = self._initial_step(snapshot, first) if is_initial else self._step(snapshot, first)
            if end is not None and number == stop and end.scan_all_files == is_initial:
                count = max(min(end.position - first, len(step.files)), 0)
                step = replace(step, files=step.files.slice(0, count), end=replace(step.end, position=first + count))
            if len(step.files) or not is_initial:
                yield step
            if is_initial and end is not None and end.scan_all_files:
                return

    def _place(self, chain: list[Snapshot], position: SnapshotPosition) -> int:
        """Return the place of the snapshot of a position in the history of the branch."""
        for number, snapshot in enumerate(chain):
            if snapshot.snapshot_id == position.snapshot_id:
                return number
        known = position.snapshot_id in self._loaded.metadata.snapshots
        why = "is no longer in the branch, which was rolled back or replaced" if known else "was expired or removed"
        raise VersionNotFoundError(
            f"the stream has read up to snapshot {position.snapshot_id}, which {why}",
            hint=f"{NEW_STREAM}; the oldest snapshot of the branch is now {chain[0].snapshot_id}"
            if chain
            else NEW_STREAM,
            table=self._table,
        )

    def _is_read(self, snapshot: Snapshot, first: int) -> bool:
        """Return whether files of a snapshot are still to be read; refuse one that the stream does not allow."""
        operation = snapshot.operation
        if operation == "replace" or first == _ALL_FILES:
            return False
        schema = snapshot.schema_id
        if schema is not None and schema != self._schema_id and schema not in self._known_schemas:
            raise SchemaError(
                f"snapshot {snapshot.snapshot_id} was written with other columns than the stream has",
                hint=NEW_COLUMNS,
                snapshot_id=snapshot.snapshot_id,
            )
        if self._options.changes:
            return first == 0
        if operation in (None, "append"):
            return not first or snapshot.summary.get("added-data-files") != str(first)
        skips = {"overwrite": self._options.skip_overwrites, "delete": self._options.skip_deletes}
        if skips.get(str(operation)):
            return False
        raise UnsupportedFeatureError(
            f"snapshot {snapshot.snapshot_id} is of the operation {operation!s:.100}: it removes rows that the stream "
            "may have given before",
            hint=WAYS_ON,
            snapshot_id=snapshot.snapshot_id,
        )

    def _step(self, snapshot: Snapshot, first: int) -> Step[SnapshotPosition]:
        own = self._own.at(snapshot)
        changed: ChangesSource
        if self._options.changes:
            changed = ChangelogSource(own, [snapshot], Changelog())
        else:
            changed = ChangesSource(own, [snapshot], appends=True)
        if self._parsed is None or self._parsed[0] != snapshot.snapshot_id:
            self._parsed = (snapshot.snapshot_id, changed.select_files(TRUE).files, changed.layout.keys)
        _, files, keys = self._parsed
        self._keys.append(keys)
        end = SnapshotPosition(snapshot.snapshot_id, max(len(files), 1) if self._options.changes else len(files))
        return Step(files.slice(first), end, first, is_whole=self._options.changes)

    def _initial_step(self, snapshot: Snapshot, first: int) -> Step[SnapshotPosition]:
        if self._initial is None or self._initial[0] != snapshot.snapshot_id:
            own = self._own.at(snapshot)
            found = own.select_files(TRUE).files.sort_by(FILE_NUMBER)
            files = self._changes.marked(with_places(own, found), 0, snapshot, INSERT)
            self._initial = (snapshot.snapshot_id, files, own.deletes.key_fields)
        _, files, keys = self._initial
        self._keys.append(keys)
        end = SnapshotPosition(snapshot.snapshot_id, len(files), scan_all_files=True)
        return Step(files.slice(first), end, first, is_initial=True, is_last=True)

    def rows_of(self, files: list[pa.Table], start: SnapshotPosition, end: SnapshotPosition) -> ScanSource:
        """Return what reads files; see `TableStream`."""
        source = self._changes
        columns = source.file_columns
        whole = pa.concat_tables([table.select(columns) for table in (source.no_files, *files)])
        layout = replace(source.layout, keys=all_key_fields(self._keys))
        what = f"from snapshot {start.snapshot_id} to {end.snapshot_id}"
        return BatchSource(source, whole, what, layout)
