"""Deleting files of an Iceberg table that no snapshot reaches, in batches, each after a look at newer metadata."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import (
    CorruptMetadataError,
    DeltabergError,
    InvalidArgumentError,
    ObjectNotFoundError,
    StorageError,
    UnsafePathError,
)
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY, is_metadata_file
from deltaberg.iceberg.location.loaded import LoadedTable, load_file
from deltaberg.iceberg.maintain.cleaning.reached import Reached
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import MOST_BYTES, belongs_to
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import Location
from deltaberg.table.maintain.cleanup import CLEANED_FILES, STRAY, CleanupProgress, OnProgress
from deltaberg.table.maintain.file_tasks import LEAST_DELETED, FileTasks, delete_by_tasks
from deltaberg.table.maintain.listed_files import find_inner_tables
from deltaberg.table.removal import FileKind

__all__ = ["SNAPSHOT_FILE", "TABLE_FILE", "Sweep", "check_alone", "is_in", "own_folders", "without_links"]

#: Properties that name locations of files, beside the table's own location.
_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_NO_HINT = r"(?!(?:.*/)?version-hint\.text$)(?!(?:.*/)?_delta_log(?:/|$))"
#: What snapshots name, and what may be in the directory of a table.
SNAPSHOT_FILE = FileKind(
    "a file of a snapshot", re.compile(rf"(?!.*\.metadata\.json(?:\.gz)?$){_NO_HINT}.+", re.DOTALL)
)
TABLE_FILE = FileKind("a file of an Iceberg table", re.compile(f"{_NO_HINT}.+", re.DOTALL))
_OUTSIDE = "not in a directory of the table, so that it may be a file of others"
_REACHED = "newer metadata of the table needs it"
#: How many files are deleted before newer metadata is asked for again, here and by the tasks of an engine.
_AT_ONCE, _AT_ONCE_BY_TASKS = 5_000, 100_000


def check_alone(loaded: LoadedTable, folder: Location | None = None, *, unnamed: bool = False) -> None:
    """Refuse to delete files in a directory that is, or is in, that of another table, which may need them.

    Parameters
    ----------
    folder
        A directory of the table; None for its location.
    unnamed
        Whether files go that the table does not name: one above its location may name them.

    Raises
    ------
    InvalidArgumentError
        There is metadata of another table, or the directory is the whole of a store.
    """
    folders = own_folders(loaded, loaded.metadata)
    if not folders:
        raise InvalidArgumentError(
            "the table is a whole store, in which files of others may be", hint="move it to a directory of its own"
        )
    chosen = folder or folders[0]
    other = _other_above(loaded, chosen, [] if unnamed else own_folders(loaded, loaded.metadata, ()))
    if other is not None:
        raise InvalidArgumentError(
            f"{other} is also the directory of another table, which needs files that no Iceberg snapshot here reaches",
            hint="if that is the same table in the words of Delta (UniForm), vacuum it there; else clone one of the "
            "two to a directory of its own, and drop it here without its files",
        )


def _other_above(loaded: LoadedTable, folder: Location, home: list[Location]) -> Location | None:
    """Return the directory of another table that a directory is, or is in; None if there is none."""
    for one in _up_to(folder, home):
        try:
            if is_of_another(loaded, one):
                return one
        except StorageError:
            # Whoever may read a directory need not be allowed to look above it.
            if one == folder:
                raise
    return None


def _up_to(folder: Location, home: list[Location]) -> Iterator[Location]:
    """Yield a directory and those above it, up to the location of the table: elsewhere, up to the whole store."""
    while True:
        yield folder
        above = folder.path.rpartition("/")[0]
        if folder in home or not above.strip("/"):
            return
        folder = folder._replace(path=above)


def is_of_another(loaded: LoadedTable, folder: Location) -> bool:
    """Return whether a directory has the log of a Delta table, or metadata of another Iceberg table."""
    store = loaded.store.open(folder)
    if store.has_objects(folder.join("_delta_log").path):
        return True
    metadata = folder.join(METADATA_DIRECTORY)
    own = loaded.file.parent
    if metadata in (own, without_links(own)):
        return False
    try:
        named = [one.path for one in store.list_from(metadata.path)]
        newest = max((path for path in named if is_metadata_file(folder._replace(path=path))), default=None)
        # Older metadata of the table may be elsewhere than its newest.
        return newest is not None and not belongs_to(store.get(newest, MOST_BYTES), loaded.metadata)
    except ObjectNotFoundError:
        return False
    except CorruptMetadataError:
        return True


def own_folders(loaded: LoadedTable, metadata: TableMetadata, paths: Sequence[str] = _PATHS) -> list[Location]:
    """Return the directories in which a table has its files, as metadata of it says.

    Parameters
    ----------
    paths
        The properties that name directories, beside the location of the table.
    """
    resolver = loaded.resolver
    named = [loaded.root]
    for text in (metadata.location, *(metadata.properties.get(name) for name in paths)):
        with suppress(UnsafePathError):
            if text:
                named.append(resolver.resolve(text))
    folders = []
    for one in named:
        place = without_links(one)
        # Nothing is below the root of a disk or a bucket but the files of everybody.
        if place.path.strip("/") and place not in folders:
            folders.append(place)
    return folders


def without_links(folder: Location) -> Location:
    """Return a directory by the only path that leads to it without links."""
    return folder._replace(path=os.path.realpath(folder.path)) if folder.scheme == "file" else folder


def is_in(place: Location, folders: Sequence[Location]) -> bool:
    """Return whether a place is one of some directories, or in one."""
    return any(place == one or str(place).startswith(f"{str(one).rstrip('/')}/") for one in folders)


@dataclass(eq=False)
class Sweep:
    """Deletes files, unless newer metadata needs them.

    Parameters
    ----------
    load
        Returns the newest metadata to commit on, for the newest that is known (`Committer.load`).
    loaded
        The newest metadata that is known.
    reached
        What that metadata reaches.
    tasks
        What deletes many files in place of this process.
    progress
        What is told how far it has come.
    alone
        The only directories, beside the location, that are the table's own; None for all that its properties and its
        older metadata name, which tables may share.
    """

    load: Callable[[LoadedTable], LoadedTable | None]
    loaded: LoadedTable
    reached: Reached
    tasks: FileTasks | None
    progress: OnProgress | None
    alone: Sequence[Location] | None = field(default=None, kw_only=True)
    listed: int = field(default=0, init=False)
    #: How many files stay, by the reason, and what could not be deleted.
    kept: Counter[str] = field(default_factory=Counter, init=False)
    failed: dict[str, str] = field(default_factory=dict, init=False)
    warnings: list[str] = field(default_factory=list, init=False)
    _deleted: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._folders = own_folders(self.loaded, self.loaded.metadata, _PATHS if self.alone is None else ())
        self._folders += [one for one in self.alone or () if one not in self._folders]

    def all_folders(self) -> list[Location]:
        """Return the directories of the table, its location first, with those that older metadata names."""
        self._know_older_folders()
        return self._folders

    def folder(self, asked: Location) -> Location:
        """Return a directory that is, or is in, one of the table, without links.

        Raises
        ------
        InvalidArgumentError
            It is not one of the table's directories, or another table has it as well.
        """
        place = without_links(asked)
        if not is_in(place, self._folders):
            self._know_older_folders()
        if not is_in(place, self._folders):
            raise InvalidArgumentError(
                f"{place} is not a directory of the table: files of others would be deleted",
                hint=f"the directories of the table are {', '.join(map(str, self._folders))}",
            )
        check_alone(self.loaded, place)
        return place

    def in_own_folders(self, files: pa.Table) -> pa.Table:
        """Return the files in directories of the table; all other files stay, and are counted."""
        inside = self._inside(files)
        if inside.true_count < len(files) and self.alone is None and self._know_older_folders():
            inside = self._inside(files)
        inside = pc.and_(inside, pc.invert(self._of_others(files, inside)))
        self.kept[_OUTSIDE] += len(files) - inside.true_count
        return files.filter(inside)

    def _of_others(self, files: pa.Table, inside: pa.BooleanArray) -> pa.BooleanArray:
        """Return which files are in directories of other tables."""
        locations = as_array(files.column("location"))
        left, foreign = inside, pa.repeat(pa.scalar(False), len(files))
        # A directory of the table may be in another one of it, and all that is in it is its own.
        for folder in sorted(self._folders, key=lambda one: len(one.path), reverse=True):
            above = f"{str(folder).rstrip('/')}/"
            own = pc.and_(left, pc.fill_null(pc.starts_with(locations, above), False))
            left = pc.and_(left, pc.invert(own))
            names = pc.unique(pc.replace_substring_regex(locations.filter(own), "[^/]*$", "")).to_pylist()
            for one in self._inner_tables(folder, [name[len(above) :].rstrip("/") for name in names]):
                below = pc.fill_null(pc.starts_with(locations, f"{above}{one}/" if one else above), False)
                foreign = pc.or_(foreign, pc.and_(own, below))
        return foreign

    def _inner_tables(self, folder: Location, names: list[str]) -> frozenset[str]:
        """Return which directories below one are those of other tables, or the empty text for itself."""
        if not names:
            return frozenset()
        if _other_above(self.loaded, folder, own_folders(self.loaded, self.loaded.metadata, ())) is not None:
            return frozenset({""})
        return find_inner_tables(
            self.loaded.store.open(folder),
            folder.path,
            names,
            lambda name: is_of_another(self.loaded, folder.join(name)),
        )

    def _inside(self, files: pa.Table) -> pa.BooleanArray:
        # Those in other stores have no location.
        locations = as_array(files.column("location")).fill_null("")
        inside = pa.repeat(pa.scalar(False), len(files))
        for folder in self._folders:
            inside = pc.or_(inside, pc.starts_with(locations, f"{str(folder).rstrip('/')}/"))
        return inside

    def _know_older_folders(self) -> bool:
        """Add the directories that older metadata of the table names; return whether there are some."""
        resolver = self.loaded.resolver
        before = len(self._folders)
        for entry in self.loaded.metadata.metadata_log:
            with suppress(DeltabergError):
                older = load_file(resolver.resolve(entry.metadata_file), self.loaded.store)
                if older.table_uuid == self.loaded.metadata.table_uuid:
                    self._folders += [one for one in own_folders(self.loaded, older) if one not in self._folders]
        return len(self._folders) > before

    def as_cleaned(self, files: pa.Table) -> pa.Table:
        """Return files as `CLEANED_FILES` describes them: paths in the table are relative to it."""
        above = f"{str(self._folders[0]).rstrip('/')}/"
        locations = as_array(files.column("location"))
        own = pc.starts_with(locations, above)
        paths = pc.if_else(own, pc.binary_replace_slice(locations, 0, len(above.encode()), b""), locations)
        columns = {"path": paths, **{name: files.column(name) for name in files.column_names if name != "location"}}
        missing = {name: pa.nulls(len(files), CLEANED_FILES.field(name).type) for name in ("bytes", "modified")}
        return pa.table({name: (missing | columns)[name] for name in CLEANED_FILES.names}).cast(CLEANED_FILES)

    def carry_out(self, files: pa.Table, kind: FileKind) -> pa.Table:
        """Delete files, and return those that are gone.

        Parameters
        ----------
        files
            Files with the columns ``location``, ``kind``, ``bytes`` and ``reason``.
        kind
            What may be deleted.
        """
        tasks = self.tasks if len(files) >= LEAST_DELETED else None
        step = _AT_ONCE if tasks is None else _AT_ONCE_BY_TASKS
        gone = [files.slice(0, 0)]
        for start in range(0, len(files), step):
            some = files.slice(start, step)
            try:
                self.look_at_newer()
            except DeltabergError as error:
                left = len(files) - start
                self.warnings.append(
                    f"{left} files stay, since what newer metadata reaches could not be found out: {error.message}"
                )
                break
            gone.append(self._delete_some(self.without_reached(some), kind, tasks))
            if self.progress is not None:
                self.progress(CleanupProgress(self.listed, len(files), self._deleted))
        return pa.concat_tables(gone)

    def without_reached(self, files: pa.Table) -> pa.Table:
        """Return those of some files that the newest metadata that was looked at does not reach."""
        still = pc.invert(self.reached.contains(as_array(files.column("location"))))
        self.kept[_REACHED] += len(files) - still.true_count
        return files.filter(still)

    def look_at_newer(self) -> None:
        """Read what newer metadata reaches, if there is some.

        Raises
        ------
        DeltabergError
            It cannot be read, or it is that of another table.
        """
        loaded = self.load(self.loaded)
        if loaded is self.loaded:
            return
        if loaded is None or loaded.metadata.table_uuid != self.loaded.metadata.table_uuid:
            raise StorageError("another table has come in its place")
        self.reached.add(loaded, loaded.metadata.snapshots.values())
        self.loaded = loaded

    def _delete_some(self, files: pa.Table, kind: FileKind, tasks: FileTasks | None) -> pa.Table:
        gone: list[str] = []
        left = files
        for folder in self._folders:
            above = f"{str(folder).rstrip('/')}/"
            inside = pc.starts_with(as_array(left.column("location")), above)
            own, left = left.filter(inside), left.filter(pc.invert(inside))
            base = f"{folder.path.rstrip('/')}/"
            locations, reasons = (own.column(name).to_pylist() for name in ("location", "reason"))
            places = {f"{base}{text[len(above) :]}": text for text in locations}
            why = dict(zip(places, reasons, strict=True))
            removal = delete_by_tasks(tasks, self.loaded.store, folder, why, kind, deleted=self._count)
            self.kept[STRAY] += len(removal.kept)
            # As in `as_cleaned`.
            table = f"{str(self._folders[0]).rstrip('/')}/"
            self.failed.update(
                (places[path].removeprefix(table), error.message) for path, error in removal.failed.items()
            )
            gone += [places[path] for path in removal.deleted]
        return files.filter(pc.is_in(files.column("location"), value_set=pa.array(gone, pa.string())))

    def _count(self, _: str) -> None:
        self._deleted += 1
