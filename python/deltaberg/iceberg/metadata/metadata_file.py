"""Metadata files: bytes, plain or compressed by gzip, that hold table metadata as JSON."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any

from deltaberg.errors import CorruptMetadataError, DeltabergError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.schema.json_members import members, optional
from deltaberg.lossless_json import read_json

__all__ = ["MOST_BYTES", "belongs_to", "read_metadata"]

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: The most bytes of a metadata file, also when it is decompressed.
MOST_BYTES = 1 << 28
#: What every compressed file may expand to, in bytes, and how many times its size a larger one may: a few kilobytes can
#: stand for gigabytes, and JSON takes many times its bytes in memory.
_EXPANDED, _MOST_TIMES = 1 << 22, 64
_CHUNK = 1 << 20
_WHAT = "the table metadata"


def read_metadata(data: bytes) -> TableMetadata:
    """Read a metadata file, plain or compressed by gzip.

    Raises
    ------
    CorruptMetadataError
        If it is not a metadata file, or breaks a rule of its format version.
    UnsupportedFeatureError
        If its format version or its compression is not supported.
    """
    return metadata_of_json(_parsed(data))


def belongs_to(data: bytes, table: TableMetadata) -> bool:
    """Return whether a metadata file is one of a table, without reading all of it.

    Raises
    ------
    CorruptMetadataError
        If it is not a metadata file.
    UnsupportedFeatureError
        If its compression is not supported.
    """
    found = members(_parsed(data), _WHAT)
    number = optional(found, "table-uuid", str, _WHAT)
    if number is None or table.table_uuid is None:
        # Tables of the first version need no id.
        return bool(number == table.table_uuid and optional(found, "location", str, _WHAT) == table.location)
    return str(number).lower() == table.table_uuid.lower()


def _parsed(data: bytes) -> Any:
    try:
        return read_json(_plain(data).decode("utf-8-sig"), plain=True)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DeltabergError):
            raise
        raise CorruptMetadataError(f"{_WHAT} is not JSON: {error}") from None


def _plain(data: bytes) -> bytes:
    if data.startswith(_GZIP_MAGIC):
        plain, most = io.BytesIO(), min(max(_EXPANDED, _MOST_TIMES * len(data)), MOST_BYTES)
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                while plain.tell() <= most and (part := stream.read(_CHUNK)):
                    plain.write(part)
        except (EOFError, OSError, zlib.error) as error:
            raise CorruptMetadataError(f"{_WHAT} cannot be decompressed: {error}") from None
        if plain.tell() > most:
            raise CorruptMetadataError(f"{_WHAT} has more than {most >> 20} MiB when decompressed")
        return plain.getvalue()
    if data.startswith(_ZSTD_MAGIC):
        raise UnsupportedFeatureError(
            f"{_WHAT} is compressed by zstd", hint="metadata files are plain or compressed by gzip", feature="zstd"
        )
    return data
