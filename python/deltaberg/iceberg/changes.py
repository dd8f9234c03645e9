"""What changed between two snapshots of an Iceberg table.

Whole files were added or removed, and delete files took rows out of files that stayed. The changes come without their
cause: an update is a delete and an insert, as in the changelog of iceberg-spark. Snapshots that only rewrote files
(``replace``) changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError, VersionNotFoundError
from deltaberg.expressions import TRUE, Bound
from deltaberg.files import BITMAP, DELETE_FILES, FileLayout, constant_column
from deltaberg.iceberg.manifests import ADDED, DELETED, ManifestPart
from deltaberg.iceberg.metadata import TableMetadata
from deltaberg.iceberg.planning import Entries
from deltaberg.iceberg.snapshots import Snapshot
from deltaberg.iceberg.source import DATA_REST, IcebergSource
from deltaberg.pruning import FileStats
from deltaberg.schema import Field, Primitive, Struct
from deltaberg.storage import StoreSpec
from deltaberg.table import ROW, FileSelection, PruneStep

__all__ = ["CHANGE_COLUMNS", "ChangesSource", "snapshots_between"]

_TYPE = Field("_change_type", Primitive("string"), nullable=False, id=2147483543)
_ORDINAL = Field("_change_ordinal", Primitive("integer"), nullable=False, id=2147483542)
_SNAPSHOT = Field("_commit_snapshot_id", Primitive("long"), nullable=False, id=2147483541)
#: When the snapshot was committed; the spec reserves no id for it.
_TIMESTAMP = Field("_commit_timestamp", Primitive("timestamp"), nullable=False)
#: The columns that say what changed.
CHANGE_COLUMNS = (_TYPE, _ORDINAL, _SNAPSHOT, _TIMESTAMP)

_PART = ManifestPart(rest=DATA_REST, deleted=True)


def snapshots_between(metadata: TableMetadata, start: int | None, end: Snapshot) -> list[Snapshot]:
    """Give the snapshots after ``start`` up to ``end``, the oldest first; all of them without a start.

    Raises
    ------
    VersionNotFoundError
        Where the start is no ancestor of the end, or history between them was expired.
    """
    found: list[Snapshot] = []
    for snapshot in metadata.ancestors(end):
        if snapshot.snapshot_id == start:
            return found[::-1]
        found.append(snapshot)
    oldest = found[-1]
    if start is None and oldest.parent_snapshot_id is None:
        return found[::-1]
    raise VersionNotFoundError(
        f"the snapshot {start} is no ancestor of {end.snapshot_id} that the table still holds"
        if start is not None
        else "the first snapshots of the table were expired",
        hint=f"history reaches back to the snapshot {oldest.snapshot_id}",
    )


class ChangesSource:
    """The changes of some snapshots, in the columns of a schema and `CHANGE_COLUMNS`.

    Parameters
    ----------
    source
        The newest of the snapshots.
    snapshots
        The oldest first.
    appends
        Give only what was appended, without `CHANGE_COLUMNS`; snapshots that also deleted are left out.
    """

    def __init__(self, source: IcebergSource, snapshots: Sequence[Snapshot], appends: bool = False) -> None:
        clash = [child.name for child in CHANGE_COLUMNS if source.schema.get(child.name) is not None]
        if clash and not appends:
            raise InvalidArgumentError(
                f"the table has a column {clash[0]}, which changes need for themselves", table=source.table
            )
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
        """What opens the stores of the files."""
        return self._source.store

    @property
    def _marks(self) -> tuple[Field, ...]:
        return () if self._appends else CHANGE_COLUMNS

    @property
    def schema(self) -> Struct:
        """The columns of the table, and what changed."""
        return Struct((*self._source.schema, *self._marks))

    @property
    def hidden(self) -> Struct:
        """The metadata columns, but for the one of deleted rows."""
        return Struct(tuple(child for child in self._source.hidden if child.name != "_deleted"))

    @property
    def constants(self) -> Struct:
        """The constants of the table's files, and what changed."""
        return Struct((*self._source.constants, *self._marks))

    @property
    def layout(self) -> FileLayout:
        """How data files hold the columns."""
        return self._source.layout

    def select_files(self, condition: Bound) -> FileSelection:  # noqa: ARG002
        """Give all files with changes."""
        files = self._files
        size: int = pc.sum(files.column("size")).as_py() or 0
        return FileSelection(files, [PruneStep("files", len(files), size)])

    def partition_values(self, files: pa.Table) -> pa.StructArray:
        """Give typed partition values for rows of the file table."""
        return self._source.partition_values(files)

    def statistics(self, rows: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:  # noqa: ARG002
        """Give no statistics."""
        count = len(self._files) if rows is None else len(rows)
        return FileStats(count, pa.nulls(count, pa.int64()))

    def locate(self, files: pa.Table) -> pa.Table:
        """Give where files and delete files are."""
        return files.select(["location", "exclude", "include", "deletes", "included"])

    @cached_property
    def _files(self) -> pa.Table:
        parts = [part for number, snapshot in enumerate(self._snapshots) for part in self._of(number, snapshot)]
        whole = pa.concat_tables(parts) if parts else self._marked(self._described([]), 0, None, "insert").slice(0, 0)
        return whole.set_column(0, ROW, pa.array(range(len(whole)), pa.int64())).combine_chunks()

    def _of(self, number: int, snapshot: Snapshot) -> Iterator[pa.Table]:
        """Give the files with changes of one snapshot."""
        if snapshot.operation == "replace" or (self._appends and snapshot.operation != "append"):
            return
        now = self._source.at(snapshot)
        own = now.manifests.filter(pc.equal(now.manifests.column("added_snapshot_id"), snapshot.snapshot_id))
        data = own.filter(pc.equal(own.column("content"), 0))
        entries = now.reader.read(data.to_pylist(), _PART) if len(data) else []
        added = _chosen(entries, snapshot.snapshot_id, ADDED)
        yield self._marked(self._located(now, added), number, snapshot, "insert")
        if self._appends:
            return
        parent = snapshot.parent_snapshot_id
        before = None if parent is None else self._source.metadata.snapshots.get(parent)
        then = self._source.at(before)
        removed = _chosen(entries, snapshot.snapshot_id, DELETED)
        if any(len(found.table) for found in removed):
            yield self._marked(self._located(then, removed), number, snapshot, "delete")
        if _delete_manifests(then) != _delete_manifests(now):
            old, new = self._stayed(then, now)
            yield self._marked(_named_anew(old, new), number, snapshot, "delete")
            # Delete files that were removed, and vectors that shrank, give rows back.
            yield self._marked(_named_anew(new, old), number, snapshot, "insert")

    def _located(self, source: IcebergSource, entries: Sequence[Entries]) -> pa.Table:
        """Give the files of entries with what deletes their rows in a snapshot, and where all of it is."""
        files = source.file_table(entries)
        return self._described([files], source)

    def _described(self, tables: Sequence[pa.Table], source: IcebergSource | None = None) -> pa.Table:
        source = source or self._source
        files = tables[0] if tables else source.file_table([])
        located = source.locate(files)
        rows = len(files)
        deletes = located.column("deletes") if "deletes" in located.column_names else pa.nulls(rows, DELETE_FILES)
        kept = [name for name in files.column_names if name not in ("exclude", "include", "deletes")]
        columns = {name: files.column(name) for name in kept} | {
            "location": located.column("location"),
            "exclude": located.column("exclude"),
            "include": located.column("include"),
            "deletes": deletes,
            "included": pa.nulls(rows, DELETE_FILES),
        }
        return pa.table(columns)

    def _stayed(self, then: IcebergSource, now: IcebergSource) -> tuple[pa.Table, pa.Table]:
        """Give the files that both snapshots have, row by row, with what deletes their rows in each."""
        old, new = (self._described([source.select_files(TRUE).files], source) for source in (then, now))
        place = pc.index_in(new.column("path"), value_set=old.column("path").combine_chunks())
        return old.take(place.drop_null()), new.filter(place.is_valid())

    def _marked(self, files: pa.Table, number: int, snapshot: Snapshot | None, kind: str) -> pa.Table:
        """Add what changed, and when."""
        rows = len(files)
        millis = 0 if snapshot is None else snapshot.timestamp_ms
        values = {
            _TYPE.name: pa.scalar(kind),
            _ORDINAL.name: pa.scalar(number, pa.int32()),
            _SNAPSHOT.name: pa.scalar(0 if snapshot is None else snapshot.snapshot_id, pa.int64()),
            _TIMESTAMP.name: pa.scalar(millis * 1000, pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
        for child in self._marks:
            files = files.append_column(constant_column(child.name), pa.repeat(values[child.name], rows))
        return files


def _chosen(entries: Sequence[Entries], snapshot_id: int, status: int) -> list[Entries]:
    """Give the entries that a snapshot made, of one status."""
    found = []
    for part in entries:
        mine = pc.and_(
            pc.equal(part.table.column("status"), status), pc.equal(part.table.column("snapshot_id"), snapshot_id)
        )
        mine = mine.combine_chunks() if isinstance(mine, pa.ChunkedArray) else mine
        found.append(Entries(part.spec, part.partition, part.table.filter(mine), part.proven.filter(mine)))
    return found


def _delete_manifests(source: IcebergSource) -> set[str]:
    manifests = source.manifests
    return set(manifests.filter(pc.not_equal(manifests.column("content"), 0)).column("manifest_path").to_pylist())


def _named_anew(one: pa.Table, other: pa.Table) -> pa.Table:
    """Give the files with the rows that the deletes of the other state name, and those of the one do not."""
    rows = []
    for number, (own, others) in enumerate(zip(_applied(one), _applied(other), strict=True)):
        known = own["deletes"] or []
        fresh = [file for file in others["deletes"] or [] if file not in known]
        vector = others["exclude"] if others["exclude"] != own["exclude"] else None
        if fresh or vector is not None:
            rows.append({"number": number, "include": vector, "included": fresh or None})
    chosen = one.take(pa.array([row["number"] for row in rows], pa.int64()))
    for name, kind in (("include", BITMAP), ("included", DELETE_FILES)):
        index = chosen.schema.get_field_index(name)
        chosen = chosen.set_column(index, name, pa.array([row[name] for row in rows], kind))
    return chosen


def _applied(files: pa.Table) -> Iterator[dict[str, Any]]:
    yield from files.select(["exclude", "deletes"]).to_pylist()
