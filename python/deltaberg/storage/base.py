"""The operations of a store. All paths are decoded and name objects from the store's root."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Protocol

import pyarrow as pa

from deltaberg.errors import DeltabergError, StorageError, TooLargeError

__all__ = [
    "LEFT_BEHIND",
    "MOST_WHOLE",
    "Counters",
    "DeletionFailure",
    "Level",
    "ObjectMeta",
    "OutputFile",
    "PutOutcome",
    "PutResult",
    "Storage",
    "check_whole",
    "is_temporary",
]

#: The most bytes of an object that is read whole, unless the reader knows better.
MOST_WHOLE = 1 << 31
_TEMPORARY_NAME = r"\.deltaberg-[0-9a-f]{32}\.tmp"
#: The names of files that are being written. A crash leaves them behind.
_TEMPORARY = re.compile(_TEMPORARY_NAME)
#: The names of files that only a killed writer or probe leaves behind.
LEFT_BEHIND = rf"{_TEMPORARY_NAME}|\.deltaberg-probe-[0-9a-f]{{32}}"


class ObjectMeta(NamedTuple):
    """An object: its path, its size in bytes, and when it was last modified, in milliseconds since 1970.

    ``tag`` changes when the object at this path is replaced; None if the store does not say.
    """

    path: str
    size: int
    modified: int
    tag: str | None = None


class PutOutcome(Enum):
    """The outcome of putting an object."""

    #: The object holds the given bytes.
    WRITTEN = "written"
    #: An object of this name was there, and nothing was written.
    EXISTS = "exists"
    #: The request may have taken effect, may not have, or may do so later.
    UNKNOWN = "unknown"


class PutResult(NamedTuple):
    """The outcome of a put and, where it was refused or is unknown, the error that says why, if there is one."""

    outcome: PutOutcome
    cause: DeltabergError | None = None


class Level(NamedTuple):
    """The objects directly in a directory, and the names of its directories."""

    objects: list[ObjectMeta]
    directories: list[str]


class DeletionFailure(NamedTuple):
    """An object that could not be deleted, or may still be there, and why."""

    path: str
    error: StorageError


class Counters:
    """Requests and bytes of one piece of work, for ``scan.metrics``."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_read = 0

    def add(self, requests: int, bytes_read: int) -> None:
        """Count requests and the bytes that they returned."""
        self.requests += requests
        self.bytes_read += bytes_read


def check_whole(size: int, most: int, path: str) -> None:
    """Refuse to read an object whole that has more bytes than its reader takes: a sparse file has as many as it says.

    Raises
    ------
    TooLargeError
        If there are more than ``most``.
    """
    if size > most:
        raise TooLargeError(
            f"a file of {size:,} bytes is too large: at most {most:,} bytes are read at once",
            hint="look at what the file holds, and restore it from a copy if it is not what was written",
            path=path,
        )


def is_temporary(name: str) -> bool:
    """Return whether a file is one that is being written, or that a crash left behind."""
    return _TEMPORARY.fullmatch(name) is not None


class OutputFile(Protocol):
    """A binary file that becomes an object, whole, when it is closed; until then nobody sees anything of it.

    As a context manager it is closed at the end, or aborted where an exception ends the block.
    """

    closed: bool

    def write(self, data: bytes) -> int:
        """Append bytes, and return how many."""

    def tell(self) -> int:
        """Return how many bytes have been written."""

    def close(self) -> None:
        """Make the object visible.

        Raises
        ------
        StorageError
            If the store fails. The object may exist all the same, but must not be used.
        """

    def abort(self) -> None:
        """Discard everything. After `close` this does nothing."""

    def __enter__(self) -> OutputFile:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Storage(Protocol):
    """A store of objects: a directory tree of this machine, or a bucket.

    Every store answers alike: a path that names no object raises `ObjectNotFoundError`; an operation that is not
    allowed raises `AuthenticationError`; any other failure raises `StorageError`, of which both are kinds. On this
    machine, what is no regular file, such as a directory, a device or a named pipe, is never opened, but raises
    `NotAFileError`, a kind of the first. A store is safe to share between threads.
    """

    def get(self, path: str, most: int = MOST_WHOLE) -> bytes:
        """Read a whole object.

        Raises
        ------
        TooLargeError
            If it has more than ``most`` bytes. None of them is read then.
        """

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read some ranges (start, length) of an object.

        What lies past the end of the object is left out: such a range is shorter, or empty.
        """

    def head(self, path: str) -> ObjectMeta:
        """Describe an object."""

    def list_from(self, prefix: str, offset: str = "", *, directories: bool = False) -> Iterator[ObjectMeta]:
        """List the objects directly in a directory whose names are at least ``offset``.

        They come in the order of the code points of their names, and include hidden ones (``.x``, ``_x``). A
        directory that does not exist is empty. Temporary files of this library are not listed, nor are the empty
        objects whose keys end with a slash, by which some tools mark directories. Devices and named pipes are listed,
        so that they are refused when they are read, and not taken for files that are missing.

        Parameters
        ----------
        directories
            List directories of a file system likewise: one that has the name of the newest file must not make an older
            file the newest.
        """

    def directories(self, prefix: str) -> list[str]:
        """List the names of the directories directly in one, in order.

        Raises
        ------
        ObjectNotFoundError
            If there is no such directory. A bucket has those that something lies in.
        """

    def level(self, prefix: str) -> Level:
        """List what is directly in a directory, as `walk` would come by it: its objects and its directories."""

    def walk(
        self,
        prefix: str,
        selects: Callable[[list[str]], Iterable[bool]] | None = None,
        passed_over: Callable[[str], object] | None = None,
        linked: Callable[[str], object] | None = None,
    ) -> Iterator[ObjectMeta]:
        """List all objects below a directory, at any depth, as a stream in no particular order.

        Temporary files that a crash left behind are listed, so that orphan removal finds them. Symbolic links to
        directories are not followed. Empty objects that mark directories are left out.

        Parameters
        ----------
        selects
            Is shown the paths that were found, many at a time, and says of each whether its object is to be listed. A
            disk need not be asked about the others, whose names take a fraction of the time of their sizes.
        passed_over
            Is told of names that could not be listed, beside which others may be missing.
        linked
            Is told of symbolic links to directories, and of those that lead nowhere.
        """

    def has_objects(self, prefix: str) -> bool:
        """Return whether there is any object below a directory, at any depth, without listing them all."""

    def open(self, path: str, size: int | None = None, counters: Counters | None = None) -> pa.NativeFile:
        """Open an object for random access; ``size`` saves a request where it is known."""

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> PutResult:
        """Write an object in one step: it appears whole, or not at all.

        Parameters
        ----------
        path
            The name of the object. Directories are created as needed.
        data
            Its bytes.
        if_absent
            Write only where there is no object of this name. Of all writers that do so at the same time, at most
            one finds its bytes there, provided that `probe_conditional_put` returns True.

        Returns
        -------
        PutResult
            Without ``if_absent``, always ``WRITTEN``. With it:

            - ``WRITTEN``: the object holds ``data``. The request was sent once, and the store confirmed it.
            - ``EXISTS``: the store refused because there is an object of this name. The request was sent once, so the
              object is not ours unless something between us and the store repeats requests. A caller who must know
              reads it back. Where a directory or a broken link has the name of a local file, so that nothing can be
              read back, `StorageError` is raised instead.
            - ``UNKNOWN``: the request was sent, and there is no answer, or one that settles nothing (a timeout, a
              broken connection, 408, 409 other than "it exists", and 5xx other than 501). The write may also land
              later.

        Raises
        ------
        StorageError
            With ``if_absent``: surely nothing was written (refused credentials, a missing bucket, a full disk, a
            server that cannot be reached). Without it: the object holds its old bytes or the new ones.
        UnsupportedFeatureError
            If the store has no conditional put at all.
        """

    def probe_conditional_put(self, directory: str) -> bool:
        """Return whether ``put(..., if_absent=True)`` can be relied upon.

        Some stores ignore the condition and overwrite. The first call for a bucket (or file system) puts one new
        object twice in ``directory``, and deletes it; later calls repeat the answer. Local directories that do not
        exist are not created: the nearest one above is used.

        Raises
        ------
        StorageError
            If the store gives no answer that settles it.
        """

    def open_output(self, path: str) -> OutputFile:
        """Open an object for writing, in parts; it replaces one of this name when it is closed."""

    def strays(self, folder: str, paths: Iterable[str]) -> set[str]:
        """Return which paths below a folder name something that is no file in it.

        Those are links, and directories, and what is in a directory that a link leads to and that is elsewhere. A
        bucket has neither. Paths that name nothing are not among them.
        """

    def delete(self, path: str) -> bool:
        """Delete an object. If there is none, nothing happens.

        Returns
        -------
        bool
            False if there surely was none. A bucket does not tell: the answer to a request that a client repeats is
            about what the first one left.

        Raises
        ------
        StorageError
            If it cannot be deleted, or its bucket does not exist.
        """

    def delete_many(
        self, paths: Iterable[str], deleted: Callable[[str], object] | None = None
    ) -> list[DeletionFailure]:
        """Delete objects, many to a request where the store can, and several requests at a time.

        Every path is settled: it is gone, and nothing is said of it, or it is returned. One that cannot be deleted does
        not keep others from it. Where nothing can be deleted, this ends early: after 1,000 failures in a row, or after
        16 if the store does not answer, fails, is too busy or has no such bucket, the other paths are returned
        untried, all with one error that says so.

        Parameters
        ----------
        paths
            Is read as it is needed, and not kept. Those that are missing do not matter, nor do those that come twice.
        deleted
            Is told of each object that is gone by this call, in the order of the paths, so that it is also known
            after an interruption. Of those that were missing it is told where the store does not say so (`delete`).

        Returns
        -------
        list of DeletionFailure
            The paths that could not be deleted, or of which the store does not say that they are gone, in the order in
            which they were given, each with its error. It is empty if all are gone.
        """
