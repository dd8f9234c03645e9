"""Writes that are planned, written and committed in different processes.

Spark does this with a Python Data Source. What the first process finds travels to the others.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.write.sources import WriteRoad
from deltaberg.table.write.spec import WriteSpec

__all__ = ["PlannedRows", "StagedFiles", "WrittenRows"]


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

    def recording(self, txn: tuple[str, int]) -> StagedFiles:
        """Return the same write, with a commit that records the progress of an application."""

    def commit(self, files: pa.Table, road: str) -> CommitResult:
        """Commit files that were written as `spec` asks.

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
        """


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
