"""What Ctrl-C may leave behind in the thread that it interrupts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _thread import RLock

__all__ = ["give_back"]


def give_back(lock: RLock) -> None:
    """Release a lock as often as this thread holds it, so that others can go on.

    In CPython 3.14, an interruption can come between taking a lock and entering the block that gives it back.
    """
    with suppress(RuntimeError):
        while True:
            lock.release()
