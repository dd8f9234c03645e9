"""Run calls on threads, which end even if Ctrl-C interrupts the thread that waits for them.

An interruption can come between any two steps of Python code in the main thread. `threading.Condition` is such code,
and so are `queue.Queue`, `concurrent.futures`, `threading.Event` and `threading.Thread.start`, which are built on it.
An interruption at one place leaves a lock taken for ever; at another place, it raises `RuntimeError` instead of
`KeyboardInterrupt`. Therefore the main thread waits for queues, which are written in C, and threads are started by
`_thread`. The price is that these threads have no names, and that debuggers do not see them.
"""

from __future__ import annotations

import _thread
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from _thread import RLock
    from types import TracebackType

__all__ = ["Outcome", "Workers", "give_back", "in_chunks", "map_in_order", "wait_for"]

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")
#: Waiting for so many seconds at a time lets Ctrl-C through on every platform.
_WAIT = 0.2


class Outcome(Generic[_Result]):
    """The result or the exception of a call, once it has run.

    Parameters
    ----------
    call
        Is released, with all that it holds, once it has run.
    """

    def __init__(self, call: Callable[[], _Result]) -> None:
        #: Whoever takes the call from this list runs it, or drops it.
        self._calls = [call]
        self._result: Any = None
        self._failure: BaseException | None = None
        self._ended: SimpleQueue[None] = SimpleQueue()
        #: Whether the call has run, or was dropped.
        self.is_done = False

    def run(self) -> None:
        """Run the call, unless it was run or dropped, and keep what it raises."""
        try:
            call = self._calls.pop()
        except IndexError:
            return
        try:
            self._result = call()
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            self._failure = error
        # Whoever waits may expect that nothing holds the arguments any more.
        del call
        self._end()
        # An error holds this frame, which would hold the error.
        del self

    def drop(self) -> None:
        """Discard the call, unless it has begun."""
        try:
            self._calls.pop()
        except IndexError:
            return
        self._failure = RuntimeError("the call was dropped before it began")
        self._end()

    def _end(self) -> None:
        self.is_done = True
        self._ended.put(None)

    def wait(self) -> None:
        """Wait until the call has run or was dropped."""
        while not self.is_done:
            self.wait_briefly()

    def wait_briefly(self) -> None:
        """Wait a short time for the call to end."""
        wait_for(self._ended)

    def result(self) -> _Result:
        """Wait until the call has run, and return what it returned.

        Raises
        ------
        BaseException
            What the call raised.
        RuntimeError
            If the call was dropped.
        """
        self.wait()
        if self._failure is not None:
            try:
                raise self._failure
            finally:
                # The error holds this frame, which would hold the error.
                del self
        result: _Result = self._result
        return result


class _Shared:
    """The state that threads share with the object that started them, which they do not keep alive."""

    def __init__(self, threads: int, owner: Workers) -> None:
        #: Calls, and what is no call at the end of them.
        self.waiting: SimpleQueue[Any] = SimpleQueue()
        #: Wakes a thread once the owner is gone. The callback is written in C: Ctrl-C could interrupt a destructor,
        #: which can only print that.
        self.owner = weakref.ref(owner, self.waiting.put)
        #: An item for each thread that may still be started, and one for each thread that has nothing to do.
        self.startable: SimpleQueue[None] = SimpleQueue()
        self.idle: SimpleQueue[None] = SimpleQueue()
        #: The calls that run, and the threads that run them.
        self.running: dict[Outcome[Any], int] = {}
        self._is_stopped = False
        for _ in range(threads):
            self.startable.put(None)

    @property
    def is_stopped(self) -> bool:
        """Whether calls that have not begun are dropped."""
        return self._is_stopped or self.owner() is None

    def stop(self) -> None:
        """Let the threads end, after they have dropped what has not begun."""
        self._is_stopped = True
        self.waiting.put(None)

    def serve(self) -> None:
        """Run calls until the end."""
        while (outcome := self._next()) is not None:
            # The call is added before the flag is read, so that `Workers.stop` waits for every call that begins.
            self.running[outcome] = _thread.get_ident()
            if self.is_stopped:
                outcome.drop()
            else:
                outcome.run()
            del self.running[outcome]
            # What a call has returned belongs to the one who submitted it.
            del outcome
        # Each thread tells the next one of the end.
        self.waiting.put(None)

    def _next(self) -> Outcome[Any] | None:
        try:
            found = self.waiting.get_nowait()
        except Empty:
            self.idle.put(None)
            found = self.waiting.get()
        return found if isinstance(found, Outcome) else None


class Workers:
    """Threads that take calls in order. They are started when they are needed, and end when they are stopped.

    Parameters
    ----------
    threads
        How many calls run at a time.
    """

    def __init__(self, threads: int) -> None:
        self._process = os.getpid()
        self._shared = _Shared(threads, self)
        if threads < 1:
            raise ValueError(f"{threads} threads run no calls")

    def __enter__(self) -> Workers:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def submit(self, call: Callable[..., _Result], *arguments: Any) -> Outcome[_Result]:
        """Run a call as soon as a thread is free. Any thread may submit; after the end, calls are dropped."""
        shared = self._shared
        outcome = Outcome(partial(call, *arguments))
        shared.waiting.put(outcome)
        if shared.is_stopped:
            # The threads may have ended.
            outcome.drop()
            return outcome
        with suppress(Empty):
            shared.idle.get_nowait()
            return outcome
        with suppress(Empty):
            shared.startable.get_nowait()
            _thread.start_new_thread(shared.serve, ())
        return outcome

    def stop(self) -> None:
        """Drop the calls that have not begun, and wait for the others."""
        self._shared.stop()
        if os.getpid() != self._process:
            # The threads are those of the process from which this one was forked.
            return
        here = _thread.get_ident()
        for outcome, thread in self._shared.running.copy().items():
            # A garbage collection in one of these threads can end a scan that nobody refers to.
            if thread != here:
                outcome.wait()


def in_chunks(items: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
    """Return items in lists of at most so many, as a stream.

    Examples
    --------
    >>> list(in_chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while chunk := list(islice(rest, most)):
        yield chunk


def map_in_order(threads: int, call: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Return the results of a call for each item, in the order of the items.

    Parameters
    ----------
    threads
        How many calls run at a time; 1 runs them in the calling thread, as does a single item.

    Raises
    ------
    BaseException
        What the call raised for the first item that failed. Calls that have not begun by then are dropped; those that
        run are waited for.
    """
    all_items = list(items)
    if threads <= 1 or len(all_items) <= 1:
        return [call(item) for item in all_items]
    with Workers(min(threads, len(all_items))) as workers:
        outcomes = [workers.submit(call, item) for item in all_items]
        outcomes.reverse()
        # An error holds this frame, which is not to hold the outcome that has the error.
        return [outcomes.pop().result() for _ in all_items]


def wait_for(items: SimpleQueue[Any]) -> bool:
    """Take an item from a queue and return True, or return False if there has been none for a short time."""
    with suppress(Empty):
        items.get(timeout=_WAIT)
        return True
    return False


def give_back(lock: RLock) -> None:
    """Release a lock as often as this thread holds it, so that others can go on.

    In CPython 3.14, an interruption can come between taking a lock and entering the block that gives it back.
    """
    with suppress(RuntimeError):
        while True:
            lock.release()
