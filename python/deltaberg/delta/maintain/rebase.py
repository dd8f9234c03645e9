"""Files whose rows move while others delete some of these rows by deletion vectors.

Delta protocol, "Deletion Vectors". A commit that moves rows removes their files with the deletion vectors that these
have by then, and hides in the new files the rows that were deleted since they were read. So both commits stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.data.deletion_vectors import locate_vectors, unique_ids
from deltaberg.delta.data.written_vectors import VectorWriter
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.entry import Changes
from deltaberg.delta.transaction.file_changes import encode_path, removes_of, with_vector
from deltaberg.errors import ConcurrentDeleteDeleteError
from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.files.read.task import BitmapRef
from deltaberg.schema.arrow import as_array
from deltaberg.storage.location import PathResolver
from deltaberg.table.change.positions import RowPositions, positions_of
from deltaberg.table.maintain.row_trail import RowTrail

__all__ = ["VectorRebase", "metrics_of_new"]


def metrics_of_new(sizes: Sequence[int]) -> dict[str, int]:
    """Return what the history records of new files, by their sizes, in the words of the reference implementation."""
    ordered = sorted(sizes)
    found = {"numAddedFiles": len(ordered), "numAddedBytes": sum(ordered)}
    if ordered:
        found |= {"minFileSize": ordered[0], "maxFileSize": ordered[-1]}
        found |= {f"p{share}FileSize": ordered[len(ordered) * share // 100] for share in (25, 50, 75)}
    return found


class VectorRebase:
    """Has a transaction that moves rows follow the deletion vectors of others: a `Rebase`.

    Parameters
    ----------
    read
        The version in which the rows were read.
    numbers
        The numbers of their files among its live files.
    trail
        Where the rows of the new files came from.
    note
        Is told of the files that are written, by their paths relative to the table.
    """

    def __init__(
        self, read: Snapshot, numbers: pa.Int64Array, trail: RowTrail, note: Callable[[Iterable[str]], object]
    ) -> None:
        self._read = read
        self._numbers = numbers
        self._old = read.live.table.take(numbers)
        self._trail = trail
        self._note = note
        self.paths: AbstractSet[str] = frozenset(self._old.column("path").to_pylist())
        #: The files of vectors of all attempts, and what the last one has no use for.
        self._written: set[str] = set()
        self.unused: AbstractSet[str] = frozenset()
        self._made: tuple[list[str | None], Changes, Mapping[str, int], AbstractSet[str]] | None = None

    def __call__(self, changes: Changes, state: Snapshot) -> tuple[Changes, Mapping[str, int]]:
        """Return the changes on top of the newest version, and the number of deletion vectors that leave with files.

        Raises
        ------
        ConcurrentDeleteDeleteError
            A file is gone, or is not the one that was read, or rows of it that were deleted are back.
        """
        self.unused = frozenset(self._written)
        if state.version == self._read.version:
            return changes, {}
        now = self._now(state)
        vectors = _vectors(now)
        if vectors == _vectors(self._old):
            return changes, {}
        if self._made is None or self._made[0] != vectors:
            self._made = (vectors, *self._mapped(changes, now, state))
        _, made, said, self.unused = self._made
        return made, said

    def _now(self, state: Snapshot) -> pa.Table:
        """Return the live files as they are in a version, in the order in which they were read."""
        live = state.live.table
        paths = as_array(self._old.column("path"))
        own = live.filter(pc.is_in(live.column("path"), value_set=paths))
        places = pc.index_in(paths, value_set=as_array(own.column("path")))
        if places.null_count or len(own) != len(paths):
            lost = paths.filter(pc.is_null(places))
            raise self._conflict("was removed, or added twice,", lost[0].as_py() if len(lost) else None)
        now = own.take(places)
        for path, before, after in zip(paths.to_pylist(), _fixed(self._old), _fixed(now), strict=True):
            if before != after:
                raise self._conflict("got other partition values or row ids", path)
        return now

    def _mapped(
        self, changes: Changes, now: pa.Table, state: Snapshot
    ) -> tuple[Changes, Mapping[str, int], AbstractSet[str]]:
        """Return the changes that hide the rows that were deleted since, and the files that are of no use for them."""
        gone = self._gone(now, "deletionVectors" in state.active_features)
        adds = dict(changes.adds)
        unused = set(self._written)
        left = gone.total
        log = self._read.log
        with VectorWriter(log.storage, log.root) as writer:
            for path, positions in self._trail.find(gone):
                left -= len(positions)
                recorded = encode_path(path)
                if len(positions) == adds[recorded].rows:
                    # Nothing is left of the file.
                    del adds[recorded]
                    unused.add(path)
                else:
                    adds[recorded] = with_vector(adds[recorded], writer.add(positions))
        self._note(writer.paths)
        self._written.update(writer.paths)
        if left:
            raise self._conflict("got a deletion vector of rows that it did not have")
        removes = {file.path: file for file in removes_of(now, data_change=False)}
        said = {"numDeletionVectorsRemoved": len(now) - now.column("deletionVector").null_count}
        if len(adds) < len(changes.adds):
            said |= metrics_of_new([file.size for file in adds.values()])
        return replace(changes, adds=adds, removes=removes), said, unused

    def _gone(self, now: pa.Table, are_allowed: bool) -> RowPositions:
        """Return the rows that were deleted since the files were read, by the numbers of these."""
        resolver = PathResolver(self._read.log.root)
        before, after = (
            locate_vectors(as_array(table.column("deletionVector")), resolver).to_pylist() for table in (self._old, now)
        )
        gone = RowPositions()
        for at, number in enumerate(self._numbers.to_pylist()):
            if before[at] == after[at]:
                continue
            known, found = self._positions(before[at]), self._positions(after[at])
            added = found.filter(pc.invert(pc.is_in(found, value_set=known)))
            if not are_allowed or len(added) + len(known) != len(found):
                raise self._conflict("got back rows that were deleted", now.column("path")[at].as_py())
            gone.add(pa.repeat(pa.scalar(number, pa.int64()), len(added)), added.cast(pa.int64()))
        return gone

    def _positions(self, vector: dict[str, Any] | None) -> pa.UInt64Array:
        if vector is None:
            return pa.array([], pa.uint64())
        found = BitmapRef(**vector)
        bitmap = load_bitmap(found, self._read.log.store, check_cardinality=True)
        return positions_of(bitmap, deletion_vector=found.location or "inline")

    def _conflict(self, what: str, file: str | None = None) -> ConcurrentDeleteDeleteError:
        return ConcurrentDeleteDeleteError(
            f"a file whose rows move {what} meanwhile", hint="refresh the table, and repeat the operation", file=file
        )


def _fixed(files: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Return what stays of live files as long as only rows of them are deleted."""
    columns = (files.column(name).to_pylist() for name in ("partitionValues", "baseRowId", "defaultRowCommitVersion"))
    for values, *others in zip(*columns, strict=True):
        yield dict(values or ()), *others


def _vectors(files: pa.Table) -> list[str | None]:
    """Return the unique ids of the deletion vectors of live files."""
    found: list[str | None] = unique_ids(as_array(files.column("deletionVector"))).to_pylist()
    return found
