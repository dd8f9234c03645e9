"""The rows that delete files of Iceberg tables delete, read without the code under test."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

__all__ = ["deleted_positions"]

_MAGIC = b"\xd1\xd3\x39\x64"
_POSITIONS = 1

#: An entry of a data file or delete file, and its sequence number.
_Numbered = tuple[Mapping[str, Any], int]


def deleted_positions(
    data: Mapping[str, _Numbered],
    deletes: Mapping[str, _Numbered],
    read: Callable[[str], bytes],
    say: Callable[[str], None],
) -> dict[str, set[int]]:
    """Return the positions of the rows of data files that vectors and Parquet files of positions delete.

    Parameters
    ----------
    data, deletes
        The files of a snapshot; data files by their paths.
    read
        Reads a file by its recorded path.
    say
        Records what is wrong.
    """
    vectors: dict[str, tuple[int, BitMap64]] = {}
    positions: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for file, number in deletes.values():
        if file["file_format"].lower() == "puffin":
            vectors[file["referenced_data_file"]] = (number, _vector(file, read(file["file_path"]), say))
        elif file["content"] == _POSITIONS and file["file_format"].lower() == "parquet":
            table = pq.ParquetFile(pa.BufferReader(read(file["file_path"]))).read()
            pairs = list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True))
            if len(pairs) != file["record_count"] or pairs != sorted(pairs):
                say(f"has rows in {file['file_path']} that are not sorted, or not {file['record_count']}")
            for path, position in pairs:
                positions[path].append((number, position))
    found = {}
    for path, (_, begun) in data.items():
        if path in vectors:
            # It has taken in what other files delete.
            since, bitmap = vectors[path]
            if since < begun:
                say(f"has a vector of {path} that is older than the file")
            found[path] = set(bitmap)
        else:
            found[path] = {position for since, position in positions[path] if since >= begun}
    return found


def _vector(file: Mapping[str, Any], data: bytes, say: Callable[[str], None]) -> BitMap64:
    offset = file["content_offset"]
    blob = data[offset : offset + file["content_size_in_bytes"]]
    length, body = int.from_bytes(blob[:4], "big"), blob[4:-4]
    if len(body) != length or body[:4] != _MAGIC or zlib.crc32(body) != int.from_bytes(blob[-4:], "big"):
        say(f"has a damaged vector in {file['file_path']}")
        return BitMap64()
    bitmap = BitMap64.deserialize(body[4:])
    if len(bitmap) != file["record_count"]:
        say(f"counts {file['record_count']} rows in a vector of {len(bitmap)}")
    return bitmap
