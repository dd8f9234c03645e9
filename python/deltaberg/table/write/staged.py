"""Writes that are planned, written and committed in different processes.

Spark does this with a Python Data Source. What the first process finds travels to the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.removal import WRITTEN_FILE, discard_files
from deltaberg.table.write.sources import WriteRoad
from deltaberg.table.write.spec import WriteSpec

__all__ = ["Committing", "PlannedRows", "StagedFiles", "WrittenRows", "commit_staged", "delete_written"]

#: The tokens of the commits that this process has tried last.
_TRIED: deque[str] = deque(maxlen=1000)


class Committing(Protocol):
    """What a planned write becomes, once its files are there."""

    @property
    def is_done_for_good(self) -> bool:
        """Whether the table had all that the write is for when it was planned, whenever that is asked."""

    def commit(self) -> CommitResult:
        """Commit them."""


class StagedFiles(Protocol):
    """A write that is planned. It pickles."""

    @property
    def spec(self) -> WriteSpec | None:
        """The description of the data files to write; None if nothing is to be written."""

    @property
    def store(self) -> StoreSpec:
        """The opener of the store of the table."""

    @property
    def place(self) -> Location:
        """The directory that data files are written below."""

    @property
    def token(self) -> str:
        """What tells its commit from others: sent again, it adds nothing, as long as the table knows the commit."""

    def of_batch(self, txn: tuple[str, int] | None, compact_seconds: float) -> StagedFiles:
        """Return the same write, as that of the batch of a stream.

        Parameters
        ----------
        txn
            The stream and the batch, which the commit records; None for what the options say.
        compact_seconds
            For how many seconds small files are put together after the commit, if the table asks for that; 0 for none.
        """

    def begin(self, files: pa.Table, road: str, *, was_tried: bool) -> Committing:
        """Return the transaction that adds files which were written as `spec` asks.

        Parameters
        ----------
        files, road
            As for `commit_staged`.
        was_tried
            Whether the files may be committed already.
        """


def commit_staged(staged: StagedFiles, files: pa.Table, road: str) -> CommitResult:
    """Commit files that were written as a plan asks, once, however often it is tried.

    Where the table had the progress of the application when the write was planned, the files are deleted.

    Parameters
    ----------
    files
        A row for each file; see `write_files`.
    road
        The road that the rows took to the files.

    Raises
    ------
    CommitConflictError
        Another commit came first, and the write does not fit on top of it. The files are deleted.
    CommitUnknownError
        It is not known whether the commit took effect.
    DeltabergError
        The table is gone or damaged, or lost what the write was planned on. The files stay until they are cleaned up as
        those that nothing names: another process may have committed them, which such a table does not tell.
    """
    was_tried = staged.token in _TRIED
    _TRIED.append(staged.token)
    transaction = staged.begin(files, road, was_tried=was_tried)
    is_needless = transaction.is_done_for_good
    done = transaction.commit()
    if is_needless:
        # Every commit of this plan finds the same, so that none has added the files, and none will.
        delete_written([files], staged.store, staged.place)
    return done


def delete_written(tables: Iterable[pa.Table], store: StoreSpec, root: Location) -> None:
    """Delete files that no commit names, as far as the store allows it.

    Parameters
    ----------
    tables
        Rows for the files; see `write_files`.
    root
        The directory that they are below.
    """
    paths = (root.join(path).path for table in tables if table.num_columns for path in table["path"].to_pylist())
    discard_files(store.open(root), root.path, paths, WRITTEN_FILE)


class PlannedRows:
    """Rows of which only the columns are known. Writing them writes nothing, and keeps what the table asks for."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.spec: WriteSpec | None = None
        #: The directory that the files would have been written below.
        self.place: Location | None = None

    def write(self, spec: WriteSpec, store: StoreSpec, root: Location) -> pa.Table:
        """Keep what the table asks for, and return no files."""
        spec.conformer(self.schema)
        self.spec, self.place = spec, root
        return spec.no_files()

    def road(self, spec: WriteSpec, root: Location) -> WriteRoad:
        """Return a road without a name: no rows were written yet."""
        return WriteRoad("")


class WrittenRows:
    """Rows that are in files already."""

    def __init__(self, schema: pa.Schema, files: pa.Table, road: str) -> None:
        self.schema = schema
        self._files = files
        self._road = road

    def write(self, spec: WriteSpec, store: StoreSpec, root: Location) -> pa.Table:
        """Return the files."""
        return self._files

    def road(self, spec: WriteSpec, root: Location) -> WriteRoad:
        """Return the road that the rows took."""
        return WriteRoad(self._road)
