"""Objects that are uploaded in parts while they are written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue

from deltaberg.errors import StorageError
from deltaberg.storage.base import OutputFile

__all__ = ["Upload"]

#: The size of a part. S3 takes 10,000 of them, so an object can have 80 GiB.
_PART_BYTES = 8 << 20
#: How many parts wait to be sent.
_WAITING = 2


class _AbortedError(Exception):
    """Ends an upload from inside, upon which obstore discards the parts that were sent."""


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
        # Queues that are written in C: Ctrl-C could interrupt `queue.Queue` where it has taken its lock and does not
        # give it back, and then the thread would never end.
        self._parts: SimpleQueue[bytes | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(_WAITING):
            self._room.put(None)
        self._thread: threading.Thread | None = None
        self._aborted = False
        self._failure: BaseException | None = None
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
            part = bytes(self._buffer[:_PART_BYTES])
            del self._buffer[:_PART_BYTES]
            self._send(part)
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes have been written."""
        return self._size

    def close(self) -> None:
        """Make the object visible."""
        if self.closed:
            return
        if self._thread is None:
            self.closed = True
            self._put(bytes(self._buffer))
            return
        try:
            if self._buffer:
                self._send(bytes(self._buffer))
            self._send(None)
        except BaseException:
            # Interrupted: the thread ends without an object.
            self._aborted = True
            self._parts.put(None)
            raise
        finally:
            self.closed = True
        self._thread.join()
        self._raise_failure()

    def abort(self) -> None:
        """Discard everything."""
        if self.closed:
            return
        self.closed = True
        self._buffer.clear()
        if self._thread is not None:
            self._aborted = True
            self._parts.put(None)
            self._thread.join()

    def _send(self, part: bytes | None) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="deltaberg-upload", daemon=True)
            thread.start()
            self._thread = thread
        self._raise_failure()
        while not self._has_room():
            self._raise_failure()
        self._parts.put(part)

    def _has_room(self) -> bool:
        # Waiting for short times lets Ctrl-C through on every platform.
        with suppress(Empty):
            self._room.get(timeout=0.2)
            return True
        return False

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self.closed = True
            raise self._failure

    def _run(self) -> None:
        try:
            self._stream(self._taken())
        except _AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - the thread that writes raises it
            self._failure = error
            # The thread that writes may wait, and learns of it with the next part.
            self._room.put(None)

    def _taken(self) -> Iterator[bytes]:
        while (part := self._parts.get()) is not None and not self._aborted:
            self._room.put(None)
            yield part
        if self._aborted:
            raise _AbortedError
