"""Random Parquet files of all types, codecs, encodings, sizes and versions of pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.kernels.parquet_bytes import parquet_bytes

__all__ = ["random_file"]

_UTC = dt.timezone.utc
#: The types of leaves, and how a random value of each is made.
_LEAVES: dict[pa.DataType, Any] = {
    pa.bool_(): lambda draw: draw.random() < 0.5,
    pa.int8(): lambda draw: draw.randint(-128, 127),
    pa.int16(): lambda draw: draw.randint(-(1 << 15), (1 << 15) - 1),
    pa.int32(): lambda draw: draw.choice([0, 1, -(1 << 31), draw.randint(-1000, 1000)]),
    pa.int64(): lambda draw: draw.choice([0, (1 << 63) - 1, -(1 << 63), draw.randint(-1000, 1000)]),
    pa.float32(): lambda draw: draw.choice([0.0, -0.0, 1.5, float("inf"), draw.randint(-9, 9) / 4]),
    pa.float64(): lambda draw: draw.choice([0.0, -0.0, float("-inf"), draw.random()]),
    pa.string(): lambda draw: draw.choice(["", "a", "é" * 9, "x" * draw.randint(0, 40), str(draw.random())]),
    pa.large_string(): lambda draw: draw.choice(["", "a", "é" * 9]),
    pa.binary(): lambda draw: draw.randbytes(draw.randint(0, 12)),
    pa.binary(5): lambda draw: draw.randbytes(5),
    pa.date32(): lambda draw: dt.date(1970, 1, 1) + dt.timedelta(draw.randint(-50_000, 50_000)),
    pa.timestamp("us"): lambda draw: dt.datetime(2000, 1, 1) + dt.timedelta(microseconds=draw.randint(0, 10**15)),
    pa.timestamp("ms", "UTC"): lambda draw: dt.datetime(2000, 1, 1, tzinfo=_UTC) + dt.timedelta(draw.randint(0, 999)),
    pa.timestamp("us", "Europe/Berlin"): lambda draw: dt.datetime(2000, 1, draw.randint(1, 28), tzinfo=_UTC),
    pa.timestamp("ns"): lambda draw: draw.randint(0, 10**18),
    pa.decimal128(5, 2): lambda draw: Decimal(draw.randint(-99_999, 99_999)).scaleb(-2),
    pa.decimal128(18, 0): lambda draw: Decimal(draw.randint(-(10**17), 10**17)),
    pa.decimal128(38, 10): lambda draw: Decimal(draw.randint(-(10**27), 10**27)),
}
#: The codecs that the kernel takes.
_TAKEN = ("none", "snappy", "zstd")
#: Encodings that pyarrow writes besides dictionaries, by the types that have them.
_ENCODINGS = {
    "DELTA_BINARY_PACKED": (pa.int32(), pa.int64()),
    "DELTA_BYTE_ARRAY": (pa.string(), pa.binary(), pa.binary(5)),
    "DELTA_LENGTH_BYTE_ARRAY": (pa.string(), pa.binary()),
    "BYTE_STREAM_SPLIT": (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(5)),
    "RLE": (pa.bool_(),),
}


def _kind(draw: Random, depth: int = 0) -> pa.DataType:
    if depth < 3 and draw.random() < 0.3:
        inner = [_kind(draw, depth + 1) for _ in range(draw.randint(1, 3))]
        nested = draw.choice(["list", "struct"])
        if nested == "list":
            return pa.list_(pa.field("element", inner[0], nullable=draw.random() < 0.7))
        return pa.struct([pa.field(f"f{at}", one, draw.random() < 0.7) for at, one in enumerate(inner)])
    return draw.choice(list(_LEAVES))


def _value(draw: Random, kind: pa.DataType, nulls: float, *, nullable: bool = True) -> Any:
    if nullable and draw.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _value(draw, one.type, nulls, nullable=one.nullable) for one in kind}
    if pa.types.is_list(kind):
        inner = kind.value_field
        return [_value(draw, inner.type, nulls, nullable=inner.nullable) for _ in range(draw.randint(0, 4))]
    return _LEAVES[kind](draw)


def random_file(seed: int) -> tuple[pa.Buffer, bool]:
    """Return a random file, of all codecs, encodings, sizes of pages and versions, and whether the kernel takes it."""
    draw = Random(seed)
    rows, nulls = draw.choice([0, 1, 7, 300, 2000]), draw.choice([0, 0.1, 0.9, 1])
    fields = [pa.field(f"c{at}", _kind(draw), draw.random() < 0.8) for at in range(draw.randint(1, 4))]
    few = draw.random() < 0.5
    columns = []
    for one in fields:
        values = [_value(draw, one.type, nulls, nullable=one.nullable) for _ in range(min(rows, 20) if few else rows)]
        columns.append(pa.array([draw.choice(values) for _ in range(rows)] if few and values else values, one.type))
    table = pa.table(columns, schema=pa.schema(fields))
    has_lists = any("list" in str(one.type) for one in fields)
    # pyarrow finds no row of a list without any truth value, as its writer stores it in pages of version 2.
    has_listed_bools = has_lists and any("bool" in str(one.type) for one in fields)
    options: dict[str, Any] = {
        "compression": draw.choice(["none", "snappy", "zstd", "snappy", "zstd", "gzip", "lz4", "brotli"]),
        "row_group_size": draw.choice([64, 1000, 1 << 20]),
        "data_page_size": draw.choice([64, 4096, 1 << 20]),
        "data_page_version": "1.0" if has_listed_bools else draw.choice(["1.0", "2.0"]),
        "version": "2.6",
        "store_schema": draw.random() < 0.8,
        "use_dictionary": draw.random() < 0.5,
        "store_decimal_as_integer": draw.random() < 0.5,
        "dictionary_pagesize_limit": draw.choice([100, 1 << 20]),
        "write_page_index": draw.random() < 0.5,
        "write_page_checksum": draw.random() < 0.5,
    }
    encodings = {}
    if not options["use_dictionary"]:
        for one in fields:
            known = [encoding for encoding, kinds in _ENCODINGS.items() if one.type in kinds]
            if known and draw.random() < 0.3:
                encodings[one.name] = draw.choice(known)
        options["column_encoding"] = encodings or None
    is_plain = options["data_page_version"] == "1.0" or not any("bool" in str(one.type) for one in fields)
    has_pairs = any("struct" in str(one.type) and len(list(_leaves(one.type))) > 1 for one in fields)
    has_usual_pages = options["compression"] in _TAKEN and is_plain and not encodings
    is_taken = rows > 0 and has_usual_pages and not (has_lists or has_pairs)
    return parquet_bytes(table, **options), is_taken


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Return the leaves of a structure."""
    if not pa.types.is_struct(kind):
        yield kind
        return
    for field in kind:
        yield from _leaves(field.type)
