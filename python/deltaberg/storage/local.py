"""Files of this machine, without obstore: faster, and safe to fork."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import compress
from typing import BinaryIO

import pyarrow as pa

from deltaberg.errors import AuthenticationError, NotAFileError, ObjectNotFoundError, StorageError
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
    is_temporary,
)
from deltaberg.workers import in_chunks

__all__ = ["LocalStorage", "nearest_directory"]

#: How often a directory is read again whose files are deleted while they are described.
_MOST_SCANS = 10
#: How many paths are shown at a time to who says which of them are wanted.
_SHOWN = 10_000
#: What can have the name of a file and is none, and how it is told apart.
_SPECIAL = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class LocalStorage:
    """The file system; paths are absolute."""

    def __init__(self) -> None:
        #: Whether conditional puts work, by file system.
        self._probed: dict[int, bool] = {}
        self._lock = threading.Lock()

    def get(self, path: str, most: int = MOST_WHOLE) -> bytes:
        """Read a whole file."""
        with _OurErrors(path), open(path, "rb", buffering=0, opener=_open_regular) as file:
            check_whole(os.fstat(file.fileno()).st_size, most, path)
            return file.read()

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read some ranges (start, length) of a file."""
        with _OurErrors(path), open(path, "rb", buffering=0, opener=_open_regular) as file:
            return [_read_at(file.fileno(), start, length) for start, length in ranges]

    def head(self, path: str) -> ObjectMeta:
        """Describe a file."""
        with _OurErrors(path):
            return _meta(path, _regular(os.stat(path), path))

    def list_from(self, prefix: str, offset: str = "", *, directories: bool = False) -> Iterator[ObjectMeta]:
        """List the files directly in a directory, from a name on."""
        files: list[ObjectMeta] = []
        for _ in range(_MOST_SCANS):
            files, is_whole = self._scan(prefix, offset, directories)
            if is_whole:
                break
        yield from files

    def _scan(self, prefix: str, offset: str, directories: bool) -> tuple[list[ObjectMeta], bool]:
        """Return the files of a directory, and whether all were still there when they were described.

        Where some were not, newer files may have taken their place, which only reading the directory again shows.
        """
        try:
            with _OurErrors(prefix), os.scandir(prefix) as entries:
                names = sorted(entry.name for entry in entries if entry.name >= offset)
        except ObjectNotFoundError:
            return [], True
        files, is_whole = [], True
        for name in names:
            if is_temporary(name):
                continue
            path = os.path.join(prefix, name)
            try:
                described = os.stat(path)
            except FileNotFoundError:
                # A link to nothing is not a file that was deleted since.
                is_whole = is_whole and os.path.islink(path)
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise _failure(error, path) from error
                # The name is taken. Whoever reads it is told by what.
                described = os.lstat(path)
            if directories or not stat.S_ISDIR(described.st_mode):
                files.append(_meta(path, described))
        return files, is_whole

    def directories(self, prefix: str) -> list[str]:
        """List the names of the directories directly in one."""
        with _OurErrors(prefix), os.scandir(prefix) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def level(self, prefix: str) -> Level:
        """List the files and the names of the directories directly in one."""
        directories: list[str] = []
        files = list(self._described(self._paths_in(prefix, directories)))
        return Level(files, [os.path.basename(path) for path in directories])

    def walk(
        self,
        prefix: str,
        selects: Callable[[list[str]], Iterable[bool]] | None = None,
        passed_over: Callable[[str], object] | None = None,
        linked: Callable[[str], object] | None = None,
    ) -> Iterator[ObjectMeta]:
        """List all files below a directory, directory by directory. Every name can be listed."""
        del passed_over
        paths = self._paths(prefix, linked=linked)
        if selects is not None:
            paths = (path for some in in_chunks(paths, _SHOWN) for path in compress(some, selects(some)))
        return self._described(paths)

    def _described(self, paths: Iterable[str]) -> Iterator[ObjectMeta]:
        for path in paths:
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue  # Deleted since the directory was read.
            except OSError as error:
                raise _failure(error, path) from error
            yield _meta(path, status)

    def _paths(
        self, prefix: str, *, special: bool = False, linked: Callable[[str], object] | None = None
    ) -> Iterator[str]:
        """Yield the paths of all files below a directory, and perhaps those of devices, named pipes and the like."""
        waiting = [prefix]
        while waiting:
            yield from self._paths_in(waiting.pop(), waiting, special, linked)

    def _paths_in(
        self,
        directory: str,
        directories: list[str],
        special: bool = False,
        linked: Callable[[str], object] | None = None,
    ) -> Iterator[str]:
        """Yield the paths of the files directly in a directory, and add those of its directories to a list."""
        with suppress(ObjectNotFoundError), _OurErrors(directory), os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield entry.path
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                elif os.path.isfile(entry.path) or (
                    special and not os.path.isdir(entry.path) and os.path.exists(entry.path)
                ):
                    yield entry.path
                elif linked is not None and entry.is_symlink():
                    linked(entry.path)

    def has_objects(self, prefix: str) -> bool:
        """Return whether there is any file below a directory."""
        # A file that is deleted meanwhile counts: others may have been written in its place.
        return any(not is_temporary(os.path.basename(path)) for path in self._paths(prefix, special=True))

    def open(self, path: str, size: int | None = None, counters: Counters | None = None) -> pa.NativeFile:
        """Open a file for random access."""
        with _OurErrors(path):
            # Arrow opens by name alone, and would wait for whoever writes to a named pipe.
            _regular(os.stat(path), path)
            file = pa.OSFile(path, "rb")
        if counters is not None:
            counters.add(1, 0)
        return file

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        """Write a file in one step: it is on disk, with its name, before this returns."""
        from deltaberg.storage.atomic import link_if_absent, open_temporary, publish, remove_quietly, sync_file

        temporary = None
        try:
            with _OurErrors(path, "written"):
                with open_temporary(os.path.dirname(path)) as file:
                    temporary = file.name
                    file.write(data)
                    sync_file(file)
                if if_absent:
                    return link_if_absent(temporary, path)
                publish(temporary, path)
        finally:
            if temporary is not None:
                remove_quietly(temporary)
        return PutResult(PutOutcome.WRITTEN)

    def probe_conditional_put(self, directory: str) -> bool:
        """Return whether two writers can be told apart, once for each file system."""
        from deltaberg.storage.probe import conditional_put_works

        # A table that does not exist yet has no directory, and a probe must not make it. It would be on the same file
        # system as the nearest directory above it.
        above = nearest_directory(directory)
        with _OurErrors(directory):
            device = os.stat(above).st_dev
        with self._lock:
            if device not in self._probed:
                self._probed[device] = conditional_put_works(self, above)
            return self._probed[device]

    def open_output(self, path: str) -> LocalOutput:
        """Open a file that gets its name when it is closed."""
        from deltaberg.storage.atomic import open_temporary

        with _OurErrors(path, "written"):
            return LocalOutput(open_temporary(os.path.dirname(path)), path)

    def strays(self, folder: str, paths: Iterable[str]) -> set[str]:
        """Return which paths below a folder are links, are no files, or are behind a link that leads out of it."""
        root = folder.rstrip("/")
        real = {root: os.path.realpath(folder)}
        home = os.path.join(real[root], "")
        inside: dict[str, bool] = {}
        strays = set()

        def real_of(directory: str) -> str:
            """Return the real path of a directory, for which its own name does where that of the one above is known."""
            above, _, name = directory.rpartition("/")
            is_plain = above in real and name not in ("", ".", "..") and not os.path.islink(directory)
            return os.path.join(real[above], name) if is_plain else os.path.realpath(directory)

        for path in paths:
            above = path.rpartition("/")[0]
            try:
                if above not in real:
                    real[above] = real_of(above)
                if above not in inside:
                    inside[above] = os.path.join(real[above], "").startswith(home)
                is_file = stat.S_ISREG(os.lstat(path).st_mode)
            except (OSError, ValueError):
                # It is not there, or cannot be looked at; deleting it tells.
                is_file = True
            if not (inside.get(above, True) and is_file):
                strays.add(path)
        return strays

    def delete(self, path: str) -> bool:
        """Delete a file, and return whether there was one. If there is none, or a directory, nothing happens."""
        with _OurErrors(path):
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return False
        return True

    def delete_many(
        self, paths: Iterable[str], deleted: Callable[[str], object] | None = None
    ) -> list[DeletionFailure]:
        """Delete files, one after the other: on threads it takes as long, since the system waits for directories."""
        from deltaberg.storage.deletion import delete_each

        return delete_each(paths, self.delete, deleted)


class LocalOutput(OutputFile):
    """A file that is written under a temporary name in the directory of its own."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self._size = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        """Append bytes."""
        size = memoryview(data).nbytes
        with _OurErrors(self._path, "written"):
            self._file.write(data)
        self._size += size
        return size

    def tell(self) -> int:
        """Return how many bytes have been written."""
        return self._size

    def close(self) -> None:
        """Rename the temporary file, replacing any existing file."""
        from deltaberg.storage.atomic import publish, remove_quietly, sync_file

        if self.closed:
            return
        try:
            self.closed = True
            with _OurErrors(self._path, "written"):
                with self._file:
                    sync_file(self._file)
                publish(self._file.name, self._path)
        except BaseException:
            # Also after an interruption nobody else would remove it.
            remove_quietly(self._file.name)
            raise

    def abort(self) -> None:
        """Remove the file."""
        from deltaberg.storage.atomic import remove_quietly

        if self.closed:
            return
        self.closed = True
        # What is still in the buffer may not fit on the disk.
        remove_quietly(self._file.name)
        with suppress(OSError):
            self._file.close()


def _meta(path: str, found: os.stat_result) -> ObjectMeta:
    # Devices and pipes have no size, which is not to say that they are empty files.
    size = found.st_size if stat.S_ISREG(found.st_mode) else max(found.st_size, 1)
    return ObjectMeta(path, size, found.st_mtime_ns // 1_000_000, str(found.st_ino))


class _OurErrors:
    """Turns the errors of using or writing a file into ours.

    Every access to a file goes through it, and a class takes half the time of a generator.
    """

    __slots__ = ("_path", "_what")

    def __init__(self, path: str, what: str = "used") -> None:
        self._path = path
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, ValueError)) and not isinstance(error, StorageError):
            raise _failure(error, self._path, self._what) from error


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file. It is looked at first: some devices do something when they are opened."""
    _regular(os.stat(path), path)
    # What takes the place of the file meanwhile must not make this wait, either.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        _regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _regular(status: os.stat_result, path: str) -> os.stat_result:
    """Return what describes a file, if it is a regular one."""
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in _SPECIAL if is_kind(status.st_mode)), "a special file")
        raise NotAFileError(f"there is no such file but {kind} of this name", path=path)
    return status


def nearest_directory(path: str) -> str:
    """Return a directory, or where there is none of this name the nearest one above it."""
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    # A buffer of the whole length is taken at once, so a length from damaged metadata is cut to the file first.
    length = min(length, max(os.fstat(descriptor).st_size - start, 0))
    parts = []
    while length > 0:
        part = os.pread(descriptor, length, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        length -= len(part)
    return b"".join(parts)


def _failure(error: OSError | ValueError, path: str, what: str = "used") -> StorageError:
    if what == "used" and isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return ObjectNotFoundError("there is no such file", path=path)
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return NotAFileError("there is no such file but a link that leads to itself of this name", path=path)
    # A name that no file can have, such as one with a NUL, is a ValueError.
    reason = error.strerror if isinstance(error, OSError) else None
    kind = AuthenticationError if isinstance(error, PermissionError) else StorageError
    return kind(f"the file cannot be {what}: {reason or error}", path=path)
