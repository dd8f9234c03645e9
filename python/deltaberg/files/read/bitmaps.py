"""Loads bitmaps of row positions, and turns them into masks."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import CorruptDeletionVectorError, DataFileNotFoundError, DeltabergError, ObjectNotFoundError
from deltaberg.files.formats.encryption import encrypted_file, is_encrypted
from deltaberg.files.read.deletes import position_deletes
from deltaberg.files.read.task import BitmapRef, DeleteFile, FileTask
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.storage.stores import StoreSpec

__all__ = ["RowSelection", "deletion_bitmaps", "load_bitmap"]

_LENGTH_BYTES = 4
_CHECKSUM_BYTES = 4
_Z85_GROUP = 4
_FILE_VERSION = b"\x01"
#: The most bytes of a bitmap: one of 2^31 rows has a bit for each, and 16 bytes at most for each 65,536 of them.
_MOST_BYTES = (1 << 28) + (1 << 19)


def load_bitmap(
    ref: BitmapRef, store: StoreSpec, check_cardinality: bool = False, file_rows: int | None = None
) -> bytes:
    """Load a bitmap, check it, and return it in the portable format.

    Parameters
    ----------
    check_cardinality
        Refuse a bitmap that has another number of positions than recorded.
    file_rows
        How many rows the data file has, if the bitmap must not have more: a few bytes can name billions of them.

    Raises
    ------
    CorruptDeletionVectorError
        If the bitmap is damaged, missing, or not of the recorded size, or has a number of positions that it must not
        have.
    UnsupportedFeatureError
        If its file is encrypted.
    """
    try:
        framed = _framed(ref, store)
        bitmap, cardinality = kernels.unframe_bitmap(framed, ref.framing)
    except DeltabergError as error:
        if ref.framing == "puffin" and isinstance(error, CorruptDeletionVectorError) and _is_encrypted(ref, store):
            error = encrypted_file("the deletion vector")
        raise error.with_context(deletion_vector=ref.location or "inline", offset=ref.offset) from None
    if check_cardinality and cardinality != ref.cardinality:
        raise CorruptDeletionVectorError(
            f"the deletion vector has {cardinality} rows, but its descriptor says {ref.cardinality}",
            deletion_vector=ref.location or "inline",
        )
    if file_rows is not None and cardinality > file_rows:
        raise CorruptDeletionVectorError(
            f"the deletion vector has {cardinality} rows, but its file has {file_rows}",
            deletion_vector=ref.location or "inline",
        )
    return bitmap


def _is_encrypted(ref: BitmapRef, store: StoreSpec) -> bool:
    return ref.location is not None and is_encrypted(parse_location(ref.location), store)


def _framed(ref: BitmapRef, store: StoreSpec) -> bytes:
    if ref.inline is not None:
        # Z85 encodes groups of 4 bytes; writers pad the last one.
        if not 0 <= len(ref.inline) - ref.size < _Z85_GROUP:
            raise CorruptDeletionVectorError(
                f"an inline deletion vector has {len(ref.inline)} bytes, but its descriptor says {ref.size}"
            )
        return ref.inline[: ref.size]
    if ref.size < 0 or ref.offset is None or ref.offset < 0 or ref.location is None:
        raise CorruptDeletionVectorError(
            f"a deletion vector cannot be at offset {ref.offset} and have {ref.size} bytes"
        )
    if ref.size > _MOST_BYTES:
        raise CorruptDeletionVectorError(
            f"a deletion vector has {ref.size:,} bytes, and no file has rows for more than {_MOST_BYTES:,}"
        )
    location = parse_location(ref.location)
    whole = _LENGTH_BYTES + ref.size + _CHECKSUM_BYTES
    ranges = [(0, 1), (ref.offset, whole)] if ref.offset and ref.framing == "delta-file" else [(ref.offset, whole)]
    try:
        *version, framed = store.open(location).get_ranges(location.path, ranges)
    except ObjectNotFoundError as error:
        raise DataFileNotFoundError(
            "the file of a deletion vector is gone: vacuumed, or left behind when the table was moved",
            hint="open the newest version, or restore the file",
        ) from error
    if version and version[0] != _FILE_VERSION:
        found = version[0].hex() or "nothing"
        raise CorruptDeletionVectorError(
            f"a deletion vector file begins with {found}; only format version 1 is supported"
        )
    if len(framed) != whole:
        raise CorruptDeletionVectorError(f"the file ends {whole - len(framed)} bytes before its deletion vector does")
    return framed


class RowSelection:
    """Which rows of a file are wanted, by physical position."""

    def __init__(self, task: FileTask, store: StoreSpec, resolver: PathResolver | None = None) -> None:
        self._deleted = _bitmaps(task.deletion_vector, task.delete_files, task, store, resolver)
        self._only = _bitmaps(task.only_in_vector, task.only_in_delete_files, task, store, resolver)

    def kept(self, start: int, rows: int) -> pa.BooleanArray | None:
        """Return a mask of the rows that are not deleted from position ``start`` on; None if none is deleted."""
        mask = None
        for bitmap in self._deleted:
            kept = kernels.keep_mask(bitmap, start, rows)
            mask = kept if mask is None else pc.and_(mask, kept)
        return mask

    def only(self, start: int, rows: int) -> pa.BooleanArray | None:
        """Return a mask of the rows that alone are wanted, by their positions; None if no positions name any."""
        mask = None
        for bitmap in self._only:
            named = pc.invert(kernels.keep_mask(bitmap, start, rows))
            mask = named if mask is None else pc.or_(mask, named)
        return mask


def deletion_bitmaps(task: FileTask, store: StoreSpec, resolver: PathResolver | None = None) -> list[bytes]:
    """Return the positions that the deletion vector and the position delete files of a file delete in it.

    They are for those who make new vectors of them.

    Raises
    ------
    CorruptDeletionVectorError, CorruptDataFileError, DataFileNotFoundError
        If one of them is damaged or missing, or the vector has not as many rows as recorded, or more than the file.
    """
    return _bitmaps(task.deletion_vector, task.delete_files, task, store, resolver, is_counted=True)


def _bitmaps(
    vector: BitmapRef | None,
    files: Sequence[DeleteFile],
    task: FileTask,
    store: StoreSpec,
    resolver: PathResolver | None,
    *,
    is_counted: bool = False,
) -> list[bytes]:
    """Load the positions that a deletion vector and position delete files name."""
    rows = task.record_count if is_counted else None
    found = [] if vector is None else [load_bitmap(vector, store, is_counted, rows)]
    named = position_deletes(files, task, store, resolver)
    return found if named is None else [*found, named]
