"""Encrypted files, which are not supported (Parquet spec, "Modular Encryption"; Iceberg spec, "AES GCM Stream")."""

from __future__ import annotations

import pyarrow as pa

from deltaberg.errors import UnsupportedFeatureError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec

__all__ = ["encrypted_file", "has_encrypted_columns", "is_encrypted"]

_STREAM_MAGIC = b"AGS1"
_PARQUET_MAGIC = b"PARE"
_MAGIC_BYTES = 4
#: A footer length and the magic bytes end a Parquet file.
_TAIL_BYTES = 8
#: A nonce and a tag sign a footer that is not encrypted itself.
_SIGNATURE_BYTES = 28


def is_encrypted(location: Location, store: StoreSpec, size: int | None = None) -> bool:
    """Return whether the magic bytes of a file that could not be read say that it is encrypted."""
    place = store.open(location)
    last = (place.head(location.path).size if size is None else size) - _MAGIC_BYTES
    if last < 0:
        return False
    first, end = place.get_ranges(location.path, [(0, _MAGIC_BYTES), (last, _MAGIC_BYTES)])
    return first == _STREAM_MAGIC or end == _PARQUET_MAGIC


def has_encrypted_columns(file: pa.NativeFile, footer_size: int) -> bool:
    """Return whether a Parquet file encrypts columns and signs its footer, which is readable.

    To look at the metadata of such a column would end the process: pyarrow does not catch the exception of its library.

    Parameters
    ----------
    footer_size
        How many bytes of the footer describe the file.
    """
    tail = file.read_at(_TAIL_BYTES, file.size() - _TAIL_BYTES)
    return int.from_bytes(tail[:_MAGIC_BYTES], "little") == footer_size + _SIGNATURE_BYTES


def encrypted_file(what: str) -> UnsupportedFeatureError:
    """Return the error for a file that is encrypted."""
    return UnsupportedFeatureError(f"{what} is encrypted", hint="encrypted files cannot be read", feature="encryption")
