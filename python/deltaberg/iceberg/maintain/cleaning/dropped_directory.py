"""Dropping a table that is its directory, with its files.

No catalog forgets the table, so that its metadata files go first, the newest one last: until then it is as it was, and
then there is no table. The hint names the newest one as long as that is there. Only now the files go that the table
names. What they are is in a note, a copy of the newest metadata that is no metadata file by its name, so that a drop
that was interrupted can be carried on.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import (
    CommitConflictError,
    CorruptMetadataError,
    InvalidArgumentError,
    NotAFileError,
    ObjectNotFoundError,
    TableNotFoundError,
)
from deltaberg.iceberg.location.find_metadata import METADATA_DIRECTORY, METADATA_FILE, VERSION_HINT, has_metadata
from deltaberg.iceberg.location.loaded import LoadedTable, load_file
from deltaberg.iceberg.location.pointer import FilePointer
from deltaberg.iceberg.maintain.cleaning.purged_table import TablePurge
from deltaberg.iceberg.metadata.metadata_file import MOST_BYTES, belongs_to
from deltaberg.iceberg.metadata.write_metadata import encode_metadata
from deltaberg.storage.base import ObjectMeta, Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.cleanup import CleanupResult, DropRequest
from deltaberg.table.maintain.listed_files import list_files
from deltaberg.table.removal import FileKind, delete_files, drop_directory
from deltaberg.workers import map_in_order

__all__ = ["DroppedDirectory"]

_NOTE = f"{METADATA_DIRECTORY}/dropped-table.json"
_NOTE_FILE = FileKind("the note of a dropped table", re.compile(re.escape(_NOTE)))
_READERS = 16
_UNNAMED = "the table did not name it"
_NAMING = "it is the table's, and leads to files that stay, or could not be looked into"


@dataclass(frozen=True)
class DroppedDirectory:
    """A table in a directory that is dropped.

    Parameters
    ----------
    asked
        What is asked for.
    loaded
        The table, by its newest metadata file, or by the note of a drop that was interrupted.
    pointers
        The files that make the directory a table, the newest metadata file and the hint at it last; none where these
        have gone.
    """

    asked: DropRequest
    loaded: LoadedTable
    pointers: tuple[ObjectMeta, ...]

    @classmethod
    def find(cls, root: Location, store: StoreSpec, asked: DropRequest) -> DroppedDirectory:
        """Find the table, or what is left of one whose drop was interrupted.

        Raises
        ------
        TableNotFoundError
            There is neither.
        InvalidArgumentError
            The directory has metadata of another table, too, or what cannot be read as metadata, or is a link.
        UnsupportedFeatureError
            A catalog keeps the table, or a metadata file of it was named.
        """
        pointer = FilePointer(root, store)
        try:
            pointer.committer(unsafe_single_writer=True).load()
            loaded = pointer.load()
        except TableNotFoundError:
            note = root.join(_NOTE)
            try:
                return cls(asked, LoadedTable(load_file(note, store), note, root, store), ())
            except ObjectNotFoundError:
                pass
            raise
        return cls(asked, loaded, _pointers(loaded))

    def run(self) -> CleanupResult:
        """Let the directory cease to be a table, and delete the files that the table named; or find these.

        Raises
        ------
        CommitConflictError
            Another writer has changed the table meanwhile. It is there, but for older metadata files.
        """
        purge, note = TablePurge(self.loaded, self.asked, self.pointers), self.loaded.root.join(_NOTE)
        if self.asked.dry_run:
            return self._with_left(purge.planned(), purge.named)
        self._check()
        if self.pointers:
            self._check_note(note)
            self._store.put(note.path, encode_metadata(self.loaded.metadata.raw))
        root = self.loaded.root
        try:
            done = purge.run(self._check)
        finally:
            # A table that lives on has no use for the note, which would be of its past one day.
            if not purge.is_whole and has_metadata(root, self.loaded.store):
                delete_files(self._store, root.path, [note.path], _NOTE_FILE, "the table is still there")
        if not purge.is_whole:
            self._check(of_others=False)
        else:
            delete_files(self._store, root.path, [note.path], _NOTE_FILE, "all files of the table are gone")
            for folder in (root, *purge.alone):
                drop_directory(folder)
        return self._with_left(done, purge.named)

    def _check_note(self, note: Location) -> None:
        """Refuse to overwrite the note of another table, whose files nobody could find then."""
        with suppress(ObjectNotFoundError):
            if not belongs_to(self._store.get(note.path, MOST_BYTES), self.loaded.metadata):
                raise InvalidArgumentError(
                    f"{note} is about another table, whose drop was interrupted before this one came into being",
                    hint="delete the note to leave the files of that table behind",
                    table=str(self.loaded.root),
                )

    @property
    def _store(self) -> Storage:
        return self.loaded.store.open(self.loaded.root)

    def _check(self, *, of_others: bool = True) -> None:
        """Refuse to go on where there is a newer version of the table, or another table."""
        root, store, dropped = self.loaded.root, self.loaded.store, self.loaded.metadata
        if not has_metadata(root, store):
            return
        newest = FilePointer(root, store).load(self.loaded)
        # A store may tell the time of a file otherwise in a listing than it does for the file alone.
        is_known = newest is self.loaded or (newest.file, newest.metadata.raw) == (self.loaded.file, dropped.raw)
        if not is_known and (of_others or newest.metadata.table_uuid == dropped.table_uuid):
            raise CommitConflictError(
                "another writer has changed the table since it was to be dropped",
                hint="drop it again if it is to go nonetheless",
                table=str(root),
            )

    def _with_left(self, result: CleanupResult, named: pa.ChunkedArray) -> CleanupResult:
        """Return a result that also counts the files that stay in the directory, by whether the table named them."""
        told = [*result.files.column("path").chunks, pa.array([_NOTE, *result.failed], pa.string())]
        left: Counter[str] = Counter()
        for batch in list_files(self._store, self.loaded.root.path, lambda paths: _is_none_of(paths, told)):
            count = pc.is_in(batch.column("path"), value_set=named).true_count
            left[_NAMING] += count
            left[_UNNAMED] += len(batch) - count
        return replace(result, kept={**result.kept, **{reason: count for reason, count in left.items() if count}})


def _is_none_of(paths: pa.StringArray, told: list[pa.Array]) -> pa.BooleanArray:
    return pc.invert(pc.is_in(paths, value_set=pa.chunked_array(told, pa.string())))


def _pointers(loaded: LoadedTable) -> tuple[ObjectMeta, ...]:
    """Return the files that make the directory of a table one, the newest metadata file and the hint at it last."""
    root, store = loaded.root, loaded.store.open(loaded.root)
    metadata, hint = list[ObjectMeta](), list[ObjectMeta]()
    for meta in store.list_from(root.join(METADATA_DIRECTORY).path, directories=True):
        name = meta.path.rpartition("/")[2]
        if name == VERSION_HINT:
            hint.append(meta)
        elif METADATA_FILE.names.fullmatch(name):
            metadata.append(meta)

    def check(meta: ObjectMeta) -> None:
        try:
            if belongs_to(store.get(meta.path, MOST_BYTES), loaded.metadata):
                return
        except (CorruptMetadataError, NotAFileError):
            pass
        except ObjectNotFoundError:
            return
        raise InvalidArgumentError(
            f"{meta.path} is not known to be metadata of the table, and would be the newest then",
            hint="see whose it is, and delete or move it first",
            table=str(root),
        )

    for _ in map_in_order(_READERS, check, metadata):
        pass
    for path in sorted(store.strays(root.path, [meta.path for meta in (*hint, *metadata)])):
        raise InvalidArgumentError(
            f"{path} is a link, or is behind one, so that the table would still be found by it",
            hint="put the file in the place of the link first",
            table=str(root),
        )
    newest = [meta for meta in metadata if meta.path == loaded.file.path]
    return (*(meta for meta in metadata if meta.path != loaded.file.path), *newest, *hint)
