"""Files whose rows move while others delete some of these rows (Iceberg spec, "Row-level Deletes").

Deletes by position that landed meanwhile are written anew for the new files, in the same commit. Deletes by keys stay,
and apply to the new files, whose sequence number is that of the snapshot in which the rows were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ConcurrentDeleteDeleteError, ConcurrentDeleteReadError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.iceberg.change.hidden_rows import deleted_positions
from deltaberg.iceberg.change.write_deletes import write_positions_of, write_vectors_of
from deltaberg.iceberg.deletes.write_positions import DeletedRows
from deltaberg.iceberg.manifests.fields import DATA, POSITION_DELETES
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.conflict import conflict
from deltaberg.iceberg.transaction.pending import AddedFiles, DeleteKey
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.maintain.row_trail import RowTrail
from deltaberg.table.read.plan import file_numbers

__all__ = ["DeleteRebase"]


class _Deletes(NamedTuple):
    """The deletes of a file: vectors and position delete files, and the paths of equality delete files."""

    positions: frozenset[DeleteKey]
    keys: frozenset[str]


@dataclass(eq=False)
class DeleteRebase:
    """Has a transaction that moves rows follow the deletes of others: a `Rebase`.

    Parameters
    ----------
    transaction
        The transaction, which is told of the delete files that are written.
    read
        The rows in the snapshot in which they were read.
    files
        The rows of its file table of the files that are removed.
    added
        The new files.
    location
        The recorded location that the paths of the new files are relative to.
    trail
        Where the rows of the new files came from.
    """

    transaction: Transaction
    read: IcebergSource
    files: pa.Table
    added: AddedFiles
    location: str
    trail: RowTrail
    _made: tuple[int, list[_Deletes], Sequence[AddedFiles]] | None = field(default=None, init=False)

    def __call__(self, newest: IcebergSource) -> Sequence[AddedFiles]:
        """Return delete files of the new files for what was deleted by position since the rows were read.

        Raises
        ------
        ConcurrentDeleteDeleteError
            A file is gone, or rows of it that were deleted are back.
        ConcurrentDeleteReadError
            Keys were deleted in a partition that the new files are not in.
        """
        if _delete_manifests(newest) == _delete_manifests(self.read):
            return ()
        files = self._now(newest)
        now = _deletes_of(newest, files)
        version = newest.metadata.format_version
        if self._made is None or self._made[:2] != (version, now):
            self._made = version, now, self._mapped(newest, files, now)
        return self._made[2]

    @cached_property
    def _before(self) -> list[_Deletes]:
        """What deletes rows of the files when they were read."""
        return _deletes_of(self.read, self.files)

    def _now(self, newest: IcebergSource) -> pa.Table:
        """Return the rows of the files in the newest file table, in their order."""
        files = newest.select_files(TRUE).files
        paths = as_array(self.files.column("path"))
        places = pc.index_in(paths, value_set=as_array(files.column("path")))
        if places.null_count:
            gone = paths.filter(pc.is_null(places))[0].as_py()
            what = "another commit removed data files that are to be replaced"
            raise conflict(ConcurrentDeleteDeleteError, what, gone)
        return files.take(places)

    def _mapped(self, newest: IcebergSource, files: pa.Table, now: Sequence[_Deletes]) -> Sequence[AddedFiles]:
        self._check_keys(newest, files, now)
        changed = [at for at, (before, after) in enumerate(zip(self._before, now, strict=True)) if before != after]
        gone = self._gone(newest, files, changed)
        found = {f"{self.location}/{path}": positions for path, positions in self.trail.find(gone)}
        return [self._hidden(newest.metadata.format_version, found)] if found else ()

    def _check_keys(self, newest: IcebergSource, files: pa.Table, now: Sequence[_Deletes]) -> None:
        """Refuse deletes by keys that do not apply to the new files as they do to the old ones."""
        specs = newest.spec_ids(files)
        paths = files.column("path").to_pylist()
        for path, spec_id, before, after in zip(paths, specs, self._before, now, strict=True):
            if not before.keys <= after.keys:
                what = "another commit removed deletes by keys of files whose rows are moved"
                raise conflict(ConcurrentDeleteDeleteError, what, path)
            if spec_id != self.added.spec.spec_id and before.keys != after.keys:
                what = "another commit deleted rows by keys of files whose rows move to another partitioning"
                raise conflict(ConcurrentDeleteReadError, what, path)
        moves = [path for path, spec_id in zip(paths, specs, strict=True) if spec_id != self.added.spec.spec_id]
        # Keys that are deleted in the new partitioning alone do not reach the old files, and would reach the new ones.
        since = _delete_manifests(newest, self.added.spec.spec_id) - _delete_manifests(self.read)
        if moves and since:
            what = "another commit deleted rows in the partitioning that rows of older files move to"
            raise conflict(ConcurrentDeleteReadError, what, moves[0])

    def _gone(self, newest: IcebergSource, files: pa.Table, changed: Sequence[int]) -> RowPositions:
        """Return the rows that were deleted by position since they were read, by the numbers of their files then."""
        chosen = pa.array(changed, pa.int64())
        old, new = self.files.take(chosen), files.take(chosen)
        numbers, paths = file_numbers(old).to_pylist(), old.column("path").to_pylist()
        sides = (deleted_positions(source, own) for source, own in ((self.read, old), (newest, new)))
        gone = RowPositions()
        for number, path, before, after in zip(numbers, paths, *sides, strict=True):
            added = after.filter(pc.invert(pc.is_in(after, value_set=before)))
            if len(added) + len(before) != len(after):
                what = "another commit brought rows back that were deleted, of files whose rows are moved"
                raise conflict(ConcurrentDeleteDeleteError, what, path)
            gone.add(pa.repeat(pa.scalar(number, pa.int64()), len(added)), added.cast(pa.int64()))
        return gone

    def _hidden(self, version: int, deletes: Mapping[str, pa.UInt64Array]) -> AddedFiles:
        """Write the deletes of rows of new files, by the recorded paths of these."""
        added, entries = self.added, self.added.entries
        own = entries.filter(pc.is_in(entries.column("file_path"), value_set=pa.array(sorted(deletes), pa.string())))
        paths, values = own.column("file_path").to_pylist(), as_array(own.column("partition"))
        place = (self.transaction, added.spec, added.partition, values)
        if version >= VECTORS_SINCE:
            return write_vectors_of(*place, ((path, deletes[path]) for path in paths))
        deleted = [DeletedRows(path, group, partial(deletes.__getitem__, path)) for group, path in enumerate(paths)]
        return write_positions_of(*place, deleted)


def _delete_manifests(source: IcebergSource, spec_id: int | None = None) -> set[str]:
    """Return the manifests of delete files; only those of a partitioning, if one is given."""
    manifests = source.manifests
    deletes = manifests.filter(pc.not_equal(manifests.column("content"), DATA))
    if spec_id is not None:
        deletes = deletes.filter(pc.equal(deletes.column("partition_spec_id"), spec_id))
    return set(deletes.column("manifest_path").to_pylist())


def _deletes_of(source: IcebergSource, files: pa.Table) -> list[_Deletes]:
    """Return what deletes rows of each file of a file table."""
    vectors = as_array(files.column("deletion_vector")).to_pylist()
    lists: list[list[int] | None] = [None] * len(files)
    paths, contents = [], []
    if "delete_files" in files.column_names:
        lists = files.column("delete_files").to_pylist()
        paths, contents = (source.deletes.table.column(name).to_pylist() for name in ("file_path", "content"))
    deletes = []
    for vector, numbers in zip(vectors, lists, strict=True):
        own: set[DeleteKey] = set() if vector is None else {(vector["location"], vector["offset"])}
        own.update((paths[number], None) for number in numbers or () if contents[number] == POSITION_DELETES)
        keys = frozenset(paths[number] for number in numbers or () if contents[number] != POSITION_DELETES)
        deletes.append(_Deletes(frozenset(own), keys))
    return deletes
