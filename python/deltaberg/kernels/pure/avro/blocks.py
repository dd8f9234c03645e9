"""Finding the blocks of an Avro file."""

from __future__ import annotations

from deltaberg.errors import CorruptAvroError
from deltaberg.kernels.pure.avro.cursor import Cursor

__all__ = ["find_blocks"]


def find_blocks(data: bytes, start: int, sync: bytes) -> list[tuple[int, int, int]]:
    """Return the blocks of an Avro file that have rows: the offset and the size of their data, and their rows.

    Parameters
    ----------
    data
        The file.
    start
        Where its header ends.
    sync
        The marker after each block.
    """
    if start > len(data):
        raise _cut_off()
    cursor = Cursor(data)
    cursor.at = start
    blocks: list[tuple[int, int, int]] = []
    while cursor.at != len(data):
        number = str(len(blocks))
        rows, size = _length(cursor, number), _length(cursor, number)
        at = cursor.at
        cursor.at = at + size
        if cursor.at + len(sync) > len(data):
            raise _cut_off()
        if cursor.take(len(sync)) != sync:
            raise CorruptAvroError("a block of the Avro file does not end with its marker", block=number)
        if rows:
            blocks.append((at, size, rows))
    return blocks


def _length(cursor: Cursor, number: str) -> int:
    try:
        length = cursor.long()
    except CorruptAvroError as error:
        raise error.with_context(block=number) from None
    if length < 0:
        raise CorruptAvroError("a block of the Avro file has a negative length", block=number)
    return length


def _cut_off() -> CorruptAvroError:
    return CorruptAvroError("the Avro file is cut off")
