"""Encoding row groups of several files at a time on threads, with a bound on the rows that wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from deltaberg.workers import Outcome, Workers, give_back, wait_for

__all__ = ["EncodingPool", "Job"]

_Result = TypeVar("_Result")
#: So many bytes of rows, in so many jobs, are encoded faster than a thread is started.
_SMALL, _FEW = 1 << 20, 2


class Job(Outcome[_Result]):
    """A call for a file, which holds rows until it has run. The jobs that follow it in the file begin after it.

    Parameters
    ----------
    pool
        Learns of the end.
    after
        The job before it in the file, whose failure is raised in place of a call.
    size
        Bytes of the rows that it holds.
    """

    def __init__(self, pool: EncodingPool, after: Job[Any] | None, size: int, call: Callable[[], _Result]) -> None:
        super().__init__(call if after is None else partial(_following, after, call))
        self._pool = pool
        self.size = size
        self.followers: list[Job[Any]] = []

    def _end(self) -> None:
        with self._pool.lock:
            self._pool.count_out(self, self._failure)
            super()._end()


def _following(after: Job[Any], call: Callable[[], _Result]) -> _Result:
    try:
        after.result()
    except BaseException:
        # The error holds this frame, which is not to hold rows.
        del call
        raise
    return call()


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
        self._workers = Workers(threads)
        self._cap = waiting
        # So that Ctrl-C leaves no thread waiting, the one that submits takes this lock and waits for a queue; see
        # `deltaberg.workers`.
        self.lock = threading.RLock()
        #: Whether the thread that submits waits for room, and what wakes it.
        self._waits = False
        self._woken: SimpleQueue[None] = SimpleQueue()
        #: The jobs that can begin, in this order.
        self._ready: deque[Job[Any]] = deque()
        self._held = 0
        self._jobs = 0
        self._failure: BaseException | None = None

    def submit(self, after: Job[Any] | None, size: int, call: Callable[[], _Result]) -> Job[_Result]:
        """Run a call for a file after another has ended; wait until there is room for the rows that it holds.

        Raises
        ------
        BaseException
            What a job has failed with.
        """
        while not self._has_taken(size):
            wait_for(self._woken)
        job = Job(self, after, size, call)
        with self.lock:
            if after is not None and not after.is_done:
                # A job that waited for another in a thread would keep the thread from the jobs of other files.
                after.followers.append(job)
                return job
            is_first = self._jobs <= _FEW and self._held <= _SMALL
            if not is_first:
                self._make_ready(job, begins=after is None)
        if is_first:
            self._run(job)
        else:
            self._workers.submit(self._run_next)
        return job

    def _has_taken(self, size: int) -> bool:
        """Count a job in if there is room for its rows."""
        with self.lock:
            self._raise_failure()
            if self._held and self._held + size > self._cap:
                self._waits = True
                return False
            self._held += size
            self._jobs += 1
            return True

    def count_out(self, job: Job[Any], failure: BaseException | None) -> None:
        """Take note of the end of a job, whose rows are released; the caller holds the lock."""
        self._failure = self._failure or failure
        self._held -= job.size
        if self._waits:
            self._waits = False
            self._woken.put(None)
        for follower in job.followers:
            self._make_ready(follower, begins=False)

    def _make_ready(self, job: Job[Any], *, begins: bool) -> None:
        """Queue a job: jobs that begin a file go last, so that few files are open."""
        if begins:
            self._ready.append(job)
        else:
            self._ready.appendleft(job)

    def _run_next(self) -> None:
        self._run(self._ready.popleft())

    def _run(self, job: Job[Any]) -> None:
        """Run a job whose predecessor has ended, and queue those that follow it."""
        job.run()
        count = len(job.followers)
        # An error holds this frame, which would hold the error.
        del job
        for _ in range(count):
            self._workers.submit(self._run_next)

    def check(self) -> None:
        """Raise what a job has failed with."""
        with self.lock:
            self._raise_failure()

    def stop(self) -> None:
        """Drop the jobs that have not begun, and wait for the others."""
        give_back(self.lock)
        self._workers.stop()
        while self._ready:
            self._ready.popleft().drop()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
