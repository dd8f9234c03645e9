"""Manifests of symlinks: text files that name the data files of a table, for readers that know no Delta log.

Hive's ``SymlinkTextInputFormat`` reads them, and so do Athena, Presto and Redshift Spectrum. Each partition has one,
with the location of a data file in each line. Where the property ``delta.compatibility.symlinkFormatManifest.enabled``
is true, a commit writes those of the partitions that it has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.features import check_known_writers
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import ObjectNotFoundError, UnsupportedFeatureError
from deltaberg.hints import Hint
from deltaberg.lossless_json import read_json
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver
from deltaberg.table.removal import FileKind, delete_files
from deltaberg.table.write.hive_names import HIVE_NULL
from deltaberg.table.write.places import hive_text
from deltaberg.workers import map_in_order

__all__ = ["SYMLINK_MANIFESTS", "SymlinkManifests", "update_manifests", "write_manifests"]

#: The property that asks for them.
SYMLINK_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
_FOLDER, _NAME = "_symlink_format_manifest", "manifest"
#: Hadoop's checksum of a local file beside it, which would fail every read of a manifest that was replaced.
_CHECKSUM = f".{_NAME}.crc"
_FILE = FileKind("a manifest of symlinks", re.compile(rf"(?:.+/)?(?:{_NAME}|{re.escape(_CHECKSUM)})", re.DOTALL))
#: How many manifests are written at a time.
_WRITERS = 16


@dataclass(frozen=True)
class SymlinkManifests:
    """The manifests that `DeltaTable.generate` wrote.

    Parameters
    ----------
    version
        The version of the table whose data files they name.
    files
        How many data files they name.
    manifests
        The manifests that were written, by their paths relative to the table.
    removed
        Those that were deleted, since their partitions have no data files.
    """

    version: int
    files: int = 0
    manifests: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def write_manifests(snapshot: Snapshot, changed: set[str] | None = None) -> SymlinkManifests:
    """Write the manifests of a version, and delete those of partitions that have no data files.

    Parameters
    ----------
    snapshot
        The newest version.
    changed
        The directories of the partitions that may have changed, as `_directory` returns them; None for all.

    Raises
    ------
    UnsupportedFeatureError
        Readers of manifests would find other rows: the table has deletion vectors or column mapping, or needs a writer
        feature that is not known.
    StorageError
        The store fails, or does not permit the writing.
    """
    _check(snapshot)
    root, storage = snapshot.log.root, snapshot.log.storage
    folder = root.join(_FOLDER).path
    rows = _rows(snapshot)
    if changed is not None:
        rows = rows.filter(pc.is_in(rows.column("directory"), value_set=pa.array(sorted(changed), pa.string())))
    texts = _texts(rows)
    if not snapshot.partition_fields:
        # A reader takes a manifest that is missing for an error, and an empty one for a table without rows.
        texts.setdefault("", "")
    listed = _listed(snapshot, folder) if changed is None else {_path(one, _NAME) for one in changed}
    written = {_path(directory, _NAME): text for directory, text in texts.items()}
    if root.scheme == "file":
        checksums = [f"{folder}/{path.removesuffix(_NAME)}{_CHECKSUM}" for path in {*listed, *written}]
        delete_files(storage, folder, checksums, _FILE, "the manifest beside it is written anew").or_raise()

    def write(path: str) -> None:
        storage.put(f"{folder}/{path}", written[path].encode())

    map_in_order(_WRITERS, write, sorted(written))
    stale = [f"{folder}/{path}" for path in sorted(listed - written.keys())]
    gone = delete_files(storage, folder, stale, _FILE, "its partition has no data files").or_raise()
    return SymlinkManifests(
        snapshot.version,
        len(rows),
        tuple(f"{_FOLDER}/{path}" for path in sorted(written)),
        tuple(f"{_FOLDER}/{path.removeprefix(f'{folder}/')}" for path in gone),
    )


def update_manifests(after: Snapshot, changed: Iterable[str] | None) -> None:
    """Write the manifests of the partitions that a commit has changed, where the property of the table asks for it.

    Parameters
    ----------
    after
        The version that the commit made.
    changed
        The members of its file actions as JSON, without the braces; None where the table itself has changed.
    """
    if not after.metadata.is_enabled(SYMLINK_MANIFESTS):
        return
    if changed is None:
        write_manifests(after)
        return
    names = [field.name for field in after.partition_fields]
    found: set[str] = {_directory(names, read_json(f"{{{text}}}")["partitionValues"]) for text in changed}
    if found:
        write_manifests(after, found)


def _check(snapshot: Snapshot) -> None:
    check_known_writers(snapshot.protocol)
    refused = partial(UnsupportedFeatureError, table=str(snapshot.log.root))
    if snapshot.mapping_mode != "none":
        raise refused(
            "readers of manifests know no column mapping: they would look for other names in the data files",
            hint=Hint("disable it by ⟪drop_feature('columnMapping')⟫"),
            feature="columnMapping",
        )
    vectors = snapshot.live.table.column("deletionVector")
    if vectors.null_count < len(vectors):
        raise refused(
            "readers of manifests know no deletion vectors: deleted rows would come back",
            hint=Hint("write the files anew by ⟪drop_feature('deletionVectors')⟫, or by ⟪reorg()⟫ for now"),
            feature="deletionVectors",
        )


def _rows(snapshot: Snapshot) -> pa.Table:
    """Return the location of each data file, and the directory of its partition."""
    files = snapshot.live.table
    locations = as_array(PathResolver(snapshot.log.root).locate(files.column("path")))
    if snapshot.log.root.scheme == "file":
        is_path = pc.starts_with(locations, "/")
        locations = pc.if_else(is_path, pc.binary_join_element_wise("file:", locations, ""), locations)
    parts = []
    for field in snapshot.partition_fields:
        values = pc.map_lookup(as_array(files.column("partitionValues")), field.name, "first").dictionary_encode()
        names = [_part(field.name, text) for text in values.dictionary.to_pylist()]
        shown = pa.array([*names, _part(field.name, None)], pa.string())
        parts.append(shown.take(values.indices.cast(pa.int64()).fill_null(len(names))))
    directories = pc.binary_join_element_wise(*parts, "/") if parts else pa.repeat("", len(files))
    return pa.table({"directory": directories, "location": locations})


def _texts(rows: pa.Table) -> dict[str, str]:
    """Return the text of each manifest by the directory of its partition."""
    grouped = rows.sort_by("location").group_by("directory").aggregate([("location", "list")])
    return {
        one.as_py(): "".join(f"{location}\n" for location in locations.as_py())
        for one, locations in zip(grouped.column("directory"), grouped.column("location_list"), strict=True)
    }


def _listed(snapshot: Snapshot, folder: str) -> set[str]:
    try:
        paths = [meta.path.removeprefix(f"{folder}/") for meta in snapshot.log.storage.walk(folder)]
    except ObjectNotFoundError:
        return set()
    return {path for path in paths if path.rpartition("/")[2] == _NAME}


def _directory(names: Iterable[str], values: Mapping[str, str | None]) -> str:
    return "/".join(_part(name, values.get(name)) for name in names)


def _part(name: str, text: str | None) -> str:
    return f"{hive_text(name)}={hive_text(text or '') or HIVE_NULL}"


def _path(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
