"""Reading Avro's binary encoding from a block, never past its end."""

from __future__ import annotations

from math import inf

from deltaberg.errors import CorruptAvroError, TooLargeError

__all__ = ["Cursor"]


class Cursor:
    """The bytes of a block that are still to be read, and the memory that values may still take.

    ``room`` is a number of bytes; infinity for any number.
    """

    def __init__(self, raw: bytes, room: float = inf) -> None:
        self.raw = raw
        self.at = 0
        self.room = room

    def spend(self, size: float) -> None:
        """Take memory for values before they are read."""
        self.room -= size
        if self.room < 0:
            raise TooLargeError("the values of an Avro file take far more memory than the file has bytes")

    def long(self) -> int:
        """Read a zigzag varint of up to 64 bits."""
        raw, at = self.raw, self.at
        value = shift = 0
        while True:
            if at >= len(raw):
                raise _ends()
            byte = raw[at]
            at += 1
            if shift == 63 and byte > 1:
                raise CorruptAvroError("an integer has more than 64 bits")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        self.at = at
        return value >> 1 ^ -(value & 1)

    def take(self, length: int) -> bytes:
        """Read ``length`` bytes."""
        end = self.at + length
        if end > len(self.raw):
            raise _ends()
        taken = self.raw[self.at : end]
        self.at = end
        return taken

    def prefixed(self) -> bytes:
        """Read bytes that their length precedes."""
        length = self.long()
        if length < 0:
            raise CorruptAvroError("a length is negative")
        return self.take(length)

    def kept(self) -> bytes:
        """Read bytes that their length precedes, and that will be kept."""
        found = self.prefixed()
        self.spend(len(found))
        return found

    def boolean(self) -> bool:
        """Read a byte that is 0 or 1."""
        (byte,) = self.take(1)
        if byte > 1:
            raise CorruptAvroError("a boolean is neither 0 nor 1")
        return byte == 1

    def items(self, least: int) -> tuple[int, int | None] | None:
        """Read how many items come next and, if the writer recorded it, their size in bytes; None at the end."""
        count = self.long()
        if not count:
            return None
        size = None
        if count < 0:
            count, size = -count, self.long()
            if size < 0:
                raise CorruptAvroError("a length is negative")
        if count * least > len(self.raw) - self.at:
            raise _ends()
        return count, size

    def end(self) -> None:
        """Refuse bytes after the last row."""
        if self.at != len(self.raw):
            raise CorruptAvroError(f"{len(self.raw) - self.at} bytes follow the last row of a block")


def _ends() -> CorruptAvroError:
    return CorruptAvroError("the block ends inside a value")
