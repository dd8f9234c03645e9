"""How far a write has come, and what is told of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from deltaberg.table.rows.shown_progress import ShownProgress, receiver

__all__ = ["Progress", "ProgressSum", "Told", "WriteProgress", "shared_progress", "summed", "untold"]


class WriteProgress(NamedTuple):
    """How far a verb has come.

    Parameters
    ----------
    rows
        The rows that were taken to be written. Rows that are copied, because their file is written anew, are counted.
        Verbs that write no rows count those that they have read, if they read any.
    files
        The data files that were begun. Verbs that write none count the files that they have looked at, or done with.
    """

    rows: int
    files: int


#: What is told how far a write has come, after every batch of rows. An exception ends the write.
Progress = Callable[[WriteProgress], object]

#: What is told of files that are done, by their number, as they are: it may be called by several threads.
Told = Callable[[int], object]


def untold(_: int) -> None:
    """Take no note of files that are done: a `Told` for where nobody asks."""


class ProgressSum:
    """Adds up how far several writes have come, which may be done at the same time.

    Parameters
    ----------
    tell
        What is told the sums, by one write at a time; True shows them.

    Examples
    --------
    >>> total = ProgressSum(print)
    >>> first, second = total.next_write(), total.next_write()
    >>> first(WriteProgress(5, 1))
    WriteProgress(rows=5, files=1)
    >>> second(WriteProgress(2, 1))
    WriteProgress(rows=7, files=2)
    """

    def __init__(self, tell: Progress | bool) -> None:
        self._tell = receiver(tell, "WriteProgress")
        self._now = WriteProgress(0, 0)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Take away what is shown."""
        if isinstance(self._tell, ShownProgress):
            self._tell.close()

    def next_write(self) -> Progress:
        """Return what another write tells its own progress."""
        own = WriteProgress(0, 0)

        def tell(made: WriteProgress) -> None:
            nonlocal own
            with self._lock:
                rows, files = self._now.rows + made.rows - own.rows, self._now.files + made.files - own.files
                self._now, own = WriteProgress(rows, files), made
                if self._tell is not None:
                    self._tell(self._now)

        return tell

    def add(self, files: int = 0, *, rows: int = 0) -> None:
        """Tell that so many more rows and files are done.

        Examples
        --------
        >>> ProgressSum(print).add(2)
        WriteProgress(rows=0, files=2)
        """
        self.next_write()(WriteProgress(rows, files))


@contextmanager
def summed(progress: Progress | bool | None) -> Iterator[ProgressSum]:
    """Yield what adds up how far something has come, and remove at the end what it shows.

    Parameters
    ----------
    progress
        What is told the sums, as callers pass it; None if nobody asks.
    """
    total = ProgressSum(False if progress is None else progress)
    try:
        yield total
    finally:
        total.close()


@contextmanager
def shared_progress(commit: Mapping[str, Any]) -> Iterator[Callable[[], Any]]:
    """Yield what returns the arguments of each of several commits, whose ``progress`` is told of all of them together.

    Parameters
    ----------
    commit
        The arguments that the caller passes for all of them.

    Examples
    --------
    >>> with shared_progress({"progress": print, "branch": "main"}) as next_commit:
    ...     for _ in range(2):
    ...         next_commit()["progress"](WriteProgress(5, 1))
    WriteProgress(rows=5, files=1)
    WriteProgress(rows=10, files=2)
    """
    told = commit.get("progress")
    with summed(told) as total:
        yield lambda: dict(commit) if told is None else {**commit, "progress": total.next_write()}
