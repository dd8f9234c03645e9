"""UUIDs, which are 16 bytes, and their texts of 36 characters."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.hints import shown_value

__all__ = ["text_of_uuids", "uuid_of", "uuids_of_text"]

_BYTES = 16
#: The ends of the groups of hexadecimal digits.
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
_TEXT = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\z"
_ZERO = "0" * 32


def uuid_of(value: object) -> uuid.UUID:
    """Return the UUID that a UUID, its text or its 16 bytes stand for.

    Raises
    ------
    ValueError
        It is none of them.

    Examples
    --------
    >>> str(uuid_of(bytes(16)))
    '00000000-0000-0000-0000-000000000000'
    """
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, str):
        return uuid.UUID(value.strip())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return uuid.UUID(bytes=bytes(value))
    raise ValueError(f"{shown_value(value)} is not a UUID")


def text_of_uuids(array: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Return UUIDs as text of 36 characters, with digits in lower case.

    Examples
    --------
    >>> text_of_uuids(pa.array([bytes(range(16)), None], pa.binary(16))).to_pylist()
    ['00010203-0405-0607-0809-0a0b0c0d0e0f', None]
    """
    if not len(array):
        return pa.array([], pa.string())
    data = array.buffers()[1].slice(_BYTES * array.offset, _BYTES * len(array)).to_pybytes().hex().encode()
    digits = pa.Array.from_buffers(pa.binary(32), len(array), [None, pa.py_buffer(data)]).cast(pa.binary())
    parts = [pc.binary_slice(digits, first, last).cast(pa.string()) for first, last in _GROUPS]
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise(*parts, "-"), pa.scalar(None, pa.string()))


def uuids_of_text(texts: pa.Array) -> pa.FixedSizeBinaryArray:
    """Return the UUIDs of texts of 36 characters, with digits in either case. Any other text becomes null.

    Examples
    --------
    >>> uuids_of_text(pa.array(["00010203-0405-0607-0809-0A0B0C0D0E0F", "7"])).to_pylist()[1:]
    [None]
    """
    fits = pc.match_substring_regex(texts, _TEXT).fill_null(fill_value=False)
    digits = pc.replace_substring(texts, "-", "")
    digits = pc.if_else(fits, digits, pa.scalar(_ZERO, digits.type))
    data = bytes.fromhex("".join(digits.to_pylist()))
    found = pa.Array.from_buffers(pa.binary(_BYTES), len(texts), [None, pa.py_buffer(data)])
    return pc.if_else(fits, found, pa.scalar(None, found.type))
