"""A stream of a table: positions in its history, and the rows between two of them.

A position is after some files of one commit. All batches of a stream, one after another, hold every file once, whatever
is committed in the meantime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from deltaberg.errors import DeltabergError
from deltaberg.table.read.source import ScanSource
from deltaberg.table.streaming.limits import Admission, Limits

__all__ = ["NEW_COLUMNS", "NEW_STREAM", "WAYS_ON", "Step", "TableStream"]

#: What lets a stream go on after a commit that removes rows.
WAYS_ON = "⟪skip_changes⟫ passes over such commits; ⟪changes⟫ reads all changes"

#: What helps where nothing else does, since a position of the stream is lost.
NEW_STREAM = "begin a new stream, with a new checkpoint"
#: What helps where the columns of the table have changed.
NEW_COLUMNS = (
    "start the query again, which then has the new columns⟦; without Spark, open the table again, and go on from the "
    f"last ⟪token⟫⟧; or {NEW_STREAM}"
)

_P = TypeVar("_P")


@dataclass(frozen=True)
class Step(Generic[_P]):
    """The files of one commit, or of the snapshot that a stream begins with, from a position on.

    Parameters
    ----------
    files
        The files, as a file table.
    end
        The position after all of them.
    first
        How many files of the commit are before these.
    is_whole
        Whether the files have to be in one batch.
    is_initial
        Whether they are of the snapshot that the stream begins with.
    is_last
        Whether a batch ends with them.
    """

    files: pa.Table
    end: _P
    first: int = 0
    is_whole: bool = False
    is_initial: bool = False
    is_last: bool = False


class TableStream(ABC, Generic[_P]):
    """Plans the batches of a stream. It reads each commit once, however often it is asked."""

    def __init__(self) -> None:
        #: The batch that was planned last, which is read next.
        self._planned: tuple[_P, _P, list[pa.Table]] | None = None

    @property
    @abstractmethod
    def source(self) -> ScanSource:
        """What has the columns of the stream."""

    @abstractmethod
    def initial(self) -> _P:
        """Return the position before all that a new stream reads."""

    @property
    def begins_empty(self) -> bool:
        """Whether the first batch has no rows: it ends where it begins, so that its end tells its beginning."""
        return False

    @abstractmethod
    def newest(self) -> _P:
        """Return the position after all that the table has now."""

    @abstractmethod
    def first_before(self, end: _P) -> _P:
        """Return the position at which a stream began whose first batch has this end.

        An engine that planned the first batch, and was restarted, knows its end only.
        """

    @abstractmethod
    def read_position(self, recorded: Mapping[str, Any]) -> _P:
        """Return the position that a JSON object of the connector's says.

        Raises
        ------
        InvalidArgumentError
            If it says none.
        VersionNotFoundError
            If it is one of another table.
        """

    @abstractmethod
    def record(self, position: _P) -> dict[str, Any]:
        """Return a position as the JSON object that the connector records."""

    @abstractmethod
    def commit_of(self, position: _P) -> int:
        """Return the version or the snapshot whose last file is before a position at the end of a step."""

    @abstractmethod
    def steps(self, start: _P, end: _P | None = None) -> Iterator[Step[_P]]:
        """Yield what is between two positions, or after one, commit by commit, the oldest first."""

    @abstractmethod
    def _within(self, step: Step[_P], count: int) -> _P:
        """Return the position after some files of a step, but not all of them."""

    @abstractmethod
    def rows_of(self, files: list[pa.Table], start: _P, end: _P) -> ScanSource:
        """Return what reads the files of a batch."""

    def latest(self, start: _P, limits: Limits, target: _P | None = None) -> _P:
        """Return the position at which a batch ends that begins at a position; the same one if there is nothing new.

        If a commit cannot be streamed, the batch ends before it, and only a batch that begins there raises.

        Parameters
        ----------
        limits
            The most that the batch may hold.
        target
            A position that `newest` returned, beyond which the batch does not go; None for no such position.

        Raises
        ------
        DeltabergError
            If the table lost what comes next, or was changed in a way that the stream does not allow.
        """
        end, taken = start, []
        admission = Admission(limits)
        steps = self.steps(start, target)
        while not admission.is_full:
            try:
                step = next(steps, None)
            except DeltabergError:
                if end == start:
                    raise
                break
            if step is None:
                break
            count = admission.admit(step.files, is_whole=step.is_whole)
            taken.append(step.files.slice(0, count))
            if count < len(step.files):
                end = self._within(step, count) if count else end
                break
            end = step.end
            if step.is_last:
                break
        self._planned = (start, end, taken)
        return end

    def batch(self, start: _P, end: _P) -> ScanSource:
        """Return what reads the rows between two positions.

        Raises
        ------
        DeltabergError
            If the table lost what is between them, or was changed in a way that the stream does not allow.
        """
        if self._planned is None or self._planned[:2] != (start, end):
            self._planned = (start, end, [step.files for step in self.steps(start, end)] if start != end else [])
        return self.rows_of(self._planned[2], start, end)
