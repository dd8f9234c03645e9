"""Columns with defaults, rows with an identity, branches, tags and staged snapshots of Iceberg tables."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.errors import InvalidArgumentError, SchemaError
from tests.write.small_iceberg import as_pyiceberg_reads as _as_pyiceberg_reads
from tests.write.small_iceberg import new_table as _new
from tests.write.small_iceberg import rows_of as _rows

pytestmark = pytest.mark.one_backend


@pytest.mark.req("BEY-32", half="writer")
def test_new_columns_have_defaults(tmp_path: Path) -> None:
    table = _new(tmp_path)
    table.append(_rows(1))
    change = table.alter().add("n", pa.int64(), default=7, required=True).add("kind", pa.string(), default="a")
    change.add("plain", pa.float64()).commit()
    table.append(pa.table({"id": pa.array([2], pa.int32()), "kind": pa.array([None], pa.string())}))
    table.alter().set_default("n", 8).set_default("kind", None).commit()
    table.append(_rows(3))
    got = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["n"], row["kind"], row["plain"]) for row in got] == [(7, "a", None), (7, None, None), (8, None, None)]
    assert _as_pyiceberg_reads(table) == got
    fields = [dict(found) for found in table.metadata.raw["schemas"][-1]["fields"]]
    assert [(found.get("initial-default"), found.get("write-default")) for found in fields[2:]] == [
        (7, 8),
        ("a", None),
        (None, None),
    ]
    with pytest.raises(SchemaError, match="would have no value"):
        table.alter().add("r", pa.int64(), required=True)
    with pytest.raises(InvalidArgumentError, match="cannot be written as a value"):
        table.alter().add("r", pa.int64(), default="x")
    with pytest.raises(SchemaError, match="have no default values"):
        table.alter().add("r", pa.list_(pa.int64()), default=[1])
    with pytest.raises(SchemaError, match="format version 2 has no default values"):
        _new(tmp_path / "old", "2").alter().add("r", pa.int64(), default=1)


@pytest.mark.req("BEY-32", half="writer")
def test_timestamps_of_nanoseconds_have_datetimes_as_defaults(tmp_path: Path) -> None:
    table = _new(tmp_path)
    table.append(_rows(1))
    local, zoned = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    change = table.alter().add("local", pa.timestamp("ns"), default=local)
    change.add("zoned", pa.timestamp("ns", "UTC"), default=zoned).set_default("local", pd.Timestamp(1)).commit()
    table.append(_rows(2))
    found = table.scan(columns=["local", "zoned"]).to_arrow().sort_by([("local", "ascending")])
    assert [found[name].cast(pa.int64()).to_pylist() for name in found.column_names] == [
        [-1000, 1],
        [1_577_836_800_000_000_000] * 2,
    ]
    with pytest.raises(InvalidArgumentError, match="cannot be written as a value of type timestamp_ntz_ns"):
        table.alter().set_default("local", zoned)


@pytest.mark.req("BEY-32", half="writer")
@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_the_fields_of_a_new_struct_have_defaults(tmp_path: Path, form: str) -> None:
    columns = pa.schema([("id", pa.int64())])
    properties = {"format-version": "3", "write.format.default": form}
    table = create_table(tmp_path / "t", columns, format="iceberg", properties=properties)
    table.append(pa.table({"id": [1]}, columns))
    point = pa.struct([("x", pa.int32()), ("name", pa.string())])
    table.alter().add("point", point).add("point.y", pa.int32(), default=0, required=True).commit()
    table.append(pa.table({"id": [2], "point": pa.array([{"name": "a"}], pa.struct([("name", pa.string())]))}))
    table.alter().set_default("point.x", 5).commit()
    table.append(pa.table({"id": [3], "point": pa.array([{"name": "b"}], pa.struct([("name", pa.string())]))}))
    found = dict(table.metadata.raw["schemas"][-1]["fields"][1])
    assert "initial-default" not in found
    assert "write-default" not in found
    got = {row["id"]: row["point"] for row in table.scan().to_arrow().to_pylist()}
    assert got == {1: None, 2: {"x": None, "name": "a", "y": 0}, 3: {"x": 5, "name": "b", "y": 0}}


@pytest.mark.parametrize("default", [{}, {"x": 1}, {"x": 1, "y": 2}, {"z": 1}], ids=str)
def test_structs_have_no_defaults_of_their_own(tmp_path: Path, default: dict[str, int]) -> None:
    """The specification allows empty ones, but iceberg-java loads no table with one, wherever the struct is."""
    table = _new(tmp_path)
    point = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    table.alter().add("s", pa.struct([("p", point)])).commit()
    before = table.metadata.raw
    for name in ("point", "s.point"):
        for required in (False, True):
            with pytest.raises(SchemaError, match="a struct has no default") as caught:
                table.alter().add(name, point, default=default, required=required)
            assert f'set_default("{name}.FIELD", value)' in str(caught.value.hint)
            assert caught.value.context["column"] == name
    with pytest.raises(SchemaError, match="a struct has no default"):
        table.alter().set_default("s.p", default)
    assert table.refresh().metadata.raw == before
    table.alter().set_default("s.p", None).commit()


@pytest.mark.req("BEY-32", half="writer")
@pytest.mark.parametrize("type", [pa.null(), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())])
def test_types_whose_default_is_null(tmp_path: Path, type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="have no default values"):
        _new(tmp_path).alter().add("x", type, default=[])


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_fields_that_structs_lack_have_defaults(tmp_path: Path, form: str) -> None:
    inner = pa.struct([("x", pa.int64())])
    columns = pa.schema([("id", pa.int64()), ("s", inner), ("k", pa.list_(inner))])
    properties = {"format-version": "3", "write.format.default": form}
    table = create_table(tmp_path / "t", columns, format="iceberg", properties=properties)
    old = {"id": 1, "s": {"x": 1}, "k": [{"x": 2}]}
    table.append(pa.Table.from_pylist([old], columns))
    change = table.alter().add("s.n", pa.int64(), default=7, required=True)
    change.add("k.element.t", pa.string(), default="a").commit()
    table.append(pa.Table.from_pylist([{"id": 2, "s": {"x": 3}, "k": [{"x": 4}, None]}, {"id": 3}], columns))
    table.alter().set_default("s.n", 8).commit()
    given = pa.struct([("x", pa.int64()), ("t", pa.string())])
    table.append(pa.table({"id": [4], "s": pa.array([{"x": 5}], inner), "k": pa.array([[{"x": 6}]], pa.list_(given))}))
    table.delete("id = 0")
    table.update({"id": "id + 10"}, "id < 3")
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 3, "s": None, "k": None},
        {"id": 4, "s": {"x": 5, "n": 8}, "k": [{"x": 6, "t": None}]},
        {"id": 11, "s": {"x": 1, "n": 7}, "k": [{"x": 2, "t": "a"}]},
        {"id": 12, "s": {"x": 3, "n": 7}, "k": [{"x": 4, "t": "a"}, None]},
    ]
    # Of rows that are there, an upsert would lose what they hold.
    with pytest.raises(SchemaError, match="n"):
        table.upsert(pa.table({"id": [4], "s": pa.array([{"x": 5}], inner)}), "id")


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_identity_and_wider_types(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path, version, partition_by="bucket(4, id)")
    table.append(_rows(1))
    table.alter().identify_by("id").commit()
    assert table.metadata.current_schema.identifier_field_ids == (1,)
    with pytest.raises(SchemaError, match="may be null"):
        table.alter().identify_by("name")
    wide = pa.table({"id": pa.array([1 << 40], pa.int64()), "name": ["b"], "s": [{"x": pa.scalar(1, pa.int32())}]})
    with pytest.raises(SchemaError, match="the rows have columns that the table does not have: s"):
        table.append(wide)
    table.append(wide.set_column(2, "s", pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))), schema_mode="merge")
    table.append(pa.table({"id": pa.array([3], pa.int32()), "s": pa.array([{"x": 1, "y": 0.5}])}), schema_mode="merge")
    assert str(table.schema) == "struct<id: long, name: string, s: struct<x: long, y: double>>"
    got = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [row["id"] for row in got] == [1, 3, 1 << 40]
    assert _as_pyiceberg_reads(table) == got
    assert table.scan("id = 3").files().num_rows == 1
    table.alter().identify_by().commit()
    assert not table.metadata.current_schema.identifier_field_ids


def test_dates_widen_only_where_partitions_stay(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("d", pa.date32())])
    table = create_table(
        tmp_path / "t",
        columns,
        format="iceberg",
        partition_by=["month(d)"],
        properties={"format-version": "3"},
    )
    table.alter().widen("d", pa.timestamp("us")).commit()
    other = create_table(
        tmp_path / "u", columns, format="iceberg", partition_by="d", properties={"format-version": "3"}
    )
    with pytest.raises(SchemaError, match="would have other values"):
        other.alter().widen("d", pa.timestamp("us"))
