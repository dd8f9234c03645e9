"""An object of a bucket as a file that is read at random."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from deltaberg.storage.base import Counters

__all__ = ["RangeFile"]

#: The end of a file is read at once: footers and small files need no second request.
_TAIL_BYTES = 64 * 1024


class RangeFile(io.RawIOBase):
    """An object as a file: its end is read once, everything else by ranges as asked.

    Parameters
    ----------
    read
        Reads a range (start, length) of the object.
    size
        How many bytes the object has.
    counters
        Where requests and bytes are counted.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, counters: Counters) -> None:
        super().__init__()
        self._read = read
        self._size = size
        self._at = 0
        self._counters = counters
        self._tail: bytes | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def size(self) -> int:
        """Return how many bytes the object has."""
        return self._size

    def tell(self) -> int:
        """Return the position, in bytes from the start."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read some bytes from the position on; all that are left by default."""
        stop = self._size if size < 0 else min(self._at + size, self._size)
        data = self._range(self._at, max(stop - self._at, 0))
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the position on, and return how many bytes were read."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _range(self, start: int, length: int) -> bytes:
        if length == 0:
            return b""
        tail_start = max(self._size - _TAIL_BYTES, 0)
        if start < tail_start:
            return self._fetch(start, length)
        if self._tail is None:
            self._tail = self._fetch(tail_start, self._size - tail_start)
        return self._tail[start - tail_start : start - tail_start + length]

    def _fetch(self, start: int, length: int) -> bytes:
        data = self._read(start, length)
        self._counters.add(1, len(data))
        return data
