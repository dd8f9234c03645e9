"""How far a write has come, and what is told of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from deltaberg.table.rows.shown_progress import ShownProgress, receiver

__all__ = ["Progress", "ProgressSum", "WriteProgress"]


class WriteProgress(NamedTuple):
    """How far a write has come.

    Parameters
    ----------
    rows
        The rows that were taken to be written. Rows that are copied, because their file is written anew, are counted.
    files
        The data files that were begun.
    """

    rows: int
    files: int


#: What is told how far a write has come, after every batch of rows. An exception ends the write.
Progress = Callable[[WriteProgress], object]


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
