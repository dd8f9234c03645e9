"""Data files of Java's Parquet and ORC writers, with types and layouts that pyarrow does not write."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from deltaberg import IcebergTable, open_table
from deltaberg.errors import SchemaError
from tests.iceberg.columns_json import field_json, list_json, struct_json
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.java_files import write_java_orc, write_java_parquet

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no java"),
]


def _open(builder: IcebergBuilder, path: Path, rows: int) -> IcebergTable:
    builder.commit(IcebergFile(str(path), rows, path.stat().st_size, path.suffix[1:]))
    return open_table(builder.root, "iceberg")


@pytest.mark.req("ICE-PQ-03", half="reader")
def test_decimals_in_wider_encodings(tmp_path: Path, spark: Any) -> None:
    builder = IcebergBuilder(tmp_path / "t", dict.fromkeys(("long", "wide", "bytes"), "decimal(9,2)"))
    message = """message table {
        optional int64 a (DECIMAL(9,2)) = 1;
        optional fixed_len_byte_array(16) b (DECIMAL(9,2)) = 2;
        optional binary c (DECIMAL(9,2)) = 3;
    }"""
    rows: list[dict[str, Any]] = [
        {"a": 1420, "b": (1420).to_bytes(16, "big"), "c": b"\x05\x8c"},
        {"a": -1, "b": b"\xff" * 16, "c": b"\xff"},
        {},
    ]
    path = builder.root / "data" / "file.parquet"
    write_java_parquet(spark, path, message, rows)
    footer = pq.ParquetFile(path).schema
    assert [footer.column(index).physical_type for index in range(3)] == ["INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"]
    table = _open(builder, path, 3)
    found = table.scan().to_arrow()
    assert found.schema.types == [pa.decimal128(9, 2)] * 3
    values = [Decimal("14.20"), Decimal("-0.01"), None]
    assert found.to_pylist() == [dict.fromkeys(found.column_names, value) for value in values]
    for name in found.column_names:
        assert table.scan(f"{name} > 14").count() == 1
        assert table.scan(f"{name} < 0").count() == 1


@pytest.mark.req("ICE-PQ-06", half="reader")
def test_lists_of_two_levels(tmp_path: Path, spark: Any) -> None:
    mapped = {"type": "map", "key-id": 11, "key": "string", "value-id": 12, "value-required": False, "value": "int"}
    fields = [
        field_json(1, "primitives", list_json(2, "int")),
        field_json(3, "arrays", list_json(4, struct_json(field_json(5, "y", "string"), field_json(6, "x", "int")))),
        field_json(7, "tuples", list_json(8, struct_json(field_json(9, "x", "int")))),
        field_json(10, "map", mapped),
    ]
    message = """message table {
        optional group a (LIST) = 1 { repeated int32 element = 2; }
        optional group b (LIST) = 3 { repeated group array = 4 { optional int32 x = 6; optional binary y (UTF8) = 5; } }
        optional group c (LIST) = 7 { repeated group c_tuple = 8 { optional int32 x = 9; } }
        optional group d (MAP) = 10 {
            repeated group map (MAP_KEY_VALUE) { required binary key (UTF8) = 11; optional int32 value = 12; }
        }
    }"""
    rows: list[dict[str, Any]] = [
        {
            "a": {"element": [1, 2]},
            "b": {"array": [{"x": 1, "y": b"one"}, {}]},
            "c": {"c_tuple": [{"x": 7}, {}]},
            "d": {"map": [{"key": b"k", "value": 3}, {"key": b""}]},
        },
        {"a": {}, "b": {}, "c": {}, "d": {}},
        {},
    ]
    builder = IcebergBuilder(tmp_path / "t", fields)
    path = builder.root / "data" / "file.parquet"
    write_java_parquet(spark, path, message, rows)
    footer = pq.ParquetFile(path).schema
    paths = [footer.column(index).path for index in range(6)]
    assert paths == ["a.element", "b.array.x", "b.array.y", "c.c_tuple.x", "d.map.key", "d.map.value"]
    names = ("primitives", "arrays", "tuples", "map")
    first = ([1, 2], [{"y": "one", "x": 1}, {"y": None, "x": None}], [{"x": 7}, {"x": None}], [("k", 3), ("", None)])
    expected: list[dict[str, Any]] = [
        dict(zip(names, first, strict=True)),
        {name: [] for name in names},
        dict.fromkeys(names),
    ]
    assert _open(builder, path, 3).scan().to_arrow().to_pylist() == expected


@pytest.mark.req("ICE-ORC-01", half="reader")
def test_orc_types_that_iceberg_does_not_write(tmp_path: Path, spark: Any) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "int", "b": "int", "c": "string", "d": "string", "e": "long"})
    path = builder.root / "data" / "file.orc"
    columns: list[list[Any]] = [
        [-128, 127, None],
        [-32768, 32767, None],
        [b"ab", b"abcd", None],
        [b"", b"abcde", None],
        [1, 2, None],
    ]
    schema = "struct<z:tinyint,y:smallint,x:char(4),w:varchar(5),v:smallint>"
    write_java_orc(spark, path, schema, [1, 2, 3, 4, 5], columns)
    assert orc.ORCFile(path).schema.types[:2] == [pa.int8(), pa.int16()]
    table = _open(builder, path, 3)
    found = table.scan().to_arrow()
    assert found.schema.types == [pa.int32(), pa.int32(), pa.string(), pa.string(), pa.int64()]
    # Texts of a fixed length are filled with blanks.
    assert found.to_pylist() == [
        {"a": -128, "b": -32768, "c": "ab  ", "d": "", "e": 1},
        {"a": 127, "b": 32767, "c": "abcd", "d": "abcde", "e": 2},
        dict.fromkeys("abcde"),
    ]
    assert table.scan("d = 'abcde' AND a > 0").count() == 1


@pytest.mark.req("ICE-ORC-03", "ICE-ORC-09", half="reader")
def test_timestamps_of_orc(tmp_path: Path, spark: Any) -> None:
    """Both parts of the writer's value hold the milliseconds: the time, and the nanoseconds of a second."""
    builder = IcebergBuilder(tmp_path / "t", {"wall": "timestamp", "instant": "timestamptz"})
    path = builder.root / "data" / "file.orc"
    moments = [(1510871468123, 123456789), (-1877, 123456789), (0, 999), None]
    schema = "struct<a:timestamp,b:timestamp with local time zone>"
    write_java_orc(spark, path, schema, [1, 2], [moments, moments])
    assert orc.ORCFile(path).schema.types == [pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    found = _open(builder, path, 4).scan().to_arrow()
    assert found.schema.types == [pa.timestamp("us"), pa.timestamp("us", "UTC")]
    expected = [1510871468123456, -1876544, 0, None]
    assert found.column("instant").cast(pa.int64()).to_pylist() == expected
    assert str(found.column("instant")[0].as_py()) == "2017-11-16 22:31:08.123456+00:00"


@pytest.mark.req("ICE-ORC-08")
def test_unions_of_orc_are_refused(tmp_path: Path, spark: Any) -> None:
    inner = struct_json(field_json(3, "tag", "int"), field_json(4, "field0", "int"), field_json(5, "field1", "string"))
    builder = IcebergBuilder(tmp_path / "t", [field_json(1, "id", "long"), field_json(2, "u", inner)])
    path = builder.root / "data" / "file.orc"
    write_java_orc(spark, path, "struct<id:bigint,u:uniontype<int,string>>", [1, 2], [[7, 8], [(0, 5), (1, b"text")]])
    table = _open(builder, path, 2)
    with pytest.raises(SchemaError, match="union") as caught:
        table.scan().to_arrow()
    assert caught.value.context["column"] == "u"
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() == [7, 8]


@pytest.mark.req("ICE-ORC-03", "ICE-ORC-09", half="reader")
def test_timestamps_of_orc_beyond_nanoseconds(tmp_path: Path, spark: Any) -> None:
    """pyarrow's reader returns nanoseconds in 64 bits, which reach from the year 1677 to 2262."""
    builder = IcebergBuilder(tmp_path / "t", {"wall": "timestamp", "instant": "timestamptz"})
    path = builder.root / "data" / "file.orc"
    moments = [(-62135596800000, 0), (-62135596799999, 1999999), (-1877, 123456789), (0, 999), None]
    moments += [(253402300799999, 999999999), (10413792000000, 1000)]
    schema = "struct<a:timestamp,b:timestamp with local time zone>"
    write_java_orc(spark, path, schema, [1, 2], [moments, moments])
    with pytest.raises(pa.ArrowInvalid, match="out of range"):
        orc.ORCFile(path).read()
    found = _open(builder, path, 7).scan().to_arrow()
    micros = [-62135596800000000, -62135596799998001, -1876544, 0, None, 253402300799999999, 10413792000000001]
    assert found.column("instant").cast(pa.int64()).to_pylist() == micros
    assert str(found.column("wall")[5].as_py()) == "9999-12-31 23:59:59.999999"
