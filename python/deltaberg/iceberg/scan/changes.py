"""The changes between two snapshots of an Iceberg table.

Whole files were added or removed, and deletes removed rows from files that stayed. Snapshots that only rewrote files
(``replace``) changed nothing. An update appears as a delete and an insert, and so does every row that a snapshot wrote
anew; `deltaberg.iceberg.scan.changelog` leaves these out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import VersionNotFoundError
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.task import constant_column
from deltaberg.iceberg.deletes.key_fields import all_key_fields
from deltaberg.iceberg.manifests.fields import ADDED, DELETED, ManifestPart
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.scan.compare import deleted_only_in_other, files_of_both, have_same_deletes, located_files
from deltaberg.iceberg.scan.file_table import FURTHER_FIELDS
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import count_up
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.arguments import checked_integer
from deltaberg.table.read.all_files import AllFiles
from deltaberg.table.read.source import FILE_NUMBER, require_free_names

__all__ = [
    "CHANGE_COLUMNS",
    "DELETE",
    "INSERT",
    "ORDINAL",
    "TYPE",
    "ChangedFiles",
    "ChangesSource",
    "changed_range",
]

#: The kinds of changes, as iceberg-spark names them.
DELETE, INSERT = "DELETE", "INSERT"

TYPE = Field("_change_type", Primitive("string"), nullable=False, id=2147483543)
ORDINAL = Field("_change_ordinal", Primitive("integer"), nullable=False, id=2147483542)
_SNAPSHOT = Field("_commit_snapshot_id", Primitive("long"), nullable=False, id=2147483541)
#: When the snapshot was committed. The specification reserves no id for it.
_TIMESTAMP = Field("_commit_timestamp", Primitive("timestamp"), nullable=False)
#: The columns that describe the change.
CHANGE_COLUMNS = (TYPE, ORDINAL, _SNAPSHOT, _TIMESTAMP)

_PART = ManifestPart(rest=FURTHER_FIELDS, deleted=True)


class ChangedFiles(NamedTuple):
    """Files that hold changes, and the columns that the equality deletes compare which apply to them."""

    files: pa.Table
    keys: tuple[Field, ...]

    @classmethod
    def of(cls, files: pa.Table, keys: tuple[Field, ...]) -> ChangedFiles:
        """Return files with new numbers."""
        return cls(files.set_column(0, FILE_NUMBER, count_up(0, len(files))).combine_chunks(), keys)


def changed_range(opened: IcebergSource, start: int | None, end: int | None) -> tuple[IcebergSource, list[Snapshot]]:
    """Return the rows of the last snapshot of a range, and all of its snapshots; ``start`` is none of them.

    Raises
    ------
    InvalidArgumentError
        One of both is no number.
    VersionNotFoundError
        The table has no such snapshots, or ``start`` did not lead to ``end``.
    """
    start = checked_integer("start", start, "pass the number of a snapshot, or None")
    end = checked_integer("end", end, "pass the number of a snapshot, or None")
    last = opened.snapshot if end is None else opened.metadata.snapshot_by_id(end)
    return opened.at(last), _snapshots_between(opened.metadata, start, last)


def _snapshots_between(metadata: TableMetadata, start: int | None, end: Snapshot | None) -> list[Snapshot]:
    """Return the snapshots after ``start`` up to ``end``, the oldest first; all of them without a start.

    Raises
    ------
    VersionNotFoundError
        If the start is not an ancestor of the end, or if snapshots between them were expired.
    """
    if end is None:
        if start is None:
            return []
        raise VersionNotFoundError(f"there is no snapshot {start}: the table has no snapshots")
    snapshots: list[Snapshot] = []
    for snapshot in metadata.ancestors(end):
        if snapshot.snapshot_id == start:
            return snapshots[::-1]
        snapshots.append(snapshot)
    oldest = snapshots[-1]
    if start is None and oldest.parent_snapshot_id is None:
        return snapshots[::-1]
    raise VersionNotFoundError(
        f"snapshot {start} is not an ancestor of snapshot {end.snapshot_id}, or was expired"
        if start is not None
        else "the first snapshots of the table were expired",
        hint=f"the oldest ancestor that the table still has is snapshot {oldest.snapshot_id}",
    )


class ChangesSource(AllFiles):
    """The changes that some snapshots made, in the columns of a schema and `CHANGE_COLUMNS`.

    Parameters
    ----------
    source
        The newest of the snapshots.
    snapshots
        The snapshots, the oldest first.
    appends
        Whether to read only rows of snapshots that were appends, without `CHANGE_COLUMNS`.
    """

    def __init__(self, source: IcebergSource, snapshots: Sequence[Snapshot], appends: bool = False) -> None:
        if not appends:
            require_free_names(source.schema, CHANGE_COLUMNS, source.table)
        self._source = source
        self._snapshots = snapshots
        self._appends = appends

    @property
    def table(self) -> str:
        """Where the table is."""
        return self._source.table

    @property
    def description(self) -> str:
        """The snapshots whose changes are read."""
        what = "appends" if self._appends else "changes"
        if not self._snapshots:
            return f"{what} of no snapshot"
        return f"{what} of snapshots {self._snapshots[0].snapshot_id} to {self._snapshots[-1].snapshot_id}"

    @property
    def store(self) -> StoreSpec:
        """The description by which the stores of the files are opened."""
        return self._source.store

    @property
    def _marks(self) -> tuple[Field, ...]:
        return () if self._appends else CHANGE_COLUMNS

    @property
    def schema(self) -> Struct:
        """The columns of the table, and those that describe the change."""
        return Struct((*self._source.schema, *self._marks))

    @property
    def hidden(self) -> Struct:
        """The metadata columns, except ``_deleted``."""
        return Struct(tuple(child for child in self._source.hidden if child.name != "_deleted"))

    @property
    def constants(self) -> Struct:
        """The constants of the table's files, and the columns that describe the change."""
        return Struct((*self._source.constants, *self._marks))

    @property
    def layout(self) -> FileLayout:
        """The layout of the columns in data files, with the keys of the deletes of every snapshot that is read."""
        return replace(self._source.layout, keys=self._planned.keys)

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Return the partition values of rows of a file table, with the fields of all specs."""
        return self._source.partition_values(files)

    def locate(self, files: pa.Table) -> pa.Table:
        """Return where files and delete files are, which the file table says already."""
        return files.select(["location", "deletion_vector", "only_in_vector", "delete_files", "only_in_delete_files"])

    @property
    def file_columns(self) -> list[str]:
        """The names of the columns of the file table."""
        return list(self.no_files.column_names)

    @property
    def no_files(self) -> pa.Table:
        """A file table without files."""
        return self.marked(located_files(self._source, []), 0, None, INSERT).slice(0, 0)

    @property
    def _files(self) -> pa.Table:
        return self._planned.files

    @cached_property
    def _planned(self) -> ChangedFiles:
        parts: list[pa.Table] = []
        keys: list[tuple[Field, ...]] = []
        then = self._source.at(None)
        for number, snapshot in enumerate(self._snapshots):
            if snapshot.operation == "replace" or (self._appends and snapshot.operation != "append"):
                continue
            now, parent = self._source.at(snapshot), snapshot.parent_snapshot_id
            before = None if parent is None else self._source.metadata.snapshots.get(parent)
            if then.snapshot != before:
                then = self._source.at(before)
            parts += self._files_of(number, snapshot, then, now)
            keys += [now.deletes.key_fields] if self._appends else [then.deletes.key_fields, now.deletes.key_fields]
            then = now
        return ChangedFiles.of(pa.concat_tables(parts) if parts else self.no_files, all_key_fields(keys))

    def _files_of(self, number: int, snapshot: Snapshot, then: IcebergSource, now: IcebergSource) -> Iterator[pa.Table]:
        """Yield the files that hold the changes of one snapshot, which lie between two states of the table."""
        data = now.data_manifests
        own = data.filter(pc.equal(data.column("added_snapshot_id"), snapshot.snapshot_id))
        entries = now.reader.read(own.to_pylist(), _PART)
        added = _chosen(entries, snapshot.snapshot_id, ADDED)
        yield self.marked(located_files(now, added), number, snapshot, INSERT)
        if self._appends:
            return
        removed = _chosen(entries, snapshot.snapshot_id, DELETED)
        if any(len(found.table) for found in removed):
            yield self.marked(located_files(then, removed), number, snapshot, DELETE)
        if not have_same_deletes(then, now):
            old, new = files_of_both(then, now)
            yield self.marked(deleted_only_in_other(old, new), number, snapshot, DELETE)
            # Rows come back if a delete file was removed, or if a deletion vector lost rows.
            yield self.marked(deleted_only_in_other(new, old), number, snapshot, INSERT)

    def marked(self, files: pa.Table, number: int, snapshot: Snapshot | None, kind: str) -> pa.Table:
        """Return files with the columns that describe the change."""
        rows = len(files)
        millis = 0 if snapshot is None else snapshot.timestamp_ms
        values = {
            TYPE.name: pa.scalar(kind),
            ORDINAL.name: pa.scalar(number, pa.int32()),
            _SNAPSHOT.name: pa.scalar(0 if snapshot is None else snapshot.snapshot_id, pa.int64()),
            _TIMESTAMP.name: pa.scalar(millis * 1000, pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
        for child in self._marks:
            files = files.append_column(constant_column(child.name), pa.repeat(values[child.name], rows))
        return files


def _chosen(entries: Sequence[Entries], snapshot_id: int, status: int) -> list[Entries]:
    """Return the entries of one status that a snapshot wrote."""
    return [part.with_values(status=status, snapshot_id=snapshot_id) for part in entries]
