"""Clones of Iceberg tables: new tables with copies of the files of one snapshot.

Files keep their sequence numbers and the ids of their rows, so that deletes by keys hide the same rows, and the lineage
of rows is theirs. Deletes by position name files, and are written anew for the copies.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import DataFileNotFoundError, InvalidArgumentError, TableExistsError, UnsupportedFeatureError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.hints import Hint
from deltaberg.iceberg.change.hidden_rows import deleted_positions
from deltaberg.iceberg.change.write_deletes import write_positions_of, write_vectors_of
from deltaberg.iceberg.deletes.write_positions import DeletedRows
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import FilePointer, TablePointer
from deltaberg.iceberg.maintain.cloned_metadata import cloned_metadata
from deltaberg.iceberg.manifests.entries import entry_columns
from deltaberg.iceberg.manifests.fields import ADDED, DATA, DELETED, DELETES, EQUALITY_DELETES, WHOLE_ENTRIES
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.iceberg.rows.strategies import has_deletes_by_file
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.summary import CLONED_FROM
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.storage.base import is_temporary
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.formats import ICEBERG
from deltaberg.table.maintain.cloning.clone_places import check_apart, check_empty
from deltaberg.table.maintain.cloning.cloned import CloneRequest, CloneResult
from deltaberg.table.maintain.cloning.copies import COPY_NAME, CopyNames, copy_files, leftovers
from deltaberg.table.maintain.cloning.file_copy import FileCopy
from deltaberg.table.maintain.file_tasks import FileTasks
from deltaberg.table.maintain.verifying.findings import first_paths
from deltaberg.table.maintain.verifying.presence import lost_locations
from deltaberg.table.rows.progress import Told
from deltaberg.table.transaction.operation import RowNumbers

__all__ = ["NamesTables", "clone_table"]

#: Of so many data files, the positions of deleted rows are held at a time.
_FILES_AT_A_TIME = 1024
#: What an interrupted clone leaves: copies, files of deletes, and files of metadata that no table names.
_LEFT = re.compile(r"(?:.*/)?[^/]+-deletes\.[a-z]+|metadata/[^/]+\.avro", re.ASCII)


@runtime_checkable
class NamesTables(Protocol):
    """A catalog, as far as a clone needs it."""

    def _place_of_new(self, identifier: Any) -> tuple[TablePointer, str]:
        """Return what finds a table that does not exist yet, and where it goes; an empty text if a server says that."""


def clone_table(opened: IcebergSource, asked: CloneRequest, tasks: FileTasks | None) -> CloneResult:
    """Make a new table of a snapshot, with files of its own.

    Parameters
    ----------
    opened
        The snapshot that is open.
    asked
        What is asked for, which may be an older snapshot.
    tasks
        What copies files, and lists a large table, in place of this process.

    Raises
    ------
    UnsupportedFeatureError
        A shallow clone would share files with its source; or the catalog numbers columns by itself.
    InvalidArgumentError
        The place does not suit a clone, or an argument is for Delta tables.
    TableExistsError
        There is a table.
    DataFileNotFoundError
        Files that are needed are gone.
    StorageError
        A store fails. Nothing was committed.
    """
    ICEBERG.refuse(asked.commit, opened.table)
    if asked.version is not None:
        raise UnsupportedFeatureError(
            ICEBERG.why_not("version"),
            hint="use ⟪timestamp⟫⟦, or open the snapshot with ⟪snapshot_id⟫⟧",
            table=opened.table,
            feature="version",
        )
    source, schema_id = _state(opened, asked.instant)
    if asked.shallow:
        raise UnsupportedFeatureError(
            "two Iceberg tables would own the same files, and the clean-up of one would delete those of the other",
            hint="leave it out: the clone has copies of the files then",
            table=source.table,
            feature=Hint("⟪shallow⟫"),
        )
    pointer, location = _place(source.table, asked)
    root = parse_location(location)
    check_apart(source.store, parse_location(source.table), asked.store, root)
    # Whether the store keeps two writers apart only a put would tell.
    is_single = asked.commit.unsafe_single_writer or asked.dry_run
    committer = pointer.committer(unsafe_single_writer=is_single)
    there = committer.load()
    if there is not None:
        raise _exists(there, source.table, location)
    if asked.catalog is None:
        check_empty(asked.store.open(root), root, _is_left)
    used = set(source.manifests.column("partition_spec_id").to_pylist())
    metadata = cloned_metadata(source.metadata, schema_id, used, location, asked.properties)
    staged = dataclasses.replace(committer.stage(metadata), store=asked.store)
    return _Clone(source, staged, committer, asked, tasks).run()


def _state(opened: IcebergSource, instant: int | None) -> tuple[IcebergSource, int]:
    """Return the snapshot that is cloned, and the id of its schema."""
    metadata = opened.metadata
    if instant is not None:
        snapshot = metadata.snapshot_as_of(instant)
        return opened.at(snapshot), metadata.schema_of(snapshot).schema_id
    known = {metadata.current_schema_id: metadata.current_schema, **metadata.schemas}
    return opened, next(number for number, schema in known.items() if schema.struct == opened.schema)


def _place(table: str, asked: CloneRequest) -> tuple[TablePointer, str]:
    """Return what finds the clone, and where it goes."""
    if asked.catalog is None:
        root = parse_location(asked.target)
        return FilePointer(root, asked.store), str(root)
    if not isinstance(asked.catalog, NamesTables):
        raise InvalidArgumentError(
            Hint("⟪catalog⟫ is a catalog of Iceberg tables, and ⟪target⟫ the name of one of them"),
            hint="pass what ⟪load_catalog(…)⟫ returns, and a name such as 'sales.orders'",
        )
    pointer, location = asked.catalog._place_of_new(asked.target)  # noqa: SLF001 - users of catalogs see no pointers
    if not location:
        raise UnsupportedFeatureError(
            "a REST catalog gives the columns of a new table ids of its own, and the files have those of the source",
            hint="clone the table to a location, and register it: ⟪catalog.register_table(name, metadata_location)⟫",
            table=table,
            feature="clone",
        )
    return pointer, location


def _exists(there: LoadedTable, source: str, location: str) -> TableExistsError:
    """Return what is said of a table that is where the clone would be."""
    if not any(one.summary.get(CLONED_FROM) == source for one in there.metadata.snapshots.values()):
        return TableExistsError(
            "there is a table already, and the clone of an Iceberg table is a new one",
            hint="choose another place, or drop the table first",
            table=location,
        )
    return TableExistsError(
        "there is a clone of the table already, and what is new in an Iceberg table cannot be added to its clone",
        hint="clone it to another place; or use copies by ⟪rewrite_table_path()⟫, which can follow an earlier one",
        table=location,
        source=source,
    )


def _is_left(path: str) -> bool:
    name = path.rpartition("/")[2]
    return is_temporary(name) or bool(COPY_NAME.fullmatch(name) or _LEFT.fullmatch(path))


@dataclass
class _Clone:
    """The clone of a snapshot.

    Parameters
    ----------
    staged
        The new table, which nobody sees yet.
    committer
        What creates it.
    """

    source: IcebergSource
    staged: LoadedTable
    committer: Committer
    asked: CloneRequest
    tasks: FileTasks | None
    _names: CopyNames = field(init=False)
    _made: set[str] = field(default_factory=set, init=False)
    _copied_bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        metadata = self.source.metadata
        self._names = CopyNames(metadata.table_uuid or metadata.location)

    def run(self) -> CloneResult:
        """Copy the files, and create the table; or only say what would be done."""
        asked = self.asked
        options = dataclasses.replace(
            asked.commit,
            unsafe_single_writer=asked.dry_run or asked.commit.unsafe_single_writer,
        )
        # The location that the metadata of the source records may hold the keys of its store.
        origin = {CLONED_FROM: self.source.table}
        with Transaction(self.staged, self.committer, options, creates=True, records=origin) as transaction:
            if asked.dry_run:
                transaction.abort()
                self._check_there(self.source.store, self.source.table, [copy.source for copy in self._copies()])
                return self._result(None)
            self._copy(transaction.tell)
            with transaction.operation("clone") as made:
                made.rows = RowNumbers.uncounted()
                for content, parts in ((DATA, self._data), (DELETES, self._keys)):
                    for part in parts:
                        self._add(transaction, part, content)
                for files in self._deletes_by_position(transaction):
                    transaction.add_entries(files)
            self._check_there(asked.store, str(self.staged.root), [copy.target for copy in self._copies()])
            return self._result(transaction.commit())

    # What is copied

    @cached_property
    def _data(self) -> list[Entries]:
        """The live data files."""
        return self._live(self.source.data_manifests, DATA)

    @cached_property
    def _keys(self) -> list[Entries]:
        """The delete files that delete by keys."""
        manifests = self.source.manifests
        return self._live(manifests.filter(pc.not_equal(manifests.column("content"), DATA)), EQUALITY_DELETES)

    def _live(self, manifests: pa.Table, content: int) -> list[Entries]:
        live = []
        for part in self.source.reader.read(manifests.to_pylist(), WHOLE_ENTRIES):
            kinds = part.table.column("content").fill_null(DATA)
            is_live = pc.not_equal(part.table.column("status"), DELETED)
            live.append(part.filter(as_array(pc.and_(is_live, pc.equal(kinds, content)))))
        return [part for part in live if len(part.table)]

    def _target(self, recorded: str) -> str:
        """Return the path of a copy, below the same directory as in the source where that is below its location."""
        folder = recorded.rpartition("/")[0]
        base = self.source.metadata.location.rstrip("/") + "/"
        inside = folder.removeprefix(base) if folder.startswith(base) else "data"
        if any(part in ("", ".", "..") for part in inside.split("/")) or inside.split("/")[0] == "metadata":
            inside = "data"
        return f"{self.staged.metadata.location}/{inside}/{self._names.of(recorded)}"

    def _copies(self) -> list[FileCopy]:
        return [copy for _, copies in self._named for copy in copies]

    @cached_property
    def _named(self) -> list[tuple[Entries, list[FileCopy]]]:
        return [(part, list(self._copies_of(part))) for part in (*self._data, *self._keys)]

    def _copies_of(self, part: Entries) -> Iterator[FileCopy]:
        paths = part.table.column("file_path")
        sizes, located = part.table.column("file_size_in_bytes"), self.source.resolver.locate(paths)
        for path, place, size in zip(paths.to_pylist(), located.to_pylist(), sizes.to_pylist(), strict=True):
            yield FileCopy(place, str(parse_location(self._target(path))), size)

    def _copy(self, told: Told) -> None:
        store, root = self.asked.store, self.staged.root
        self._made, unsafe = leftovers(store, root, self._copies())
        if unsafe:
            self._names.avoid(path.rpartition("/")[2] for path in unsafe)
            del self._named
        wanted = [copy for copy in self._copies() if copy.target not in self._made]
        self._copied_bytes = sum(copy_files(self.tasks, self.source.store, store, wanted, told))

    def _check_there(self, store: StoreSpec, table: str, locations: Sequence[str]) -> None:
        """Refuse the clone if a file that it needs is gone."""
        lost = lost_locations(store, parse_location(table), pa.array(locations, pa.string()), self.tasks)
        if len(lost):
            raise DataFileNotFoundError(
                f"{len(lost)} files do not exist any more: {first_paths(lost.to_pylist())}",
                hint="see that no clean-up takes them, and clone the table again",
                table=table,
            )

    # What the clone records

    def _add(self, transaction: Transaction, part: Entries, content: int) -> None:
        """Record the copies of files as they were recorded, but for the snapshot that adds them."""
        paths = pa.array([self._target(path) for path in part.table.column("file_path").to_pylist()], pa.string())
        # They keep both of their numbers: iceberg-java takes that of the file for the last update of its rows.
        entries = with_columns(part.table, status=ADDED, file_path=paths)
        own = entries.select(entry_columns(part.partition).names)
        transaction.add_entries(AddedFiles(part.spec, part.partition, own, content))

    def _deletes_by_position(self, transaction: Transaction) -> Iterator[AddedFiles]:
        """Write what deletes rows of data files by position, for their copies."""
        files = self.source.select_files(TRUE).files
        is_hit = as_array(files.column("deletion_vector")).is_valid()
        if "delete_files" in files.column_names:
            is_hit = pc.or_(is_hit, pc.greater(pc.list_value_length(files.column("delete_files")), 0).fill_null(False))
        files = files.filter(is_hit)
        for part in self._data:
            own = pc.is_in(files.column("path"), value_set=as_array(part.table.column("file_path")))
            chosen = files.filter(own)
            for start in range(0, len(chosen), _FILES_AT_A_TIME):
                found = self._written(transaction, part, chosen.slice(start, _FILES_AT_A_TIME))
                if found is not None:
                    yield found

    def _written(self, transaction: Transaction, part: Entries, files: pa.Table) -> AddedFiles | None:
        """Write the deletes of rows of some files of one spec; None if no row of them is deleted."""
        positions = deleted_positions(self.source, files)
        kept = [number for number, found in enumerate(positions) if len(found)]
        if not kept:
            return None
        places = pc.index_in(files.column("path").take(kept), value_set=as_array(part.table.column("file_path")))
        values = as_array(part.table.column("partition")).take(as_array(places))
        targets = [self._target(files.column("path")[number].as_py()) for number in kept]
        own = (transaction, part.spec, part.partition, values)
        if transaction.metadata.format_version >= VECTORS_SINCE:
            return write_vectors_of(*own, ((path, positions[at]) for path, at in zip(targets, kept, strict=True)))
        keys = list(range(len(kept)))
        if not has_deletes_by_file(transaction.metadata.properties):
            # One file for each partition, named by the first of its files.
            first: dict[Any, int] = {}
            partitions = [part.keys[number] for number in places.to_pylist()]
            keys = [first.setdefault(key, number) for number, key in enumerate(partitions)]
        deleted = [
            DeletedRows(path, group, partial(positions.__getitem__, at))
            for path, group, at in zip(targets, keys, kept, strict=True)
        ]
        return write_positions_of(*own, deleted)

    def _result(self, commit: CommitResult | None) -> CloneResult:
        sizes = [pc.sum(part.table.column("file_size_in_bytes")).as_py() for part in self._data]
        copies, snapshot = self._copies(), self.source.snapshot
        is_dry = commit is None
        return CloneResult(
            str(self.staged.root),
            None if snapshot is None else snapshot.snapshot_id,
            commit,
            is_dry,
            sum(len(part.table) for part in self._data),
            sum(sizes),
            len(copies) - len(self._made),
            sum(copy.size or 0 for copy in copies) if is_dry else self._copied_bytes,
            len(self._made),
        )
