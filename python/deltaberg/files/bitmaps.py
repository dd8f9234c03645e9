"""Bitmaps of row positions, loaded and turned into masks."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import CorruptDeletionVectorError, DataFileNotFoundError, DeltabergError, ObjectNotFoundError
from deltaberg.files.deletes import position_deletes
from deltaberg.files.task import BitmapRef, FileTask
from deltaberg.storage import PathResolver, StoreSpec, parse_location

__all__ = ["RowSelection", "load_bitmap"]

_LENGTH_BYTES = 4
_CHECKSUM_BYTES = 4
_Z85_GROUP = 4
_FILE_VERSION = b"\x01"


def load_bitmap(ref: BitmapRef, store: StoreSpec, check_cardinality: bool = False) -> bytes:
    """Load a bitmap and give it in the portable format, checked.

    Raises
    ------
    CorruptDeletionVectorError
        Where the bitmap is damaged, missing, or not of the recorded size; with ``check_cardinality`` also where
        it does not hold the recorded number of positions.
    """
    try:
        framed = _framed(ref, store)
        bitmap, cardinality = kernels.unframe_bitmap(framed, ref.framing)
    except DeltabergError as error:
        raise error.with_context(deletion_vector=ref.location or "inline", offset=ref.offset) from None
    if check_cardinality and cardinality != ref.cardinality:
        raise CorruptDeletionVectorError(
            f"the deletion vector holds {cardinality} rows, its descriptor says {ref.cardinality}",
            deletion_vector=ref.location or "inline",
        )
    return bitmap


def _framed(ref: BitmapRef, store: StoreSpec) -> bytes:
    if ref.inline is not None:
        # Z85 holds groups of 4 bytes: a writer pads the last one.
        if not 0 <= len(ref.inline) - ref.size < _Z85_GROUP:
            raise CorruptDeletionVectorError(
                f"an inline deletion vector has {len(ref.inline)} bytes, its descriptor says {ref.size}"
            )
        return ref.inline[: ref.size]
    if ref.size < 0 or ref.offset is None or ref.offset < 0 or ref.location is None:
        raise CorruptDeletionVectorError(f"a deletion vector cannot lie at {ref.offset} with {ref.size} bytes")
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
        raise CorruptDeletionVectorError(f"a deletion vector file begins with {found}; format version 1 is known")
    if len(framed) != whole:
        raise CorruptDeletionVectorError(f"the file ends {whole - len(framed)} bytes before its deletion vector does")
    return framed


class RowSelection:
    """Which rows of a file are wanted, by physical position."""

    def __init__(self, task: FileTask, store: StoreSpec, resolver: PathResolver | None = None) -> None:
        self._excluded = [] if task.exclude is None else [load_bitmap(task.exclude, store)]
        deleted = position_deletes(task.deletes, task, store, resolver)
        if deleted is not None:
            self._excluded.append(deleted)
        self._included = [] if task.include is None else [load_bitmap(task.include, store)]
        wanted = position_deletes(task.included, task, store, resolver)
        if wanted is not None:
            self._included.append(wanted)

    def mask(self, start: int, rows: int) -> pa.BooleanArray | None:
        """Give a mask of the rows that are not deleted from position ``start`` on; None where none is."""
        mask = None
        for bitmap in self._excluded:
            kept = kernels.keep_mask(bitmap, start, rows)
            mask = kept if mask is None else pc.and_(mask, kept)
        return mask

    def included(self, start: int, rows: int) -> pa.BooleanArray | None:
        """Give a mask of the rows that are named as wanted; None where no positions name any."""
        mask = None
        for bitmap in self._included:
            named = pc.invert(kernels.keep_mask(bitmap, start, rows))
            mask = named if mask is None else pc.or_(mask, named)
        return mask
