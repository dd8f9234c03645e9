"""Counting the threads of this process, also those that `threading` does not list."""

from __future__ import annotations

import _thread
import gc
import time

__all__ = ["settled_threads", "threads_alive", "wait_for_threads"]

_SECONDS = 30


def threads_alive() -> int:
    """Return how many threads Python code has started that have not ended."""
    return _thread._count()


def settled_threads() -> int:
    """Return how many threads there are when those that were forgotten have ended."""
    gc.collect()
    count, latest = -1, time.monotonic() + _SECONDS
    while count != threads_alive() and time.monotonic() < latest:
        count = threads_alive()
        time.sleep(0.05)
    return count


def wait_for_threads(most: int) -> None:
    """Wait until there are no more threads than a number; they end a moment after their work."""
    latest = time.monotonic() + _SECONDS
    while (count := threads_alive()) > most:
        assert time.monotonic() < latest, f"{count} threads, not {most}"
        time.sleep(0.001)
