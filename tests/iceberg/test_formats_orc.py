"""ORC data files, as Iceberg writes them (Appendix A)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from deltaberg import open_table
from deltaberg.errors import CorruptDataFileError, SchemaError
from tests.iceberg.columns_json import field_json
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.roads import Road, by_every_road


def _file(builder: IcebergBuilder, table: pa.Table) -> IcebergFile:
    """Write an ORC file."""
    file = builder.data([], fields=[field_json(1, "a", "long")], format="orc")
    orc.write_table(table, file.path)
    file.rows, file.size = len(table), Path(file.path).stat().st_size
    return file


def _with_id(name: str, kind: pa.DataType, number: int, **attributes: str) -> pa.Field:
    marks = {"iceberg.id": str(number)} | {key.replace("_", "."): value for key, value in attributes.items()}
    return pa.field(name, kind, metadata=marks)


def _read(builder: IcebergBuilder) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(builder.root).scan().to_arrow().to_pylist()
    return found


@pytest.mark.req("ICE-ORC-01", half="reader")
def test_types(tmp_path: Path, road: Road) -> None:
    entry = {"type": "struct", "fields": [field_json(20, "a", "long"), field_json(21, "b", "string")]}
    kinds: dict[str, Any] = {
        "boolean": "boolean",
        "int": "int",
        "long": "long",
        "float": "float",
        "double": "double",
        "decimal": "decimal(20,3)",
        "date": "date",
        "string": "string",
        "binary": "binary",
        "struct": entry,
        "list": {"type": "list", "element-id": 30, "element-required": False, "element": "int"},
        "map": {
            "type": "map",
            "key-id": 31,
            "key": "string",
            "value-id": 32,
            "value-required": False,
            "value": "long",
        },
    }
    fields = [field_json(number, name, kind) for number, (name, kind) in enumerate(kinds.items(), start=1)]
    rows: list[dict[str, Any]] = [
        {
            "boolean": True,
            "int": -(1 << 31),
            "long": (1 << 63) - 1,
            "float": -1.5,
            "double": 5e-324,
            "decimal": Decimal("-12345678901234567.890"),
            "date": dt.date(1969, 7, 20),
            "string": "\U0001f4b0",
            "binary": b"\xff\x00",
            "struct": {"a": None, "b": ""},
            "list": [1, None, 3],
            "map": [("k", None), ("l", 2)],
        },
        dict.fromkeys(kinds),
    ]
    builder = IcebergBuilder(tmp_path / "t", fields)
    builder.commit(builder.data(rows, format="orc"))
    found = road.rows(open_table(builder.root).scan())
    assert sorted(found, key=repr) == sorted(rows, key=repr)


@pytest.mark.req("ICE-ORC-01", half="reader")
@pytest.mark.parametrize("kind", [pa.int8(), pa.int16()])
@pytest.mark.parametrize("wanted", ["int", "long"])
def test_small_integers(tmp_path: Path, kind: pa.DataType, wanted: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": wanted})
    table = pa.table({"a": pa.array([-128, None, 127], kind)}, pa.schema([_with_id("a", kind, 1)]))
    file = _file(builder, table)
    assert orc.ORCFile(file.path).schema.field("a").type == kind
    builder.commit(file)
    assert [row["a"] for row in _read(builder)] == [-128, None, 127]
    assert open_table(builder.root).scan("a > 0").count() == 1


@by_every_road
@pytest.mark.req("ICE-ORC-02", half="reader")
def test_times_are_integers(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "time"})
    schema = pa.schema([_with_id("a", pa.int64(), 1, **{"iceberg_long-type": "TIME"})])
    builder.commit(_file(builder, pa.table({"a": [81_068_000_000, None, 0]}, schema)))
    assert [row["a"] for row in _read(builder)] == [dt.time(22, 31, 8), None, dt.time(0)]
    assert open_table(builder.root).arrow_schema.field("a").type == pa.time64("us")


@pytest.mark.req("ICE-ORC-03", half="reader")
def test_timestamps_with_and_without_zone(tmp_path: Path, road: Road) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "timestamp", "b": "timestamptz"})
    stamp = dt.datetime(2017, 11, 16, 22, 31, 8)
    rows = [{"a": stamp, "b": stamp.replace(tzinfo=dt.timezone.utc)}]
    file = builder.data(rows, format="orc")
    kinds = orc.ORCFile(file.path).schema
    assert (kinds.field("a").type.tz, kinds.field("b").type.tz) == (None, "UTC")
    builder.commit(file)
    found = road.table(open_table(builder.root).scan())
    assert found.column("a").to_pylist() == [stamp]
    assert found.column("b").cast(pa.int64()).to_pylist() == [1_510_871_468_000_000]


@by_every_road
@pytest.mark.req("ICE-ORC-04", half="reader")
@pytest.mark.parametrize("kind", ["uuid", "fixed[16]"])
@pytest.mark.parametrize("length", [15, 16, 17])
def test_lengths_of_bytes(tmp_path: Path, kind: str, length: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": kind})
    attributes = {"iceberg_binary-type": "UUID" if kind == "uuid" else "FIXED", "iceberg_length": "16"}
    schema = pa.schema([_with_id("a", pa.binary(), 1, **attributes)])
    builder.commit(_file(builder, pa.table({"a": [None, b"x" * length]}, schema)))
    if length == 16:
        assert _read(builder) == [{"a": None}, {"a": b"x" * 16}]
        return
    with pytest.raises(CorruptDataFileError, match="does not fit") as raised:
        _read(builder)
    assert raised.value.context["column"] == "a"


@by_every_road
@pytest.mark.req("ICE-ORC-05", half="reader")
def test_required_columns(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", [field_json(1, "a", "long") | {"required": True}])
    schema = pa.schema([_with_id("a", pa.int64(), 1, iceberg_required="true")])
    file = _file(builder, pa.table({"a": [1]}, schema))
    assert orc.ORCFile(file.path).schema.field("a").metadata == {b"iceberg.id": b"1", b"iceberg.required": b"true"}
    builder.commit(file)
    assert _read(builder) == [{"a": 1}]


@by_every_road
@pytest.mark.req("ICE-ORC-06")
def test_columns_by_id(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", [field_json(1, "a", "int"), field_json(2, "b", "string")])
    builder.commit(builder.data([{"a": 1, "b": "x"}, {"a": 2, "b": None}], format="orc"))
    builder.schemas.append([field_json(2, "a", "string"), field_json(3, "c", "date")])
    builder.commit()
    assert _read(builder) == [{"a": "x", "c": None}, {"a": None, "c": None}]
    assert open_table(builder.root).scan("a = 'x'", ["c"]).to_arrow().to_pylist() == [{"c": None}]


@by_every_road
@pytest.mark.req("ICE-ORC-07")
def test_nested_columns_by_id(tmp_path: Path) -> None:
    old = {"type": "struct", "fields": [field_json(2, "b", "string"), field_json(3, "c", "date")]}
    new = {"type": "struct", "fields": [field_json(3, "cc", "date"), field_json(2, "bb", "string")]}
    day = dt.date(2017, 11, 16)
    builder = IcebergBuilder(tmp_path / "t", [field_json(1, "a", old)])
    builder.commit(builder.data([{"a": {"b": "x", "c": day}}, {"a": None}], format="orc"))
    builder.schemas.append([field_json(1, "aa", new)])
    builder.commit()
    assert _read(builder) == [{"aa": {"cc": day, "bb": "x"}}, {"aa": None}]
    assert [list(row["aa"] or ()) for row in _read(builder)] == [["cc", "bb"], []]


@pytest.mark.req("ICE-ORC-08")
@pytest.mark.parametrize("wanted", ["int", "string", {"type": "struct", "fields": [field_json(9, "tag", "int")]}])
def test_unions_are_refused(tmp_path: Path, wanted: Any) -> None:
    builder = IcebergBuilder(tmp_path / "t", [field_json(1, "a", wanted), field_json(2, "b", "long")])
    values = [pa.array([1], pa.int32()), pa.array(["x"])]
    union = pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), values)
    schema = pa.schema([_with_id("a", union.type, 1), _with_id("b", pa.int64(), 2)])
    builder.commit(_file(builder, pa.table([union, pa.array([5, 6])], schema=schema)))
    with pytest.raises(SchemaError, match=r"the file stores .*union") as raised:
        _read(builder)
    assert raised.value.context["column"] == "a"
    assert open_table(builder.root).scan(columns=["b"]).to_arrow().column("b").to_pylist() == [5, 6]


@pytest.mark.req("ICE-ORC-09", half="reader")
@pytest.mark.parametrize(
    ("nanos", "micros"),
    [(1_510_871_468_123_456_789, 1_510_871_468_123_456), (-1, -1), (-1_000_000_001, -1_000_001), (999, 0)],
)
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_are_cut(tmp_path: Path, nanos: int, micros: int, zone: str | None) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "timestamptz" if zone else "timestamp"})
    kind = pa.timestamp("ns", zone)
    table = pa.table([pa.array([nanos], pa.int64()).cast(kind)], schema=pa.schema([_with_id("a", kind, 1)]))
    builder.commit(_file(builder, table))
    assert open_table(builder.root).scan().to_arrow().column("a").cast(pa.int64()).to_pylist() == [micros]


def test_rows_of_many_stripes(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": "long", "b": "string"})
    schema = pa.schema([_with_id("a", pa.int64(), 1), _with_id("b", pa.string(), 2)])
    texts = [hex(number * 2_654_435_761) for number in range(20_000)]
    file = builder.data([], format="orc")
    with orc.ORCWriter(file.path, stripe_size=65_536, batch_size=1024) as writer:
        writer.write(pa.table([range(20_000), texts], schema=schema))
    file.rows, file.size = 20_000, Path(file.path).stat().st_size
    assert orc.ORCFile(file.path).nstripes > 1
    builder.commit(file, builder.position_deletes([(file, 0), (file, 19_999)]))
    scan = open_table(builder.root).scan("a >= 0", ["a", "_pos", "b"], batch_size=777)
    found = scan.to_arrow()
    assert found.column("a").to_pylist() == found.column("_pos").to_pylist() == list(range(1, 19_999))
    assert found.column("b").to_pylist() == texts[1:-1]
