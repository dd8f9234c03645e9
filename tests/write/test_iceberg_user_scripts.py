"""What users of pyiceberg do, step by step; pyiceberg and Polars read what was written."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FixedType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from deltaberg import IcebergTable, create_table, load_catalog
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.schema.arrow import VARIANT
from deltaberg.schema.types import Field, List, Primitive, Struct

pytestmark = pytest.mark.one_backend

_DAY = dt.date(2026, 1, 5)


def _catalogs(tmp_path: Path) -> tuple[Any, SqlCatalog]:
    """Return our catalog and pyiceberg's, which has the namespace ``s``."""
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    ours = load_catalog("shop", type="sql", uri=uri, warehouse=warehouse)
    theirs = SqlCatalog("shop", uri=uri, warehouse=warehouse)
    ours.create_namespace("s")
    return ours, theirs


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in one order, with the bytes of UUIDs."""
    kept = [{key: one.bytes if isinstance(one, uuid.UUID) else one for key, one in row.items()} for row in rows]
    return sorted(kept, key=repr)


def _check(table: IcebergTable, theirs: SqlCatalog, name: str, *, polars: bool = False) -> list[dict[str, Any]]:
    """Compare what we read with what others read, and return it."""
    rows = _plain(table.scan().to_arrow().to_pylist())
    peer = theirs.load_table(name)
    assert _plain(peer.scan().to_arrow().to_pylist()) == rows
    if polars:
        assert _plain(pl.scan_iceberg(peer).collect().to_dicts()) == rows
    return rows


def test_a_table_of_many_types(tmp_path: Path) -> None:
    ours, theirs = _catalogs(tmp_path)
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "at", TimestampType()),
        NestedField(3, "name", StringType(), doc="who"),
        NestedField(4, "tags", ListType(10, StringType(), element_required=False)),
        NestedField(5, "attrs", MapType(11, StringType(), 12, LongType(), value_required=False)),
        NestedField(6, "pos", StructType(NestedField(13, "x", DoubleType()), NestedField(14, "y", DoubleType()))),
        NestedField(7, "price", DecimalType(12, 2)),
        NestedField(8, "key", UUIDType()),
        NestedField(9, "code", FixedType(4)),
        NestedField(15, "hour", TimeType()),
        NestedField(16, "seen", TimestamptzType()),
        identifier_field_ids=[1],
    )
    table = ours.create_table(
        "s.t",
        schema,
        partition_spec=PartitionSpec(
            PartitionField(2, 1000, DayTransform(), "at_day"), PartitionField(1, 1001, BucketTransform(4), "id_bucket")
        ),
        sort_order=SortOrder(SortField(3, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST)),
        properties={"write.parquet.compression-codec": "gzip"},
    )
    assert [field.name for field in theirs.load_table("s.t").schema().fields] == [field.name for field in schema.fields]
    rows = {
        "id": [1, 2],
        "at": [dt.datetime(2026, 1, 1), None],
        "name": ["a", None],
        "tags": [["x"], []],
        "attrs": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        "pos": [{"x": 1.0, "y": None}, None],
        "price": [Decimal("-1.25"), None],
        "key": pa.array([uuid.UUID(int=1).bytes, None], pa.binary(16)),
        "code": pa.array([b"abcd", None], pa.binary(4)),
        "hour": [dt.time(23, 59, 59, 999999), None],
        "seen": [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), None],
    }
    table.append(pa.table(rows))
    _check(table, theirs, "s.t")
    table.upsert(pa.table({"id": [1, 3], "name": ["A", "N"]}))
    names = {row["id"]: row["name"] for row in _check(table, theirs, "s.t")}
    assert names == {1: "A", 2: None, 3: "N"}


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="pyarrow 18 brought UUIDs")
@pytest.mark.parametrize("version", [2, 3])
def test_arrow_types_of_a_new_table(tmp_path: Path, version: int) -> None:
    ours, theirs = _catalogs(tmp_path)
    nanos = pa.timestamp("ns")
    columns = {"at": nanos, "key": pa.uuid(), "code": pa.binary(3), "hour": pa.time64("us"), "n": pa.int8()}
    properties = {"format-version": version}
    table = ours.create_table("s.t", pa.schema(columns), properties=properties)
    instant = "timestamp_ns" if version == 3 else "timestamp"
    expected = {"at": instant, "key": "uuid", "code": "fixed[3]", "hour": "time", "n": "int"}
    assert {field.name: str(field.field_type) for field in theirs.load_table("s.t").schema().fields} == expected
    at = pa.array([1_700_000_000_000_001_000 + (version == 3)], nanos)
    rows = pa.table({"at": at, "key": pa.array([b"k" * 16], pa.uuid()), "code": [b"abc"], "hour": [dt.time(1)]})
    table.append(rows)
    table.append(rows.append_column("more", at), schema_mode="merge")
    table.alter().add("last", pa.list_(nanos)).commit()
    _check(table, theirs, "s.t")
    assert str(theirs.load_table("s.t").schema().find_type("more")) == instant
    table.overwrite(table.scan().to_arrow(), schema_mode="overwrite")
    assert {
        field.name: str(field.field_type) for field in theirs.load_table("s.t").schema().fields
    }.items() >= expected.items()
    create_table("s.t", columns, catalog=ours, partition_by="key", if_exists="replace")
    assert str(theirs.load_table("s.t").schema().find_type("at")) == instant
    if version == 2:
        with pytest.raises(SchemaError, match="below the microsecond"):
            table.refresh().append(pa.table({"at": pa.array([1], nanos)}))


@pytest.mark.full
def test_partitions_columns_and_rows_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = _catalogs(tmp_path)
    table = ours.create_table(
        "s.t", pa.schema({"id": pa.int32(), "a": pa.string(), "st": pa.struct({"x": pa.int32()})})
    )
    table.append(pa.table({"id": [1], "a": ["x"], "st": [{"x": 1}]}))
    change = table.alter().add("b", pa.float64()).add("st.y", pa.string()).rename("a", "aa").widen("id", pa.int64())
    change.move("b", first=True).partition_by("truncate(2, aa)", "bucket(3, id)").sort_by("b desc").commit()
    table.append(pa.table({"id": [1 << 40, 6], "aa": ["abc", "abd"], "b": [1.0, 2.0]}))
    table.alter().partition_by("aa").commit()
    table.append(pa.table({"id": [7], "aa": ["a/b=c d é"]}))
    table.overwrite(pa.table({"id": [8], "aa": ["abc"]}), dynamic=True)
    _check(table, theirs, "s.t")
    table.overwrite(pa.table({"id": [9], "aa": ["x"]}), where="aa = 'x'")
    table.delete("id = 6")
    table.alter().partition_by().drop("aa").commit()
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    rows = _check(table, theirs, "s.t", polars=True)
    assert sorted(row["id"] for row in rows) == [7, 8, 9]
    peer = theirs.load_table("s.t")
    peer.append(pa.table({"id": [10]}))
    assert table.refresh().scan().count() == 4


def test_rows_are_upserted_by_identifiers(tmp_path: Path) -> None:
    ours, theirs = _catalogs(tmp_path)
    schema = Schema(
        NestedField(1, "k", StringType(), required=True),
        NestedField(2, "n", IntegerType(), required=True),
        NestedField(3, "v", DoubleType()),
        identifier_field_ids=[1, 2],
    )
    parts = PartitionSpec(PartitionField(1, 1000, TruncateTransform(1), "k1"))
    properties = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    table = ours.create_table("s.t", schema, partition_spec=parts, properties=properties)
    keys = {"n": pa.int32()}
    kind = pa.schema({"k": pa.string(), **keys, "v": pa.float64()})
    table.append(pa.table({"k": ["aa", "ab", "b"], "n": [1, 2, 3], "v": [1.0, 2.0, 3.0]}, kind))
    table.upsert(pa.table({"k": ["aa", "zz"], "n": [1, 9], "v": [1.5, 9.0]}, kind))
    table.delete("v > 8")
    table.update({"v": "v + 1"}, "k like 'a%'")
    rows = _check(table, theirs, "s.t")
    assert [(row["k"], row["v"]) for row in rows] == [("aa", 2.5), ("ab", 3.0), ("b", 3.0)]
    table.compact()
    assert _check(table, theirs, "s.t") == rows
    theirs.load_table("s.t").append(
        pa.table({"k": ["r"], "n": [1], "v": [None]}, theirs.load_table("s.t").schema().as_arrow())
    )
    assert table.refresh().scan().count() == 4


def test_columns_of_version_3(tmp_path: Path) -> None:
    ours, theirs = _catalogs(tmp_path)
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "at", TimestampNanoType()),
        NestedField(3, "nothing", UnknownType()),
        NestedField(4, "v", IntegerType(), required=True, initial_default=5, write_default=7),
    )
    table = ours.create_table("s.t", schema, properties={"format-version": "3"})
    table.append(pa.table({"id": [1], "at": pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))}))
    table.alter().add("day", pa.date32(), default=_DAY).add(
        "price", pa.decimal128(9, 2), default=Decimal("1.5")
    ).commit()
    table.append(pa.table({"id": [2], "v": pa.array([1], pa.int32()), "nothing": pa.nulls(1)}))
    rows = _check(table, theirs, "s.t")
    assert [(row["v"], row["day"], row["price"]) for row in rows] == [
        (7, _DAY, Decimal("1.50")),
        (1, _DAY, Decimal("1.50")),
    ]
    with pytest.raises(SchemaError, match="cannot be written to a column of the type void"):
        table.append(pa.table({"nothing": [1]}))


def _point(x: float, y: float) -> bytes:
    """Return a point as WKB."""
    return struct.pack("<BIdd", 1, 1, x, y)


def test_shapes_are_written_as_bytes(tmp_path: Path) -> None:
    ours, _ = _catalogs(tmp_path)
    shapes = (GeometryType("srid:4326"), GeographyType(), ListType(5, GeometryType(), element_required=False))
    columns = [NestedField(number, f"c{number}", kind) for number, kind in enumerate(shapes, start=2)]
    schema = Schema(NestedField(1, "id", LongType()), *columns)
    properties = {"format-version": "3", "write.metadata.metrics.default": "full", "write.delete.mode": "merge-on-read"}
    table = ours.create_table("s.t", schema, properties=properties)
    rows = {"id": [1, 2], "c2": [_point(1, 2), None], "c3": [_point(3, 4)] * 2, "c4": [[_point(0, 0)], None]}
    table.append(pa.table(rows))
    (file,) = tmp_path.rglob("*.parquet")
    described = pq.ParquetFile(file).schema
    bounded = [1]
    if hasattr(pq.ColumnChunkMetaData, "geo_statistics"):
        bounded = [1, 2]
        kinds = [json.loads(described.column(number).logical_type.to_json()) for number in (1, 2, 3)]
        assert [kind["Type"] for kind in kinds] == ["Geometry", "Geography", "Geometry"]
        assert kinds[0]["crs"] == "srid:4326"
    (entry,) = table.inspect("entries").to_pylist()
    assert [number for number, _ in entry["data_file"]["lower_bounds"]] == bounded
    table.update({"id": "id + 10"}, "id = 2")
    table.delete("id = 1")
    table.compact()
    assert table.scan().to_arrow().to_pylist() == [{"id": 12, "c2": None, "c3": _point(3, 4), "c4": None}]
    schema = Schema(NestedField(1, "c", GeographyType("OGC:CRS84", "karney")))
    refused = ours.create_table("s.k", schema, properties={"format-version": "3"})
    with pytest.raises(UnsupportedFeatureError, match="its edges are karney"):
        refused.append(pa.table({"c": [_point(0, 0)]}))
    with pytest.raises(UnsupportedFeatureError, match=r"geometry\('srid:4326'\) are not written to ORC files"):
        table.alter().set({"write.format.default": "orc"})


def test_variants_are_written_unshredded(tmp_path: Path) -> None:
    kind = Struct(
        (
            Field("id", Primitive("long")),
            Field("v", Primitive("variant")),
            Field("more", List(Field("element", Primitive("variant")))),
        )
    )
    table = create_table(tmp_path / "t", kind, format="iceberg", properties={"format-version": "3"})
    value = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}
    rows = {"id": [1, 2], "v": pa.array([value, None], VARIANT), "more": pa.array([[value], None], pa.list_(VARIANT))}
    table.append(pa.table(rows))
    table.update({"id": "id + 10"}, "id = 2")
    wanted = [{"id": 1, "v": value, "more": [value]}, {"id": 12, "v": None, "more": None}]
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == wanted
    entry = table.inspect("entries").to_pylist()[0]["data_file"]
    # The element of the list is counted once, as the list is, and variants have no bounds.
    assert dict(entry["value_counts"]) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert [number for number, _ in entry["lower_bounds"]] == [1]
    with pytest.raises(SchemaError, match="cannot be written to a column of the type variant"):
        table.append(pa.table({"v": ["x"]}))
    with pytest.raises(UnsupportedFeatureError, match="variant are not written to AVRO files"):
        table.alter().set({"write.format.default": "avro"})


def test_properties_of_files_are_obeyed(tmp_path: Path) -> None:
    properties = {
        "write.parquet.row-group-limit": "400",
        "write.parquet.page-row-limit": "100",
        "write.parquet.bloom-filter-enabled.column.id": "true",
        "write.parquet.bloom-filter-enabled.column.tags.element": "true",
        "write.parquet.bloom-filter-enabled.column.flag": "true",
        "write.parquet.bloom-filter-fpp.column.id": "0.05",
        "write.parquet.bloom-filter-max-bytes": "256",
        "write.avro.compression-level": "1",
    }
    kind = {"id": pa.int64(), "tags": pa.list_(pa.string()), "flag": pa.bool_(), "x": pa.int64()}
    table = create_table(tmp_path / "t", kind, format="iceberg", properties=properties)
    numbers = list(range(1000))
    rows = {"id": numbers, "tags": [[str(n)] for n in numbers], "flag": [True] * 1000, "x": numbers}
    table.append(pa.table(rows))
    for name, value, match in (
        ("write.parquet.bloom-filter-fpp.column.id", "2", "between 0 and 1"),
        ("write.parquet.row-group-limit", "many", "positive whole number"),
        ("write.location-provider.impl", "com.example.Places", "com.example.Places chooses where"),
    ):
        with pytest.raises((InvalidArgumentError, UnsupportedFeatureError), match=match):
            table.alter().set({name: value})
    (file,) = tmp_path.rglob("*.parquet")
    footer = pq.ParquetFile(file).metadata
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [400, 400, 200]
    if "bloom_filter_options" not in inspect.signature(pq.ParquetWriter.__init__).parameters:
        pytest.skip("this pyarrow writes no Bloom filters")
    lengths = [groups[0].column(number).bloom_filter_length for number in range(4)]
    assert [length is not None for length in lengths] == [True, True, False, False]
    # A header, and a power of two.
    assert 256 <= max(length or 0 for length in lengths) < 512


def test_words_of_pyiceberg(tmp_path: Path) -> None:
    """Those that mean the same work, and others name what does the same."""
    table: Any = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg")
    rows = pa.table({"id": [1]})
    table.append(df=rows, snapshot_properties={"job": "7"})
    assert table.snapshots[-1].summary["job"] == "7"
    table.upsert(df=pa.table({"id": [1, 2]}), join_cols=["id"])
    table.delete(delete_filter="id = 1")
    assert table.scan().to_arrow().to_pylist() == [{"id": 2}]
    with pytest.raises(InvalidArgumentError, match=r"has no argument overwrite_filter\nhint: pass where="):
        table.overwrite(rows, overwrite_filter="id = 1")
