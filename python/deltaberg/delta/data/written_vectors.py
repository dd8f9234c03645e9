"""Writing deletion vectors, several to a file.

Delta protocol, "Deletion Vectors", "Deletion Vector Format". The protocol lets the log hold small ones itself. None is
written so: the ``VACUUM`` of delta-spark fails on a table whose log holds one.
"""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa

from deltaberg import kernels
from deltaberg.storage.base import OutputFile, Storage
from deltaberg.storage.location import Location
from deltaberg.table.removal import WRITTEN_FILE, discard_files

__all__ = ["VectorWriter"]

_FORMAT_VERSION = b"\x01"
#: Bytes of a file after which another one is begun. Offsets have 31 bits.
_FILE = 64 << 20
#: The length before a vector in a file, and the checksum behind it, which do not count as its size.
_LENGTH_AND_CHECKSUM = 8


class VectorWriter:
    """Writes the deletion vectors of one operation.

    Parameters
    ----------
    store
        Where the table is.
    root
        The directory of the table.

    Examples
    --------
    >>> import tempfile
    >>> from deltaberg.storage.stores import open_store
    >>> from deltaberg.storage.location import parse_location
    >>> root = parse_location(tempfile.mkdtemp())
    >>> with VectorWriter(open_store(root), root) as writer:
    ...     descriptor = writer.add(pa.array([3, 4, 7, 11, 18, 29], pa.uint64()))
    >>> descriptor["storageType"], descriptor["sizeInBytes"], descriptor["cardinality"]
    ('u', 44, 6)
    """

    def __init__(self, store: Storage, root: Location) -> None:
        self._store = store
        self._root = root
        self._output: OutputFile | None = None
        self._name = ""
        self._encoded_id = ""
        #: The files that were begun, relative to the table.
        self.paths: list[str] = []

    def add(self, positions: pa.UInt64Array) -> dict[str, Any]:
        """Write a vector, and return its descriptor as the log records it.

        Parameters
        ----------
        positions
            The physical positions of the deleted rows, ascending. They include those of the vector before.

        Raises
        ------
        StorageError
            If the store fails.
        """
        body = kernels.encode_bitmap(positions, "delta-file")
        output = self._open(len(body))
        offset = output.tell()
        output.write(body)
        return {
            "storageType": "u",
            "pathOrInlineDv": self._encoded_id,
            "offset": offset,
            "sizeInBytes": len(body) - _LENGTH_AND_CHECKSUM,
            "cardinality": len(positions),
        }

    def _open(self, size: int) -> OutputFile:
        if self._output is not None and self._output.tell() + size > _FILE:
            self.close()
        if self._output is None:
            identity = uuid.uuid4()
            self._encoded_id = kernels.z85_encode(identity.bytes)
            name = f"deletion_vector_{identity}.bin"
            self.paths.append(name)
            self._output = self._store.open_output(self._root.join(name).path)
            self._output.write(_FORMAT_VERSION)
        return self._output

    def close(self) -> None:
        """Finish the file that is being written.

        Raises
        ------
        StorageError
            If the store fails.
        """
        if self._output is not None:
            self._output.close()
            self._output = None

    def discard(self) -> None:
        """Delete what was written, as far as the store allows it."""
        if self._output is not None:
            self._output.abort()
            self._output = None
        paths = (self._root.join(name).path for name in self.paths)
        discard_files(self._store, self._root.path, paths, WRITTEN_FILE)

    def __enter__(self) -> VectorWriter:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        except BaseException:
            # The file may be there already: its name is given before the directory is synced.
            self.discard()
            raise
        if kind is not None:
            self.discard()
