"""Metadata files in the directories of a table that it does not name: others may need what no snapshot here reaches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import (
    CorruptMetadataError,
    DataFileNotFoundError,
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

__all__ = ["SETTLED", "check_metadata_beside", "keep_what_is_beside"]

#: After this time, in milliseconds, a commit has landed or failed. A listing may lack the newest files of some stores.
SETTLED = 3_600_000
#: How far, in milliseconds, the clocks of a store and of writers may be apart.
_SKEW = 86_400_000
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
    """Refuse to delete anything where another table, or another state of this one, has metadata in the directories.

    Older metadata of the table hinders nothing, unless others have gone on from there. What newer metadata that was
    written just now names is added to what is reached, since it may be that of a commit that is about to land.

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
    young = []
    for one, metadata in _unnamed_metadata(loaded, folders, places, reached, settled):
        if not _is_same(metadata, loaded):
            raise _of_another(one)
        if _is_another_state(one, metadata, loaded, places, reached):
            _check_young(one, settled)
            young.append((one, metadata))
    _add_states(young, loaded, reached)


def keep_what_is_beside(
    loaded: LoadedTable, folders: list[Location], places: Places, reached: Reached, settled: int
) -> None:
    """Add what other states of the table need to what is reached, and refuse what `check_metadata_beside` does.

    Metadata of other tables is passed over: what goes was reached by this one, and they have files of their own.

    Raises
    ------
    InvalidArgumentError
        Another state of the table has metadata in the directories, or there is what cannot be read as metadata.
    """
    states = []
    for one, metadata in _unnamed_metadata(loaded, folders, places, reached, settled, is_for_states=True):
        if not _is_same(metadata, loaded):
            continue
        is_another = _is_another_state(one, metadata, loaded, places, reached)
        if is_another:
            _check_young(one, settled)
        # One that nobody has gone on from may be that of a commit which failed, or of another name.
        if is_another or metadata.last_updated_ms > _oldest_known(loaded):
            states.append((one, metadata))
    _add_states(states, loaded, reached)


def _unnamed_metadata(
    loaded: LoadedTable,
    folders: list[Location],
    places: Places,
    reached: Reached,
    settled: int,
    *,
    is_for_states: bool = False,
) -> Iterator[tuple[_Beside, TableMetadata]]:
    """Yield metadata in the directories that the newest metadata does not name, but none that others name.

    Parameters
    ----------
    is_for_states
        Whether what was written before all that the newest metadata knows is left out: no state has gone on from there.
    """
    left = list(_unnamed(loaded, folders, reached))
    if is_for_states:
        since = _oldest_known(loaded) - _SKEW
        left = [one for one in left if one.modified >= since or _is_by_catalog(one, loaded)]
    while left:
        # Each names a hundred that came before it, so that few of many have to be read.
        some = left[:: max(1, len(left) // _READERS)]
        logged_files = {str(one.file) for one in some}
        read = map_in_order(_READERS, lambda one: _read(one, loaded, settled, is_for_states=is_for_states), some)
        for one, metadata in zip(some, read, strict=True):
            if metadata is not None:
                yield one, metadata
                logged_files.update(_logged(metadata, loaded, places).drop_null().to_pylist())
        left = [one for one in left if str(one.file) not in logged_files]


def _logged(metadata: TableMetadata, loaded: LoadedTable, places: Places) -> pa.StringArray:
    """Return the places of the former metadata files that metadata names, the oldest first."""
    recorded = pa.array([entry.metadata_file for entry in metadata.metadata_log], pa.string())
    return places.of(recorded, loaded.prefix)


def _oldest_known(loaded: LoadedTable) -> int:
    """Return the time in milliseconds since 1970 from which on metadata knows all that came before it."""
    log = loaded.metadata.metadata_log
    return log[0].timestamp_ms if log else loaded.metadata.last_updated_ms


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


def _read(one: _Beside, loaded: LoadedTable, settled: int, *, is_for_states: bool) -> TableMetadata | None:
    """Return what a file holds; None if it is gone, or if states are looked for and a commit is still writing it."""
    try:
        return load_file(one.file, loaded.store)
    except (CorruptMetadataError, NotAFileError, UnsupportedFeatureError) as error:
        is_young = one.modified >= settled
        if is_young and is_for_states:
            # A commit is based on a state that can be read, which keeps what it needs.
            return None
        raise InvalidArgumentError(
            f"{one.file} cannot be read, and may be metadata of another table: {error.message}; nothing was deleted",
            hint="it is new, and may be that of a commit that is still writing it: wait for that, and try again"
            if is_young
            else "see whose it is, and delete or move it first",
            file=str(one.file),
        ) from error
    except ObjectNotFoundError:
        return None


def _is_same(metadata: TableMetadata, loaded: LoadedTable) -> bool:
    own = loaded.metadata
    return metadata.table_uuid == own.table_uuid and (own.table_uuid is not None or metadata.location == own.location)


def _of_another(one: _Beside) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{one.file} is metadata of another table in the same directory, which needs files that no snapshot of this "
        "one reaches; nothing was deleted",
        hint="if nobody needs that table any more, delete its metadata files, and its other files are orphans; else "
        "give one of the two a directory of its own, such as that of a clone",
        file=str(one.file),
    )


def _is_another_state(
    one: _Beside, metadata: TableMetadata, loaded: LoadedTable, places: Places, reached: Reached
) -> bool:
    """Return whether metadata of the table is newer than what is known, or others have gone on to it."""
    own = loaded.metadata
    is_newer = (
        metadata.last_sequence_number > own.last_sequence_number or metadata.last_updated_ms >= own.last_updated_ms
    )
    return is_newer or _is_by_catalog(one, loaded) or _is_beyond_another(metadata, loaded, places, reached)


def _is_by_catalog(one: _Beside, loaded: LoadedTable) -> bool:
    """Return whether a file has a name as catalogs give it, beside a table that is found by its directory."""
    return loaded.file.path.rpartition("/")[2].startswith("v") and not one.name.startswith("v")


def _check_young(one: _Beside, settled: int) -> None:
    """Refuse a state of the table that cannot be that of a commit which is about to land."""
    if one.modified < settled:
        raise InvalidArgumentError(
            f"{one.file} is metadata of this table that its newest metadata does not know, and may be what another "
            "name or another catalog finds it by; nothing was deleted",
            hint="clean it up by that catalog or name; if there is none, a commit was interrupted: delete the file",
            file=str(one.file),
        )


def _is_beyond_another(metadata: TableMetadata, loaded: LoadedTable, places: Places, reached: Reached) -> bool:
    """Return whether metadata came after some that is not known either: nobody goes on from a commit that failed."""
    log, oldest = metadata.metadata_log, _oldest_known(loaded)
    if not log or min(metadata.last_updated_ms, log[-1].timestamp_ms) <= oldest:
        return False
    former = _logged(metadata, loaded, places)
    return not pc.any(reached.contains(former.slice(len(former) - 1))).as_py()


def _add_states(states: list[tuple[_Beside, TableMetadata]], loaded: LoadedTable, reached: Reached) -> None:
    """Add what states of the table reach, apart from snapshots whose files are gone: they have expired since."""
    for one, metadata in states:
        state = replace(loaded, metadata=metadata, file=one.file)
        for snapshot in metadata.snapshots.values():
            if not reached.has(snapshot):
                with suppress(DataFileNotFoundError):
                    reached.add(state, [snapshot])
        reached.add(state, ())
