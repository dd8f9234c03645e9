"""Naming a new file of statistics of a snapshot in the metadata of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from deltaberg.errors import CommitUnknownError, DeltabergError, VersionNotFoundError, in_context
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.result import commit_result
from deltaberg.iceberg.transaction.summary import Tally
from deltaberg.iceberg.transaction.table_commit import TableChange
from deltaberg.iceberg.transaction.writable import check_writable
from deltaberg.iceberg.updates.updates import Update
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.removal import FileKind, discard_locations
from deltaberg.table.write.sources import LOCAL_ROAD

__all__ = ["Namer", "StatsKind", "StatsRequest", "of_snapshot"]

#: Of so many snapshots at most, one after the other, statistics are computed where each has expired meanwhile.
_MOST_SNAPSHOTS = 10

_Result = TypeVar("_Result")


class StatsKind(NamedTuple):
    """A kind of statistics: what computing them is called, the update that names a file, and which files it may be."""

    operation: str
    update: Callable[[Mapping[str, Any]], Update]
    file: FileKind


@dataclass(frozen=True)
class StatsRequest:
    """Of which snapshot statistics are computed, and how the commit is made.

    Parameters
    ----------
    pointer
        What finds the newest metadata.
    snapshot_id, ref
        The snapshot, or else the branch or tag, or else the main branch.
    options
        How the commit is made.
    committed
        What is told the table as it is after the commit.
    """

    pointer: TablePointer
    snapshot_id: int | None
    ref: str | None
    options: CommitOptions
    committed: Callable[[LoadedTable], object]


@dataclass(frozen=True)
class Namer:
    """Names a file of statistics of a snapshot."""

    request: StatsRequest
    loaded: LoadedTable
    snapshot: Snapshot

    def name(self, kind: StatsKind, write: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any], CommitResult]:
        """Have a file written, name it by its entry, and return the entry.

        Raises
        ------
        VersionNotFoundError
            The table does not have the snapshot any more.
        CommitConflictError, CommitUnknownError
            See `TableChange.commit`. The file is deleted, unless the commit is unknown.
        """
        options, loaded = self.request.options, self.loaded
        committer = self.request.pointer.committer(unsafe_single_writer=options.unsafe_single_writer)
        entry = write()

        def make(newest: TableMetadata) -> tuple[list[Update], None]:
            check_writable(newest, loaded.resolver)
            # A file of a snapshot that has expired meanwhile would be named for ever.
            newest.snapshot_by_id(self.snapshot.snapshot_id)
            return [kind.update(entry)], None

        change = TableChange(committer, make, planned=loaded)
        try:
            done = change.commit(options.clocked)
        except BaseException as error:
            if not change.is_sent or (isinstance(error, DeltabergError) and not isinstance(error, CommitUnknownError)):
                path: str = entry["statistics-path"]
                folder, file = map(loaded.resolver.resolve, (path.rpartition("/")[0], path))
                discard_locations(loaded.store, [(folder, file)], kind.file)
            raise
        result = commit_result(
            done.loaded,
            done,
            Tally(),
            operation=kind.operation,
            token=done.token,
            snapshot_id=done.loaded.metadata.current_snapshot_id,
            road=LOCAL_ROAD,
        )
        self.request.committed(done.loaded)
        return entry, result


def of_snapshot(request: StatsRequest, compute: Callable[[IcebergSource, Namer], _Result]) -> _Result | None:
    """Compute statistics of a snapshot; None if the table has no snapshot.

    Parameters
    ----------
    request
        The snapshot.
    compute
        Computes them from the snapshot, and has their file named.

    Raises
    ------
    VersionNotFoundError
        The table has no such snapshot, or has it no more when the file is to be named. If nobody named it, the newest
        one is taken then, and only if each of them has expired, this is raised.
    """
    left = _MOST_SNAPSHOTS
    while True:
        left -= 1
        loaded = request.pointer.load()
        with in_context(table=str(loaded.root)):
            metadata = loaded.metadata
            check_writable(metadata, loaded.resolver)
            try:
                snapshot = _chosen(metadata, request)
                if snapshot is None:
                    return None
                source = IcebergSource.of(loaded, snapshot, metadata.schema_of(snapshot).struct)
                return compute(source, Namer(request, loaded, snapshot))
            except VersionNotFoundError:
                if request.snapshot_id is not None or not left:
                    raise


def _chosen(metadata: TableMetadata, request: StatsRequest) -> Snapshot | None:
    if request.snapshot_id is not None:
        return metadata.snapshot_by_id(request.snapshot_id)
    if request.ref is not None and request.ref in metadata.all_refs:
        return metadata.snapshot_by_id(metadata.all_refs[request.ref].snapshot_id)
    return metadata.current_snapshot
