"""Objects that are uploaded in parts while they are written."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from deltaberg.errors import StorageError
from deltaberg.storage.base import OutputFile
from deltaberg.workers import Outcome, Workers, wait_for

__all__ = ["Upload"]

#: The size of a part. S3 takes 10,000 of them, so an object can have 80 GiB.
_PART_BYTES = 8 << 20
#: How many parts wait to be sent.
_WAITING = 2


class _AbortedError(Exception):
    """Ends an upload from inside, upon which obstore discards the parts that were sent."""


class _Parts:
    """The state that an upload shares with the thread that sends its parts. It does not refer to the upload itself."""

    def __init__(self, owner: Upload) -> None:
        #: Parts, and what is none at the end of them.
        self.waiting: SimpleQueue[Any] = SimpleQueue()
        #: Ends the upload once its owner is gone: an interruption may have come before `close` or `abort` did anything.
        #: The callback is written in C, because Ctrl-C could interrupt a destructor, which can only print that.
        self.owner = weakref.ref(owner, self.waiting.put)
        self.room: SimpleQueue[None] = SimpleQueue()
        for _ in range(_WAITING):
            self.room.put(None)
        self.failure: BaseException | None = None
        self._is_aborted = False

    def abort(self) -> None:
        """Let the upload fail, unless it has ended."""
        self._is_aborted = True
        self.waiting.put(None)

    def send(self, stream: Callable[[Iterator[bytes]], object]) -> None:
        """Pass parts to a store until there are no more."""
        try:
            stream(self._taken())
        except _AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - the thread that writes raises it
            self.failure = error
            # The thread that writes may wait, and learns of it with the next part.
            self.room.put(None)

    def _taken(self) -> Iterator[bytes]:
        while isinstance(part := self.waiting.get(), bytes) and not self._is_aborted:
            self.room.put(None)
            yield part
        if self._is_aborted or part is not None:
            raise _AbortedError


class Upload(OutputFile):
    """A binary file that becomes an object when it is closed.

    What fits into one part is put in one request. More than that is sent by a thread while it is written.

    Parameters
    ----------
    put
        Puts an object whole, from its bytes.
    stream
        Puts an object in parts, from an iterator of bytes. If the iterator raises, there must be no object.
    """

    def __init__(self, put: Callable[[bytes], object], stream: Callable[[Iterator[bytes]], object]) -> None:
        self._put = put
        self._stream = stream
        self._buffer = bytearray()
        self._size = 0
        self._parts = _Parts(self)
        self._workers = Workers(1)
        self._sent: Outcome[None] | None = None
        #: Whether bytes have left the buffer that may not have been sent.
        self._is_torn = False
        self.closed = False

    def write(self, data: bytes) -> int:
        """Append bytes.

        Raises
        ------
        StorageError
            If a part that was sent before has failed.
        """
        if self.closed:
            raise StorageError("the file is closed")
        view = memoryview(data).cast("B")
        self._buffer += view
        self._size += view.nbytes
        while len(self._buffer) > _PART_BYTES:
            self._is_torn = True
            part = bytes(self._buffer[:_PART_BYTES])
            del self._buffer[:_PART_BYTES]
            self._send(part)
            self._is_torn = False
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes have been written."""
        return self._size

    def close(self) -> None:
        """Make the object visible."""
        if self.closed:
            return
        if self._is_torn:
            self.abort()
            raise StorageError("a write of the file was interrupted")
        if self._sent is None:
            self.closed = True
            self._put(bytes(self._buffer))
            return
        try:
            if self._buffer:
                self._send(bytes(self._buffer))
            self._send(None)
            self._sent.wait()
        except BaseException:
            # The thread ends without an object, or has just made it; either way, it ends before this.
            self._parts.abort()
            self._workers.stop()
            raise
        finally:
            self.closed = True
        self._workers.stop()
        self._raise_failure()

    def abort(self) -> None:
        """Discard everything."""
        if self.closed:
            return
        self.closed = True
        self._buffer.clear()
        self._parts.abort()
        self._workers.stop()

    def _send(self, part: bytes | None) -> None:
        if self._sent is None:
            self._sent = self._workers.submit(self._parts.send, self._stream)
        self._raise_failure()
        while not wait_for(self._parts.room):
            self._raise_failure()
        self._parts.waiting.put(part)

    def _raise_failure(self) -> None:
        if self._parts.failure is not None:
            self.closed = True
            raise self._parts.failure
