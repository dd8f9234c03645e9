"""The properties of Iceberg tables that say how data files are encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from deltaberg import IcebergTable, create_table
from deltaberg.errors import InvalidArgumentError

pytestmark = pytest.mark.one_backend

_ROWS = pa.table(
    {
        "id": pa.array(range(20_000), pa.int64()),
        "s": pa.array([{"x": str(number), "k": [{"y": number}]} for number in range(20_000)]),
        "name": pa.array([f"{number * 7919 % 20_000}" for number in range(20_000)]),
    }
)


def _table(tmp_path: Path, form: str, properties: Mapping[str, str]) -> IcebergTable:
    given = {"write.format.default": form, **properties}
    return create_table(tmp_path / "t", _ROWS.schema, format="iceberg", properties=given)


def _file(table: IcebergTable) -> str:
    (path,) = table.inspect("files")["file_path"].to_pylist()
    return str(path)


@pytest.mark.parametrize(
    ("form", "codec"), [("parquet", "snappy"), ("parquet", "uncompressed"), ("parquet", "lz4"), ("avro", "snappy")]
)
def test_a_level_is_ignored_by_codecs_without_levels(tmp_path: Path, form: str, codec: str) -> None:
    """As in Iceberg's library: the level may be left from another codec."""
    table = _table(tmp_path, form, {f"write.{form}.compression-codec": codec, f"write.{form}.compression-level": "3"})
    assert table.append(_ROWS).added_rows == len(_ROWS)
    assert table.scan().count() == len(_ROWS)


def test_a_level_below_zero(tmp_path: Path) -> None:
    sizes = [
        _table(tmp_path / level, "parquet", {"write.parquet.compression-level": level}).append(_ROWS).added_bytes
        for level in ("-20", "19")
    ]
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    ("form", "name", "value", "hint"),
    [
        ("orc", "write.orc.compression-codec", "brotli", "ORC files are written with gzip, zstd, snappy, lz4, none"),
        ("avro", "write.avro.compression-codec", "lz4", "Avro files are written with gzip, zstd, snappy, none"),
        ("parquet", "write.parquet.compression-codec", "lzo", "Parquet files are written with zstd, gzip"),
        ("parquet", "write.parquet.compression-level", "23", "-131072 to 22, the levels of zstd"),
        ("parquet", "write.parquet.compression-level", "best", "a whole number"),
        ("parquet", "write.parquet.page-size-bytes", str(1 << 63), "a positive whole number"),
        ("parquet", "write.parquet.page-version", "v3", "v1 or v2"),
        ("orc", "write.orc.compression-strategy", "size", "speed or compression"),
        ("orc", "write.orc.stripe-size-bytes", "0", "a positive whole number"),
        ("avro", "write.avro.compression-level", "10", "1 to 9, the levels of gzip"),
    ],
)
def test_a_property_that_is_not_valid_is_named(tmp_path: Path, form: str, name: str, value: str, hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the property {name} (is|must be .*, not) '{value}'") as caught:
        _table(tmp_path, form, {name: value})
    assert hint in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_the_codec_of_a_call_is_one_of_the_format(tmp_path: Path) -> None:
    table = _table(tmp_path, "orc", {})
    with pytest.raises(InvalidArgumentError, match="compression is 'brotli', which is not a codec of ORC files"):
        table.append(_ROWS, compression="brotli")


@pytest.mark.parametrize(("version", "kind"), [("v1", 0), ("v2", 3)])
def test_pages_have_the_version_that_the_table_asks_for(tmp_path: Path, version: str, kind: int) -> None:
    table = _table(tmp_path, "parquet", {"write.parquet.page-version": version})
    table.append(_ROWS)
    chunk = pq.ParquetFile(_file(table)).metadata.row_group(0).column(0)
    with open(_file(table), "rb") as file:
        file.seek(chunk.data_page_offset)
        # The first field of the header of a page is its type, in the compact protocol of Thrift.
        assert file.read(2) == bytes([0x15, 2 * kind])
    assert table.scan().to_arrow().equals(_ROWS)


def test_stripes_are_as_large_as_the_table_asks_for(tmp_path: Path) -> None:
    numbers = [
        _stripes(_table(tmp_path / size, "orc", {"write.orc.stripe-size-bytes": size}))
        for size in ("65536", "67108864")
    ]
    assert numbers[0] > numbers[1] == 1


def _stripes(table: IcebergTable) -> int:
    # The writer counts encoded bytes, of which texts that do not repeat have many.
    names = pa.array([hashlib.sha256(str(number).encode()).hexdigest() for number in range(len(_ROWS))])
    rows = _ROWS.set_column(2, "name", names)
    table.append(rows)
    assert table.scan().to_arrow().equals(rows)
    return int(orc.ORCFile(_file(table)).nstripes)


def test_orc_columns_get_bloom_filters(tmp_path: Path) -> None:
    """Columns are numbered in the order of the schema, with the fields of structs and the elements of lists."""
    properties = {
        "write.orc.bloom.filter.columns": "name, s.k.element.y, nowhere",
        "write.orc.compression-codec": "none",
    }
    table = _table(tmp_path, "orc", properties)
    table.append(_ROWS)
    # 0 is the row, 1 id, 2 s, 3 s.x, 4 s.k, 5 its elements, 6 y, 7 name.
    assert {column for kind, column in _streams(_file(table)) if kind == _BLOOM_FILTER} == {6, 7}
    plain = _table(tmp_path / "plain", "orc", {"write.orc.compression-codec": "none"})
    plain.append(_ROWS)
    assert all(kind != _BLOOM_FILTER for kind, _ in _streams(_file(plain)))


#: The kind of a stream that holds a Bloom filter (``BLOOM_FILTER_UTF8`` in the specification of ORC).
_BLOOM_FILTER = 8


def _streams(path: str) -> list[tuple[int, int]]:
    """Return the kinds and the columns of the streams of the first stripe of a file without compression."""
    data = Path(path).read_bytes()
    script = dict(_members(data[-1 - data[-1] : -1]))
    end = len(data) - 1 - data[-1]
    footer = list(_members(data[end - script[1] : end]))
    stripe = dict(_members(next(value for number, value in footer if number == 3)))
    start = stripe[1] + stripe[2] + stripe[3]
    found = [dict(_members(value)) for number, value in _members(data[start : start + stripe[4]]) if number == 1]
    return [(stream.get(1, 0), stream.get(2, 0)) for stream in found]


def _members(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of the fields of a message of Protocol Buffers."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            size = number()
            yield key >> 3, data[at : at + size]
            at += size
