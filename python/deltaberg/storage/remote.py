"""Buckets and containers, through obstore."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from deltaberg.errors import (
    DeltabergError,
    InvalidArgumentError,
    MissingDependencyError,
    ObjectNotFoundError,
    StorageError,
)
from deltaberg.storage.base import Counters, ObjectMeta
from deltaberg.storage.location import Location
from deltaberg.storage.options import StoreConfig, StoreOptions, store_config

__all__ = ["RemoteStorage", "memory_store"]

_T = TypeVar("_T")

#: The end of a file is read at once: footers and small files need no second request.
_TAIL_BYTES = 64 * 1024

#: The process that first used obstore: its runtime does not survive a fork.
_used_by: list[int] = []

#: Stores in memory live as long as the process, by name.
_memory_stores: dict[str, Any] = {}


class RemoteStorage:
    """A bucket; paths are keys without a slash in front.

    ``renewed`` gives the options that hold now, where they change: credentials that expire.
    """

    def __init__(
        self, location: Location, options: StoreOptions, renewed: Callable[[], StoreOptions] | None = None
    ) -> None:
        self._location = location
        self._name = f"{location.scheme}://{location.authority}"
        self._renewed = renewed
        self._client = (options, _translated(lambda: _open(location, options), self._name))
        self._lock = threading.Lock()

    @property
    def _store(self) -> Any:
        if self._renewed is not None:
            options = self._renewed()
            with self._lock:
                if options != self._client[0]:
                    self._client = (options, _open(self._location, options))
        return self._client[1]

    def get(self, path: str) -> bytes:
        """Read a whole object."""
        import obstore

        return self._call(lambda: bytes(obstore.get(self._store, path).bytes()), path)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read some ranges (start, length) of an object; neighbours travel together."""
        import obstore

        starts, lengths = [start for start, _ in ranges], [length for _, length in ranges]
        if not starts:
            return []
        parts = self._call(lambda: obstore.get_ranges(self._store, path, starts=starts, lengths=lengths), path)
        return [bytes(part) for part in parts]

    def head(self, path: str) -> ObjectMeta:
        """Describe an object."""
        import obstore

        return _meta(self._call(lambda: obstore.head(self._store, path), path))

    def list_from(self, prefix: str, offset: str = "") -> Iterator[ObjectMeta]:
        """List the objects directly in a directory, from a name on."""
        import obstore

        directory = prefix.rstrip("/") + "/"
        # The store's offset is exclusive; one less than the name in the last character includes it.
        start = None if not offset else f"{directory}{offset[:-1]}{chr(ord(offset[-1]) - 1)}"
        stream = self._call(lambda: obstore.list(self._store, prefix=directory, offset=start), prefix)
        found = []
        while True:
            chunk = self._call(lambda: next(stream, None), prefix)
            if chunk is None:
                break
            for item in chunk:
                name = item["path"].removeprefix(directory)
                if "/" not in name and name >= offset:
                    found.append(_meta(item))
        # Stores list by name, but S3 Express does not.
        found.sort(key=lambda meta: meta.path)
        yield from found

    def directories(self, prefix: str) -> list[str]:
        """List the names of the directories directly in one."""
        import obstore

        directory = prefix.rstrip("/") + "/" if prefix else ""
        found = self._call(lambda: obstore.list_with_delimiter(self._store, prefix=directory or None), prefix)
        if not found["common_prefixes"] and not found["objects"]:
            raise ObjectNotFoundError("there is no such directory", path=f"{self._name}/{prefix}")
        return sorted(name.rstrip("/").removeprefix(directory) for name in found["common_prefixes"])

    def has_objects(self, prefix: str) -> bool:
        """Say whether there is any object below a directory."""
        import obstore

        directory = prefix.rstrip("/") + "/"
        return self._call(lambda: bool(next(obstore.list(self._store, prefix=directory, chunk_size=1), None)), prefix)

    def open(self, path: str, size: int | None = None, counters: Counters | None = None) -> pa.NativeFile:
        """Open an object for random access."""
        size = self.head(path).size if size is None else size
        return pa.PythonFile(_RangeFile(self, path, size, counters or Counters()), mode="r")

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> bool:
        """Write an object, only where there is none unless told otherwise."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        def write() -> bool:
            try:
                obstore.put(self._store, path, data, mode="overwrite" if overwrite else "create")
            except AlreadyExistsError:
                return False
            return True

        return self._call(write, path)

    def delete(self, path: str) -> None:
        """Delete an object."""
        import obstore

        self._call(lambda: obstore.delete(self._store, path), path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Read one range of an object."""
        import obstore

        return self._call(lambda: bytes(obstore.get_range(self._store, path, start=start, length=length)), path)

    def _call(self, work: Callable[[], _T], path: str) -> _T:
        if not _used_by:
            _used_by.append(os.getpid())
        if _used_by[0] != os.getpid():
            raise StorageError(
                "this process was forked from one that has used an object store, whose client does not survive that",
                hint='start processes with multiprocessing\'s "spawn" method',
                path=f"{self._name}/{path}",
            )
        return _translated(work, f"{self._name}/{path}")


def _translated(work: Callable[[], _T], path: str) -> _T:
    """Run a call of obstore; its exceptions become ours."""
    try:
        from obstore import exceptions
    except ImportError as error:  # pragma: no cover - obstore is a dependency
        raise MissingDependencyError("object stores need obstore", hint="pip install obstore") from error
    try:
        return work()
    except DeltabergError:
        raise
    except (FileNotFoundError, exceptions.NotFoundError) as error:
        raise ObjectNotFoundError("there is no such object", path=path) from error
    except exceptions.UnknownConfigurationKeyError as error:
        raise InvalidArgumentError(f"a storage option is not known: {_first_sentence(error)}", path=path) from error
    except (exceptions.BaseError, OSError, ValueError) as error:
        raise StorageError(f"the store failed: {_first_sentence(error)}", path=path) from error


def _first_sentence(error: Exception) -> str:
    text = str(error).split("\n\nDebug source", 1)[0].strip()
    return text.splitlines()[0] if text else type(error).__name__


def _meta(item: Any) -> ObjectMeta:
    modified = item["last_modified"]
    return ObjectMeta(item["path"], int(item["size"]), int(modified.timestamp() * 1000), item.get("e_tag"))


def _open(location: Location, options: StoreOptions) -> Any:
    from obstore.store import AzureStore, GCSStore, S3Store

    settings = store_config(location.scheme, options)
    common: dict[str, Any] = {"config": settings.config}
    if settings.client:
        common["client_options"] = settings.client
    if settings.retry:
        common["retry_config"] = settings.retry
    if location.scheme == "memory":
        return memory_store(location.authority)
    if location.scheme == "s3":
        return S3Store(location.authority, **common, **_profile(settings))
    if location.scheme == "gs":
        return GCSStore(location.authority, **common)
    if location.scheme in ("az", "abfs"):
        container, at, host = location.authority.partition("@")
        if at:
            # Hadoop's form: container@account.host.
            settings.config.setdefault("account_name", host.partition(".")[0])
        return AzureStore(container, **common)
    raise InvalidArgumentError(f"there is no store for {location.scheme}://")


def _profile(settings: StoreConfig) -> dict[str, Any]:
    """Give credentials of a profile in the shared AWS files, which boto3 reads."""
    if settings.profile is None:
        return {}
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise MissingDependencyError("an AWS profile needs boto3", hint="pip install boto3") from error
    session = boto3.session.Session(profile_name=settings.profile)
    if session.region_name and "region" not in settings.config:
        settings.config["region"] = session.region_name
    return {"credential_provider": Boto3CredentialProvider(session)}


def memory_store(name: str) -> Any:
    """Give the store in memory of this name; it is made on first use and lives with the process."""
    from obstore.store import MemoryStore

    return _memory_stores.setdefault(name, MemoryStore())


class _RangeFile(io.RawIOBase):
    """An object as a file: its end is read once, everything else by ranges as asked."""

    def __init__(self, storage: RemoteStorage, path: str, size: int, counters: Counters) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._size = size
        self._at = 0
        self._counters = counters
        self._tail: bytes | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size < 0 else min(self._at + size, self._size)
        data = self._range(self._at, max(stop - self._at, 0))
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _range(self, start: int, length: int) -> bytes:
        if length == 0:
            return b""
        tail_start = max(self._size - _TAIL_BYTES, 0)
        if start < tail_start:
            return self._fetch(start, length)
        if self._tail is None:
            self._tail = self._fetch(tail_start, self._size - tail_start)
        return self._tail[start - tail_start : start - tail_start + length]

    def _fetch(self, start: int, length: int) -> bytes:
        data = self._storage.read_range(self._path, start, length)
        self._counters.add(1, len(data))
        return data
