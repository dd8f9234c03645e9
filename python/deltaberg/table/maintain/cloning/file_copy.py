"""The copy of one file: by the store itself where it holds both places, else as a stream of bounded memory."""

from __future__ import annotations

from typing import NamedTuple

from deltaberg.errors import CorruptTableError, DataFileNotFoundError, ObjectNotFoundError, StorageError
from deltaberg.storage.location import Location, parse_location
from deltaberg.storage.remote import RemoteStorage
from deltaberg.storage.stores import StoreSpec

__all__ = ["FileCopy", "copy_file"]

#: Bytes that are read at a time.
_PIECE = 8 << 20
#: S3 copies no larger object in one request.
_MOST_IN_STORE = 5 << 30


class FileCopy(NamedTuple):
    """A copy that is to be made.

    Parameters
    ----------
    source, target
        The locations as text.
    size
        The bytes of the file as the metadata records them; None where it does not.
    """

    source: str
    target: str
    size: int | None


def copy_file(store: StoreSpec, target_store: StoreSpec, copy: FileCopy) -> int:
    """Make a copy, and return its size.

    Raises
    ------
    DataFileNotFoundError
        The file is gone.
    CorruptTableError
        The file has another size than the metadata says.
    StorageError
        A store fails.
    """
    try:
        return copy_object(
            store, parse_location(copy.source), target_store, parse_location(copy.target), expected=copy.size
        )
    except ObjectNotFoundError as error:
        raise DataFileNotFoundError(
            "a file that the table names is gone",
            hint="call ⟪verify()⟫ of the table, which says what it has lost",
            path=copy.source,
        ) from error


def copy_object(
    store: StoreSpec, source: Location, target_store: StoreSpec, target: Location, expected: int | None = None
) -> int:
    """Copy an object, which appears whole, and return how many bytes it has.

    Parameters
    ----------
    store, target_store
        What opens the stores of the two places.
    expected
        How many bytes it must have; None if nobody knows.

    Raises
    ------
    ObjectNotFoundError
        There is no such object.
    CorruptTableError
        It has another size than is expected. Nothing is copied.
    StorageError
        A store fails, or the object changes while it is read.
    """
    storage, output_storage = store.open(source), target_store.open(target)
    size = storage.head(source.path).size
    if expected is not None and size != expected:
        raise CorruptTableError(
            f"the file has {size:,} bytes, and the table says {expected:,}",
            hint="call ⟪verify()⟫ of the table, which says what else is wrong",
            path=str(source),
        )
    # Clients are kept: there is one for each bucket and its options.
    if isinstance(storage, RemoteStorage) and storage is output_storage and size <= _MOST_IN_STORE:
        storage.copy(source.path, target.path)
        return size
    with storage.open(source.path, size) as file, output_storage.open_output(target.path) as output:
        while piece := file.read(_PIECE):
            output.write(piece)
        if output.tell() != size:
            raise StorageError(
                f"the file has {output.tell():,} bytes, and had {size:,} when the copy began", path=str(source)
            )
    return size
