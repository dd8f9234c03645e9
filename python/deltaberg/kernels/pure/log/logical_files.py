"""Which logical files newer actions have named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Keys", "vector_id"]


def vector_id(vector: Mapping[str, Any] | None) -> str:
    """Return the unique id of a deletion vector (Delta protocol, "Derived Fields"); empty without one."""
    if vector is None:
        return ""
    at = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{vector['storageType'] or ''}{vector['pathOrInlineDv'] or ''}{at}"


class Keys:
    """The logical files of the actions seen so far, newest first, by canonical path."""

    def __init__(self) -> None:
        self._added_in: dict[bytes, int] = {}
        self._named: set[tuple[bytes, str]] = set()
        self._paths: set[bytes] = set()

    def add(self, path: bytes, vector: str, commit: int) -> str:
        """Note an add. Return ``first``, ``newer`` (a newer action names it) or ``conflict`` (its own commit does)."""
        is_named = (path, vector) in self._named
        added_in = self._added_in.get(path)
        if added_in == commit and not is_named:
            return "conflict"
        if added_in is None:
            self._added_in[path] = commit
        self._name(path, vector)
        return "newer" if is_named or added_in is not None else "first"

    def remove(self, path: bytes, vector: str) -> str:
        """Note a remove; return whether it is the ``first`` action on its file, or a ``newer`` one exists."""
        if (path, vector) in self._named:
            return "newer"
        self._name(path, vector)
        return "first"

    def knows_path(self, path: bytes) -> bool:
        """Return whether any action seen so far names the path."""
        return path in self._paths

    def keeps_add(self, path: bytes, vector: str) -> bool:
        """Return whether no action seen so far replaces or removes an older add."""
        return path not in self._added_in and (path, vector) not in self._named

    def keeps_remove(self, path: bytes, vector: str) -> bool:
        """Return whether no action seen so far names the logical file."""
        return (path, vector) not in self._named

    def was_added(self, path: bytes) -> bool:
        """Return whether a commit adds the path."""
        return path in self._added_in

    def note_added(self, path: bytes) -> None:
        """Note that a commit adds the path, with whatever deletion vector."""
        self._added_in[path] = 0

    def _name(self, path: bytes, vector: str) -> None:
        self._named.add((path, vector))
        self._paths.add(path)
