"""Schemas and types, the reader's half (DL-SCHEMA)."""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.errors import (
    ColumnNotFoundError,
    CorruptDataFileError,
    CorruptLogError,
    SchemaError,
    SpecViolationError,
    UnsupportedFeatureError,
)
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_opened import opened
from tests.support.delta_schemas import field, struct_type
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids

_APPENDIX = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "integer", "nullable": False, "metadata": {}},
        {
            "name": "b",
            "type": {"type": "struct", "fields": [{"name": "d", "type": "integer", "nullable": False, "metadata": {}}]},
            "nullable": True,
            "metadata": {},
        },
        {
            "name": "c",
            "type": {"type": "array", "elementType": "integer", "containsNull": False},
            "nullable": True,
            "metadata": {},
        },
        {
            "name": "e",
            "type": {
                "type": "array",
                "elementType": {
                    "type": "struct",
                    "fields": [{"name": "d", "type": "integer", "nullable": False, "metadata": {}}],
                },
                "containsNull": True,
            },
            "nullable": True,
            "metadata": {},
        },
        {
            "name": "f",
            "type": {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ],
}


@by_every_road
@pytest.mark.req("DL-SCHEMA-01", "DL-SCHEMA-03", "DL-SCHEMA-04", half="reader")
def test_the_schema_of_the_appendix(builder: DeltaBuilder) -> None:
    builder.commit(builder.protocol(), builder.metadata(ID, schemaString=json.dumps(_APPENDIX)))
    table: Any = open_table(builder.root)
    # Files may hold nulls in columns that became required: Arrow fields are nullable, table fields as declared.
    number = pa.field("d", pa.int32())
    assert [column.nullable for column in table.schema] == [False, True, True, True, True]
    assert table.arrow_schema == pa.schema(
        [
            pa.field("a", pa.int32()),
            pa.field("b", pa.struct([number])),
            pa.field("c", pa.list_(pa.field("element", pa.int32()))),
            pa.field("e", pa.list_(pa.field("element", pa.struct([number])))),
            pa.field("f", pa.map_(pa.string(), pa.string())),
        ]
    )
    c, e, f = (next(column.type for column in table.schema if column.name == name) for name in "cef")
    assert (c.element.nullable, e.element.nullable, f.value.nullable, f.key.nullable) == (False, True, True, False)
    assert table.scan().to_arrow().num_rows == 0


@pytest.mark.req("DL-SCHEMA-03", "DL-SCHEMA-04", half="reader")
def test_whether_parts_may_be_null_is_as_declared(builder: DeltaBuilder) -> None:
    declared = {"containsNull": [True, False], "valueContainsNull": [True, False]}
    columns = [
        field(f"{key}{flag}", {"type": kind, **parts, key: flag})
        for key, kind, parts in (
            ("containsNull", "array", {"elementType": "long"}),
            ("valueContainsNull", "map", {"keyType": "string", "valueType": "long"}),
        )
        for flag in declared[key]
    ]
    found = [column.type for column in opened(builder, columns).schema]
    assert [part.element.nullable for part in found[:2]] == declared["containsNull"]
    assert [part.value.nullable for part in found[2:]] == declared["valueContainsNull"]
    assert [part.key.nullable for part in found[2:]] == [False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is not a struct"),
        ("[]", "is not a struct"),
        ("nonsense", "the schemaString is not JSON"),
        ('{"type":"struct"}', "has no list of fields"),
        ('{"type":"struct","fields":[{"name":"a"}]}', "the type null is not supported"),
        (f'{{"type":"struct","fields":[{{"name":"a","type":"{"x" * 150}"}}]}}', r"feature: x{100}\b"),
        ('{"type":"struct","fields":[{"name":1,"type":"long","nullable":true,"metadata":{}}]}', "has no name"),
        ('{"type":"array","elementType":"long","containsNull":true}', "is not a struct"),
    ],
)
def test_a_schema_that_is_none_is_refused(builder: DeltaBuilder, text: str, message: str) -> None:
    builder.commit(builder.protocol(), builder.metadata(ID, schemaString=text), builder.add(ids(1)))
    with pytest.raises((CorruptLogError, UnsupportedFeatureError), match=message):
        open_table(builder.root).scan().to_arrow()


@pytest.mark.req("DL-SCHEMA-02", half="reader")
def test_unknown_metadata_of_a_field_is_kept(builder: DeltaBuilder) -> None:
    metadata = {"comment": "hi", "x.y": 1, "delta.unknown": {"a": [1, None]}}
    column = {"name": "a", "type": "long", "nullable": False, "metadata": metadata}
    (found,) = opened(builder, [column]).schema
    assert (found.name, found.nullable) == ("a", False)
    assert {name: found.metadata[name] for name in metadata} == metadata


@pytest.mark.req("DL-SCHEMA-05", half="reader")
def test_text_is_unicode(builder: DeltaBuilder, road: Road) -> None:
    rows = pa.table({"s": ["日本", "", "\U0010ffff\x00", None]})
    found = road.rows(opened(builder, rows.schema, builder.add(rows)).scan())
    assert found == sorted(rows.to_pylist(), key=repr)


_NUMBERS = {
    "long": (pa.int64(), -(2**63), 2**63 - 1),
    "integer": (pa.int32(), -(2**31), 2**31 - 1),
    "short": (pa.int16(), -32768, 32767),
    "byte": (pa.int8(), -128, 127),
}


@pytest.mark.req("DL-SCHEMA-06", half="reader")
def test_integers_reach_their_ends(builder: DeltaBuilder, road: Road) -> None:
    rows = pa.table({name: pa.array([low, high], kind) for name, (kind, low, high) in _NUMBERS.items()})
    table = opened(builder, rows.schema, builder.add(rows, stats="full"))
    assert [str(column.type) for column in table.schema] == list(_NUMBERS)
    assert road.rows(table.scan()) == sorted(rows.to_pylist(), key=repr)
    for name, (_, low, high) in _NUMBERS.items():
        assert table.scan(f"{name} = {low}").count() == 1
        assert table.scan(f"{name} >= {high}").count() == 1


@pytest.mark.req("DL-SCHEMA-06", half="reader")
@pytest.mark.parametrize("name", ["integer", "short", "byte"])
def test_an_integer_beyond_its_type_is_refused(builder: DeltaBuilder, name: str) -> None:
    _, low, high = _NUMBERS[name]
    rows = pa.table({"x": pa.array([high + 1], pa.int64())})
    with pytest.raises(SchemaError, match=f"the file stores int64, but the column has the type {name}"):
        opened(builder, [field("x", name)], builder.add(rows)).scan().to_arrow()
    for value in (low - 1, high + 1) if name != "integer" else ():
        narrow = builder.add(pa.table({"x": pa.array([value], pa.int32())}))
        builder.commit(builder.metadata([field("x", name)]), narrow)
        with pytest.raises(CorruptDataFileError, match=f"int32 does not fit {name}"):
            open_table(builder.root).scan("x IS NOT NULL").to_arrow()
        builder.commit(builder.remove(narrow))


@pytest.mark.req("DL-SCHEMA-07", half="reader")
def test_floats_keep_their_bits(builder: DeltaBuilder, road: Road) -> None:
    singles = [float("nan"), float("inf"), float("-inf"), -0.0, 1e-45, 3.4028234663852886e38]
    doubles = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308]
    rows = pa.table({"f": pa.array(singles, pa.float32()), "d": pa.array(doubles, pa.float64())})
    read = road.table(opened(builder, rows.schema, builder.add(rows)).scan())

    def bits(table: pa.Table) -> list[bytes]:
        pairs = zip(table["f"].to_pylist(), table["d"].to_pylist(), strict=True)
        return sorted(struct.pack("<fd", *pair) for pair in pairs)

    assert bits(read) == bits(rows)


@pytest.mark.req("DL-SCHEMA-08", half="reader")
def test_decimals(builder: DeltaBuilder, road: Road) -> None:
    kinds = [pa.decimal128(38, 38), pa.decimal128(38, 0), pa.decimal128(9, 2), pa.decimal128(18, 18)]
    values = [Decimal("0." + "9" * 38), Decimal("-" + "9" * 38), Decimal("-1234567.89"), Decimal("0." + "1" * 18)]
    rows = pa.table(
        {
            f"c{number}": pa.array([value, None], kind)
            for number, (kind, value) in enumerate(zip(kinds, values, strict=True))
        }
    )
    table = opened(builder, rows.schema, builder.add(rows))
    assert table.arrow_schema.types == kinds
    assert road.rows(table.scan()) == sorted(rows.to_pylist(), key=repr)


@pytest.mark.req("DL-SCHEMA-08", half="reader")
def test_spellings_of_decimals(builder: DeltaBuilder) -> None:
    assert opened(builder, [field("x", "decimal")]).arrow_schema.field("x").type == pa.decimal128(10, 0)
    for wrong in ("decimal(39,0)", "decimal(5,6)", "decimal(0,0)", "decimal(5)", "decimal(-1,0)"):
        builder.commit(builder.metadata([field("x", wrong)]))
        with pytest.raises((CorruptLogError, UnsupportedFeatureError), match=re.escape(wrong)):
            open_table(builder.root).scan().to_arrow()


@pytest.mark.req("DL-SCHEMA-09", half="reader")
def test_booleans_binary_and_dates(builder: DeltaBuilder, road: Road) -> None:
    rows = pa.table(
        {
            "boolean": [True, False, None],
            "binary": [b"\x00\xff", b"", None],
            "date": pa.array([0, -719162, 2932896], pa.int32()).cast(pa.date32()),
        }
    )
    table = opened(builder, rows.schema, builder.add(rows))
    assert [str(column.type) for column in table.schema] == ["boolean", "binary", "date"]
    assert road.rows(table.scan()) == sorted(rows.to_pylist(), key=repr)


@pytest.mark.req("DL-SCHEMA-10", half="reader")
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamps_are_instants(builder: DeltaBuilder, road: Road, unit: str) -> None:
    wanted = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    stored = pa.table({"t": pa.array([wanted, None], pa.timestamp(unit, "UTC"))})
    add = builder.add(stored, writer={"version": "2.6", "coerce_timestamps": unit if unit != "ns" else None})
    table = opened(builder, [field("t", "timestamp")], add)
    assert table.arrow_schema.field("t").type == pa.timestamp("us", "UTC")
    found = road.table(table.scan())["t"].drop_null()
    assert found.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist() == [1577836800000000]


@pytest.mark.req("DL-SCHEMA-11", half="reader")
def test_wall_clocks_are_the_same_everywhere(builder: DeltaBuilder, road: Road) -> None:
    wall_clock = dt.datetime(1970, 1, 1, 0, 0, 0, 123456)
    rows = pa.table({"t": pa.array([wall_clock], pa.timestamp("us"))})
    builder.create(rows.schema, builder.add(rows), protocol=builder.features("timestampNtz"))
    assert json.loads(builder.commits[0][1]["metaData"]["schemaString"])["fields"][0]["type"] == "timestamp_ntz"
    for zone in ("UTC", "Asia/Tokyo"):
        table = open_table(builder.root, timezone=zone)
        assert table.arrow_schema.field("t").type == pa.timestamp("us")
        assert road.rows(table.scan()) == [{"t": wall_clock}]


@pytest.mark.req("DL-SCHEMA-13")
def test_columns_that_a_file_lacks_are_null(builder: DeltaBuilder, road: Road) -> None:
    inner = pa.struct([("x", pa.int64())])
    wider = pa.struct([("x", pa.int64()), ("y", pa.string())])
    old = pa.table(
        {
            "s": pa.array([{"x": 1}, None], inner),
            "l": pa.array([[{"x": 2}], None], pa.list_(inner)),
            "m": pa.array([[("k", {"x": 3})], None], pa.map_(pa.string(), inner)),
        }
    )
    new = pa.schema([("c", pa.int32()), ("s", wider), ("l", pa.list_(wider)), ("m", pa.map_(pa.string(), wider))])
    table = opened(builder, new, builder.add(old))
    first = {
        "c": None,
        "s": {"x": 1, "y": None},
        "l": [{"x": 2, "y": None}],
        "m": [("k", {"x": 3, "y": None})],
    }
    found = [
        {**row, "m": row["m"] and (list(row["m"].items()) if isinstance(row["m"], dict) else row["m"])}
        for row in road.rows(table.scan())
    ]
    assert found == sorted([first, {"c": None, "s": None, "l": None, "m": None}], key=repr)
    assert table.scan("c IS NULL").count() == 2
    assert table.scan("s.y IS NOT NULL").count() == 0


@pytest.mark.req("DL-SCHEMA-15")
def test_columns_that_the_schema_lacks_are_ignored(builder: DeltaBuilder, road: Road) -> None:
    stored = pa.table({"z": ["stray"], "id": pa.array([1], pa.int64()), "s": [{"in": 1, "stray": 2}]})
    table = opened(builder, [field("s", struct_type(field("in", "long"))), field("id", "long")], builder.add(stored))
    assert table.scan().schema.names == ["s", "id"]
    assert road.rows(table.scan()) == [{"s": {"in": 1}, "id": 1}]


@pytest.mark.req("DL-SCHEMA-16", half="reader")
@pytest.mark.req("BEY-21", half="reader")
def test_void_columns_are_null(builder: DeltaBuilder, road: Road) -> None:
    void_array = {"type": "array", "elementType": "void", "containsNull": True}
    schema = [
        field("v", "void"),
        field("id", "long"),
        field("a", void_array),
        field("s", struct_type(field("v", "void"), field("x", "long"))),
    ]
    rows = pa.table({"id": pa.array([1], pa.int64()), "s": [{"x": 5}]})
    table = opened(builder, schema, builder.add(rows))
    assert road.rows(table.scan()) == [{"v": None, "id": 1, "a": None, "s": {"v": None, "x": 5}}]
    assert road.rows(table.scan(columns=["v"])) == [{"v": None}]
    assert table.scan("v IS NULL").count() == 1


@pytest.mark.req("DL-SCHEMA-17", half="reader")
def test_names_are_found_without_regard_to_case(builder: DeltaBuilder, road: Road) -> None:
    rows = pa.table({"userName": ["a", "b"], "s": [{"Inner": 1}, {"Inner": 2}]})
    table = opened(builder, rows.schema, builder.add(rows, stats="full"))
    assert road.rows(table.scan("USERNAME = 'b' AND S.iNNER = 2", columns=["username", "S.INNER"])) == [
        {"userName": "b", "s": {"Inner": 2}}
    ]
    with pytest.raises(ColumnNotFoundError, match="userName"):
        table.scan(columns=["usrName"])


@pytest.mark.req("DL-SCHEMA-17", half="reader")
def test_names_that_differ_in_case_alone_are_refused(builder: DeltaBuilder) -> None:
    rows = pa.table([pa.array([1]), pa.array([2])], names=["a", "A"])
    assert opened(builder, rows.schema, builder.add(rows)).scan(columns=["A"]).to_arrow().to_pylist() == [{"A": 2}]
    with pytest.raises(SpecViolationError, match="2 columns are named a"):
        open_table(builder.root, validate=True)


@pytest.mark.req("DL-SCHEMA-19", half="reader")
@pytest.mark.parametrize("year", [1, 1582, 1899, 1970, 2026, 9999])
def test_int96_of_any_year(builder: DeltaBuilder, tmp_path: Path, year: int) -> None:
    wanted = dt.datetime(year, 3, 4, 5, 6, 7, 123456)
    micros = (wanted - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    stored = pa.table({"t": pa.array([micros], pa.int64()).cast(pa.timestamp("us"))})
    add = builder.add(stored, path="f.parquet", writer={"use_deprecated_int96_timestamps": True})
    assert pq.ParquetFile(builder.root / "f.parquet").schema.column(0).physical_type == "INT96"
    table = opened(builder, [field("t", "timestamp")], add)
    assert table.scan().to_arrow()["t"].cast(pa.int64()).to_pylist() == [micros]
    assert table.scan(f"t = TIMESTAMP '{year:04d}-03-04 05:06:07.123456'").count() == 1


@pytest.mark.req("DL-SCHEMA-19", half="reader")
def test_physical_types_of_other_writers(builder: DeltaBuilder, road: Road) -> None:
    stored = pa.table(
        {
            "byte": pa.array([-1], pa.int32()),
            "long": pa.array([7], pa.int32()),
            "unsigned": pa.array([200], pa.uint8()),
            "small": pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
            "large": pa.array(["x"], pa.large_string()),
            "fixed": pa.array([b"abc"], pa.binary(3)),
            "coded": pa.array(["a"]).dictionary_encode(),
        }
    )
    schema = [
        field("byte", "byte"),
        field("long", "long"),
        field("unsigned", "integer"),
        field("small", "decimal(12,3)"),
        field("large", "string"),
        field("fixed", "binary"),
        field("coded", "string"),
    ]
    add = builder.add(stored, writer={"store_decimal_as_integer": True})
    (row,) = road.rows(opened(builder, schema, add).scan())
    assert row == {
        "byte": -1,
        "long": 7,
        "unsigned": 200,
        "small": Decimal("1.500"),
        "large": "x",
        "fixed": b"abc",
        "coded": "a",
    }


@pytest.mark.spark
@pytest.mark.req("DL-SCHEMA-19", half="reader")
def test_files_in_the_old_form_of_spark(builder: DeltaBuilder, spark: Any) -> None:
    """Two-level lists, lists of bag and array, fixed decimals and Int96, as Spark wrote them long ago."""
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    query = (
        "SELECT array(1, 2) two, array(1, CAST(null AS INT)) three, map('k', 1) m, CAST(1.25 AS DECIMAL(9,2)) d,"
        " array(named_struct('x', 1)) s, TIMESTAMP '2020-01-01 00:00:00Z' t"
    )
    try:
        frame = spark.sql(query)
        frame.write.parquet(str(builder.root / "data"))
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    (file,) = (builder.root / "data").glob("*.parquet")
    text = str(pq.ParquetFile(file).schema)
    assert "repeated int32 field_id=-1 array" in text
    assert "bag" in text
    assert "fixed_len_byte_array(4)" in text
    assert "int96" in text
    add = builder.add(path=f"data/{file.name}")
    add["add"]["size"] = file.stat().st_size
    builder.create(pa.schema([]), add)
    builder.commit(builder.metadata(ID, schemaString=frame.schema.json()))
    found = open_table(builder.root).scan().to_arrow().to_pylist()
    assert found == [
        {
            "two": [1, 2],
            "three": [1, None],
            "m": [("k", 1)],
            "d": Decimal("1.25"),
            "s": [{"x": 1}],
            "t": dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc),
        }
    ]
