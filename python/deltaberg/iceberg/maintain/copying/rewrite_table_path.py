"""Plans of copies: what is copied where, so that the copy of a table needs nothing of the old place."""

from __future__ import annotations

import csv
import io
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError, in_context
from deltaberg.iceberg.encryption import encrypted
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.new_files import metadata_location
from deltaberg.iceberg.maintain.cleaning.reached import statistics_of
from deltaberg.iceberg.maintain.copying.copied_manifests import CopiedManifest, CopiedManifests, copy_list
from deltaberg.iceberg.maintain.copying.copied_metadata import MetadataVersion, moved_metadata, versions_of
from deltaberg.iceberg.maintain.copying.path_prefix import PathPrefix
from deltaberg.iceberg.maintain.copying.staging import Staging
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.write_metadata import encode_metadata, is_compressed
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.storage.location import parse_location
from deltaberg.table.maintain.cloning.clone_places import check_outside
from deltaberg.workers import map_in_order

__all__ = ["CopyRequest", "RewriteTablePathResult", "rewrite_table_path"]

_FILE_LIST = "file-list"
#: How many statistics are looked for at a time, and how many lines of the list are made at a time.
_READERS, _LINES = 16, 65_536
_PAIRS = pa.schema([("source", pa.string()), ("target", pa.string())])


@dataclass(frozen=True)
class RewriteTablePathResult:
    """The files to copy, and where to.

    Parameters
    ----------
    latest_version
        The name of the newest metadata file of the copy.
    metadata_location
        Where that file will be, by which a catalog registers the copy.
    file_list_location
        The list as a file: a line for each file, with its source, a comma and its target.
    files
        The same list as a table with the columns ``source`` and ``target``. Metadata files are the last.
    rewritten_manifests, rewritten_delete_files
        How many manifests, and how many position delete files and files of deletion vectors, were rewritten.
    """

    latest_version: str
    metadata_location: str
    file_list_location: str
    files: pa.Table = field(repr=False, compare=False)
    rewritten_manifests: int = 0
    rewritten_delete_files: int = 0


@dataclass(frozen=True)
class CopyRequest:
    """The request of a copy: see ``IcebergTable.rewrite_table_path``."""

    source_prefix: str | os.PathLike[str]
    target_prefix: str | os.PathLike[str]
    start_version: str | None = None
    end_version: str | None = None
    staging_location: str | os.PathLike[str] | None = None


def rewrite_table_path(loaded: LoadedTable, asked: CopyRequest) -> RewriteTablePathResult:
    """Write the metadata of a copy of a table, and list what is to be copied.

    Raises
    ------
    InvalidArgumentError
        A path is not below the prefix, the copy would be in a table, the table has no such metadata file, or an
        argument is not valid.
    DataFileNotFoundError, CorruptTableError
        A file of metadata or of deletes cannot be read.
    UnsupportedFeatureError
        The table is encrypted.
    StorageError
        A store failed.
    """
    with in_context(table=str(loaded.root)):
        prefix = PathPrefix(asked.source_prefix, asked.target_prefix)
        versions, begin = versions_of(loaded, asked.start_version, asked.end_version)
        metadata = _needed(versions[-1])
        before = None if not begin else _needed(versions[begin - 1])
        if metadata.encryption_keys:
            raise encrypted("the table", str(loaded.root))
        target = parse_location(prefix.moved(metadata.location))
        if loaded.store.is_same(loaded.root, loaded.store, target):
            check_outside(loaded.store, target)
        staging = _staging(loaded, prefix, asked.staging_location)
        staging.check_empty()
        return _Copy(loaded, metadata, before, staging).run(versions[begin:])


def _needed(version: MetadataVersion) -> TableMetadata:
    metadata = version.read()
    if metadata is None:
        raise InvalidArgumentError(
            f"the metadata file {version.name} is gone", hint="name a newer version", file=version.path
        )
    return metadata


def _staging(loaded: LoadedTable, prefix: PathPrefix, given: str | os.PathLike[str] | None) -> Staging:
    if given is not None:
        place = parse_location(given)
        return Staging(prefix, loaded.store, str(place).rstrip("/"), place)
    folder = metadata_location(loaded.metadata.location, loaded.metadata.properties)
    text = f"{folder}/copy-table-staging-{uuid.uuid4()}"
    return Staging(prefix, loaded.store, text, loaded.resolver.resolve(text))


class _Copy:
    """One call.

    Parameters
    ----------
    loaded
        The newest metadata of the table.
    metadata
        The metadata that the copy ends with.
    before
        The metadata that an earlier copy ended with; None for a whole copy.
    """

    def __init__(
        self, loaded: LoadedTable, metadata: TableMetadata, before: TableMetadata | None, staging: Staging
    ) -> None:
        self._source = IcebergSource.of(replace(loaded, metadata=metadata))
        self._metadata = metadata
        self._before = before
        self._staging = staging
        #: The manifests that snapshots of an earlier copy list.
        self._copied: set[str] = set()

    def run(self, versions: list[MetadataVersion]) -> RewriteTablePathResult:
        """Stage what is rewritten, and write the list of files."""
        staging, prefix = self._staging, self._staging.prefix
        rows = self._manifests()
        manifests = CopiedManifests(self._source, staging, list(rows.values()))
        lengths: dict[str, int] = {}
        to_copy: list[pa.Array] = []
        copied: list[pa.Array] = []
        for path, manifest in manifests.stage():
            lengths[path] = manifest.length
            self._divide(path, manifest, to_copy, copied)
        plain = pa.chunked_array(to_copy, pa.string()).unique()
        if copied:
            there = pa.chunked_array(copied, pa.string()).unique()
            plain = plain.filter(pc.invert(pc.is_in(plain, value_set=there)))
        lists = [one for one in self._metadata.snapshots.values() if one.manifest_list is not None]
        for snapshot in lists:
            copy_list(self._source, staging, snapshot, lengths)
        staged = [*manifests.deletes, *lengths, *(str(one.manifest_list) for one in lists)]
        for version in versions:
            metadata = version.read()
            if metadata is not None:
                codec = "gzip" if is_compressed(version.name) else "none"
                staging.put(version.path, encode_metadata(moved_metadata(metadata.raw, prefix), codec))
                staged.append(version.path)
        as_is = pa.concat_arrays([plain, pa.array(self._statistics(), pa.string())])
        pairs = [
            pa.table([as_is, prefix.moved_paths(as_is)], schema=_PAIRS),
            pa.table([[staging.path_of(one) for one in staged], [prefix.moved(one) for one in staged]], schema=_PAIRS),
        ]
        files = pa.concat_tables(pairs)
        last = versions[-1]
        return RewriteTablePathResult(
            last.name, prefix.moved(last.path), self._list(files), files, len(lengths), len(manifests.deletes)
        )

    def _manifests(self) -> dict[str, dict[str, Any]]:
        """Return the rows of all manifests of all snapshots, by their paths.

        Lists from before version 3 do not say which row ids a manifest has; a newer list may say it of the same one.
        """
        manifests: dict[str, dict[str, Any]] = {}
        earlier = {} if self._before is None else self._before.snapshots
        for snapshot in self._metadata.snapshots.values():
            if snapshot.key_id is not None:
                raise encrypted("a manifest list", self._source.table)
            rows = self._source.at(snapshot).manifests.drop_columns(["number", "partitions"])
            names = (rows.column(name).to_pylist() for name in ("manifest_path", "first_row_id"))
            for at, (path, first_row_id) in enumerate(zip(*names, strict=True)):
                if path not in manifests or (first_row_id is not None and manifests[path]["first_row_id"] is None):
                    (manifests[path],) = rows.slice(at, 1).to_pylist()
                if snapshot.snapshot_id in earlier:
                    self._copied.add(path)
        return manifests

    def _divide(self, path: str, manifest: CopiedManifest, to_copy: list[pa.Array], copied: list[pa.Array]) -> None:
        """Tell the files of a manifest that are to be copied from those that an earlier copy has."""
        if path in self._copied:
            copied.append(manifest.paths)
            return
        if self._before is None:
            to_copy.append(manifest.paths)
            return
        earlier = pa.array(list(self._before.snapshots), pa.int64())
        are_known = pc.is_in(manifest.added_by, value_set=earlier)
        copied.append(manifest.paths.filter(are_known))
        to_copy.append(manifest.paths.filter(pc.invert(are_known)))

    def _statistics(self) -> list[str]:
        """Return the files of statistics that are there, and that an earlier copy does not have."""
        earlier = set() if self._before is None else {path for path, _ in statistics_of(self._before)}
        named = sorted({path for path, _ in statistics_of(self._metadata)} - earlier)
        are_there = map_in_order(_READERS, self._is_there, named)
        return [path for path, is_there in zip(named, are_there, strict=True) if is_there]

    def _is_there(self, path: str) -> bool:
        place = self._source.resolver.resolve(path)
        try:
            self._source.store.open(place).head(place.path)
        except ObjectNotFoundError:
            return False
        return True

    def _list(self, files: pa.Table) -> str:
        """Write the list of files, and return where it is."""
        place = self._staging.place.join(_FILE_LIST)
        with self._staging.store.open(place).open_output(place.path) as output:
            for batch in files.to_batches(_LINES):
                output.write(_lines(batch.to_pydict()).encode())
        return f"{self._staging.text}/{_FILE_LIST}"


def _lines(pairs: Mapping[str, Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(zip(*pairs.values(), strict=True))
    return text.getvalue()
