"""Local files that appear whole or not at all, and stay after a power failure."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import stat
import sys
import uuid
from collections.abc import Callable
from typing import BinaryIO

from deltaberg.errors import StorageError, UnsupportedFeatureError
from deltaberg.storage.base import PutOutcome, PutResult

__all__ = [
    "link_if_absent",
    "open_temporary",
    "publish",
    "remove_quietly",
    "sync_file",
]

#: What file systems say that have no hard links, or not between these two names.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
#: What file systems say that cannot rename without replacing.
_NO_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})
#: What file systems say whose directories cannot be synced: there is nothing to sync, then.
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES})
#: Failures after which a change may have reached the disk or the server of a network file system.
_UNSETTLED = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT})
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
#: How often a directory is made that somebody deletes.
_MOST_ATTEMPTS = 4


def open_temporary(directory: str) -> BinaryIO:
    """Create a new temporary file (`is_temporary`) in a directory, which is created too where it is missing."""
    name = os.path.join(directory, f".deltaberg-{uuid.uuid4().hex}.tmp")
    # Another writer who gives up deletes directories that hold nothing, such as one that was just made.
    for _ in range(_MOST_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            return open(name, "xb")
        with contextlib.suppress(FileNotFoundError):
            _make_directories(directory)
    return open(name, "xb")


def _make_directories(directory: str) -> None:
    """Create a directory and those above it, each of which is recorded on disk."""
    parent = os.path.dirname(directory)
    if not os.path.isdir(parent):
        _make_directories(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory)
        _sync_directory(parent)


def sync_file(file: BinaryIO) -> None:
    """Wait until the content of a file is on disk."""
    file.flush()
    os.fsync(file.fileno())


def _sync_directory(directory: str) -> None:
    """Wait until the names in a directory are on disk, where the file system can do that."""
    if os.name == "nt":
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def publish(temporary: str, path: str) -> None:
    """Rename the temporary file, replacing any existing file."""
    os.replace(temporary, path)
    _sync_directory(os.path.dirname(path))


def link_if_absent(temporary: str, path: str) -> PutResult:
    """Publish a file unless the name exists, and return the outcome. The temporary file may remain.

    A hard link fails where the name exists, which a rename does not. If there are no hard links, Linux can rename
    without replacing.

    Raises
    ------
    OSError
        If the name was surely not given.
    StorageError
        If something that is not a file has the name.
    UnsupportedFeatureError
        If the file system can do neither.
    """
    try:
        result = _linked(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        result = _renamed(temporary, path)
    if result.outcome is PutOutcome.WRITTEN:
        try:
            _sync_directory(os.path.dirname(path))
        except OSError as error:
            # Everybody sees the file, but a power failure may undo that.
            return _unknown(error.errno, path)
    return result


def _linked(temporary: str, path: str) -> PutResult:
    try:
        os.link(temporary, path)
    except OSError as error:
        # A network file system may repeat a request whose answer was lost, and refuse our own link.
        is_ours = _is_link(temporary, path)
        if is_ours:
            return PutResult(PutOutcome.WRITTEN)
        if isinstance(error, FileExistsError):
            return _unknown(error.errno, path) if is_ours is None else _taken(path)
        if error.errno in _UNSETTLED:
            return _unknown(error.errno, path)
        raise
    return PutResult(PutOutcome.WRITTEN)


def _is_link(temporary: str, path: str) -> bool | None:
    """Return whether two names are links to one file; None if that cannot be found out.

    To count the links is not enough: a backup tool may have linked the temporary file to a name of its own.
    """
    try:
        # A symbolic link to our file would be somebody else's.
        return os.path.samestat(os.lstat(temporary), os.lstat(path))
    except OSError:
        return None


def _taken(path: str) -> PutResult:
    """Return that another file has a name.

    Raises
    ------
    StorageError
        If what has the name is not a file that could be read back.
    """
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            return PutResult(PutOutcome.EXISTS)
        holder = "a directory or a special file has"
    except OSError as error:
        if not os.path.islink(path):
            return _unknown(error.errno, path)
        holder = "a symbolic link that cannot be followed has"
    raise StorageError(f"the file cannot be written: {holder} this name", path=path)


def _renamed(temporary: str, path: str) -> PutResult:
    rename = _rename_without_replacing()
    number = errno.ENOSYS if rename is None else rename(os.fsencode(temporary), os.fsencode(path))
    if number == 0:
        return PutResult(PutOutcome.WRITTEN)
    if number == errno.EEXIST:
        # The temporary file is gone where a repeated request was refused that had succeeded.
        return _taken(path) if os.path.exists(temporary) else _unknown(number, path)
    if number in _UNSETTLED or number == errno.ENOENT:
        return _unknown(number, path)
    if number in _NO_RENAME:
        raise UnsupportedFeatureError(
            "the file system has neither hard links nor a rename that does not replace",
            hint="keep tables that are written to on a file system that has one of them",
            path=path,
        )
    raise OSError(number, os.strerror(number), path)


def _unknown(number: int | None, path: str) -> PutResult:
    reason = os.strerror(number) if number is not None else "it gives no reason"
    cause = StorageError(f"the file system does not say whether the file was written: {reason}", path=path)
    return PutResult(PutOutcome.UNKNOWN, cause)


@functools.cache
def _rename_without_replacing() -> Callable[[bytes, bytes], int] | None:
    """Return Linux's ``renameat2``, which gives an error number; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def rename(old: bytes, new: bytes) -> int:
        done = call(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE)
        return 0 if done == 0 else ctypes.get_errno()

    return rename


def remove_quietly(temporary: str) -> None:
    """Remove a temporary file. One that cannot be removed is litter, which listings leave out, and no failure."""
    with contextlib.suppress(OSError):
        os.unlink(temporary)
