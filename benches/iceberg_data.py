"""The Iceberg tables that the benchmarks read."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benches.cache import made
from benches.data import SCHEMA, SPREAD, columns, rows_of_file
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile

__all__ = ["FILTER", "deleted_rows", "key_files", "keys", "manifests", "spread"]

_MANIFESTS = 100
_FILES = 8
_ROW = {"id": "long", "k": "int", "v": "double", "s": "string", "ts": "timestamptz", "w": "long"}
#: The filter of planning: one partition of a hundred.
FILTER = "p-042"


def manifests(scale: float) -> Path:
    """Create a table of 100 manifests with 10,000 entries each and bounds of 7 columns, but without data files."""
    count = max(int(10_000 * scale), 100)
    return made(f"manifests-{count}", lambda root: _make_manifests(root, count))


def _make_manifests(root: Path, count: int) -> None:
    rng = random.Random(1)
    spec = [{"source-id": 7, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(root, {**_ROW, "p": "string"}, specs=[spec])
    rows = []
    for number in range(_MANIFESTS):
        builder.sequence += 1
        entries = [
            {"status": 1, "snapshot_id": None, "sequence_number": None, "file": _entry(root, rng, number, place)}
            for place in range(count)
        ]
        rows.append(builder.manifest(entries, snapshot_id=1000 + number) | {"entries": []})
    builder.commit(manifests=rows, sequence=builder.sequence)


def _entry(root: Path, rng: random.Random, number: int, place: int) -> IcebergFile:
    p = f"p-{rng.randrange(100):03}"
    first = (number * 10_000 + place) * 1000
    low = [first, 0, 0.0, "name-00000", 1_700_000_000_000_000 + first, rng.randrange(1000), p]
    high = [first + 999, 999_999, 1.0, "name-99999", 1_700_000_000_000_999 + first, 10**12, p]
    numbers = range(1, 8)
    metrics: dict[str, dict[int, Any]] = {
        "value_counts": dict.fromkeys(numbers, 1000),
        "null_value_counts": dict.fromkeys(numbers, 0),
        "lower_bounds": dict(zip(numbers, map(_bytes, numbers, low), strict=True)),
        "upper_bounds": dict(zip(numbers, map(_bytes, numbers, high), strict=True)),
    }
    path = f"{root}/data/p={p}/{number:05}-{place:05}-{rng.getrandbits(128):032x}-00001.parquet"
    return IcebergFile(path, 1000, 10**6 + rng.randrange(10**6), partition={"p": p}, metrics=metrics)


def _bytes(number: int, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return struct.pack("<d", value)
    return struct.pack("<i" if number == 2 else "<q", value)


def deleted_rows(scale: float, deleted: bool) -> Path:
    """Create 16,000,000 rows of 6 columns in 8 files, optionally with 1 % deleted by position deletes."""
    count = rows_of_file(scale)
    name = f"iceberg-{count}-{'deleted' if deleted else 'whole'}"
    return made(name, lambda root: _make_rows(root, _FILES, count, 1 if deleted else 0))


def spread(scale: float, files: int, percent: int = 0) -> Path:
    """Create 2,000,000 rows of 6 columns in some files, with some percent deleted by position deletes."""
    count = max(int(SPREAD * scale) // files, 1)
    return made(f"iceberg-spread-{files}x{count}-{percent}", lambda root: _make_rows(root, files, count, percent))


def _make_rows(root: Path, files: int, count: int, percent: int) -> None:
    builder = IcebergBuilder(root, _ROW)
    rng = np.random.default_rng(1)
    whole = [_data(builder, number * count, columns(rng, number * count, count)) for number in range(files)]
    builder.commit(*whole)
    for file in whole if percent else ():
        gone = np.sort(rng.choice(count, max(count * percent // 100, 1), replace=False)).tolist()
        builder.commit(builder.position_deletes([(file, place) for place in gone]), operation="delete")


def _data(builder: IcebergBuilder, first: int, arrays: list[pa.Array]) -> IcebergFile:
    last = first + len(arrays[0]) - 1
    metrics = {"lower_bounds": {1: _bytes(1, first)}, "upper_bounds": {1: _bytes(1, last)}}
    table = _table(builder, dict(zip(SCHEMA.names, arrays, strict=True)))
    return builder.data(table, row_group_size=1_000_000, metrics=metrics)


def _table(builder: IcebergBuilder, arrays: Mapping[str, pa.Array]) -> pa.Table:
    """Return columns with field ids."""
    ids = {child["name"]: str(child["id"]) for child in builder.fields}
    fields = [pa.field(name, found.type, metadata={b"PARQUET:field_id": ids[name]}) for name, found in arrays.items()]
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def keys(scale: float, count: int) -> Path:
    """Create 4,000,000 rows of 6 columns, and an equality delete file with keys of two columns for some of them."""
    rows, count = max(int(4_000_000 * scale), 1000), int(count * scale)
    return made(f"keys-{rows}-{count}", lambda root: _make_keys(root, rows, count))


def key_files(scale: float, files: int) -> Path:
    """Create 2,000,000 rows of 6 columns in 10 files, and equality delete files of 1,000 keys, one per commit."""
    rows, count = max(int(SPREAD * scale), 1000), max(int(1000 * scale), 10)
    return made(f"key-files-{rows}-{files}x{count}", lambda root: _make_keys(root, rows, count, files, parts=10))


def _make_keys(root: Path, rows: int, count: int, files: int = 1, parts: int = 1) -> None:
    builder = IcebergBuilder(root, _ROW)
    rng = np.random.default_rng(1)
    arrays = columns(rng, 0, rows)
    size = rows // parts
    sliced = [(first, [array.slice(first, size) for array in arrays]) for first in range(0, size * parts, size)]
    builder.commit(*(_data(builder, first, part) for first, part in sliced))
    for _ in range(files if count else 0):
        gone = pa.array(rng.choice(size * parts, count, replace=False))
        table = _table(builder, {"id": arrays[0].take(gone), "k": arrays[1].take(gone)})
        fields = [child for child in builder.fields if child["name"] in ("id", "k")]
        file = builder.data(table, fields=fields)
        file.content, file.equality_ids = 2, [1, 2]
        builder.commit(file, operation="delete")
