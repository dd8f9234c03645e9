"""Files of this machine, without obstore: faster, and safe to fork."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa

from deltaberg.errors import ObjectNotFoundError, StorageError
from deltaberg.storage.base import Counters, ObjectMeta

__all__ = ["LocalStorage"]


class LocalStorage:
    """The file system; paths are absolute."""

    def get(self, path: str) -> bytes:
        """Read a whole file."""
        try:
            with open(path, "rb", buffering=0) as file:
                return file.read()
        except (OSError, ValueError) as error:
            raise _translate(error, path) from error

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read some ranges (start, length) of a file."""
        try:
            with open(path, "rb", buffering=0) as file:
                return [_read_at(file.fileno(), start, length) for start, length in ranges]
        except (OSError, ValueError) as error:
            raise _translate(error, path) from error

    def head(self, path: str) -> ObjectMeta:
        """Describe a file."""
        try:
            found = os.stat(path)
        except (OSError, ValueError) as error:
            raise _translate(error, path) from error
        return _meta(path, found)

    def list_from(self, prefix: str, offset: str = "") -> Iterator[ObjectMeta]:
        """List the files directly in a directory, from a name on."""
        try:
            with os.scandir(prefix) as entries:
                names = sorted(entry.name for entry in entries if entry.name >= offset)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _translate(error, prefix) from error
        for name in names:
            path = os.path.join(prefix, name)
            try:
                found = os.stat(path)
            except FileNotFoundError:
                continue  # Deleted since the directory was read.
            except OSError as error:
                raise _translate(error, path) from error
            if os.path.isfile(path):
                yield _meta(path, found)

    def directories(self, prefix: str) -> list[str]:
        """List the names of the directories directly in one."""
        try:
            with os.scandir(prefix) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (OSError, ValueError) as error:
            raise _translate(error, prefix) from error

    def has_objects(self, prefix: str) -> bool:
        """Say whether there is anything in a directory."""
        return next(iter(self.list_from(prefix)), None) is not None

    def open(self, path: str, size: int | None = None, counters: Counters | None = None) -> pa.NativeFile:  # noqa: ARG002
        """Open a file for random access."""
        try:
            file = pa.OSFile(path, "rb")
        except (OSError, ValueError) as error:
            raise _translate(error, path) from error
        if counters is not None:
            counters.add(1, 0)
        return file

    def put(self, path: str, data: bytes, *, overwrite: bool = False) -> bool:
        """Write a file in one step: it appears whole, or not at all."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            os.makedirs(directory, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                if overwrite:
                    os.replace(temporary, path)
                    return True
                # A link fails where the name exists, which a rename does not.
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                if os.path.exists(temporary):
                    os.unlink(temporary)
        except (OSError, ValueError) as error:
            raise _translate(error, path) from error
        return True

    def delete(self, path: str) -> None:
        """Delete a file."""
        try:
            os.unlink(path)
        except (OSError, ValueError) as error:
            raise _translate(error, path) from error


def _meta(path: str, found: os.stat_result) -> ObjectMeta:
    return ObjectMeta(path, found.st_size, found.st_mtime_ns // 1_000_000, str(found.st_ino))


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    # Memory for all that is asked is taken at once: a length that lies must not ask for more than there is.
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


def _translate(error: OSError | ValueError, path: str) -> StorageError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return ObjectNotFoundError("there is no such file", path=path)
    # A name that no file can have, such as one with a NUL, is a ValueError.
    reason = error.strerror if isinstance(error, OSError) else None
    return StorageError(f"the file cannot be used: {reason or error}", path=path)
