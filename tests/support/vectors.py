"""Deletion vectors and their text, made without the code under test: pyroaring writes the bitmaps."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from pyroaring import BitMap64

__all__ = ["bitmap_bytes", "dv_file", "full_bitmap", "relative_descriptor", "vector_file", "z85", "z85_bytes"]

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377


def z85(data: bytes) -> str:
    """Encode bytes as Z85 text, padded to a multiple of 4 of them as the protocol says."""
    data += bytes(-len(data) % 4)
    text = ""
    for (word,) in struct.iter_unpack(">I", data):
        text += "".join(_ALPHABET[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def z85_bytes(text: str) -> bytes:
    """Decode Z85 text."""
    words = []
    for at in range(0, len(text), 5):
        word = 0
        for letter in text[at : at + 5]:
            word = 85 * word + _ALPHABET.index(letter)
        words.append(struct.pack(">I", word))
    return b"".join(words)


def vector_file(descriptor: Mapping[str, Any]) -> str:
    """Return the path of the file that a descriptor names by a UUID, below the table."""
    text = descriptor["pathOrInlineDv"]
    name = f"deletion_vector_{uuid.UUID(bytes=z85_bytes(text[-20:]))}.bin"
    return f"{text[:-20]}/{name}" if text[:-20] else name


def bitmap_bytes(positions: Iterable[int]) -> bytes:
    """Return the serialized vector: magic number and portable 64-bit Roaring bitmap."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    return struct.pack("<I", _MAGIC) + bytes(bitmap.serialize())


def full_bitmap(first: int = 0) -> bytes:
    """Return a portable bitmap of the positions below 2^32 from one on, in less than a megabyte of runs."""
    count = 1 << 16
    head = struct.pack("<I", 12347 | (count - 1) << 16) + b"\xff" * (count // 8)
    keys = b"".join(struct.pack("<HH", key, 0xFFFF - (0 if key else first)) for key in range(count))
    body = len(head) + 8 * count
    offsets = b"".join(struct.pack("<I", body + 6 * number) for number in range(count))
    runs = struct.pack("<HHH", 1, first, 0xFFFF - first) + struct.pack("<HHH", 1, 0, 0xFFFF) * (count - 1)
    return struct.pack("<QI", 1, 0) + head + keys + offsets + runs


def dv_file(vectors: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """Return the bytes of a deletion vector file, and the offset of each vector in it."""
    data = b"\x01"
    offsets = []
    for vector in vectors:
        offsets.append(len(data))
        data += struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    return data, offsets


def relative_descriptor(identity: uuid.UUID, prefix: str = "") -> str:
    """Return the ``pathOrInlineDv`` of a vector in a file named by a UUID."""
    return prefix + z85(identity.bytes)
