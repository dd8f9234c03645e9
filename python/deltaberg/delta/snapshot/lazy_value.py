"""Values that are worked out once, and are then the same for all threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["lazy_value"]

_T = TypeVar("_T")


def lazy_value(owner: object, name: str, work_out: Callable[[], _T]) -> _T:
    """Return a value that an object keeps as an attribute, worked out when it is asked for first.

    Threads may work it out at the same time, but all of them get the value of the one that was done first: two
    readings of a log need not have the same files behind them.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> owner = SimpleNamespace()
    >>> [lazy_value(owner, "_value", lambda: value) for value in ("first", "second")]
    ['first', 'first']
    """
    kept: dict[str, Any] = owner.__dict__
    found: _T = kept[name] if name in kept else kept.setdefault(name, work_out())
    return found
