"""Manifests and manifest lists that name the files of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import in_context
from deltaberg.files.avro.container import AvroFile
from deltaberg.iceberg.deletes.write_positions import POSITION_DELETES_SCHEMA
from deltaberg.iceberg.encryption import encrypted
from deltaberg.iceberg.maintain.copying.copied_deletes import CopiedDeletes, copy_deletes
from deltaberg.iceberg.maintain.copying.staging import Staging
from deltaberg.iceberg.manifests.entries import entry_columns
from deltaberg.iceberg.manifests.fields import DELETED, DELETES, POSITION_DELETES, WHOLE_ENTRIES, ManifestPart
from deltaberg.iceberg.manifests.manifests import read_manifest
from deltaberg.iceberg.manifests.write_list import encode_manifest_list
from deltaberg.iceberg.manifests.write_manifest import ManifestHeader, encode_manifest
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["CopiedManifest", "CopiedManifests", "copy_list"]

#: How many manifests, and how many delete files, are rewritten at a time.
_AT_A_TIME = 4
#: Manifests whose entries are in memory while delete files are looked for.
_READ_TOGETHER = 64
_PATH_ID = POSITION_DELETES_SCHEMA.fields[0].id
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "split_offsets")
#: The ids of fields that came with versions 2 and 3 of manifest lists: ``content`` and ``first_row_id``.
_CONTENT, _FIRST_ROW_ID = 517, 520


@dataclass(frozen=True)
class CopiedManifest:
    """A manifest of a copy: its length, and the files of its live entries that are copied as they are.

    ``added_by`` has the snapshot that added each file.
    """

    length: int
    paths: pa.StringArray
    added_by: pa.Int64Array


class CopiedManifests:
    """Stages manifests that name the copies of files, and first the delete files that name data files.

    Parameters
    ----------
    source
        The table.
    staging
        Where they go.
    rows
        The manifests, as lists have them, each once.
    """

    def __init__(self, source: IcebergSource, staging: Staging, rows: Sequence[Mapping[str, Any]]) -> None:
        self._source = source
        self._staging = staging
        self._rows = rows
        #: The delete files that were rewritten, by their recorded paths.
        self.deletes: dict[str, CopiedDeletes] = {}

    def stage(self) -> Iterator[tuple[str, CopiedManifest]]:
        """Stage all manifests, and yield each with its recorded path."""
        for some in in_chunks(self._delete_files(), _READ_TOGETHER):
            made = map_in_order(_AT_A_TIME, lambda one: copy_deletes(self._source, self._staging, *one), some)
            self.deletes |= {path: done for (path, _), done in zip(some, made, strict=True) if done is not None}
        for few in in_chunks(self._rows, _AT_A_TIME):
            done = map_in_order(_AT_A_TIME, self._copied, few)
            yield from zip([row["manifest_path"] for row in few], done, strict=True)

    def _delete_files(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the format of each live file that deletes rows by their positions."""
        seen: set[str] = set()
        rows = [row | {"number": 0} for row in map(dict, self._rows) if row["content"] == DELETES]
        for some in in_chunks(rows, _READ_TOGETHER):
            for found in self._source.reader.read(some, ManifestPart()):
                chosen = found.table.filter(pc.equal(found.table.column("content"), POSITION_DELETES))
                pairs = zip(*(chosen.column(name).to_pylist() for name in ("file_path", "file_format")), strict=True)
                for path, form in pairs:
                    if path not in seen:
                        seen.add(path)
                        yield path, form

    def _copied(self, row: Mapping[str, Any]) -> CopiedManifest:
        path, source = row["manifest_path"], self._source
        if row["key_metadata"]:
            raise encrypted("a manifest", source.table, path)
        with in_context(table=source.table, file=path):
            data = source.reader.fetch(path)
            spec = source.reader.spec_of(row["partition_spec_id"])
            partition = partition_struct(spec, source.reader.schemas)
            whole = read_manifest(data, row, partition, WHOLE_ENTRIES, 1).select(entry_columns(partition).names)
            header = _header(data, ManifestHeader.of(source.metadata, spec, partition, row["content"]))
            moved = encode_manifest(self._moved(whole, row["content"]), header, threads=1)
        self._staging.put(path, moved)
        live = whole.filter(pc.not_equal(whole.column("status"), DELETED))
        if row["content"] == DELETES:
            known = pa.array(list(self.deletes), pa.string())
            live = live.filter(pc.invert(pc.is_in(live.column("file_path"), value_set=known)))
        return CopiedManifest(len(moved), as_array(live.column("file_path")), as_array(live.column("snapshot_id")))

    def _moved(self, entries: pa.Table, content: int) -> pa.Table:
        prefix = self._staging.prefix
        names = ("file_path", "referenced_data_file")
        moved = with_columns(entries, **{name: prefix.moved_paths(entries.column(name)) for name in names})
        return self._of_copies(moved, entries.column("file_path").to_pylist()) if content == DELETES else moved

    def _of_copies(self, entries: pa.Table, recorded: Sequence[str]) -> pa.Table:
        """Return entries of delete files with what is otherwise in copies: sizes, and the paths that bounds hold."""
        copies = [self.deletes.get(path) for path in recorded]
        if not any(copies):
            return entries
        own: dict[str, Any] = {}
        sizes = entries.column("file_size_in_bytes").to_pylist()
        own["file_size_in_bytes"] = [old if new is None else new.size for old, new in zip(sizes, copies, strict=True)]
        are_files = [new is not None and new.records is not None for new in copies]
        records = entries.column("record_count").to_pylist()
        own["record_count"] = [
            new.records if new is not None and is_file else old
            for old, new, is_file in zip(records, copies, are_files, strict=True)
        ]
        for name, side in (("lower_bounds", "first"), ("upper_bounds", "last")):
            maps = entries.column(name).to_pylist()
            own[name] = [
                _bounds(old, getattr(new, side)) if is_file else old
                for old, new, is_file in zip(maps, copies, are_files, strict=True)
            ]
        kept = pa.array([None if is_file else at for at, is_file in enumerate(are_files)], pa.int64())
        arrays = {name: pa.array(values, entries.schema.field(name).type) for name, values in own.items()}
        # What footers of the old files tell is not true of the new ones.
        return with_columns(entries, **arrays, **{name: as_array(entries.column(name)).take(kept) for name in _COUNTS})


def _bounds(old: Sequence[tuple[int, bytes]] | None, path: str) -> list[tuple[int, bytes]] | None:
    """Return the bounds of the columns of position deletes, where those of paths are recorded."""
    known = {child.id for child in POSITION_DELETES_SCHEMA}
    kept = [(number, path.encode() if number == _PATH_ID else value) for number, value in old or () if number in known]
    return kept or None


def _header(data: bytes, header: ManifestHeader) -> ManifestHeader:
    """Return the header of a manifest, filled up from the table."""
    said = {name: value.decode() for name, value in AvroFile(data).metadata.items() if name in header.pairs()}
    return replace(
        header,
        format_version=int(said.get("format-version", header.format_version)),
        schema_json=said.get("schema", header.schema_json),
        schema_id=int(said.get("schema-id", header.schema_id)),
    )


def copy_list(source: IcebergSource, staging: Staging, snapshot: Snapshot, lengths: Mapping[str, int]) -> None:
    """Stage the manifest list of a snapshot.

    Parameters
    ----------
    lengths
        The lengths of the copies of manifests, by their recorded paths.
    """
    path = str(snapshot.manifest_list)
    rows = source.at(snapshot).manifests.drop_columns(["number"])
    recorded = rows.column("manifest_path")
    sizes = pa.array([lengths[one] for one in recorded.to_pylist()], pa.int64())
    moved = with_columns(rows, manifest_path=staging.prefix.moved_paths(recorded), manifest_length=sizes)
    fields = {child.id for child in AvroFile(source.reader.fetch(path)).schema.fields}
    with_row_ids = _FIRST_ROW_ID in fields and snapshot.first_row_id is not None
    with in_context(table=source.table, file=path):
        data = encode_manifest_list(
            moved,
            format_version=3 if with_row_ids else 2 if _CONTENT in fields else 1,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id if with_row_ids else None,
        )
    staging.put(path, data)
