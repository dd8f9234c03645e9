"""The rows that changed between two versions (Delta protocol, "Add CDC File", "Change Data Files").

Where a commit recorded its changes in change data files, they alone are read. Else every row of a file that it
added is an insert, and every row of one that it removed a delete; where it only exchanged the deletion vector of a
file, the rows that the new vector hides are deletes, and those that it uncovers are inserts.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.actions import read_metadata
from deltaberg.delta.deletion_vectors import unique_id
from deltaberg.delta.history import CommitTimes
from deltaberg.delta.partition import read_partition_values
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.source import DeltaFiles
from deltaberg.errors import CorruptLogError, DeltabergError, InvalidArgumentError, SchemaError, VersionNotFoundError
from deltaberg.files import FileLayout, constant_column
from deltaberg.pruning import FileStats
from deltaberg.schema import Field, Primitive, Struct
from deltaberg.storage import PathResolver, StoreSpec
from deltaberg.table import ROW, parse_instant

__all__ = ["CHANGE_COLUMNS", "ChangesSource", "change_range"]

_CHANGE_TYPE = "_change_type"
#: The columns that a scan of changes has beside the table's.
CHANGE_COLUMNS = (
    Field(_CHANGE_TYPE, Primitive("string")),
    Field("_commit_version", Primitive("long")),
    Field("_commit_timestamp", Primitive("timestamp")),
)
_STRING_MAP = pa.map_(pa.string(), pa.string())


def change_range(times: CommitTimes, snapshot: Snapshot, start: Any, end: Any, timezone: dt.tzinfo) -> tuple[int, int]:
    """Give the first and last version of a range given by versions or instants.

    Raises
    ------
    VersionNotFoundError
        Where the table does not hold the range.
    InvalidArgumentError
        Where it ends before it starts.
    """
    first = start if _is_version(start) else times.first_after(parse_instant(start, timezone))
    if end is None:
        last = snapshot.version
    else:
        last = end if _is_version(end) else times.last_before(parse_instant(end, timezone))
    if last > snapshot.version or first > snapshot.version or first < 0:
        raise VersionNotFoundError(
            f"changes from {first} to {last} were asked for",
            hint=f"the table has versions 0 to {snapshot.version}",
            table=str(snapshot.log.root),
        )
    if last < first:
        raise InvalidArgumentError(
            f"changes end at version {last} before they start at {first}", table=str(snapshot.log.root)
        )
    return first, last


def _is_version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class ChangesSource(DeltaFiles):
    """The changes of the versions from ``first`` to that of the snapshot, whose schema they have."""

    def __init__(
        self,
        snapshot: Snapshot,
        store: StoreSpec,
        resolver: PathResolver,
        timezone: str,
        first: int,
        times: CommitTimes,
    ) -> None:
        super().__init__(snapshot, store, resolver, timezone)
        self._first = first
        self._times = times

    @property
    def description(self) -> str:
        """The versions whose changes are read."""
        return f"changes of versions {self._first} to {self.snapshot.version}"

    @property
    def schema(self) -> Struct:
        """The columns of the table, and what changed."""
        return Struct((*self.snapshot.schema, *CHANGE_COLUMNS))

    @property
    def hidden(self) -> Struct:
        """No columns: row ids and the like cannot be read from change data files."""
        return Struct()

    @property
    def constants(self) -> Struct:
        """The partition columns, and what changed."""
        return Struct((*self.snapshot.partition_fields, *CHANGE_COLUMNS))

    @property
    def layout(self) -> FileLayout:
        """How data files hold the columns: change data files hold the type of each change themselves."""
        return replace(super().layout, stored=frozenset({_CHANGE_TYPE}))

    def statistics(self, rows: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:  # noqa: ARG002
        """Give no statistics: change data files have none."""
        count = len(self._files) if rows is None else len(rows)
        return FileStats(count, pa.nulls(count, pa.int64()))

    @cached_property
    def _files(self) -> pa.Table:
        versions = range(self._first, self.snapshot.version + 1)
        try:
            tables = [table for version in versions for table in self._of_version(version)]
        except DeltabergError as error:
            raise error.with_context(table=self.table) from None
        changed = pa.concat_tables(tables) if tables else _changed_schema().empty_table()
        rows = len(changed)
        columns = {
            ROW: pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1),
            "path": changed.column("path"),
            "size": changed.column("size"),
            "modified": changed.column("modificationTime"),
            "exclude": changed.column("exclude"),
            "include": changed.column("include"),
            "base_row_id": pa.nulls(rows, pa.int64()),
            "row_commit_version": pa.nulls(rows, pa.int64()),
        }
        fields = self.snapshot.partition_fields
        for field, array in zip(fields, read_partition_values(changed, fields, self.timezone), strict=True):
            columns[constant_column(field.name)] = array
        for field in CHANGE_COLUMNS:
            columns[constant_column(field.name)] = changed.column(field.name)
        return pa.table(columns)

    def _of_version(self, version: int) -> Iterator[pa.Table]:
        data = self._times.read(version)
        try:
            recorded = _recorded_changes(data)
            replay = kernels.replay([(version, data)])
        except DeltabergError as error:
            raise error.with_context(version=version) from None
        if replay.metadata is not None:
            self._check_metadata(version, replay.metadata[1])
        mark = _Mark(version, self._times.time_of(version))
        if recorded:
            yield mark.table(recorded)
            return
        adds = replay.adds.filter(replay.adds.column("dataChange"))
        removes = self._with_partition_values(version, replay.removes.filter(replay.removes.column("dataChange")))
        both = pc.is_in(adds.column("path"), value_set=removes.column("path").combine_chunks())
        replaced = adds.filter(both).column("path").combine_chunks()
        gone = pc.is_in(removes.column("path"), value_set=replaced)
        yield mark.whole_files(adds.filter(pc.invert(both)), "insert")
        yield mark.whole_files(removes.filter(pc.invert(gone)), "delete")
        if len(replaced):
            yield mark.table(list(_exchanged(adds.filter(both), removes.filter(gone))))

    def _check_metadata(self, version: int, text: str) -> None:
        """Refuse a range in which the meaning of files changes."""
        metadata = read_metadata(text)
        mine = self.snapshot.metadata
        if metadata.partition_columns != mine.partition_columns and version > self._first:
            raise SchemaError(
                f"the partition columns changed in version {version}",
                hint=f"read the changes before version {version}, and those from it on, apart",
                version=version,
            )

    def _with_partition_values(self, version: int, removes: pa.Table) -> pa.Table:
        """Give removes the partition values that they may lack, from the version before."""
        values = removes.column("partitionValues")
        if not self.snapshot.partition_fields or not values.null_count:
            return removes
        before = Snapshot.load(self.snapshot.log, version - 1).live
        known = dict(zip(before.column("path").to_pylist(), before.column("partitionValues").to_pylist(), strict=True))
        paths = removes.column("path").to_pylist()
        filled = [
            known.get(path) if found is None else found for path, found in zip(paths, values.to_pylist(), strict=True)
        ]
        index = removes.schema.get_field_index("partitionValues")
        return removes.set_column(index, removes.schema.field(index), pa.array(filled, _STRING_MAP))


def _changed_schema() -> pa.Schema:
    empty = kernels.replay([]).adds.schema
    vector = empty.field("deletionVector").type
    return pa.schema(
        [
            pa.field("path", pa.string()),
            pa.field("partitionValues", empty.field("partitionValues").type),
            pa.field("size", pa.int64()),
            pa.field("modificationTime", pa.int64()),
            pa.field("exclude", vector),
            pa.field("include", vector),
            pa.field(_CHANGE_TYPE, pa.string()),
            pa.field("_commit_version", pa.int64()),
            pa.field("_commit_timestamp", pa.timestamp("us", "UTC")),
        ]
    )


class _Mark:
    """Makes tables of changed files that say when they changed."""

    def __init__(self, version: int, millis: int) -> None:
        self._version = version
        self._instant = pa.scalar(millis * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
        self._schema = _changed_schema()

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Give rows that lack nothing but the mark."""
        marked = [{**row, "_commit_version": self._version, "_commit_timestamp": self._instant.as_py()} for row in rows]
        return pa.Table.from_pylist(marked, self._schema)

    def whole_files(self, files: pa.Table, change_type: str) -> pa.Table:
        """Give files of which every row that their deletion vector leaves has changed."""
        rows = len(files)
        names = files.schema.names
        own = {
            "exclude": files.column("deletionVector"),
            "include": pa.nulls(rows, self._schema.field("include").type),
            _CHANGE_TYPE: pa.repeat(pa.scalar(change_type), rows),
            "_commit_version": pa.repeat(pa.scalar(self._version, pa.int64()), rows),
            "_commit_timestamp": pa.repeat(self._instant, rows),
        }
        columns = [
            own[field.name]
            if field.name in own
            else (files.column(field.name) if field.name in names else pa.nulls(rows, field.type))
            for field in self._schema
        ]
        return pa.table(columns, schema=self._schema)


def _recorded_changes(data: bytes) -> list[dict[str, Any]]:
    """Give the change data files that a commit names."""
    found = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if b'"cdc"' not in line:
            continue
        try:
            action = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorruptLogError(f"a line is no JSON: {error}", line=number) from None
        change = action.get("cdc") if isinstance(action, dict) else None
        if change is None:
            continue
        if not isinstance(change, dict) or not isinstance(change.get("path"), str):
            raise CorruptLogError("a cdc action has no path", line=number)
        values = change.get("partitionValues") or {}
        if not isinstance(values, dict) or not all(isinstance(text, (str, type(None))) for text in values.values()):
            raise CorruptLogError("the partitionValues of a cdc action are no map of strings", line=number)
        size = change.get("size")
        row = {
            "path": change["path"],
            "partitionValues": list(values.items()),
            "size": size if isinstance(size, int) else None,
        }
        found.append({**row, "modificationTime": None, "exclude": None, "include": None, _CHANGE_TYPE: None})
    return found


def _exchanged(adds: pa.Table, removes: pa.Table) -> Iterator[dict[str, Any]]:
    """Give what changed in files that a commit both removed and added: the difference of their deletion vectors."""
    older = {row["path"]: row["deletionVector"] for row in removes.to_pylist()}
    for row in adds.to_pylist():
        new, old = row["deletionVector"], older[row["path"]]
        file = {name: row[name] for name in ("path", "partitionValues", "size", "modificationTime")}
        if unique_id(new) == unique_id(old):
            continue
        if new is not None:
            yield {**file, "include": new, "exclude": old, _CHANGE_TYPE: "delete"}
        if old is not None:
            yield {**file, "include": old, "exclude": new, _CHANGE_TYPE: "insert"}
