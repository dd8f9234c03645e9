"""Data files of Iceberg tables: their Parquet columns, their paths, and the entries of manifests for them."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table
from deltaberg.errors import SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.location.new_files import DataPaths, data_location
from deltaberg.iceberg.manifests.entries import added_entries, leaves_with_metrics
from deltaberg.iceberg.manifests.metrics_modes import MetricsMode, cut_upper, metrics_modes
from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.assign import PartitionPaths, partition_rows_by
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.schema.types import Decimal, Field, Fixed, List, Map, Primitive, Struct
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files

pytestmark = pytest.mark.one_backend

_LONG, _TEXT, _DOUBLE = Primitive("long"), Primitive("string"), Primitive("double")
_WIDE = Struct(
    (
        Field("a", _LONG, nullable=False, id=1),
        Field("name", _TEXT, id=2),
        Field("tags", List(Field("element", _DOUBLE, id=4)), id=3),
        Field("by", Map(Field("key", _TEXT, False, id=6), Field("value", Primitive("integer"), id=7)), id=5),
        Field("s", Struct((Field("x", _DOUBLE, id=9), Field("u", Primitive("uuid"), id=10))), id=8),
        Field("small", Decimal(9, 2), id=11),
        Field("large", Decimal(19, 2), id=12),
        Field("raw", Fixed(5), id=13),
        Field("at", Primitive("timestamp"), id=14),
        Field("day", Primitive("date"), id=15),
    )
)
_ROWS = pa.table(
    {
        "a": [1, 2, 3, 4],
        "name": ["x" * 20, None, "b", "c"],
        "tags": pa.array([[1.0, None], [], None, [2.0]], pa.list_(pa.float64())),
        "by": pa.array([[("k", 1)], None, [], [("l", None)]], pa.map_(pa.string(), pa.int32())),
        "s": [{"x": 1.0, "u": b"u" * 16}, {"x": math.nan, "u": None}, None, {"x": 2.0, "u": None}],
        "small": pa.array([1, 2, None, 3], pa.decimal128(9, 2)),
        "large": pa.array([1, 2, None, 3], pa.decimal128(19, 2)),
        "raw": pa.array([b"12345"] * 4, pa.binary(5)),
        "at": pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)] * 4, pa.timestamp("us", "UTC")),
        "day": pa.array([dt.date(2020, 1, 1)] * 4),
    }
)


def _entries(
    root: Path, schema: Struct, rows: pa.Table, properties: Mapping[str, str], spec: PartitionSpec | None = None
) -> list[dict[str, Any]]:
    spec = spec or PartitionSpec(0)
    place = parse_location(root)
    modes = metrics_modes(schema, properties)
    write_spec = WriteSpec(
        schema,
        partition_rows_by(spec, schema),
        stores_partition_columns=True,
        required=True,
        footers=True,
        statistics=leaves_with_metrics(schema, modes),
    )
    files = write_files(rows, write_spec, open_store(place), place.path)
    found = added_entries(files, str(place), schema, partition_struct(spec, [schema]), modes)
    return [
        {name: dict(value) if name.endswith(_MAPS) and value else value for name, value in entry.items()}
        for entry in found.to_pylist()
    ]


_FLAGS = "is_from_converted_type=false, force_set_converted_type=false"
_MAPS = ("_counts", "_bounds", "_sizes")


@pytest.mark.req(*(f"ICE-PQ-0{number}" for number in (1, 2, 3, 4, 5, 6)), half="writer")
def test_parquet_columns_have_ids_and_types(tmp_path: Path) -> None:
    (entry,) = _entries(tmp_path, _WIDE, _ROWS, {})
    shown = str(pq.ParquetFile(Path(entry["file_path"].removeprefix("file://"))).schema).splitlines()[1:]
    assert [line.strip() for line in shown if "field_id" in line][1:] == [
        "required int64 field_id=1 a;",
        "optional binary field_id=2 name (String);",
        "optional group field_id=3 tags (List) {",
        "repeated group field_id=-1 list {",
        "optional double field_id=4 element;",
        "optional group field_id=5 by (Map) {",
        "repeated group field_id=-1 key_value {",
        "required binary field_id=6 key (String);",
        "optional int32 field_id=7 value;",
        "optional group field_id=8 s {",
        "optional double field_id=9 x;",
        "optional fixed_len_byte_array(16) field_id=10 u (UUID);",
        "optional int32 field_id=11 small (Decimal(precision=9, scale=2));",
        "optional fixed_len_byte_array(9) field_id=12 large (Decimal(precision=19, scale=2));",
        "optional fixed_len_byte_array(5) field_id=13 raw;",
        f"optional int64 field_id=14 at (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, {_FLAGS}));",
        "optional int32 field_id=15 day (Date);",
    ]
    read = pq.read_table(entry["file_path"].removeprefix("file://"))
    assert read["a"].to_pylist() == [1, 2, 3, 4]


@pytest.mark.req("ICE-MAN-12", "ICE-MAN-16", "ICE-MAN-17", "ICE-MAN-18", "ICE-MAN-19", half="writer")
@pytest.mark.req("ICE-PQ-08", half="writer")
def test_entries_hold_what_the_files_hold(tmp_path: Path) -> None:
    (entry,) = _entries(tmp_path, _WIDE, _ROWS, {})
    path = Path(entry["file_path"].removeprefix("file://"))
    footer = pq.read_metadata(path)
    chunks = [footer.row_group(0).column(index) for index in range(footer.num_columns)]
    ids = [1, 2, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15]
    assert entry["status"] == 1
    assert entry["sequence_number"] is None
    assert (entry["record_count"], entry["file_size_in_bytes"]) == (4, path.stat().st_size)
    sizes = {number: chunk.total_compressed_size for number, chunk in zip(ids, chunks, strict=True)}
    assert entry["column_sizes"] == sizes
    # No footer tells how many lists, maps and structs are null.
    nested = {3: "tags", 5: "by", 8: "s"}
    values = {number: chunk.num_values for number, chunk in zip(ids, chunks, strict=True)}
    assert entry["value_counts"] == values | dict.fromkeys(nested, 4)
    nulls = {number: chunk.statistics.null_count for number, chunk in zip(ids, chunks, strict=True)}
    assert entry["null_value_counts"] == nulls | dict.fromkeys(nested, 1)
    assert entry["nan_value_counts"] == {9: 1}
    assert entry["split_offsets"] == [4]
    assert entry["lower_bounds"][2] == b"b"
    assert entry["upper_bounds"][2] == b"x" * 15 + b"y"
    assert entry["lower_bounds"][9] == bytes.fromhex("000000000000f03f")
    assert not {3, 4, 5, 6, 7, 8} & (entry["lower_bounds"].keys() | entry["upper_bounds"].keys())


@pytest.mark.req("ICE-BIN-12", half="writer")
def test_modes_choose_metrics(tmp_path: Path) -> None:
    names = "abcdef"
    schema = Struct(tuple(Field(name, _DOUBLE, id=number) for number, name in enumerate(names, 1)))
    rows = pa.table({name: [math.nan, -0.0, 0.0] for name in names})
    column = "write.metadata.metrics.column."
    given = {f"{column}a": "none", f"{column}b": "counts", f"{column}c": "full", f"{column}d": "nonsense"}
    (entry,) = _entries(tmp_path, schema, rows, {**given, "write.metadata.metrics.max-inferred-column-defaults": "4"})
    assert set(entry["value_counts"]) == set(entry["column_sizes"]) == {2, 3, 4}
    zero = "0000000000000000"
    assert {number: bound.hex() for number, bound in entry["lower_bounds"].items()} == dict.fromkeys(
        (3, 4), "80".rjust(16, "0")
    )
    assert {number: bound.hex() for number, bound in entry["upper_bounds"].items()} == dict.fromkeys((3, 4), zero)
    (entry,) = _entries(tmp_path, schema, pa.table({"a": [math.nan]}), {"write.metadata.metrics.default": "counts"})
    assert entry["lower_bounds"] is None
    assert entry["nan_value_counts"][1] == 1
    assert metrics_modes(schema, {"write.metadata.metrics.default": "none"}, [2])[2] == MetricsMode(length=16)


@pytest.mark.parametrize(
    ("value", "length", "cut"),
    [("zz", 2, "zz"), ("zzz", 2, "z{"), ("\ud7ffb", 1, "\ue000"), ("\U0010ffffb", 1, None), (b"\x01\xffa", 2, b"\x02")],
)
@pytest.mark.req("ICE-MAN-19", half="writer")
def test_upper_bounds_are_cut_upward(value: Any, length: int, cut: Any) -> None:
    assert cut_upper(value, length) == cut


@pytest.mark.req("ICE-PART-01", "ICE-PART-03", half="writer")
def test_rows_are_divided_by_transforms(tmp_path: Path) -> None:
    schema = Struct(
        (
            Field("id", _LONG, id=1),
            Field("loc", Struct((Field("country", _TEXT, id=3),)), id=2),
            Field("ts", Primitive("timestamp_ntz"), id=4),
        )
    )
    parts = (
        PartitionField((4,), 1000, "ts_day", "day"),
        PartitionField((3,), 1001, "loc.country", "identity"),
        PartitionField((1,), 1002, "id_bucket", "bucket[16]"),
        PartitionField((99,), 1003, "gone", "void"),
    )
    days = [dt.datetime(2017, 11, 16, 22, 31, 8), dt.datetime(1969, 12, 31, 23), dt.datetime(2017, 11, 16), None]
    rows = pa.table(
        {"id": [34, 34, 34, None], "loc": [{"country": "a b"}, {"country": None}, {"country": "a b"}, None], "ts": days}
    )
    entries = _entries(tmp_path, schema, rows, {}, PartitionSpec(3, parts))
    found = {tuple(entry["partition"].values()): entry["record_count"] for entry in entries}
    day = dt.date(2017, 11, 16)
    assert found == {
        (day, "a b", 3, None): 2,
        (dt.date(1969, 12, 31), None, 3, None): 1,
        (None, None, None, None): 1,
    }
    paths = pickle.loads(pickle.dumps(PartitionPaths(PartitionSpec(3, parts), [schema])))
    values = [pa.scalar(day), pa.scalar("a b/ü~*"), pa.scalar(3, pa.int32()), pa.scalar(None, pa.string())]
    assert paths.of(values) == "ts_day=2017-11-16/loc.country=a+b%2F%C3%BC%7E*/id_bucket=3/gone=null"
    (entry,) = _entries(tmp_path / "plain", schema, rows, {})
    assert entry["partition"] == {}
    with pytest.raises(SchemaError, match="outside of lists and maps"):
        partition_rows_by(PartitionSpec(0, (PartitionField((4,), 1000, "p", "identity"),)), _WIDE)
    with pytest.raises(UnsupportedFeatureError, match="zorder"):
        partition_rows_by(PartitionSpec(0, (PartitionField((1,), 1000, "p", "zorder"),)), schema)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_values_that_are_too_long_for_directories(tmp_path: Path, mode: str) -> None:
    """File systems have no names of more than 255 bytes. Nobody takes values from the names of directories."""
    schema = pa.schema({"id": pa.int64(), **{f"p{number}": pa.string() for number in range(4)}})
    texts = ["x" * 253, "ü" * 60, "y" * 200, "short"]
    rows = pa.table(
        {"id": [0, 1, 2, 3, 4], "p0": [*texts, "z" * 200], **{f"p{number}": ["z" * 200] * 5 for number in (1, 2, 3)}}
    )
    table = create_table(
        tmp_path / "t",
        schema,
        format="iceberg",
        partition_by=["p0", "p1", "p2", "p3"],
        properties={"write.delete.mode": mode},
    )
    table.append(rows)
    assert [max(row["partition"].values()) for row in table.scan("id = 4").files().to_pylist()] == ["z" * 200]
    assert table.scan(f"p0 = '{texts[1]}'").to_arrow()["id"].to_pylist() == [1]
    table.delete("id IN (0, 3)")
    table.append(rows.slice(0, 1))
    assert table.scan().to_arrow().sort_by("id")["id"].to_pylist() == [0, 1, 2, 4]


def test_paths_of_data_files_follow_the_properties() -> None:
    spread = {"write.object-storage.enabled": "true", "write.object-storage.path": "s3://o/p/"}
    assert data_location("s3://b/t/", {}) == "s3://b/t/data"
    assert data_location("s3://b/t", spread) == "s3://o/p"
    assert data_location("s3://b/t", {**spread, "write.data.path": "s3://c/d"}) == "s3://c/d"
    whole = DataPaths(spread, "id").path("p=1", 0)
    assert whole.endswith("/p=1/00000-0-id-00001.parquet")
    flat = DataPaths({**spread, "write.object-storage.partitioned-paths": "false"}, "id").path("p=1", 0)
    assert flat == "0111/0111/0111/10000001-00000-0-id-00001.parquet"
