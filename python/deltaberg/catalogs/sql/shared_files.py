"""Names of a database that lead to the files of one table: what is deleted for one of them, others may need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from deltaberg.catalogs.places import loaded_table, place_of
from deltaberg.errors import DeltabergError, InvalidArgumentError, ObjectNotFoundError, UnsafePathError
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY
from deltaberg.iceberg.location.loaded import LoadedTable, load_file
from deltaberg.iceberg.maintain.cleaning.sweep import is_in, own_folders, without_links
from deltaberg.iceberg.metadata.metadata_file import MOST_BYTES, belongs_to
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.workers import map_in_order

__all__ = ["SharedFiles"]

_READERS = 16
#: Writers put the id of a table at the beginning of a metadata file, which may have many megabytes.
_HEAD = 1 << 12
_ID = re.compile(rb'"table-uuid"\s*:\s*"([^"\\]+)"')


class SharedFiles:
    """Looks for names that lead to the files of a table.

    Parameters
    ----------
    store
        What opens the stores of the tables.
    """

    def __init__(self, store: StoreSpec) -> None:
        self._store = store
        #: The ids of tables by their metadata files, which never change.
        self._ids: dict[Location, frozenset[str]] = {}

    def check(self, loaded: LoadedTable, others: Iterable[tuple[str, str]], *, same_table: bool) -> None:
        """Refuse to delete files of a table where another name leads to them.

        Parameters
        ----------
        others
            What each other name is called, and where its metadata file is.
        same_table
            Refuse only if that name stands for the same table, and not if it is another one in the same directory.

        Raises
        ------
        InvalidArgumentError
            There is such a name.
        """
        places = [(name, place_of(file, None)) for name, file in others]
        folders = _metadata_folders(loaded)
        elsewhere = []
        for name, file in places:
            if without_links(file.parent) not in folders:
                elsewhere.append((name, file))
            elif not same_table or self._is_of(file, loaded):
                raise _refusal(name, loaded)
        own = loaded.metadata.table_uuid
        if own is None:
            return
        found = map_in_order(_READERS, self._ids_in, [file for _, file in elsewhere])
        self._ids = {file: ids for (_, file), ids in zip(elsewhere, found, strict=True) if ids}
        for name, file in elsewhere:
            if own.lower() in self._ids.get(file, ()) and self._shares(file, loaded):
                raise _refusal(name, loaded)

    def _is_of(self, file: Location, loaded: LoadedTable) -> bool:
        """Return whether a metadata file, which may be gone, is one of a table."""
        try:
            return belongs_to(self._store.open(file).get(file.path, MOST_BYTES), loaded.metadata)
        except ObjectNotFoundError:
            return False

    def _ids_in(self, file: Location) -> frozenset[str]:
        """Return the ids that a metadata file may have; none if it cannot be read, as another table may be damaged."""
        known = self._ids.get(file)
        if known is not None:
            return known
        with suppress(DeltabergError):
            (head,) = self._store.open(file).get_ranges(file.path, [(0, _HEAD)])
            found = _ID.findall(head) or [(load_file(file, self._store).table_uuid or "").encode()]
            return frozenset(one.decode(errors="replace").lower() for one in found)
        return frozenset()

    def _shares(self, file: Location, loaded: LoadedTable) -> bool:
        """Return whether a table has files where one of the same id has its own: a copy with all its files has none."""
        metadata = load_file(file, self._store)
        if (metadata.table_uuid or "").lower() != (loaded.metadata.table_uuid or "").lower():
            return False
        theirs = list(_folders(loaded_table(metadata, file, self._store, None)))
        ours = list(_folders(loaded))
        return any(is_in(one, theirs) for one in ours) or any(is_in(one, ours) for one in theirs)


def _metadata_folders(loaded: LoadedTable) -> list[Location]:
    """Return the directories where another name of a table, or another table in its place, has its metadata."""
    homes = own_folders(loaded, loaded.metadata, ())
    named = [loaded.file.parent, *(one.join(METADATA_DIRECTORY) for one in homes)]
    return [*map(without_links, named), *own_folders(loaded, loaded.metadata)]


def _folders(loaded: LoadedTable) -> Iterator[Location]:
    """Yield the directories in which a table has, or had, its metadata and manifest lists, and those of its files."""
    yield from own_folders(loaded, loaded.metadata)
    yield without_links(loaded.file.parent)
    named = [entry.metadata_file for entry in loaded.metadata.metadata_log]
    for one in loaded.metadata.snapshots.values():
        named += one.manifests if one.manifest_list is None else [one.manifest_list]
    for text in dict.fromkeys(path.rpartition("/")[0] for path in named):
        with suppress(UnsafePathError):
            yield without_links(loaded.resolver.resolve(text))


def _refusal(name: str, loaded: LoadedTable) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the files are those of the table {name} as well",
        hint="drop one of the two without a purge, which leaves its files, or clone it to a directory of its own first",
        file=str(loaded.file),
    )
