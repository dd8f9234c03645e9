"""The rows that delete files of Iceberg tables delete, read without the code under test."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

__all__ = ["deleted_positions"]

_MAGIC = b"\xd1\xd3\x39\x64"
_KEYS = 2

#: An entry of a data file or delete file, and its sequence number.
_Numbered = tuple[Mapping[str, Any], int]
#: The ids of fields, and values of these fields.
_Ids = tuple[int, ...]
_Rows = set[tuple[Any, ...]]
#: A file of keys: its sequence number and partition, the fields that it compares, and their values.
_Keys = tuple[int, Mapping[str, Any], _Ids, _Rows]


class _Deletes(NamedTuple):
    """What delete files say: vectors by data file, positions by data file, and keys."""

    vectors: dict[str, tuple[int, BitMap64]]
    positions: dict[str, list[tuple[int, int]]]
    keys: list[_Keys]

    def take(
        self,
        file: Mapping[str, Any],
        number: int,
        read: Callable[[str], bytes],
        values: Callable[[str, _Ids], list[tuple[Any, ...]]],
        say: Callable[[str], None],
    ) -> None:
        """Read a delete file."""
        if file["file_format"].lower() == "puffin":
            self.vectors[file["referenced_data_file"]] = (number, _vector(file, read(file["file_path"]), say))
        elif file["file_format"].lower() != "parquet":
            # The keys and positions in files of other formats are not known here.
            return
        elif file["content"] == _KEYS:
            ids = tuple(file["equality_ids"])
            self.keys.append((number, file["partition"], ids, set(values(file["file_path"], ids))))
        else:
            table = pq.ParquetFile(pa.BufferReader(read(file["file_path"]))).read()
            pairs = list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True))
            if len(pairs) != file["record_count"] or pairs != sorted(pairs):
                say(f"has rows in {file['file_path']} that are not sorted, or not {file['record_count']}")
            for path, position in pairs:
                self.positions[path].append((number, position))


def deleted_positions(
    data: Mapping[str, _Numbered],
    deletes: Mapping[str, _Numbered],
    read: Callable[[str], bytes],
    values: Callable[[str, tuple[int, ...]], list[tuple[Any, ...]]],
    say: Callable[[str], None],
) -> dict[str, set[int]]:
    """Return the positions of the rows of data files that vectors and Parquet files of positions and keys delete.

    Parameters
    ----------
    data, deletes
        The files of a snapshot; data files by their paths.
    read
        Reads a file by its recorded path.
    values
        Reads fields of a Parquet file by their ids, a tuple for each row.
    say
        Records what is wrong.
    """
    deleting = _Deletes({}, defaultdict(list), [])
    for file, number in deletes.values():
        deleting.take(file, number, read, values, say)
    vectors, positions, keys = deleting
    deleted = {}
    for path, (file, begun) in data.items():
        if path in vectors:
            # It has taken in what other files delete.
            since, bitmap = vectors[path]
            if since < begun:
                say(f"has a vector of {path} that is older than the file")
            deleted[path] = set(bitmap)
        else:
            deleted[path] = {position for since, position in positions.get(path, ()) if since >= begun}
        for ids, gone in _keys_about(keys, file, begun):
            deleted[path].update(at for at, key in enumerate(values(path, ids)) if key in gone)
    return deleted


def _keys_about(keys: Sequence[_Keys], file: Mapping[str, Any], begun: int) -> Iterator[tuple[_Ids, _Rows]]:
    """Yield the keys that apply to a data file, with the ids of their fields; rows that came with the keys stay."""
    for since, partition, ids, gone in keys:
        # Deletes of a spec without partitions are about all of them.
        if since > begun and partition in ({}, file["partition"]) and file["file_format"].lower() == "parquet":
            yield ids, gone


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
