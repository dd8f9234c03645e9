"""Keeps the content of delete files for the process, and tells a delete file from another one of the same name.

The files of a table do not change, but a table may be dropped and created again in the same place. Therefore content is
kept by store, path, and what the store says about the object, which is asked for once for each open state of a table.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from deltaberg.errors import DataFileNotFoundError, DeltabergError, ObjectNotFoundError
from deltaberg.files.read.task import DeleteFile
from deltaberg.storage.base import ObjectMeta, Storage
from deltaberg.storage.location import Location, PathResolver, parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.workers import map_in_order

__all__ = ["DeleteFileIdentities", "Identity", "KeptReads", "gone"]

_T = TypeVar("_T")

#: How many bytes of delete files are kept.
_KEPT_BYTES = 512 << 20
#: Concurrent requests to one store.
_REQUESTS = 16


class Identity(NamedTuple):
    """The identity of a delete file: its store, location, format, recorded size, and what the store says about it."""

    store: Storage
    location: Location
    format: str
    size: int
    found: ObjectMeta


class KeptReads:
    """The most recent reads, up to a number of bytes. Threads that want the same wait for the one that reads it."""

    def __init__(self, most: int = _KEPT_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._reading: dict[Hashable, threading.Lock] = {}
        self._bytes = 0

    def get(self, key: Hashable, read: Callable[[], tuple[_T, int]]) -> _T:
        """Return what is kept under a key, or read it; ``read`` also returns its size in bytes."""
        with self._lock:
            if key in self._found:
                return cast(_T, self._kept(key))
            gate = self._reading.setdefault(key, threading.Lock())
        with gate:
            with self._lock:
                if key in self._found:
                    return cast(_T, self._kept(key))
            try:
                content, size = read()
                self._keep(key, content, size)
            finally:
                with self._lock:
                    self._reading.pop(key, None)
        return content

    def _kept(self, key: Hashable) -> Any:
        self._found.move_to_end(key)
        return self._found[key][0]

    def _keep(self, key: Hashable, found: object, size: int) -> None:
        with self._lock:
            if key not in self._found:
                self._found[key] = (found, size)
                self._bytes += size
            while self._bytes > self._most and len(self._found) > 1:
                _, (_, dropped) = self._found.popitem(last=False)
                self._bytes -= dropped


class _Known:
    """The delete files of one state of a table, as its tasks name them."""

    def __init__(self, store: StoreSpec) -> None:
        self.store = store
        self.lock = threading.Lock()
        self.found: dict[DeleteFile, Identity] = {}


class DeleteFileIdentities:
    """Identifies delete files, each once for every state of a table, which is recognized by its resolver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_state: WeakKeyDictionary[PathResolver, _Known] = WeakKeyDictionary()

    def of(self, files: Sequence[DeleteFile], store: StoreSpec, state: PathResolver | None) -> list[Identity]:
        """Return the identities of delete files.

        Raises
        ------
        DataFileNotFoundError
            If one of them no longer exists.
        """
        identities = self._known(store, state)
        with identities.lock:
            unknown = list(dict.fromkeys(file for file in files if file not in identities.found))
            is_local = all(parse_location(file.location).scheme == "file" for file in unknown)
            threads = 1 if is_local else _REQUESTS
            described = map_in_order(threads, partial(_describe, store=store), unknown)
            identities.found.update(zip(unknown, described, strict=True))
            return [identities.found[file] for file in files]

    def _known(self, store: StoreSpec, state: PathResolver | None) -> _Known:
        if state is None:
            return _Known(store)
        with self._lock:
            known = self._by_state.get(state)
            if known is None or known.store is not store:
                known = self._by_state[state] = _Known(store)
            return known


def _describe(file: DeleteFile, store: StoreSpec) -> Identity:
    location = parse_location(file.location)
    try:
        opener = store.open(location)
        return Identity(opener, location, file.format, file.size, opener.head(location.path))
    except ObjectNotFoundError as error:
        raise gone(file) from error
    except DeltabergError as error:
        raise error.with_context(delete_file=file.location) from None


def gone(file: DeleteFile) -> DataFileNotFoundError:
    """Return the error for a delete file that is not where its table records it."""
    return DataFileNotFoundError(
        "a delete file is gone: expired, or left behind when the table was moved",
        hint="open the newest snapshot, or say where the files are now with ⟪location_map⟫",
        delete_file=file.location,
    )
