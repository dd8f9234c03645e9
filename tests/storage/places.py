"""A directory in a store of each kind, for the suite that all of them pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any

from deltaberg.storage.base import PutOutcome, Storage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen, conditional_put

__all__ = ["Place", "opened", "troubled"]

#: Each of so many requests fails in a store that the suite runs over.
_TROUBLE_EVERY = 5


@dataclass(frozen=True)
class Place:
    """A directory that does not exist yet, in an open store."""

    kind: str
    store: Storage
    root: str
    #: Lists the uploads that were begun and neither finished nor discarded.
    unfinished: Callable[[], list[Any]] = field(default=list, repr=False)

    def __call__(self, name: str = "") -> str:
        """Return the path of a name below the directory."""
        return f"{self.root}/{name}" if name else self.root

    def fill(self, *names: str) -> None:
        """Put objects that hold their own names."""
        for name in names:
            self.store.put(self(name), name.encode())

    def names(self, directory: str = "", offset: str = "") -> list[str]:
        """Return the names that a listing gives."""
        prefix = self(directory)
        paths = [meta.path for meta in self.store.list_from(prefix, offset)]
        assert all(path.startswith(f"{prefix}/") for path in paths)
        return [path[len(prefix) + 1 :] for path in paths]

    def put_new(self, name: str, data: bytes) -> PutOutcome:
        """Put an object that must not exist."""
        return self.store.put(self(name), data, if_absent=True).outcome


def opened(kind: str, url: str, options: dict[str, str] | None = None) -> Place:
    """Return a place in the store of a URL."""
    location = parse_location(f"{url}/a place")
    return Place(kind, open_store(location, options), location.path)


def troubled(proxy: FaultyProxy) -> None:
    """Let the network fail every now and then, in ways that a client gets over without a word.

    Conditional puts are spared: they are not repeated.
    """
    kinds = cycle(
        [
            Fault(answer="none"),
            Fault(forwards=0, answer=503),
            Fault(forwards=2),
            Fault(after=0.05),
            Fault(forwards=0, answer="none"),
            Fault(answer=500),
        ]
    )
    turns = count(1)

    def trouble(seen: Seen) -> Fault | None:
        is_due = not conditional_put(seen) and seen.method != "POST" and next(turns) % _TROUBLE_EVERY == 0
        return next(kinds) if is_due else None

    proxy.trouble = trouble
