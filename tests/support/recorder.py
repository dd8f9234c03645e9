"""Records the requests to the local store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaberg.storage.local import LocalStorage

__all__ = ["Recorder"]


class Recorder:
    """The names of the objects that were read, and of those that were listed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: Names of files that were opened or read, in order.
        self.read: list[str] = []
        #: (directory, offset) of each listing.
        self.listings: list[tuple[str, str]] = []
        #: Names that listings gave.
        self.listed: list[str] = []
        for name in ("get", "get_ranges", "open"):
            self._record(monkeypatch, name)
        original = LocalStorage.list_from

        def list_from(store: LocalStorage, prefix: str, offset: str = "", **also: bool) -> Iterator[Any]:
            self.listings.append((Path(prefix).name, offset))
            for found in original(store, prefix, offset, **also):
                self.listed.append(Path(found.path).name)
                yield found

        monkeypatch.setattr(LocalStorage, "list_from", list_from)

    def _record(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(LocalStorage, name)

        def recorded(store: LocalStorage, path: str, *rest: Any, **options: Any) -> Any:
            self.read.append(Path(path).name)
            return original(store, path, *rest, **options)

        monkeypatch.setattr(LocalStorage, name, recorded)

    def clear(self) -> None:
        """Forget what was recorded."""
        self.read.clear()
        self.listings.clear()
        self.listed.clear()

    @property
    def commits(self) -> list[int]:
        """The versions of the log entries that were read, in order."""
        return [int(name.split(".")[0]) for name in self.read if name.split(".", 1)[1:] == ["json"]]
