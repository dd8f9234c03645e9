"""A store in memory of one process that answers puts as told: what lands and what is answered are two things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import StorageError
from deltaberg.storage.base import PutOutcome, PutResult, Storage
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["FaultySpec", "Reply"]


@dataclass(frozen=True)
class Reply:
    """What becomes of one conditional put: whether it lands, what is answered, and what happens before and after."""

    lands: bool
    answer: PutOutcome | None
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None


class _Faulty:
    """A store whose conditional puts follow a script; everything else goes through."""

    def __init__(self, storage: Storage, script: list[Reply]) -> None:
        self._storage = storage
        self._script = script

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        """Put an object as the script says."""
        if not if_absent or not self._script or ".deltaberg-probe" in path:
            return self._storage.put(path, data, if_absent=if_absent)
        reply = self._script.pop(0)
        reply.before()
        result = self._storage.put(path, data, if_absent=True) if reply.lands else None
        reply.after()
        if reply.answer is None:
            if result is None:
                raise StorageError("the store refuses")
            return result
        cause = StorageError("the reply was lost") if reply.answer is PutOutcome.UNKNOWN else None
        return PutResult(reply.answer, cause)


@dataclass(frozen=True)
class FaultySpec(StoreSpec):
    """What opens the store."""

    script: list[Reply] = field(default_factory=list)

    def open(self, location: Location) -> Storage:
        """Return the store that holds a location."""
        return _Faulty(super().open(location), self.script)
