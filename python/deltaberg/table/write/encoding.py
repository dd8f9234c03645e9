"""Encoding row groups of several files at a time on threads, with a bound on the rows that wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from deltaberg.table.interrupts import give_back

__all__ = ["EncodingPool"]

_Result = TypeVar("_Result")
#: Bytes of rows that are encoded faster than a thread is started, and how many jobs a write has that is worth none.
_SMALL, _FEW = 1 << 20, 2


class _Job:
    """A job, which holds rows until it has run."""

    def __init__(self, after: Future[Any] | None, size: int, job: Callable[[], Any]) -> None:
        self._steps: list[Callable[[], Any]] = [job] if after is None else [job, after.result]
        self.size = size
        self.done: Future[Any] = Future()

    def run(self) -> Any:
        """Raise what the job before has failed with, or return what this one returns."""
        result = None
        while self._steps:
            result = self._steps.pop()()
        return result


class EncodingPool:
    """Runs the jobs of files in order, and those of different files at the same time. One thread submits them.

    The first jobs run at once if they are small: a write of few rows encodes and finishes one file.

    Parameters
    ----------
    threads
        How many jobs run at a time.
    waiting
        Bytes of rows that jobs may hold. A job that is larger runs alone.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="deltaberg-write")
        self._cap = waiting
        # What waits takes this lock and waits for a queue, both of which are written in C. Ctrl-C could interrupt
        # `threading.Condition` where it has taken its lock and does not give it back.
        self._lock = threading.RLock()
        #: Whether the thread that submits waits for room, and what wakes it.
        self._waits = False
        self._woken: SimpleQueue[None] = SimpleQueue()
        #: The jobs that can begin, in this order.
        self._ready: deque[_Job] = deque()
        self._held = 0
        self._jobs = 0
        self._failure: BaseException | None = None

    def submit(self, after: Future[Any] | None, size: int, job: Callable[[], _Result]) -> Future[_Result]:
        """Run a job after another has ended; wait until there is room for the rows that it holds.

        Raises
        ------
        BaseException
            What a job has failed with.
        """
        while not self._has_taken(size):
            with suppress(Empty):
                self._woken.get(timeout=0.2)
        is_first = self._jobs <= _FEW and self._held <= _SMALL and (after is None or after.done())
        waiting = _Job(after, size, job)
        if is_first:
            self._run(waiting)
        elif after is None:
            self._ready.append(waiting)
            self._pool.submit(self._run_next)
        else:
            # A job that waited for another in a thread would keep the thread from the jobs of other files.
            after.add_done_callback(lambda _: self._go_on(waiting))
        return waiting.done

    def _has_taken(self, size: int) -> bool:
        """Count a job in if there is room for its rows."""
        with self._lock:
            self._raise_failure()
            if self._held and self._held + size > self._cap:
                self._waits = True
                return False
            self._held += size
            self._jobs += 1
            return True

    def _go_on(self, job: _Job) -> None:
        """Run the next job of a file before those of files that are not begun, so that few are open."""
        self._ready.appendleft(job)
        with suppress(RuntimeError):
            # A stopped pool takes no job, and nobody waits for it.
            self._pool.submit(self._run_next)

    def _run_next(self) -> None:
        self._run(self._ready.popleft())

    def _run(self, job: _Job) -> None:
        """Run a job whose predecessor has ended, and keep what it returns or raises for those who ask for it."""
        result, failure = None, None
        try:
            result = job.run()
        except BaseException as error:  # noqa: BLE001 - an interruption, too, reaches the thread that submits and waits
            failure = error
        with self._lock:
            self._failure = self._failure or failure
            self._held -= job.size
            if self._waits:
                self._waits = False
                self._woken.put(None)
        # What follows the job is begun by this.
        if failure is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(failure)

    def check(self) -> None:
        """Raise what a job has failed with."""
        with self._lock:
            self._raise_failure()

    def stop(self) -> None:
        """Drop the jobs that have not begun, and wait for the others."""
        give_back(self._lock)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
