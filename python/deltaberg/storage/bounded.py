"""Caches that hold a bounded number of things, by keys that give no secret away."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["BoundedCache", "fingerprint"]

_T = TypeVar("_T")

#: Nobody who sees a fingerprint can try out secrets without it. It is the same in forked children.
_SALT = secrets.token_bytes(32)


def fingerprint(*facts: Any) -> bytes:
    """Return a key for facts that may be secret: the same facts have the same key within one process.

    Parameters
    ----------
    *facts
        What JSON can express; anything else is taken as text.
    """
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32, key=_SALT).digest()


class BoundedCache(Generic[_T]):
    """Keeps what was made for the keys that were used last. It is safe to share between threads.

    Parameters
    ----------
    size
        How many things are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, _T] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes, make: Callable[[], _T]) -> _T:
        """Return what is kept for a key, else what ``make`` returns, which may be called twice by two threads."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            found = self._kept.setdefault(key, made)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
