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
from deltaberg.table.removal import FileKind, delete_files, drop_empty_directories
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
#: Says which version of which table the manifests are of. Hive and its like pass over names that begin so.
_MARK = "_version"
#: How often manifests are written for versions that other writers commit meanwhile.
_MOST_ROUNDS = 3
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


def write_manifests(snapshot: Snapshot) -> SymlinkManifests:
    """Write the manifests of the newest version, and delete those of partitions that have no data files.

    Parameters
    ----------
    snapshot
        The newest version as far as it is known.

    Raises
    ------
    UnsupportedFeatureError
        Readers of manifests would find other rows: the table has deletion vectors or column mapping, or needs a writer
        feature that is not known.
    StorageError
        The store fails, or does not permit the writing.
    """
    refused = _refusal(snapshot, snapshot.live.table)
    if refused is not None:
        raise refused
    return _write_newest(snapshot, None)


def update_manifests(after: Snapshot, changed: Iterable[str] | None) -> None:
    """Write the manifests of the partitions that a commit has changed, where the property of the table asks for it.

    All are written where those that are there are not of the version before: the first time, and after a failure.

    Parameters
    ----------
    after
        The version that the commit made.
    changed
        The members of its file actions as JSON, without the braces; None where the table itself has changed.

    Raises
    ------
    UnsupportedFeatureError
        Readers of manifests would find other rows of some partitions, whose manifests were deleted.
    StorageError
        The store fails, or does not permit the writing.
    """
    if not after.metadata.is_enabled(SYMLINK_MANIFESTS):
        return
    directories = None
    # Column mapping gives partition columns other names in the log, and concerns all partitions.
    is_plain = after.mapping_mode == "none"
    if changed is not None and is_plain and _mark_there(after) == _mark(after, after.version - 1):
        names = [field.name for field in after.partition_fields]
        directories = {_directory(names, read_json(f"{{{text}}}")["partitionValues"]) for text in changed}
    _write_newest(after, directories)


def _write_newest(snapshot: Snapshot, changed: set[str] | None) -> SymlinkManifests:
    """Write manifests until they are of the newest version: other writers may have written theirs meanwhile.

    Parameters
    ----------
    changed
        The directories of the partitions that the version has changed, as `_directory` returns them; None for all.
    """
    newest = snapshot.newer()
    for _ in range(_MOST_ROUNDS):
        state = newest
        done, refused = _write(state, changed if state.version == snapshot.version else None)
        newest = state.newer()
        if newest.version == state.version:
            break
    # Where that is not reached, the mark has another version than the next commit looks for.
    if refused is not None:
        raise refused
    return done


def _write(snapshot: Snapshot, changed: set[str] | None) -> tuple[SymlinkManifests, UnsupportedFeatureError | None]:
    """Write the manifests of a version, and return why some partitions have none although they have data files."""
    root, storage = snapshot.log.root, snapshot.log.storage
    folder = root.join(_FOLDER).path
    files = _in_directories(snapshot)
    if changed is not None:
        files = files.filter(pc.is_in(files.column("directory"), value_set=pa.array(sorted(changed), pa.string())))
    refused = _refusal(snapshot, files)
    if refused is not None:
        files = _shown(snapshot, files)
    texts = _texts(snapshot, files)
    if not snapshot.partition_fields and refused is None and changed != set():
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
    gone = delete_files(storage, folder, stale, _FILE, "no data files of its partition can be shown").or_raise()
    drop_empty_directories(root.join(_FOLDER), gone)
    storage.put(f"{folder}/{_MARK}", _mark(snapshot, snapshot.version))
    done = SymlinkManifests(
        snapshot.version,
        len(files),
        tuple(f"{_FOLDER}/{path}" for path in sorted(written)),
        tuple(f"{_FOLDER}/{path.removeprefix(f'{folder}/')}" for path in gone),
    )
    return done, refused


def _mark(snapshot: Snapshot, version: int) -> bytes:
    return f"{snapshot.metadata.id} {version}\n".encode()


def _mark_there(snapshot: Snapshot) -> bytes | None:
    try:
        return snapshot.log.storage.get(snapshot.log.root.join(f"{_FOLDER}/{_MARK}").path)
    except ObjectNotFoundError:
        return None


def _refusal(snapshot: Snapshot, files: pa.Table) -> UnsupportedFeatureError | None:
    """Return why readers of manifests would find other rows of some files; None if they would not."""
    check_known_writers(snapshot.protocol)
    refused = partial(UnsupportedFeatureError, table=str(snapshot.log.root))
    if snapshot.mapping_mode != "none":
        return refused(
            "readers of manifests know no column mapping: they would look for other names in the data files",
            hint=Hint("disable it by ⟪drop_feature('columnMapping')⟫"),
            feature="columnMapping",
        )
    vectors = files.column("deletionVector")
    if vectors.null_count < len(vectors):
        return refused(
            "readers of manifests know no deletion vectors: deleted rows would come back",
            hint=Hint("drop the feature by ⟪drop_feature('deletionVectors')⟫, or write these files anew by ⟪reorg()⟫"),
            feature="deletionVectors",
        )
    return None


def _shown(snapshot: Snapshot, files: pa.Table) -> pa.Table:
    """Return the files of partitions of which readers of manifests find the rows that there are."""
    if snapshot.mapping_mode != "none":
        return files.slice(0, 0)
    directories = files.column("directory")
    hidden = directories.filter(files.column("deletionVector").is_valid())
    return files.filter(pc.invert(pc.is_in(directories, value_set=as_array(hidden))))


def _in_directories(snapshot: Snapshot) -> pa.Table:
    """Return the live files, each with the directory of its partition."""
    files = snapshot.live.table.select(["path", "partitionValues", "deletionVector"])
    parts = []
    for field in snapshot.partition_fields:
        values = pc.map_lookup(as_array(files.column("partitionValues")), field.name, "first").dictionary_encode()
        names = [_part(field.name, text) for text in values.dictionary.to_pylist()]
        shown = pa.array([*names, _part(field.name, None)], pa.string())
        parts.append(shown.take(values.indices.cast(pa.int64()).fill_null(len(names))))
    directories = pc.binary_join_element_wise(*parts, "/") if parts else pa.repeat("", len(files))
    return files.append_column("directory", directories)


def _texts(snapshot: Snapshot, files: pa.Table) -> dict[str, str]:
    """Return the text of each manifest by the directory of its partition: the locations of the data files."""
    locations = as_array(PathResolver(snapshot.log.root).locate(files.column("path")))
    if snapshot.log.root.scheme == "file":
        is_path = pc.starts_with(locations, "/")
        locations = pc.if_else(is_path, pc.binary_join_element_wise("file:", locations, ""), locations)
    rows = pa.table({"directory": files.column("directory"), "location": locations})
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
