"""Producing a snapshot on top of the newest state of a table (Iceberg spec, "Snapshots", "Sequence Numbers")."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ConcurrentDeleteDeleteError, MetadataChangedError, ProtocolChangedError, StorageError
from deltaberg.iceberg.location.new_files import metadata_location
from deltaberg.iceberg.manifests.entries import entry_columns
from deltaberg.iceberg.manifests.fields import DATA, DELETED, EQUALITY_DELETES, EXISTING, MANIFESTS, WHOLE_ENTRIES
from deltaberg.iceberg.manifests.merge import MergePolicy, merge_rows, merged_entries, parts_of_size
from deltaberg.iceberg.manifests.write_list import complete_rows, encode_manifest_list
from deltaberg.iceberg.manifests.write_manifest import ManifestHeader, encode_manifest, manifest_row
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE, VECTORS_SINCE
from deltaberg.iceberg.partition.assign import PartitionPaths
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.commit_properties import manifest_codec, most_partitions
from deltaberg.iceberg.transaction.conflict import conflict
from deltaberg.iceberg.transaction.pending import AddedFiles, DeleteKey, ManifestRow, PendingFiles, Regrouped
from deltaberg.iceberg.transaction.summary import Tally, snapshot_summary
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.schema.types import Struct
from deltaberg.storage.base import PutOutcome
from deltaberg.storage.location import Location, PathResolver
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.removal import FileKind, discard_locations

__all__ = ["Production", "new_snapshot_id"]


def new_snapshot_id(metadata: TableMetadata) -> int:
    """Return a random id that no snapshot of the table has.

    Snapshots have positive ids of 63 bits.
    """
    while True:
        number = secrets.randbits(63)
        if number and number not in metadata.snapshots:
            return number


#: What the entries of a manifest are made of: its path, and the first of the ids that its list gives to rows.
_Origin: TypeAlias = "tuple[str, int | None]"


@dataclass(frozen=True)
class _Manifest:
    """A manifest that was written, and what it removes."""

    row: Mapping[str, Any]
    partition: Struct
    removed: pa.Table


class _Least(NamedTuple):
    """The least sequence numbers of the data files that stay, and of new ones that have numbers of their own.

    None stands for no files. New files without numbers of their own get a greater one than all others.
    """

    kept: int | None = None
    new: int | None = None

    def with_kept(self, number: int) -> _Least:
        """Return the least numbers after one more data file that stays."""
        return self._replace(kept=number if self.kept is None else min(self.kept, number))

    def is_past(self, deletes: pa.Table) -> pa.BooleanArray:
        """Return which delete files apply to no data file any more.

        Position deletes name files, none of which is new. Keys apply to files of a smaller number.
        """
        numbers = as_array(deletes.column("sequence_number"))
        data = [number for number in (self.kept, self.new) if number is not None]
        by_keys = pc.less_equal(numbers, min(data)) if data else pa.repeat(True, len(numbers))
        by_position = pa.repeat(True, len(numbers)) if self.kept is None else pc.less(numbers, self.kept)
        return pc.if_else(pc.equal(deletes.column("content"), EQUALITY_DELETES), by_keys, by_position)


@dataclass
class Production:
    """Makes the snapshot of one transaction, as often as the table moves on.

    Manifests are written once: those of new files for all attempts, and those that leave files out or merge others for
    as long as the manifests that they were made of are there. If the table is upgraded meanwhile, all of them are
    written again, since entries of a later version hold what those of an earlier one leave out.

    Parameters
    ----------
    store, resolver
        What opens the stores of files, and what finds the places that recorded paths lead to.
    snapshot_id
        The id of the snapshot, the same for all attempts.
    pending
        What is added and removed.
    extra
        What the caller adds to the summary.
    """

    store: StoreSpec
    resolver: PathResolver
    snapshot_id: int
    pending: PendingFiles
    extra: Mapping[str, str] = field(default_factory=dict)
    #: What the names of its metadata files have in common. Another process may make the same snapshot.
    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    #: The files that were written, by their recorded paths.
    written: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    _added: list[Mapping[str, Any]] | None = None
    _rewritten: dict[tuple[_Origin, _Least], _Manifest] = field(default_factory=dict)
    _merges: dict[tuple[_Origin, ...], Mapping[str, Any] | None] = field(default_factory=dict)
    #: The files of each attempt, by its manifest list.
    _used: dict[str, set[str]] = field(default_factory=dict)
    #: Likewise, the delete files that it has beside those that are pending, and the manifests of the last ones.
    _hiding: dict[str, Sequence[AddedFiles]] = field(default_factory=dict)
    _hiding_rows: tuple[Sequence[AddedFiles], list[Mapping[str, Any]]] = ((), [])
    _version: int | None = None
    _attempts: int = 0

    def produce(self, source: IcebergSource, now_ms: int, hiding: Sequence[AddedFiles] = ()) -> Snapshot:
        """Return the snapshot that follows the one of a source, with all of its metadata files written.

        Parameters
        ----------
        source
            The newest state of the branch, in the columns that the table will have.
        now_ms
            The time in milliseconds since 1970.
        hiding
            Delete files that this attempt adds to those that are pending.

        Raises
        ------
        CommitConflictError
            If a file that is to be removed is not there any more, or the table has a version that does not take the
            new files.
        StorageError
            If the store fails.
        """
        metadata, parent = source.metadata, source.snapshot
        self._check_files(source)
        if metadata.format_version != self._version:
            self._version, self._added, self._hiding_rows = metadata.format_version, None, ((), [])
            self._rewritten.clear()
            self._merges.clear()
        most = most_partitions(metadata)
        columns = metadata.known_columns
        self.tally = Tally(
            keeps_rows=self.pending.keeps_rows,
            replaces_partitions=self.pending.replaces_partitions,
            paths={number: PartitionPaths(spec, columns) for number, spec in metadata.specs.items()} if most else None,
            most_partitions=most,
        )
        for files in (*self.pending.added, *hiding):
            self.tally.add(files.spec.spec_id, files.partition, files.entries)
        added = [*self._added_rows(metadata), *self._rows_hiding(metadata, hiding)]
        kept, said = self._arranged(source, self._kept_rows(source))
        rows = [*added, *kept]
        is_numbered = metadata.format_version > 1
        sequence = metadata.last_sequence_number + 1 if is_numbered else 0
        first = (metadata.next_row_id or 0) if metadata.format_version >= ROW_LINEAGE else None
        complete = complete_rows(pa.Table.from_pylist(rows, MANIFESTS), sequence_number=sequence, first_row_id=first)
        parent_id = None if parent is None else parent.snapshot_id
        data = encode_manifest_list(
            complete.rows,
            format_version=metadata.format_version,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence,
            first_row_id=first,
            **manifest_codec(metadata),
        )
        self._attempts += 1
        path = f"{_directory(metadata)}/snap-{self.snapshot_id}-{self._attempts}-{self.token}.avro"
        self._put(path, data)
        self._used[path] = {row["manifest_path"] for row in rows} | {path}
        self._hiding[path] = hiding
        before = None if parent is None else parent.summary
        return Snapshot(
            snapshot_id=self.snapshot_id,
            timestamp_ms=max(now_ms, metadata.last_updated_ms, 0 if parent is None else parent.timestamp_ms),
            sequence_number=sequence,
            parent_snapshot_id=parent_id,
            manifest_list=path,
            summary=snapshot_summary(self.tally.operation, self.tally, before, {**self.extra, **said}),
            schema_id=metadata.current_schema_id,
            first_row_id=first,
            added_rows=None if first is None or complete.next_row_id is None else complete.next_row_id - first,
        )

    def _check_files(self, source: IcebergSource) -> None:
        """Refuse new files that the table does not take any more.

        Their spec may have become another one, and version 3 has no new position delete files.
        """
        metadata = source.metadata
        for files in self.pending.added:
            has_old = metadata.format_version >= VECTORS_SINCE and files.has_position_files
            known = metadata.specs.get(files.spec.spec_id)
            if has_old or known is None or known.fields != files.spec.fields:
                raise conflict(
                    ProtocolChangedError if has_old else MetadataChangedError,
                    "the table was upgraded meanwhile, and has no new position delete files any more"
                    if has_old
                    else "another commit changed the partitioning that the new files have",
                )

    def _added_rows(self, metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if self._added is None:
            self._added = self._rows_of(metadata, self.pending.added)
        return self._added

    def _rows_hiding(self, metadata: TableMetadata, hiding: Sequence[AddedFiles]) -> list[Mapping[str, Any]]:
        if self._hiding_rows[0] is not hiding:
            self._hiding_rows = hiding, self._rows_of(metadata, hiding)
        return self._hiding_rows[1]

    def _rows_of(self, metadata: TableMetadata, added: Sequence[AddedFiles]) -> list[Mapping[str, Any]]:
        """Write the manifests of new files, and return them."""
        rows: list[Mapping[str, Any]] = []
        for files in added:
            entries = with_columns(files.entries, snapshot_id=self.snapshot_id)
            header = ManifestHeader.of(metadata, files.spec, files.partition, files.content)
            size = MergePolicy.of(metadata.properties).target_size
            parts = parts_of_size(entries, header, size, **manifest_codec(metadata))
            rows.extend(self._write(metadata, header, part) for part in parts)
        return rows

    def _kept_rows(self, source: IcebergSource) -> list[Mapping[str, Any]]:
        """Return the manifests of the parent without the files that are removed."""
        # Only the snapshot that removed files needs a manifest without live ones.
        rows = [
            row
            for row in source.manifests.to_pylist()
            if row["added_files_count"] != 0 or row["existing_files_count"] != 0
        ]
        rewritten: dict[str, _Manifest] = {}
        missing = set(self.pending.removed)
        # What position delete files delete is in those that replace them, so that it does not matter who removes them.
        missing_deletes = {key for key in self.pending.removed_deletes if key[1] is not None}
        least = _Least(None, self.pending.least_number)
        for row in sorted(rows, key=lambda row: bool(row["content"] != DATA)):
            manifest = self._without_removed(source, row, least) if self._may_hold_removed(row) else None
            if manifest is not None:
                rewritten[row["manifest_path"]] = manifest
                missing.difference_update(manifest.removed.column("file_path").to_pylist())
                missing_deletes.difference_update(_delete_keys(manifest.removed))
                self.tally.remove(row["partition_spec_id"], manifest.partition, manifest.removed)
            if row["content"] == DATA and (manifest is None or manifest.row["existing_files_count"]):
                number = (row if manifest is None else manifest.row)["min_sequence_number"] or 0
                least = least.with_kept(number)
        if missing or missing_deletes:
            kind, gone = ("data", missing) if missing else ("delete", {path for path, _ in missing_deletes})
            what = f"another commit removed {len(gone)} {kind} files that are to be replaced"
            raise conflict(ConcurrentDeleteDeleteError, what, min(gone))
        return [
            rewritten[row["manifest_path"]].row
            if row["manifest_path"] in rewritten
            else {name: row[name] for name in MANIFESTS.names}
            for row in rows
        ]

    def _arranged(self, source: IcebergSource, rows: Sequence[ManifestRow]) -> Regrouped:
        """Return the manifests that are kept, with their entries where the commit has them."""
        if self.pending.regrouping is None:
            return Regrouped(self._merged(source, rows), {})
        return self.pending.regrouping.regroup(source, rows, partial(self._write, source.metadata))

    def _merged(self, source: IcebergSource, rows: Sequence[ManifestRow]) -> list[Mapping[str, Any]]:
        """Return the manifests that are kept, with those merged that have accumulated."""
        metadata = source.metadata

        def merge(group: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
            origins = tuple(map(_origin, group))
            if origins not in self._merges:
                (found,) = source.reader.read([{**row, "number": at} for at, row in enumerate(group)], WHOLE_ENTRIES)
                kept = found.table.select(entry_columns(found.partition).names)
                entries = merged_entries([kept], self.snapshot_id)
                header = ManifestHeader.of(metadata, found.spec, found.partition, group[0]["content"])
                self._merges[origins] = self._write(metadata, header, entries) if len(entries) else None
            return self._merges[origins]

        return merge_rows(rows, MergePolicy.of(metadata.properties), merge)

    def _may_hold_removed(self, row: Mapping[str, Any]) -> bool:
        """Return whether a manifest has to be read; those that were there when the removal was planned are known."""
        pending, path = self.pending, row["manifest_path"]
        if row["content"] != DATA and (pending.removed or pending.removes_deletes):
            # Deletes of single data files leave the table with these.
            return True
        if not (pending.removed or pending.removed_deletes):
            return False
        return path in pending.removed_in or path not in pending.planned_on

    def _without_removed(self, source: IcebergSource, row: Mapping[str, Any], least: _Least) -> _Manifest | None:
        """Return a manifest without what is removed; None if it holds nothing of it.

        Parameters
        ----------
        least
            The least sequence numbers of data files. Where data files are removed, older delete files leave with them,
            since they apply to nothing more.
        """
        least = _Least() if row["content"] == DATA else least
        key = _origin(row), least
        if key in self._rewritten:
            return self._rewritten[key]
        (part,) = source.reader.read([row], WHOLE_ENTRIES)
        entries = part.table.drop_columns(["position", "manifest"])
        entries = entries.filter(pc.not_equal(entries.column("status"), DELETED))
        is_removed = self._removed(entries, row["content"], least)
        if not pc.any(is_removed, min_count=0).as_py():
            return None
        removed, kept = entries.filter(is_removed), entries.filter(pc.invert(is_removed))
        rewritten = pa.concat_tables(
            [with_columns(kept, status=EXISTING), with_columns(removed, status=DELETED, snapshot_id=self.snapshot_id)]
        ).select(entry_columns(part.partition).names)
        header = ManifestHeader.of(source.metadata, part.spec, part.partition, row["content"])
        manifest = _Manifest(self._write(source.metadata, header, rewritten), part.partition, removed)
        self._rewritten[key] = manifest
        return manifest

    def _removed(self, entries: pa.Table, content: int, least: _Least) -> pa.BooleanArray:
        """Return which of the live entries of a manifest are removed."""
        pending = self.pending
        if content == DATA:
            return _is_among(entries.column("file_path"), pending.removed)
        if pending.removes_deletes:
            return pa.repeat(True, len(entries))
        is_of_removed = _is_among(entries.column("referenced_data_file"), pending.removed)
        is_named = pa.array([key in pending.removed_deletes for key in _delete_keys(entries)], pa.bool_())
        is_removed = pc.or_(is_of_removed, is_named)
        if not pending.removed:
            return is_removed
        return pc.or_(is_removed, least.is_past(entries))

    def _write(self, metadata: TableMetadata, header: ManifestHeader, entries: pa.Table) -> Mapping[str, Any]:
        data = encode_manifest(entries, header, **manifest_codec(metadata))
        path = f"{_directory(metadata)}/{self.token}-m{len(self.written)}.avro"
        self._put(path, data)
        return manifest_row(entries, header, path, len(data), snapshot_id=self.snapshot_id)

    def _put(self, path: str, data: bytes) -> None:
        place = self.resolver.resolve(path)
        self.written.append(path)
        result = self.store.open(place).put(place.path, data)
        if result.outcome is not PutOutcome.WRITTEN:
            raise result.cause or StorageError("a metadata file could not be written", path=path)

    def hiding_of(self, committed: TableMetadata) -> list[AddedFiles]:
        """Return the delete files beside those that are pending that the snapshot may have, as `delete_unused` says."""
        found = committed.snapshots.get(self.snapshot_id)
        path = None if found is None else found.manifest_list
        chosen = [self._hiding[path]] if path in self._hiding else list(self._hiding.values())
        return [files for one in chosen for files in one]

    def delete_unused(self, committed: TableMetadata | None, home: Location | None = None) -> None:
        """Delete the metadata files that no snapshot names, once it is known what became of the commit.

        Parameters
        ----------
        committed
            The table after the commit, whose snapshot may be that of an earlier attempt than the last one; None if
            nothing was committed. If the table does not show the snapshot, all files stay.
        home
            As `discard_locations` has it.
        """
        used = set[str]()
        if committed is not None:
            found = committed.snapshots.get(self.snapshot_id)
            path = None if found is None else found.manifest_list
            used = set(self.written) if path is None else self._used.get(path, set(self.written))
        gone = [path for path in self.written if path not in used]
        self.written = [path for path in self.written if path in used]
        places = ((self.resolver.resolve(path.rpartition("/")[0]), self.resolver.resolve(path)) for path in gone)
        discard_locations(self.store, places, FileKind("a manifest", re.compile(f".*{self.token}.*\\.avro")), home)


def _is_among(paths: pa.ChunkedArray, chosen: AbstractSet[str]) -> pa.BooleanArray:
    """Return which paths are among others, at a cost that does not grow with the number of these."""
    return pa.array([path in chosen for path in paths.to_pylist()], pa.bool_())


def _origin(row: Mapping[str, Any]) -> _Origin:
    return row["manifest_path"], row["first_row_id"]


def _delete_keys(entries: pa.Table) -> list[DeleteKey]:
    """Return what tells the delete files of entries apart."""
    return list(zip(entries.column("file_path").to_pylist(), entries.column("content_offset").to_pylist(), strict=True))


def _directory(metadata: TableMetadata) -> str:
    return metadata_location(metadata.location, metadata.properties)
