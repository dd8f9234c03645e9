"""Values of every type, as data files of the three formats store them."""

from __future__ import annotations

import datetime as dt
import math
import shutil
import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.errors import CorruptDataFileError, SchemaError
from tests.support.iceberg_builder import POS_ID, IcebergBuilder, arrow_of
from tests.support.roads import by_every_road

_FORMATS = ("parquet", "avro", "orc")
_every_format = pytest.mark.parametrize("form", _FORMATS)


def _table(root: Path, rows: list[dict[str, Any]], form: str, **types: str) -> IcebergTable:
    builder = IcebergBuilder(root / "t", types)
    builder.commit(builder.data(rows, format=form))
    return open_table(builder.root, "iceberg")


@by_every_road
@_every_format
@pytest.mark.req("ICE-SCH-04", half="reader")
def test_ends_of_numbers(tmp_path: Path, form: str) -> None:
    rows: list[dict[str, Any]] = [
        {"b": True, "i": -(1 << 31), "l": -(1 << 63), "f": -3.4028234663852886e38, "d": -1.7976931348623157e308},
        {"b": False, "i": (1 << 31) - 1, "l": (1 << 63) - 1, "f": 1.401298464324817e-45, "d": 5e-324},
        {"b": None, "i": None, "l": None, "f": None, "d": None},
        {"b": True, "i": 0, "l": 0, "f": -0.0, "d": -0.0},
        {"b": True, "i": -1, "l": -1, "f": math.inf, "d": -math.inf},
        {"b": True, "i": 1, "l": 1, "f": math.nan, "d": math.nan},
    ]
    table = _table(tmp_path, rows, form, b="boolean", i="int", l="long", f="float", d="double")
    found = table.scan().to_arrow()
    assert found.schema.types == [pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
    # As text: NaN equals nothing, and 0 equals -0.
    assert [str(row) for row in found.to_pylist()] == [str(row) for row in rows]


@by_every_road
@_every_format
@pytest.mark.req("ICE-SCH-04", half="reader")
def test_an_integer_past_32_bits_is_refused(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "int"})
    longer = [{"id": 1, "name": "a", "type": "long"}]
    builder.commit(builder.data([{"a": 1 << 31}], fields=longer, format=form))
    with pytest.raises(SchemaError, match="the file stores int64, but the column has the type integer"):
        open_table(builder.root).scan().to_arrow()


@by_every_road
@_every_format
@pytest.mark.req("ICE-SCH-06", half="reader")
def test_dates_and_times_are_days_and_microseconds(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"d": "date", "t": "time"})
    schema = arrow_of(builder.fields)
    days = pa.array([17486, -1, None], pa.int32()).cast(pa.date32())
    micros = pa.array([81068000000, 86_399_999_999, None], pa.int64())
    if form == "orc":
        # ORC has no times: Iceberg's writers annotate integers.
        schema = schema.set(1, schema.field(1).with_type(pa.int64()))
    rows = pa.Table.from_arrays([days, micros.cast(schema.field("t").type)], schema=schema)
    builder.commit(builder.data(rows, format=form))
    found = open_table(builder.root).scan().to_arrow()
    assert found.schema.types == [pa.date32(), pa.time64("us")]
    assert found.column("d").to_pylist() == [dt.date(2017, 11, 16), dt.date(1969, 12, 31), None]
    assert found.column("t").to_pylist() == [dt.time(22, 31, 8), dt.time(23, 59, 59, 999999), None]


def _clocks(root: Path, form: str) -> Path:
    """Return a table with a wall clock time and an instant, as the numbers that are stored."""
    builder = IcebergBuilder(root / "t", {"wall": "timestamp", "instant": "timestamptz"})
    numbers = [pa.array([1510852234000000], pa.int64()), pa.array([1510881034000000], pa.int64())]
    schema = arrow_of(builder.fields)
    arrays = [found.cast(child.type) for found, child in zip(numbers, schema, strict=True)]
    builder.commit(builder.data(pa.Table.from_arrays(arrays, schema=schema), format=form))
    return builder.root


@_every_format
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Tokyo"])
@pytest.mark.req("ICE-SCH-07", "ICE-SCH-08", half="reader")
def test_walls_and_instants_in_any_zone(tmp_path: Path, form: str, zone: str) -> None:
    table = open_table(_clocks(tmp_path, form), "iceberg", timezone=zone)
    found = table.scan().to_arrow()
    assert found.schema.types == [pa.timestamp("us"), pa.timestamp("us", "UTC")]
    assert [column.cast(pa.int64()).to_pylist() for column in found.columns] == [[1510852234000000], [1510881034000000]]
    assert found.column("wall").to_pylist() == [dt.datetime(2017, 11, 16, 17, 10, 34)]
    for condition in (
        "wall = TIMESTAMP '2017-11-16 17:10:34'",
        "instant = TIMESTAMP '2017-11-16 17:10:34-08:00'",
        "instant = TIMESTAMP '2017-11-17 01:10:34Z'",
    ):
        assert table.scan(condition).count() == 1, condition
    assert table.scan("instant < TIMESTAMP '2017-11-16 17:10:34-08:00'").count() == 0


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")
@pytest.mark.req("ICE-SCH-07", "ICE-SCH-08", half="reader")
def test_walls_and_instants_in_any_session(tmp_path: Path, spark: Any) -> None:
    scan = open_table(_clocks(tmp_path, "parquet"), "iceberg").scan()
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone, instant in (("America/Los_Angeles", "2017-11-16 17:10:34"), ("UTC", "2017-11-17 01:10:34")):
            spark.conf.set("spark.sql.session.timeZone", zone)
            row = scan.to_spark(spark).selectExpr("string(wall) AS wall", "string(instant) AS instant").first()
            assert row is not None
            assert row.asDict() == {"wall": "2017-11-16 17:10:34", "instant": instant}
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@by_every_road
@_every_format
@pytest.mark.req("ICE-SCH-09", half="reader")
def test_text_and_bytes(tmp_path: Path, form: str) -> None:
    fixed = bytes(range(16))
    rows: list[dict[str, Any]] = [
        {"s": "日本 🎈", "u": _UUID.bytes, "x": fixed, "b": b""},
        {"s": "", "u": bytes(16), "x": bytes(16), "b": bytes(range(256))},
        {"s": None, "u": None, "x": None, "b": None},
    ]
    found = _table(tmp_path, rows, form, s="string", u="uuid", x="fixed[16]", b="binary").scan().to_arrow()
    assert found.schema.types == [pa.string(), pa.binary(16), pa.binary(16), pa.binary()]
    assert found.to_pylist() == rows
    assert uuid.UUID(bytes=found.column("u")[0].as_py()) == _UUID


@by_every_road
@_every_format
@pytest.mark.parametrize("wanted", ["fixed[16]", "uuid"])
@pytest.mark.req("ICE-SCH-09", half="reader")
def test_bytes_of_another_length_are_refused(tmp_path: Path, form: str, wanted: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": wanted})
    builder.commit(builder.data([{"a": bytes(15)}], fields=[{"id": 1, "name": "a", "type": "fixed[15]"}], format=form))
    with pytest.raises((CorruptDataFileError, SchemaError)) as caught:
        open_table(builder.root).scan().to_arrow()
    assert caught.value.context["column"] == "a"


@by_every_road
@_every_format
@pytest.mark.req("ICE-SCH-09", half="reader")
def test_text_that_is_not_utf_8_is_refused(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "string"})
    builder.commit(builder.data([{"a": b"\xff\xfe"}], fields=[{"id": 1, "name": "a", "type": "binary"}], format=form))
    with pytest.raises(CorruptDataFileError, match="a value stored as binary does not fit string"):
        open_table(builder.root).scan().to_arrow()


@by_every_road
@_every_format
@pytest.mark.parametrize("kind", ["decimal(1,0)", "decimal(9,2)", "decimal(18,18)", "decimal(38,0)", "decimal(38,38)"])
@pytest.mark.req("ICE-SCH-05", half="reader")
def test_decimals(tmp_path: Path, form: str, kind: str) -> None:
    precision, scale = (int(part) for part in kind[8:-1].split(","))
    largest = Decimal((0, (9,) * precision, -scale))
    smallest = Decimal((1, (1,), -scale))
    rows: list[dict[str, Any]] = [
        {"a": largest},
        {"a": -largest if precision < 38 else smallest},
        {"a": smallest},
        {"a": None},
    ]
    table = _table(tmp_path, rows, form, a=kind)
    assert table.arrow_schema.field("a").type == pa.decimal128(precision, scale)
    assert table.scan().to_arrow().to_pylist() == rows
    assert table.scan(f"a = {largest:f}").count() == 1


@pytest.mark.req("ICE-SCH-05", half="reader")
def test_a_decimal_of_39_digits_is_refused(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "decimal(39,2)"})
    builder.write()
    with pytest.raises(SchemaError, match=r"decimal\(39,2\)"):
        open_table(builder.root)


@by_every_road
@_every_format
@pytest.mark.req("ICE-SCH-19", half="reader")
def test_where_rows_are_from(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [
        builder.data([{"id": 10 * file + row} for row in range(5)], format=form, row_group_size=2) for file in range(2)
    ]
    builder.commit(*files)
    table = open_table(builder.root)
    found = table.scan(columns=["_pos", "id", "_file"]).to_arrow()
    assert found.schema.types == [pa.int64(), pa.int64(), pa.string()]
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"_pos": row, "id": 10 * file + row, "_file": files[file].path} for file in range(2) for row in range(5)
    ]
    # What a filter leaves keeps its place.
    assert table.scan("id = 13", columns=["_pos"]).to_arrow().to_pylist() == [{"_pos": 3}]
    assert table.scan().to_arrow().column_names == ["id"]


@by_every_road
@_every_format
@pytest.mark.req("ICE-SCH-19", half="reader")
def test_delete_files_name_rows_and_may_hold_them(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    file = builder.data([{"id": number} for number in range(4)], format=form)
    row = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    fields = [
        {"id": 2147483546, "name": "file_path", "type": "string"},
        {"id": 2147483545, "name": "pos", "type": "long"},
        {"id": 2147483544, "name": "row", "type": row},
    ]
    assert fields[1]["id"] == POS_ID
    rows = [{"file_path": file.path, "pos": pos, "row": {"id": pos}} for pos in (1, 3)]
    deletes = builder.data(rows, fields=fields, format=form)
    deletes.content = 1
    builder.commit(file, deletes)
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [{"id": 0}, {"id": 2}]


_POINT = struct.pack("<BIdd", 1, 1, 30.0, 10.0)


@by_every_road
@_every_format
@pytest.mark.parametrize("kind", ["geometry(srid:4326)", "geometry", "geography(OGC:CRS84, karney)", "geography"])
@pytest.mark.req("BEY-39", half="reader")
def test_shapes_are_well_known_binary_and_their_bounds_are_points(tmp_path: Path, form: str, kind: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "binary"}, format_version=3)
    bound = struct.pack("<dd", 30.0, 10.0)
    assert len(bound) == 16
    metrics = {name: {1: bound} for name in ("lower_bounds", "upper_bounds")}
    builder.commit(builder.data([{"a": _POINT}], format=form, metrics=metrics))
    builder.schemas = [[{"id": 1, "name": "a", "required": False, "type": kind}]]
    builder.write()
    table = open_table(builder.root, "iceberg")
    assert table.scan().to_arrow().to_pylist() == [{"a": _POINT}]
    # Bytes do not lie between points.
    assert table.scan(f"a = X'{_POINT.hex()}'").count() == 1
    assert table.scan(f"a <> X'{bound.hex()}'").count() == 1


def test_avro_stores_a_uuid_in_16_bytes(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"u": "uuid"})
    file = builder.data([{"u": _UUID.bytes}], format="avro")
    with Path(file.path).open("rb") as stored:
        schema: Any = fastavro.reader(stored).writer_schema
    kind = schema["fields"][0]["type"][1]
    assert (kind["type"], kind["size"], kind["logicalType"]) == ("fixed", 16, "uuid")
