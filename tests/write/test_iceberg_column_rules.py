"""Columns and values of Iceberg tables that the package writes (ICE-SCH)."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table
from deltaberg.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaError,
)
from deltaberg.iceberg import IcebergTable
from deltaberg.schema.types import DataType, Field, Fixed, List, Map, Primitive, Struct
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_FORMS = ("parquet", "orc", "avro")
_LONG, _TEXT = Primitive("long"), Primitive("string")


def _table(root: Path, columns: Any, form: str = "parquet", **more: Any) -> IcebergTable:
    properties = {"write.format.default": form}
    table: IcebergTable = create_table(root, columns, format="iceberg", properties=properties, **more)
    return table


def _only(name: str, kind: DataType, *, nullable: bool = True) -> Struct:
    return Struct((Field(name, kind, nullable=nullable),))


@pytest.mark.req("ICE-SCH-04", half="writer")
@pytest.mark.parametrize("form", _FORMS)
def test_boundary_values(tmp_path: Path, form: str) -> None:
    columns = {"b": pa.bool_(), "i": pa.int32(), "l": pa.int64(), "f": pa.float32(), "d": pa.float64()}
    rows = pa.table(
        {
            "b": [True, False],
            "i": pa.array([-(1 << 31), (1 << 31) - 1], pa.int32()),
            "l": [-(1 << 63), (1 << 63) - 1],
            "f": pa.array([1.401298464324817e-45, 3.4028234663852886e38], pa.float32()),
            "d": [5e-324, 1.7976931348623157e308],
        }
    )
    table = _table(tmp_path / "t", columns, form)
    table.append(rows)
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()
    with pytest.raises(SchemaError, match="a value does not fit the type integer"):
        table.append(pa.table({"i": [1 << 31]}))
    assert len(table.snapshots) == 1


@pytest.mark.req("ICE-SCH-05", "ICE-SCH-10", half="writer")
@pytest.mark.parametrize("version", [1, 2])
def test_types_are_only_widened(tmp_path: Path, version: int) -> None:
    columns = {
        "i": pa.int32(),
        "f": pa.float32(),
        "n": pa.decimal128(9, 2),
        "l": pa.int64(),
        "d": pa.float64(),
        "s": pa.string(),
    }
    properties = {"format-version": version}
    table = create_table(tmp_path / "t", columns, format="iceberg", properties=properties)
    table.append(pa.table({"i": pa.array([7], pa.int32()), "f": pa.array([1.5], pa.float32()), "n": [Decimal("1.25")]}))
    refused = [
        *(("l", pa.int32()), ("i", pa.float64()), ("i", pa.decimal128(12, 0)), ("n", pa.decimal128(8, 2))),
        *(("n", pa.decimal128(9, 3)), ("s", pa.binary()), ("s", pa.int64()), ("d", pa.float32())),
    ]
    for name, kind in refused:
        with pytest.raises(SchemaError, match=r"a column of the type \S.* cannot become"):
            table.alter().widen(name, kind).commit()
    # Spark's names of times are told apart from those of the specification.
    with pytest.raises(SchemaError, match=r"cannot become timestamp_ntz \(timestamp to Iceberg\)"):
        table.alter().widen("l", pa.timestamp("us")).commit()
    table.alter().widen("i", pa.int64()).widen("f", pa.float64()).widen("n", pa.decimal128(20, 2)).commit()
    (row,) = table.scan(columns=["i", "f", "n"]).to_arrow().to_pylist()
    assert row == {"i": 7, "f": 1.5, "n": Decimal("1.25")}
    with pytest.raises(SchemaError, match=r"decimal256\(39, 2\) has no type in tables"):
        create_table(tmp_path / "wide", {"n": pa.decimal256(39, 2)}, format="iceberg")


@pytest.mark.req("ICE-SCH-06", "ICE-SCH-07", "ICE-SCH-08", half="writer")
def test_instants_are_stored_as_microseconds(tmp_path: Path) -> None:
    names = {"t": "time", "d": "date", "y": "timestamp_ntz", "z": "timestamp"}
    columns = Struct(tuple(Field(name, Primitive(kind)) for name, kind in names.items()))
    table = _table(tmp_path / "t", columns)
    pacific = dt.timezone(dt.timedelta(hours=-8))
    wall, utc = dt.datetime(2017, 11, 16, 17, 10, 34), dt.datetime(2017, 11, 17, 1, 10, 34, tzinfo=dt.timezone.utc)
    table.append(
        pa.table(
            {
                "t": pa.array([dt.time(22, 31, 8)] * 2, pa.time64("us")),
                "d": [dt.date(2017, 11, 16)] * 2,
                "y": pa.array([wall] * 2, pa.timestamp("us")),
                "z": pa.array([wall.replace(tzinfo=pacific), utc], pa.timestamp("us", "UTC")),
            }
        )
    )
    (path,) = (tmp_path / "t/data").rglob("*.parquet")
    stored = pq.read_table(path)
    assert pq.ParquetFile(path).schema.to_arrow_schema().types[2:] == [
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
    ]
    found = [stored.column(name).cast(pa.int64() if name != "d" else pa.int32()).to_pylist() for name in names]
    assert found == [[81068000000] * 2, [17486] * 2, [1510852234000000] * 2, [1510881034000000] * 2]
    assert table.scan("z = TIMESTAMP '2017-11-16 17:10:34-08:00'").count() == 2


@pytest.mark.req("ICE-SCH-09", half="writer")
@pytest.mark.parametrize("form", _FORMS)
def test_texts_and_bytes(tmp_path: Path, form: str) -> None:
    columns = Struct(
        (Field("u", Primitive("uuid")), Field("c", Fixed(16)), Field("s", _TEXT), Field("x", Primitive("binary")))
    )
    table = _table(tmp_path / "t", columns, form)
    identity = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    row = {"u": identity.bytes, "c": b"0123456789abcdef", "s": "ä\U0001f600", "x": b""}
    kinds = pa.schema([("u", pa.binary(16)), ("c", pa.binary(16)), ("s", pa.string()), ("x", pa.binary())])
    table.append(pa.Table.from_pylist([row], kinds))
    assert table.scan().to_arrow().to_pylist() == [row]
    with pytest.raises(SchemaError, match="c"):
        table.append(pa.table({"c": pa.array([b"0123456789abcde"], pa.binary(15))}))
    with pytest.raises(SchemaError, match=r"does not fit the type fixed\(16\)"):
        table.append(pa.table({"c": pa.array([b"0123456789abcde"], pa.binary())}))
    assert len(table.snapshots) == 1


@pytest.mark.req("ICE-SCH-02", half="writer")
@pytest.mark.req("ICE-SCH-20")
@pytest.mark.parametrize("form", _FORMS)
def test_what_is_required_is_there(tmp_path: Path, form: str) -> None:
    elements = _only("l", List(Field("element", _LONG, nullable=False)))
    lists = _table(tmp_path / "l", elements, form)
    lists.append(pa.table({"l": [[1, 2], [], None]}))
    with pytest.raises(ConstraintViolationError, match=r"must not be null has 1 null \(column: l\.element"):
        lists.append(pa.table({"l": [[1, None]]}))
    required = _table(tmp_path / "r", _only("id", _LONG, nullable=False), form)
    required.append(ids(1))
    with pytest.raises(ConstraintViolationError, match=r"must not be null has 1 null \(column: id"):
        required.append(ids(2).append_column("x", pa.array([None], pa.int64())).select(["x"]).rename_columns(["id"]))
    key = Field("key", Struct((Field("a", Primitive("integer")),)), nullable=False)
    value = Field("value", List(Field("element", _TEXT)))
    maps = _table(tmp_path / "m", _only("m", Map(key, value)), form)
    kind = pa.map_(pa.struct([("a", pa.int32())]), pa.list_(pa.string()))
    rows = pa.table({"m": pa.array([[({"a": 1}, ["x", None])], [], None], kind)})
    maps.append(rows)
    assert maps.scan().to_arrow()["m"].to_pylist() == rows["m"].to_pylist()
    assert [len(one.snapshots) for one in (lists, required, maps)] == [1, 1, 1]


@pytest.mark.req("ICE-SCH-01", "ICE-SCH-17", half="writer")
@pytest.mark.req("ICE-SCH-12", "ICE-SCH-13")
def test_columns_come_and_go_under_ids_of_their_own(tmp_path: Path) -> None:
    inner = Struct((Field("x", _LONG, metadata={"doc": "of x"}),))
    columns = Struct(
        (
            Field("id", _LONG, metadata={"doc": "the key"}),
            Field("data", _TEXT),
            Field("l", List(Field("element", inner))),
        )
    )
    table = _table(tmp_path / "t", columns)
    table.append(pa.table({"id": [1], "data": ["d"], "l": [[{"x": 5}]]}))
    raw = table.metadata.raw["schemas"][0]["fields"]
    assert [field["id"] for field in raw] == [1, 2, 3]
    assert (raw[0]["doc"], raw[2]["type"]["element"]["fields"][0]["doc"]) == ("the key", "of x")
    last = table.metadata.raw["last-column-id"]
    assert last == 5
    table.alter().add("s", pa.struct([("x", pa.int64()), ("y", pa.int64())])).commit()
    added = table.metadata.raw["schemas"][-1]["fields"][-1]
    assert [added["id"], *(field["id"] for field in added["type"]["fields"])] == [6, 7, 8]
    table.alter().drop("s").add("z", pa.int64()).commit()
    assert table.metadata.raw["schemas"][-1]["fields"][-1]["id"] == 9
    assert table.metadata.raw["last-column-id"] == 9
    table.alter().rename("data", "payload").move("payload", first=True).add("l.element.y", pa.int64()).commit()
    shown = [(field["id"], field["name"]) for field in table.metadata.raw["schemas"][-1]["fields"]]
    assert shown == [(2, "payload"), (1, "id"), (3, "l"), (9, "z")]
    (row,) = table.scan().to_arrow().to_pylist()
    assert row == {"payload": "d", "id": 1, "l": [{"x": 5, "y": None}], "z": None}
    found = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().to_pylist()
    assert found == [row]


@pytest.mark.req("ICE-SCH-14")
def test_dropped_columns_come_back_if_they_may_be_null(tmp_path: Path) -> None:
    inner = Struct((Field("x", _LONG), Field("y", _LONG), Field("z", _LONG)))
    required = Field("q", _LONG, nullable=False)
    columns = Struct(
        (Field("id", _LONG), Field("n", Primitive("integer")), required, Field("l", List(Field("element", inner))))
    )
    table = _table(tmp_path / "t", columns)
    rows = [{"id": 1, "n": 5, "q": 7, "l": [{"x": 1, "y": 2, "z": 3}]}]
    table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    first = table.metadata.raw["schemas"][0]
    table.alter().drop("q").commit()
    table.alter().undrop("q").commit()
    assert table.metadata.current_schema.schema_id == first["schema-id"]
    table.alter().widen("n", pa.int64()).rename("l", "list").commit()
    table.alter().drop("q", "n", "list.element.y").commit()
    for name, error, message in (
        ("m", ColumnNotFoundError, "no column 'm' was dropped"),
        ("id", ColumnNotFoundError, "no column 'id' was dropped"),
        ("list.element.x", ColumnNotFoundError, "no column 'list.element.x' was dropped"),
    ):
        with pytest.raises(error, match=message):
            table.alter().undrop(name)
    late = table.alter().undrop("q")
    with table.transaction() as transaction:
        transaction.append(pa.table({"id": [2], "list": [[{"x": 4, "z": 5}]]}))
        with pytest.raises(SchemaError, match="is required, and rows may have been written"):
            transaction.alter().undrop("q")
    for refused in (late.commit, lambda: table.refresh().alter().undrop("q")):
        with pytest.raises(SchemaError, match="is required, and rows may have been written"):
            refused()
    table.alter().add("n", pa.string()).commit()
    with pytest.raises(SchemaError, match="another column has the name"):
        table.alter().undrop("n")
    table.alter().rename("n", "text").undrop("n", "list.element.y").commit()
    fields = [(field["id"], field["name"], field["type"]) for field in table.metadata.raw["schemas"][-1]["fields"]]
    assert fields[:2] == [(1, "id", "long"), (2, "n", "long")]
    read_back = table.scan(columns=["id", "n", "list"]).to_arrow().sort_by("id")
    assert read_back.to_pylist() == [
        {"id": 1, "n": 5, "list": [{"x": 1, "y": 2, "z": 3}]},
        {"id": 2, "n": None, "list": [{"x": 4, "y": None, "z": 5}]},
    ]
    theirs = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().sort_by("id")
    assert theirs.select(read_back.column_names).to_pylist() == read_back.to_pylist()
    open_table(tmp_path / "t", "iceberg", validate=True)
    before = table.snapshots[0].snapshot_id
    table.alter().rollback_to_snapshot(before).commit()
    # All rows of the table have a value now.
    table.alter().undrop("q").commit()
    assert table.scan().to_arrow()["q"].to_pylist() == [7]


@pytest.mark.req("ICE-SCH-15")
def test_fields_stay_in_their_struct(tmp_path: Path) -> None:
    kinds = {
        "s": pa.struct([("a", pa.int64()), ("b", pa.int64())]),
        "m": pa.map_(pa.string(), pa.int32()),
        "i": pa.int32(),
    }
    table = create_table(tmp_path / "t", kinds, format="iceberg")
    wrong = [("m.value", pa.struct([("x", pa.int32())])), ("i", pa.struct([("x", pa.int32())])), ("s", pa.int64())]
    for name, kind in wrong:
        with pytest.raises(SchemaError, match=r"a column of the type \S.* cannot become"):
            table.alter().widen(name, kind).commit()
    with pytest.raises(ColumnNotFoundError, match=r"s\.a is in another struct"):
        table.alter().move("i", after="s.a").commit()
    with pytest.raises(ColumnNotFoundError, match="there is no column 'i'"):
        table.alter().move("s.b", after="i").commit()
    assert open_table(tmp_path / "t", "iceberg").arrow_schema == table.arrow_schema


@pytest.mark.req("ICE-SCAN-21", half="writer")
def test_a_file_is_added_once(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg")
    table.append(ids(1))
    (path,) = (row["file_path"] for row in table.inspect("files").to_pylist())
    with pytest.raises(InvalidArgumentError, match="already"):
        table.add_files([path])
    assert len(table.snapshots) == 1
