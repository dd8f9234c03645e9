"""Encoding row groups of several files at a time on threads, with a bound on the rows that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["EncodingPool"]

_Result = TypeVar("_Result")


#: Bytes of rows that are encoded faster than a thread is started, and how many jobs a write has that is worth none.
_SMALL, _FEW = 1 << 20, 2


class EncodingPool:
    """Runs the jobs of files in order, and those of different files at the same time.

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
        self._changed = threading.Condition()
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
        with self._changed:
            while self._held and self._held + size > self._cap and self._failure is None:
                self._changed.wait(0.2)
            self._raise_failure()
            self._held += size
            self._jobs += 1
            is_first = self._jobs <= _FEW and self._held <= _SMALL and (after is None or after.done())

        def run() -> _Result:
            try:
                if after is not None:
                    # Jobs begin in the order of their submission, so the other has begun.
                    after.result()
                return job()
            except BaseException as error:
                with self._changed:
                    self._failure = self._failure or error
                raise
            finally:
                with self._changed:
                    self._held -= size
                    self._changed.notify_all()

        if not is_first:
            return self._pool.submit(run)
        done: Future[_Result] = Future()
        try:
            done.set_result(run())
        except Exception as error:  # noqa: BLE001 - who asks for the result gets it, as from a thread
            done.set_exception(error)
        return done

    def check(self) -> None:
        """Raise what a job has failed with."""
        with self._changed:
            self._raise_failure()

    def stop(self) -> None:
        """Drop the jobs that have not begun, and wait for the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
