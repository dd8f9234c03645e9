"""What a store can do. All paths are decoded and name objects from the store's root."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

__all__ = ["Counters", "ObjectMeta", "Storage"]


class ObjectMeta(NamedTuple):
    """An object: its path, its size in bytes, and when it was last modified, in milliseconds since 1970.

    ``tag`` is another where an object of this path is another one; None where the store does not say.
    """

    path: str
    size: int
    modified: int
    tag: str | None = None


class Counters:
    """Requests and bytes of one piece of work, for ``scan.metrics``."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_read = 0

    def add(self, requests: int, bytes_read: int) -> None:
        """Count requests and the bytes that they gave."""
        self.requests += requests
        self.bytes_read += bytes_read


class Storage(Protocol):
    """A store of objects: a directory tree of this machine, or a bucket.

    Every method raises `ObjectNotFoundError` for an object that is not there, and `StorageError` where the
    store fails. A store is safe to share between threads.
    """

    def get(self, path: str) -> bytes:
        """Read a whole object."""
        ...

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read some ranges (start, length) of an object."""
        ...

    def head(self, path: str) -> ObjectMeta:
        """Describe an object."""
        ...

    def list_from(self, prefix: str, offset: str = "") -> Iterator[ObjectMeta]:
        """List the objects directly in a directory whose names are at least ``offset``, in the order of names.

        A directory that does not exist is empty.
        """
        ...

    def directories(self, prefix: str) -> list[str]:
        """List the names of the directories directly in one.

        Raises
        ------
        ObjectNotFoundError
            Where there is no such directory; a bucket has those that something lies in.
        """
        ...

    def has_objects(self, prefix: str) -> bool:
        """Say whether there is any object below a directory, without listing it all."""
        ...

    def open(self, path: str, size: int | None = None, counters: Counters | None = None) -> pa.NativeFile:
        """Open an object for random access; ``size`` saves a request where it is known."""
        ...

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> bool:
        """Write an object in one step; False, and nothing written, where it exists and must not be replaced."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object."""
        ...
