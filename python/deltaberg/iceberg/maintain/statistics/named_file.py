"""Naming a new file of statistics of a snapshot in the metadata of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from deltaberg.errors import (
    CommitConflictError,
    CommitUnknownError,
    DataFileNotFoundError,
    DeltabergError,
    VersionNotFoundError,
    in_context,
)
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.location.new_files import metadata_location
from deltaberg.iceberg.location.pointer import TablePointer
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.statistics_files import known_file
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.result import commit_result
from deltaberg.iceberg.transaction.summary import Tally
from deltaberg.iceberg.transaction.table_commit import TableChange
from deltaberg.iceberg.transaction.writable import check_writable
from deltaberg.iceberg.updates.updates import Update
from deltaberg.storage.base import Storage
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.removal import FileKind, discard_locations
from deltaberg.table.write.sources import LOCAL_ROAD

__all__ = ["Namer", "StatsKind", "StatsRequest", "of_snapshot"]

#: Statistics are computed at most so often where the snapshot has expired meanwhile, or got a file of others.
_MOST_ATTEMPTS = 10

_Result = TypeVar("_Result")


class StatsKind(NamedTuple):
    """A kind of statistics.

    It has the name that `statistics_files` gives it, what computing them is called, the update that names a file, and
    which files that may be.
    """

    name: str
    operation: str
    update: Callable[[Mapping[str, Any]], Update]
    file: FileKind


class _OvertakenError(CommitConflictError):
    """The snapshot has got a file of others since its statistics were read."""


@dataclass(frozen=True)
class StatsRequest:
    """The snapshot whose statistics are computed, and how the commit is made.

    Parameters
    ----------
    pointer
        What finds the newest metadata.
    snapshot_id, ref
        The snapshot, or else the branch or tag, or else the main branch.
    options
        How the commit is made.
    committed
        Called with the table after the commit.
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

    def name(
        self, kind: StatsKind, file_name: str, write: Callable[[Storage, str], Mapping[str, Any]]
    ) -> tuple[Mapping[str, Any], CommitResult]:
        """Have a file written, name it in the metadata, and return its entry there.

        Parameters
        ----------
        file_name
            The name of the file, which nobody else gives.
        write
            Writes the file, by its path in a store, and returns what its entry says beside its path and its snapshot.

        Raises
        ------
        VersionNotFoundError
            The table does not have the snapshot any more.
        CommitConflictError, CommitUnknownError
            See `TableChange.commit`. The file is deleted, unless the commit is unknown.
        """
        number = self.snapshot.snapshot_id
        options, loaded = self.request.options, self.loaded
        committer = self.request.pointer.committer(unsafe_single_writer=options.unsafe_single_writer)
        read = known_file(loaded.metadata, kind.name, number)
        path = f"{metadata_location(loaded.metadata.location, loaded.metadata.properties)}/{file_name}"
        folder, file = map(loaded.resolver.resolve, (path.rpartition("/")[0], path))
        entry: dict[str, Any] = {"snapshot-id": number, "statistics-path": path}

        def make(newest: TableMetadata) -> tuple[list[Update], None]:
            check_writable(newest, loaded.resolver)
            # A file of a snapshot that has expired meanwhile would be named for ever.
            newest.snapshot_by_id(number)
            if known_file(newest, kind.name, number) not in (read, (path, entry["file-size-in-bytes"])):
                raise _OvertakenError(
                    f"others have named a file of {kind.name} of snapshot {number} meanwhile, every time",
                    hint="compute them again",
                )
            return [kind.update(entry)], None

        change = TableChange(committer, make, planned=loaded)
        try:
            # A store that fails may have the file all the same.
            entry |= write(loaded.store.open(file), file.path)
            done = change.commit(options.clocked)
        except BaseException as error:
            if not change.is_sent or (isinstance(error, DeltabergError) and not isinstance(error, CommitUnknownError)):
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
        The table has no such snapshot, branch or tag, or has the snapshot no more when the file is to be named. If
        nobody named the snapshot, the newest one is taken then, and only if each of them has expired, this is raised.
    DataFileNotFoundError
        A file of the snapshot is gone, and the snapshot was named or has not expired.
    CommitConflictError
        Others have named files of the snapshot every time.
    """
    left = _MOST_ATTEMPTS
    while True:
        left -= 1
        loaded = request.pointer.load()
        with in_context(table=str(loaded.root)):
            metadata = loaded.metadata
            check_writable(metadata, loaded.resolver)
            snapshot = _chosen(metadata, request)
            if snapshot is None:
                return None
            source = IcebergSource.of(loaded, snapshot, metadata.schema_of(snapshot).struct)
            try:
                return compute(source, Namer(request, loaded, snapshot))
            except _OvertakenError:
                if not left:
                    raise
            except (VersionNotFoundError, DataFileNotFoundError):
                if request.snapshot_id is not None or not left:
                    raise
                if snapshot.snapshot_id in request.pointer.load().metadata.snapshots:
                    raise


def _chosen(metadata: TableMetadata, request: StatsRequest) -> Snapshot | None:
    if request.snapshot_id is not None:
        return metadata.snapshot_by_id(request.snapshot_id)
    return metadata.current_snapshot if request.ref is None else metadata.snapshot_of_ref(request.ref)
