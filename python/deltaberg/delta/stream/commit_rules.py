"""What a stream makes of a commit: which commits it skips, and which ones stop it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.table_actions import Metadata, read_metadata, read_protocol
from deltaberg.delta.features import check_protocol, recorded_mapping_mode
from deltaberg.delta.scan.changes import lost_column
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError, VersionNotFoundError
from deltaberg.hints import at_fault, shown_value
from deltaberg.kernels.results import Replay
from deltaberg.schema.types import DataType, Field, List, Map, Struct
from deltaberg.table.streaming.table_stream import NEW_COLUMNS, NEW_STREAM, WAYS_ON

__all__ = ["DeltaStreamOptions", "SchemaRule", "appended_files"]


@dataclass(frozen=True)
class DeltaStreamOptions:
    """What a stream of a Delta table reads.

    Parameters
    ----------
    start
        The first version or instant (in milliseconds since 1970) whose commit is read; ``latest`` for none that there
        is yet; None to begin with the rows of the table.
    change_feed
        Whether to read the change data feed in place of added rows.
    ignore_deletes, ignore_changes, skip_changes
        What becomes of commits that remove rows: those that only remove some are passed over; the rows of all files
        that they write anew are given again; they are passed over as a whole.
    exclude
        A regular expression: files in whose recorded path it is found are left out.
    allow_data_loss
        Whether commits that were cleaned up are passed over, also those that the stream would begin with.
    """

    start: int | str | None = None
    start_millis: int | None = None
    change_feed: bool = False
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_changes: bool = False
    exclude: str | None = None
    allow_data_loss: bool = False

    def excluded(self, paths: pa.Array) -> pa.BooleanArray | None:
        """Return which paths are left out; None if no path is."""
        if self.exclude is None:
            return None
        try:
            pattern = re.compile(self.exclude)
        except (re.error, RecursionError, OverflowError) as error:
            raise InvalidArgumentError(
                at_fault("exclude", f"must be a regular expression, not {shown_value(self.exclude)}: {error}")
            ) from None
        return pa.array([pattern.search(path) is not None for path in paths.to_pylist()], pa.bool_())


def appended_files(version: int, replay: Replay, options: DeltaStreamOptions, table: str) -> pa.Table:
    """Return the files that a commit adds, as far as a stream of added rows reads them.

    Raises
    ------
    UnsupportedFeatureError
        If it removes rows, and no option says what to do.
    """
    added = replay.adds.filter(replay.adds.column("dataChange"))
    removes = bool(pc.any(replay.removes.column("dataChange"), min_count=0).as_py())
    if not removes:
        return added
    if options.skip_changes:
        return added.slice(0, 0)
    if options.ignore_changes or (options.ignore_deletes and not len(added)):
        return added
    raise UnsupportedFeatureError(
        f"version {version} {'changes or ' if len(added) else ''}deletes rows that the stream may have given before",
        hint=WAYS_ON,
        table=table,
        version=version,
    )


class SchemaRule:
    """Refuses versions whose rows the columns of a stream cannot show.

    Parameters
    ----------
    snapshot
        The version whose columns the stream has.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._table = str(snapshot.log.root)

    def check_start(self, version: int, *, changes: bool) -> None:
        """Refuse a stream that begins at an older version with other columns."""
        if version >= self._snapshot.version:
            return
        try:
            start = Snapshot.load(self._snapshot.log, version)
        except VersionNotFoundError:
            # The version before may be gone although the commit is there: then nothing tells its columns.
            if changes or self._snapshot.mapping_mode != "none":
                raise
            return
        self._check(version, start.metadata)

    def check(self, version: int, replay: Replay) -> None:
        """Refuse a commit after which the stream has the wrong columns, or which needs a feature that is not there."""
        if replay.protocol is not None:
            check_protocol(read_protocol(replay.protocol[1]))
        if replay.metadata is not None:
            self._check(version, read_metadata(replay.metadata[1]))

    def _check(self, version: int, metadata: Metadata) -> None:
        mine = self._snapshot
        if metadata.id != mine.metadata.id:
            raise VersionNotFoundError(
                f"the table was made anew in version {version}: its id is now {metadata.id}",
                hint=NEW_STREAM,
                table=self._table,
                version=version,
            )
        if metadata.partition_columns != mine.metadata.partition_columns:
            raise self._changed(version, "other partition columns")
        schema = parse_schema(metadata.schema_string or "", recorded_mapping_mode(metadata.configuration))
        lost = lost_column(schema, mine.schema)
        if lost is None and version > mine.version:
            lost = lost_column(mine.schema, schema)
        if lost is not None:
            raise self._changed(version, f"another column {lost}")
        renamed = _renamed(schema, mine.schema)
        if renamed is not None:
            raise self._changed(version, f"another name for the column {renamed}")

    def _changed(self, version: int, what: str) -> SchemaError:
        stream_version = self._snapshot.version
        hint = NEW_COLUMNS
        if version <= stream_version:
            hint = f"{NEW_STREAM}, at version {stream_version} or a later one"
        return SchemaError(
            f"version {version} has {what} than the stream, whose columns are those of version {stream_version}",
            hint=hint,
            table=self._table,
            version=version,
        )


def _renamed(old: DataType, new: DataType) -> str | None:
    """Return the new name of a column, or of a field at any depth, that had another one."""
    if isinstance(old, Struct) and isinstance(new, Struct):
        known: dict[str, Field] = {child.physical_name: child for child in old}
        for child in new:
            before = known.get(child.physical_name)
            if before is None:
                continue
            found = child.name if before.name != child.name else _renamed(before.type, child.type)
            if found is not None:
                return found
    if isinstance(old, List) and isinstance(new, List):
        return _renamed(old.element.type, new.element.type)
    if isinstance(old, Map) and isinstance(new, Map):
        return _renamed(old.key.type, new.key.type) or _renamed(old.value.type, new.value.type)
    return None
