"""Buckets and containers, through obstore."""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import compress
from typing import Any, TypeVar

import pyarrow as pa

from deltaberg.errors import ObjectNotFoundError, StorageError
from deltaberg.storage.answers import conditional_put, is_outage, is_receipt, translated, unnamed_key, written
from deltaberg.storage.base import (
    MOST_WHOLE,
    Counters,
    DeletionFailure,
    Level,
    ObjectMeta,
    OutputFile,
    PutOutcome,
    PutResult,
    check_whole,
)
from deltaberg.storage.clients import open_client
from deltaberg.storage.location import Location
from deltaberg.storage.options.options import StoreOptions
from deltaberg.storage.range_file import RangeFile

__all__ = ["RemoteStorage"]

_T = TypeVar("_T")

#: How many parts of one object are sent at the same time.
_CONCURRENT_PARTS = 4
#: How many objects are deleted by one call: a request of S3. obstore makes four of them for Azure, at the same time.
_DELETED_AT_ONCE = 1000
#: How many objects a listing gives at once: a page of S3.
_LISTED_AT_ONCE = 1000
#: Ranges of an object that are no farther apart, in bytes, are read at once; obstore does the same.
_GAP = 1 << 20
#: What the names of S3 Express buckets end with, which are listed in no order and from no offset.
_S3_EXPRESS = "--x-s3"
#: Sorts behind what follows the slash of a directory; a name that sorts behind it is read, and dropped.
_LAST_CHARACTER = "\U0010ffff"
_CONTROL = re.compile("[\x00-\x1f\x7f]")

#: The process that first used obstore: its runtime does not survive a fork.
_used_by: list[int] = []


class _ImpossibleNameError(StorageError):
    """A path holds a character that no name of an object can have."""


class RemoteStorage:
    """A bucket; paths are keys without a slash in front.

    Parameters
    ----------
    location
        Which bucket.
    options
        How it is reached.
    renewed
        Returns the options that hold now, where they change: credentials that expire.
    """

    def __init__(
        self, location: Location, options: StoreOptions, renewed: Callable[[], StoreOptions] | None = None
    ) -> None:
        self._location = location
        self._name = f"{location.scheme}://{location.authority}"
        self._renewed = renewed
        self._options = options
        #: Clients that repeat requests, and those that never do, of the options that hold now.
        self._clients = {True: translated(lambda: open_client(location, options), self._name)}
        self._lock = threading.Lock()
        self._probed: bool | None = None
        self._probing = threading.Lock()

    @property
    def _store(self) -> Any:
        return self._client()

    def _client(self, *, repeat: bool = True) -> Any:
        options = self._options if self._renewed is None else self._renewed()
        with self._lock:
            if options != self._options:
                self._options, self._clients = options, {}
            if repeat not in self._clients:
                self._clients[repeat] = open_client(self._location, options, repeat=repeat)
            return self._clients[repeat]

    def get(self, path: str, most: int = MOST_WHOLE) -> bytes:
        """Read a whole object."""
        import obstore

        def whole() -> bytes:
            found = obstore.get(self._store, path)
            check_whole(found.meta["size"], most, f"{self._name}/{path}")
            return bytes(found.bytes())

        return self._call(whole, path)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read some ranges (start, length) of an object; adjacent ranges are fetched in one request."""
        try:
            return self._ranges(path, ranges)
        except ObjectNotFoundError:
            raise
        except StorageError:
            # Stores refuse a range that begins behind the end.
            size = self.head(path).size
            inside = [(start, min(length, max(size - start, 0))) for start, length in ranges]
            if inside == list(ranges):
                raise
        return self._ranges(path, inside)

    def _ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        import obstore

        # obstore would merge neighbours too, but panics where one of them begins behind the end.
        merged = _merged(ranges)
        if not merged:
            return [b"" for _ in ranges]
        starts, ends = [start for start, _ in merged], [end for _, end in merged]
        parts = self._call(lambda: obstore.get_ranges(self._store, path, starts=starts, ends=ends), path)
        views = [memoryview(part) for part in parts]
        slices = []
        for start, length in ranges:
            at = bisect_right(starts, start) - 1
            skipped = start - starts[at] if length > 0 else 0
            slices.append(views[at][skipped : skipped + length].tobytes())
        return slices

    def head(self, path: str) -> ObjectMeta:
        """Describe an object."""
        import obstore

        return _meta(self._call(lambda: obstore.head(self._store, path), path))

    def list_from(self, prefix: str, offset: str = "", *, directories: bool = False) -> Iterator[ObjectMeta]:
        """List the objects directly in a directory, from a name on, without walking below it."""
        directory = _directory(prefix)
        if offset and self._lists_from_offsets:
            listed = (meta for meta in self._listed_from(directory, offset) if _is_in(meta.path, directory))
            found = self._without_markers(listed)
        else:
            found = (_meta(item) for item in self._listed(prefix)["objects"])
        inside = {
            meta.path: meta for meta in found if _is_in(meta.path, directory) and meta.path[len(directory) :] >= offset
        }
        yield from (inside[path] for path in sorted(inside))

    @property
    def _lists_from_offsets(self) -> bool:
        """Whether a listing can begin at a name, and is in order: on Azure it begins at the first all the same."""
        scheme, authority = self._location.scheme, self._location.authority
        return scheme in ("s3", "gs", "memory") and not authority.endswith(_S3_EXPRESS)

    def _listed_from(self, directory: str, offset: str) -> Iterator[ObjectMeta]:
        """List what is at or behind a name; where it leads below a directory, go on behind that."""
        # The store leaves out the offset itself, which is wanted: what is before it is listed too, and dropped later.
        start = directory + offset[:-1]
        while True:
            below = ""
            for chunk in self._chunks(directory, start):
                metas = [_meta(item) for item in chunk]
                yield from metas
                last = metas[-1].path if metas else ""
                name, separator, _ = last[len(directory) :].partition("/")
                below = f"{directory}{name}/" if separator else ""
                if below and below + _LAST_CHARACTER > start:
                    break
                below = ""
            if not below:
                return
            start = below + _LAST_CHARACTER

    def _chunks(self, directory: str, start: str | None = None) -> Iterator[Sequence[Any]]:
        import obstore

        stream = self._call(
            lambda: obstore.list(self._store, prefix=directory or None, offset=start, chunk_size=_LISTED_AT_ONCE),
            directory,
        )
        while (chunk := self._call(lambda: next(stream, None), directory)) is not None:
            yield chunk

    def _listed(self, prefix: str) -> Any:
        import obstore

        directory = _directory(prefix)
        return self._call(lambda: obstore.list_with_delimiter(self._store, prefix=directory or None), prefix)

    def directories(self, prefix: str) -> list[str]:
        """List the names of the directories directly in one."""
        found = self._listed(prefix)
        if not found["common_prefixes"] and not found["objects"]:
            raise ObjectNotFoundError("there is no such directory", path=f"{self._name}/{prefix}")
        return _directories_of(found, prefix)

    def level(self, prefix: str) -> Level:
        """List the objects and the names of the directories directly in one."""
        found = self._listed(prefix)
        return Level(list(self._without_markers(map(_meta, found["objects"]))), _directories_of(found, prefix))

    def walk(
        self,
        prefix: str,
        selects: Callable[[list[str]], Iterable[bool]] | None = None,
        passed_over: Callable[[str], object] | None = None,
        linked: Callable[[str], object] | None = None,
    ) -> Iterator[ObjectMeta]:
        """List all objects below a directory, page by page. None is a link."""
        del linked
        directory = _directory(prefix)

        def listed(start: str | None) -> Iterator[ObjectMeta]:
            for chunk in self._chunks(directory, start):
                below = [meta for meta in map(_meta, chunk) if meta.path.startswith(directory)]
                yield from below if selects is None else compress(below, selects([meta.path for meta in below]))

        start: str | None = None
        while True:
            try:
                yield from self._without_markers(listed(start))
            except StorageError as error:
                # It fails for the whole page.
                key = unnamed_key(error)
                behind = None if key is None else _behind(key)
                if behind is None or passed_over is None or not self._lists_from_offsets or behind == start:
                    raise
                passed_over(str(key))
                start = behind
            else:
                return

    def _without_markers(self, listed: Iterable[ObjectMeta]) -> Iterator[ObjectMeta]:
        """Leave out the empty objects that mark directories: their keys end with a slash, which obstore cuts off.

        Only the store can tell such an object from an empty one of the same name without the slash, so it is asked.
        """
        empty: set[str] = set()
        for meta in listed:
            if meta.size > 0:
                yield meta
            elif meta.path not in empty:
                empty.add(meta.path)
                with suppress(ObjectNotFoundError):
                    yield self.head(meta.path)

    def has_objects(self, prefix: str) -> bool:
        """Return whether there is any object below a directory."""
        return next(self.walk(prefix), None) is not None

    def open(self, path: str, size: int | None = None, counters: Counters | None = None) -> pa.NativeFile:
        """Open an object for random access."""
        size = self.head(path).size if size is None else size
        return pa.PythonFile(RangeFile(partial(self._range, path), size, counters or Counters()), mode="r")

    def _range(self, path: str, start: int, length: int) -> bytes:
        import obstore

        return self._call(lambda: bytes(obstore.get_range(self._store, path, start=start, length=length)), path)

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        """Write an object; where there must be none, by one request that is not repeated."""
        import obstore

        if if_absent:
            client = self._call(lambda: self._client(repeat=False), path)
            return conditional_put(
                lambda: obstore.put(client, path, data, mode="create", use_multipart=False), f"{self._name}/{path}"
            )
        answer = self._write(lambda: obstore.put(self._store, path, data, use_multipart=False), path)
        if not is_receipt(answer["e_tag"], data):
            self._check_stored(path)
        return PutResult(PutOutcome.WRITTEN)

    def probe_conditional_put(self, directory: str) -> bool:
        """Return whether the store honours conditional puts, which it is asked once."""
        from deltaberg.storage.probe import conditional_put_works

        with self._probing:
            if self._probed is None:
                self._probed = conditional_put_works(self, directory)
            return self._probed

    def open_output(self, path: str) -> OutputFile:
        """Open an object for writing."""
        import obstore

        from deltaberg.storage.upload import Upload

        def stream(parts: Iterator[bytes]) -> None:
            def put() -> None:
                obstore.put(self._store, path, parts, use_multipart=True, max_concurrency=_CONCURRENT_PARTS)

            self._write(put, path)
            self._check_stored(path)

        return Upload(partial(self.put, path), stream)

    def copy(self, path: str, new: str) -> None:
        """Have the store copy an object of at most 5 GiB to another name, which gets it whole.

        Raises
        ------
        ObjectNotFoundError
            There is no such object.
        StorageError
            The store fails.
        """
        import obstore

        self._call(lambda: obstore.copy(self._store, path, new, overwrite=True), path)
        self._check_stored(new)

    def _check_stored(self, path: str) -> None:
        """Look whether there is an object that was written.

        Where the answer comes from something else, such as a page that asks people to sign in, nothing was stored, and
        a commit would name what is not there. Files that commits name have names of their own. Of the others, such as
        the hint of a checkpoint, another writer's may be there by now, which is as good.
        """
        try:
            self.head(path)
        except ObjectNotFoundError as error:
            raise StorageError(
                "the object was not stored, though the answer says so: it does not come from the store",
                hint="check the endpoint, and gateways and proxies on the way to it, and try again",
                path=f"{self._name}/{path}",
            ) from error

    def strays(self, folder: str, paths: Iterable[str]) -> set[str]:
        """Return nothing: a bucket has neither links nor directories."""
        return set()

    def delete(self, path: str) -> bool:
        """Delete an object. If there is none, nothing happens."""
        with suppress(ObjectNotFoundError):
            self._call(partial(self._delete, path), path)
        return True

    def delete_many(
        self, paths: Iterable[str], deleted: Callable[[str], object] | None = None
    ) -> list[DeletionFailure]:
        """Delete objects, by requests of many where the store has them.

        obstore raises the first of many answers, and does not tell the others. Some stores stop at an object that is
        missing, and a name that no object can have fails a whole batch.
        """
        from deltaberg.storage.deletion import delete_batches

        return delete_batches(paths, _DELETED_AT_ONCE, self._delete_batch, self.delete, is_outage, deleted)

    def _delete_batch(self, paths: list[str]) -> None:
        self._call(partial(self._delete, paths), paths[0])

    def _delete(self, paths: str | list[str]) -> None:
        import obstore

        try:
            obstore.delete(self._store, paths)
        except TypeError as error:
            # Characters that no name can have make obstore say that it was not given a text.
            path = paths if isinstance(paths, str) else paths[0]
            raise _ImpossibleNameError("no object can have this name", path=f"{self._name}/{path}") from error

    def _call(self, work: Callable[[], _T], path: str) -> _T:
        self._check_process(path)
        return translated(work, f"{self._name}/{path}")

    def _write(self, work: Callable[[], _T], path: str) -> _T:
        self._check_process(path)
        return written(work, f"{self._name}/{path}")

    def _check_process(self, path: str) -> None:
        if not _used_by:
            _used_by.append(os.getpid())
        if _used_by[0] != os.getpid():
            raise StorageError(
                "this process was forked from one that has used an object store, whose client does not survive that",
                hint='start processes with multiprocessing\'s "spawn" method',
                path=f"{self._name}/{path}",
            )


def _directory(prefix: str) -> str:
    """Return what the keys in a directory begin with; nothing at the root."""
    return f"{prefix.rstrip('/')}/" if prefix else ""


def _directories_of(listed: Any, prefix: str) -> list[str]:
    """Return the names of the directories of a listing of one."""
    directory = _directory(prefix)
    return sorted(name.rstrip("/").removeprefix(directory) for name in listed["common_prefixes"])


def _behind(key: str) -> str | None:
    """Return what sorts behind a key that the client cannot name, and all others of which the same part is wrong.

    It refuses parts that are empty or dots, and control characters. None if the key has neither.
    """
    parts = key.split("/")
    for number, part in enumerate(parts):
        above = "".join(f"{one}/" for one in parts[:number])
        if part in ("", ".", ".."):
            return f"{above}{part}0"
        control = _CONTROL.search(part)
        if control is not None:
            return f"{above}{part[: control.start()]}{' ' if control[0] < ' ' else chr(0x80)}"
    return None


def _is_in(path: str, directory: str) -> bool:
    """Return whether an object is directly in a directory. One that has its very name marks an empty directory."""
    return path.startswith(directory) and len(path) > len(directory) and "/" not in path[len(directory) :]


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what to read (start, end), in order, so that each range lies in one of them."""
    merged: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if length <= 0:
            continue
        if merged and start <= merged[-1][1] + _GAP:
            merged[-1] = (merged[-1][0], max(merged[-1][1], start + length))
        else:
            merged.append((start, start + length))
    return merged


def _meta(item: Any) -> ObjectMeta:
    modified = item["last_modified"]
    return ObjectMeta(item["path"], int(item["size"]), int(modified.timestamp() * 1000), item.get("e_tag"))
