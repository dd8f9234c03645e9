"""The rows that changed between two versions (Delta protocol, "Add CDC File", "Change Data Files").

If a commit recorded its changes in change data files, only these are read. Otherwise every row of a file that it
added is an insert, and every row of a file that it removed is a delete. If it only replaced the deletion vector of
a file, the rows that the new vector hides are deletes, and the rows that it no longer hides are inserts.

A table promises that only while it has a change data feed (``delta.enableChangeDataFeed``), by which writers record
changes wherever files do not tell them. Without one, what is derived from files may name rows that were merely moved,
as both deleted and inserted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.actions.table_actions import Metadata, read_metadata
from deltaberg.delta.data.change_files import CHANGE_TYPE, CHANGE_TYPE_COLUMN
from deltaberg.delta.data.partition_values import read_partition_values
from deltaberg.delta.features import recorded_mapping_mode
from deltaberg.delta.scan.changed_files import (
    CHANGED_FILES,
    ChangedFiles,
    exchanged_vectors,
    path_keys,
    recorded_changes,
)
from deltaberg.delta.scan.source import DeltaFiles
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.type_changes import loses_nothing
from deltaberg.delta.snapshot.history import CommitTimes
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import (
    ChangesNotRecordedError,
    InvalidArgumentError,
    SchemaError,
    VersionNotFoundError,
    in_context,
)
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.task import constant_column
from deltaberg.schema.arrow import count_up
from deltaberg.schema.columns import join_name
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct
from deltaberg.storage.location import PathResolver
from deltaberg.table.arguments import integer_of, parse_instant
from deltaberg.table.read.source import FILE_NUMBER, require_free_names

_ENABLED = "delta.enableChangeDataFeed"

__all__ = ["CHANGE_COLUMNS", "ChangesSource", "change_range", "lost_column"]

#: The columns that a scan of changes has in addition to the table's.
CHANGE_COLUMNS = (
    CHANGE_TYPE_COLUMN,
    Field("_commit_version", Primitive("long")),
    Field("_commit_timestamp", Primitive("timestamp")),
)


def change_range(times: CommitTimes, snapshot: Snapshot, start: Any, end: Any, timezone: dt.tzinfo) -> tuple[int, int]:
    """Return the first and the last version of a range that is given by versions or instants.

    The range from the next version on is empty: a loop that asks for what is new need not look first.

    Raises
    ------
    VersionNotFoundError
        If the table does not hold the range.
    InvalidArgumentError
        If it ends before it starts.
    """
    first, last = integer_of(start), snapshot.version if end is None else integer_of(end)
    if first is None:
        first = times.first_after(parse_instant(start, timezone))
    if last is None:
        last = times.last_before(parse_instant(end, timezone))
    if end is None and first == snapshot.version + 1:
        return first, snapshot.version
    if end is None and first > snapshot.version:
        raise VersionNotFoundError(
            f"there are no changes from version {first} on yet: the newest version that is open is {snapshot.version}",
            hint="ask again after the next commit⟦, with ⟪refresh()⟫ before⟧",
            table=str(snapshot.log.root),
        )
    if last > snapshot.version or first > snapshot.version or first < 0:
        raise VersionNotFoundError(
            f"changes from version {first} to {last} are not in the table",
            hint=f"the table has versions 0 to {snapshot.version}",
            table=str(snapshot.log.root),
        )
    if last < first:
        raise InvalidArgumentError(
            f"changes end at version {last} before they start at {first}", table=str(snapshot.log.root)
        )
    return first, last


class ChangesSource(DeltaFiles):
    """The changes of the versions from ``first`` to that of the snapshot.

    Parameters
    ----------
    newest
        The snapshot that is open, whose columns are shown if they hold those of the last version.
    first
        The first version.
    times
        The commits.
    derived
        Whether changes of versions without a change data feed are derived from their files; None where the caller
        cannot ask for that.

    Raises
    ------
    ChangesNotRecordedError
        If the last version has no change data feed, and changes may not be derived.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        timezone: str,
        resolver: PathResolver,
        newest: Snapshot,
        first: int,
        times: CommitTimes,
        *,
        derived: bool | None = False,
    ) -> None:
        super().__init__(snapshot, timezone, resolver)
        self._columns = _shown_columns(snapshot, newest)
        require_free_names(self._columns, CHANGE_COLUMNS, self.table)
        self._derived = derived
        #: The partition columns of the versions that were looked at, by their names in files; None before the first.
        self._partitioned_by: list[str] | None = None
        self._first = first
        self._times = times
        if not derived:
            self._check_feed(snapshot.metadata, snapshot.version)

    @property
    def description(self) -> str:
        """The versions whose changes are read."""
        return f"changes of versions {self._first} to {self.snapshot.version}"

    @property
    def schema(self) -> Struct:
        """The columns of the table, and those that describe the change."""
        return Struct((*self._columns, *CHANGE_COLUMNS))

    @property
    def hidden(self) -> Struct:
        """No columns, because change data files have no row ids or positions."""
        return Struct()

    @cached_property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns of the last version, as they are shown."""
        shown = {child.name: child for child in self._columns}
        return tuple(shown[child.name] for child in self.snapshot.partition_fields)

    @property
    def constants(self) -> Struct:
        """The partition columns, and those that describe the change."""
        return Struct((*self.partition_fields, *CHANGE_COLUMNS))

    @property
    def layout(self) -> FileLayout:
        """The layout of the columns in data files; change data files store the type of each change."""
        return replace(super().layout, stored=frozenset({CHANGE_TYPE}))

    @cached_property
    def _files(self) -> pa.Table:
        versions = range(self._first, self.snapshot.version + 1)
        with in_context(table=self.table):
            tables = [table for version in versions for table in self._of_version(version)]
        return self.file_table(pa.concat_tables(tables) if tables else CHANGED_FILES.empty_table())

    def file_table(self, changed: pa.Table) -> pa.Table:
        """Return the file table of files that commits changed (`CHANGED_FILES`)."""
        rows = len(changed)
        columns = {
            FILE_NUMBER: count_up(0, rows),
            "path": changed.column("path"),
            "size": changed.column("size"),
            "modified": changed.column("modificationTime"),
            "deletion_vector": changed.column("deletion_vector"),
            "only_in_vector": changed.column("only_in_vector"),
            "base_row_id": pa.nulls(rows, pa.int64()),
            "row_commit_version": pa.nulls(rows, pa.int64()),
        }
        fields = self.partition_fields
        for field, array in zip(fields, read_partition_values(changed, fields, self.timezone), strict=True):
            columns[constant_column(field.name)] = array
        for field in CHANGE_COLUMNS:
            columns[constant_column(field.name)] = changed.column(field.name)
        return pa.table(columns)

    def _of_version(self, version: int) -> Iterator[pa.Table]:
        data = self._times.read(version)
        with in_context(version=version):
            recorded = recorded_changes(data)
            replay = kernels.replay([(version, data)])
        if replay.metadata is not None:
            self._check_metadata(version, replay.metadata[1])
        changed = ChangedFiles(version, self._times.time_of(version))
        if recorded:
            yield changed.table(recorded)
            return
        adds = replay.adds.filter(replay.adds.column("dataChange"))
        if replay.metadata is not None and pc.any(replay.removes.column("dataChange")).as_py():
            self._check_removed(version)
        removes = self._with_partition_values(version, replay.removes.filter(replay.removes.column("dataChange")))
        new, old = (path_keys(files) for files in (adds, removes))
        both = pc.is_in(new, value_set=old)
        replaced = new.filter(both)
        gone = pc.is_in(old, value_set=replaced)
        yield changed.whole_files(adds.filter(pc.invert(both)), "insert")
        yield changed.whole_files(removes.filter(pc.invert(gone)), "delete")
        if len(replaced):
            yield changed.table(list(exchanged_vectors(adds.filter(both), removes.filter(gone))))

    @property
    def _range(self) -> str:
        last = self.snapshot.version
        # A reader that polls asks for the version after the newest one.
        return f"changes of versions {self._first} to {last}" if self._first <= last else f"changes of version {last}"

    def _check_feed(self, metadata: Metadata, version: int) -> None:
        """Refuse a version in which the table kept no change data feed."""
        if not metadata.is_enabled(_ENABLED):
            recorded = f"{_ENABLED} records those of later commits"
            derived = (
                "⟪derived=True⟫ derives them from the files of each commit, where an update is a delete and an insert"
            )
            raise ChangesNotRecordedError(
                f"{self._range} were not recorded: the table had no change data feed in version {version}",
                hint=recorded if self._derived is None else f"{derived}; {recorded}",
                table=self.table,
                version=version,
            )

    def _check_metadata(self, version: int, text: str) -> None:
        """Refuse a range in which the partition columns change, columns go, or changes were not recorded."""
        if version > self._first and self._partitioned_by is None:
            self._check_version(Snapshot.load(self.snapshot.log, self._first).metadata, self._first)
        # From here on, the metadata of every version is that of a commit which was checked.
        self._check_version(read_metadata(text), version)

    def _check_version(self, metadata: Metadata, version: int) -> None:
        """Refuse a version with no change data feed, with columns that those shown cannot hold, or other partitions."""
        if not self._derived:
            self._check_feed(metadata, version)
        old = parse_schema(metadata.schema_string or "", recorded_mapping_mode(metadata.configuration))
        lost = lost_column(old, self._columns)
        if lost is not None:
            raise SchemaError(
                f"version {version} has the column {lost}, {self._lacks}",
                hint="read the changes up to the last version that has it like this separately from later ones",
                version=version,
                column=lost,
            )
        before, self._partitioned_by = self._partitioned_by, _stored_names(metadata, old)
        if before not in (None, self._partitioned_by):
            raise SchemaError(
                f"the partition columns changed in version {version}",
                hint=f"read the changes before version {version} separately from later ones",
                version=version,
            )

    @property
    def _lacks(self) -> str:
        """What the last version has instead of a column that is lost."""
        return f"which version {self.snapshot.version} lacks, or has with another type or under another name in files"

    def _check_removed(self, version: int) -> None:
        """Refuse a version that replaced partition columns or mapped ones, since those of removed files differ.

        Other versions of the range are compared where the metadata is.
        """
        if version > self._first:
            return
        before = Snapshot.load(self.snapshot.log, version - 1)
        if [field.physical_name for field in before.partition_fields] != self._partitioned_by:
            raise SchemaError(
                f"version {version} deleted rows of version {version - 1}, which had other partition columns",
                hint=f"the rows that version {version} deleted are those of version {version - 1}, which can be read",
                version=version,
            )
        if self.snapshot.mapping_mode == "none":
            return
        lost = lost_column(before.schema, self._columns)
        if lost is not None:
            raise SchemaError(
                f"version {version} deleted rows of version {version - 1} with the column {lost}, {self._lacks}",
                hint=f"the rows that version {version} deleted are those of version {version - 1}, which can be read",
                version=version,
                column=lost,
            )

    def _with_partition_values(self, version: int, removes: pa.Table) -> pa.Table:
        """Fill in partition values that removes lack from the version before."""
        values = removes.column("partitionValues")
        if not self.snapshot.partition_fields or not values.null_count:
            return removes
        before = Snapshot.load(self.snapshot.log, version - 1).live.table
        known = dict(zip(path_keys(before).to_pylist(), before.column("partitionValues").to_pylist(), strict=True))
        paths = path_keys(removes).to_pylist()
        filled = [
            known.get(path) if found is None else found for path, found in zip(paths, values.to_pylist(), strict=True)
        ]
        index = removes.schema.get_field_index("partitionValues")
        column = removes.schema.field(index)
        return removes.set_column(index, column, pa.array(filled, column.type))


def _stored_names(metadata: Metadata, columns: Struct) -> list[str]:
    """Return the names that the partition columns of some metadata have in files, where renames leave them."""
    known = {child.name.lower(): child.physical_name for child in columns}
    return [known.get(name.lower(), name) for name in metadata.partition_columns]


def _shown_columns(last: Snapshot, newest: Snapshot) -> Struct:
    """Return the columns in which changes up to a version are shown.

    As in delta-spark and deltalake, they are those of the newest version, which are null where a version lacked them.
    With column mapping, as in delta-spark, they are those of the last version of the range; so they are where the
    newest version has lost what the range holds.
    """
    if newest.mapping_mode == last.mapping_mode == "none" and lost_column(last.schema, newest.schema) is None:
        return newest.schema
    return last.schema


def lost_column(old: DataType, new: DataType) -> str | None:
    """Return the name of a column, or of a field at any depth, whose values newer columns cannot hold; else None."""
    path = _lost_path(old, new)
    return None if path is None else join_name(path)


def _lost_path(old: DataType, new: DataType) -> list[str] | None:
    if isinstance(old, Struct) and isinstance(new, Struct):
        known = {child.physical_name: child for child in new}
        for child in old:
            other = known.get(child.physical_name)
            below = [] if other is None else _lost_path(child.type, other.type)
            if below is not None:
                return [child.name, *below]
        return None
    if isinstance(old, List) and isinstance(new, List):
        return _lost_path(old.element.type, new.element.type)
    if isinstance(old, Map) and isinstance(new, Map):
        in_keys = _lost_path(old.key.type, new.key.type)
        return in_keys if in_keys is not None else _lost_path(old.value.type, new.value.type)
    return None if old == Primitive("void") or loses_nothing(str(old), str(new)) else []
