"""Metadata files in the directories of a table that it does not name: others may need what no snapshot here reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import (
    CorruptMetadataError,
    InvalidArgumentError,
    NotAFileError,
    ObjectNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY, is_metadata_file
from deltaberg.iceberg.location.loaded import LoadedTable, load_file
from deltaberg.iceberg.maintain.cleaning.reached import Places, Reached
from deltaberg.iceberg.maintain.cleaning.sweep import without_links
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.write_metadata import version_of
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import Location
from deltaberg.workers import map_in_order

__all__ = ["check_metadata_beside"]

_READERS = 16


@dataclass(frozen=True)
class _Beside:
    """A metadata file that the table does not name, and when it was written, in milliseconds since 1970."""

    file: Location
    modified: int

    @property
    def name(self) -> str:
        return self.file.path.rpartition("/")[2]


def check_metadata_beside(
    loaded: LoadedTable, folders: list[Location], places: Places, reached: Reached, settled: int
) -> None:
    """Refuse to delete anything where another table, or a newer state of this one, has metadata in the directories.

    Older metadata of the table hinders nothing. What newer metadata that was written just now names is added to what is
    reached, since it may be that of a commit that is about to land.

    Parameters
    ----------
    loaded
        The newest metadata that is known.
    folders
        The directories of the table.
    places, reached
        What finds files, and what metadata that is known reaches.
    settled
        The time in milliseconds since 1970 before which commits have landed or failed.

    Raises
    ------
    InvalidArgumentError
        There is such metadata, or what cannot be read as metadata.
    """
    left = list(_unnamed(loaded, folders, reached))
    while left:
        # Each names a hundred that came before it, so that few of many have to be read.
        some = left[:: max(1, len(left) // _READERS)]
        logged_files = {str(one.file) for one in some}
        for one, metadata in zip(some, map_in_order(_READERS, lambda one: _read(one, loaded), some), strict=True):
            if metadata is None:
                continue
            _check(one, metadata, loaded, reached, settled)
            logged = pa.array([entry.metadata_file for entry in metadata.metadata_log], pa.string())
            logged_files.update(places.of(logged, loaded.prefix).drop_null().to_pylist())
        left = [one for one in left if str(one.file) not in logged_files]


def _unnamed(loaded: LoadedTable, folders: list[Location], reached: Reached) -> Iterator[_Beside]:
    """Yield the metadata files in the directories of a table that its newest metadata does not name."""
    own = loaded.file.parent
    for folder in dict.fromkeys(map(without_links, [own, *(one.join(METADATA_DIRECTORY) for one in folders)])):
        listed = loaded.store.open(folder).list_from(folder.path)
        unnamed = [_Beside(folder._replace(path=meta.path), meta.modified) for meta in listed]
        unnamed = [one for one in unnamed if is_metadata_file(one.file) and not _is_earlier(one.name, loaded)]
        named = reached.contains(pa.array([str(one.file) for one in unnamed], pa.string()))
        for number in pc.indices_nonzero(pc.invert(as_array(named))).to_pylist():
            yield unnamed[number]


def _is_earlier(name: str, loaded: LoadedTable) -> bool:
    """Return whether a name is that of an earlier version of a directory: no two tables have the same versions."""
    newest = loaded.file.path.rpartition("/")[2]
    number, own = version_of(name), version_of(newest)
    is_versioned = name.startswith("v") and newest.startswith("v")
    return is_versioned and number is not None and own is not None and number < own


def _read(one: _Beside, loaded: LoadedTable) -> TableMetadata | None:
    """Return what a file holds; None if it is gone."""
    try:
        return load_file(one.file, loaded.store)
    except (CorruptMetadataError, NotAFileError, UnsupportedFeatureError) as error:
        raise InvalidArgumentError(
            f"{one.file} cannot be read, and may be metadata of another table: {error.message}; nothing was deleted",
            hint="see whose it is, and delete or move it first",
            file=str(one.file),
        ) from error
    except ObjectNotFoundError:
        return None


def _check(one: _Beside, metadata: TableMetadata, loaded: LoadedTable, reached: Reached, settled: int) -> None:
    own = loaded.metadata
    is_same = metadata.table_uuid == own.table_uuid and (
        own.table_uuid is not None or metadata.location == own.location
    )
    if not is_same:
        raise InvalidArgumentError(
            f"{one.file} is metadata of another table in the same directory, which needs files that no snapshot of "
            "this one reaches; nothing was deleted",
            hint="if nobody needs that table any more, delete its metadata files, and its other files are orphans; "
            "else give one of the two a directory of its own, such as that of a clone",
            file=str(one.file),
        )
    is_by_catalog = loaded.file.path.rpartition("/")[2].startswith("v") and not one.name.startswith("v")
    is_newer = (
        metadata.last_sequence_number > own.last_sequence_number or metadata.last_updated_ms >= own.last_updated_ms
    )
    if not is_newer and not is_by_catalog:
        return
    if one.modified >= settled:
        reached.add(replace(loaded, metadata=metadata, file=one.file), metadata.snapshots.values())
        return
    raise InvalidArgumentError(
        f"{one.file} is metadata of this table that its newest metadata does not know, and may be what another name or "
        "another catalog finds it by; nothing was deleted",
        hint="clean it up by that catalog or name; if there is none, a commit was interrupted: delete the file",
        file=str(one.file),
    )
