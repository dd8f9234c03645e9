"""What a store lists below a folder, in batches of columns, so that a million files take little memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from deltaberg.errors import AuthenticationError, StorageError
from deltaberg.storage.base import ObjectMeta, Storage
from deltaberg.storage.probe import time_of_store
from deltaberg.workers import in_chunks

__all__ = ["LISTED_FILES", "as_listed", "earlier_clock", "list_files"]

#: The columns of a listing. Paths are decoded, and relative to the folder; times are in milliseconds since 1970.
LISTED_FILES = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("modified", pa.int64())])
_AT_ONCE = 10_000


def list_files(store: Storage, folder: str) -> Iterator[pa.RecordBatch]:
    """List all files below a folder, at any depth. Names that are not Unicode are left out: no metadata can hold them.

    Raises
    ------
    StorageError
        If the store fails, even on its last page.
    """
    for some in in_chunks(store.walk(folder), _AT_ONCE):
        yield as_listed(some, folder)


def as_listed(objects: Iterable[ObjectMeta], folder: str) -> pa.RecordBatch:
    """Return objects below a folder as `LISTED_FILES` describes them, apart from those whose names are not Unicode."""
    base = f"{folder.rstrip('/')}/" if folder else ""
    named = [meta for meta in objects if meta.path.startswith(base) and _is_unicode(meta.path)]
    columns = [
        pa.array([meta.path[len(base) :] for meta in named], pa.string()),
        pa.array([meta.size for meta in named], pa.int64()),
        pa.array([meta.modified for meta in named], pa.int64()),
    ]
    return pa.record_batch(columns, LISTED_FILES)


def _is_unicode(path: str) -> bool:
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def earlier_clock(store: Storage, folder: str) -> int:
    """Return the time in milliseconds since 1970: of this machine or of the store, whichever is earlier.

    Ages of files are counted from the times that the store gives them. A clock of this machine that is ahead would make
    young files old. Where the store does not permit writing, nothing can be deleted either, and the clock of this
    machine has to do. Where it is full, the newest file that is directly in the folder shows a time that has passed.

    Raises
    ------
    StorageError
        If the store fails.
    """
    own = time.time_ns() // 1_000_000
    try:
        return min(own, time_of_store(store, folder))
    except AuthenticationError:
        return own
    except StorageError:
        return min([own, max((meta.modified for meta in store.list_from(folder)), default=0)])
