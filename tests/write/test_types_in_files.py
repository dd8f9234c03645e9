"""How types are stored in the files that we write, and how their partition values and bounds are recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import SchemaError, UnsupportedFeatureError
from deltaberg.schema.variants.values import variant_to_json
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field, struct_type
from tests.support.log_entries import named_actions
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend


def _data_file(table: DeltaTable) -> Path:
    """Return the only data file of a table."""
    (path,) = table.scan().files()["file_path"].to_pylist()
    return Path(path.removeprefix("file://"))


@pytest.mark.req("DL-SCHEMA-16", "BEY-21", half="writer")
def test_void_columns_are_not_stored(builder: DeltaBuilder) -> None:
    inner = struct_type(field("x", "long"), field("v", "void"))
    builder.create([field("id", "long"), field("v", "void"), field("s", inner)])
    table = DeltaTable(builder.root)
    table.append(pa.table({"id": [1], "v": pa.nulls(1), "s": [{"x": 5}]}))
    assert pq.read_schema(_data_file(table)).names == ["id", "s"]
    assert pq.read_schema(_data_file(table)).field("s").type.names == ["x"]
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "v": None, "s": {"x": 5, "v": None}}]
    with pytest.raises(SchemaError, match="int64 cannot be written to a column of the type void"):
        table.append(pa.table({"id": [1], "v": [3]}))


@pytest.mark.req("BEY-21", half="writer")
@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "elementType": "void", "containsNull": True},
        {"type": "map", "keyType": "string", "valueType": "void", "valueContainsNull": True},
        struct_type(field("v", "void")),
        None,
    ],
    ids=["array", "map", "struct", "table"],
)
def test_void_columns_without_a_place_in_files(builder: DeltaBuilder, kind: Any) -> None:
    columns = [field("v", "void")] if kind is None else [field("id", "long"), field("c", kind)]
    builder.create(columns)
    table = DeltaTable(builder.root)
    assert table.scan().to_arrow().num_rows == 0
    rows = pa.table({"v": pa.nulls(1)}) if kind is None else ids(1)
    with pytest.raises(UnsupportedFeatureError, match=r"cannot be written to (Parquet|data files)"):
        table.append(rows)
    assert DeltaTable(builder.root).version == 0
    assert not list(builder.root.glob("*.parquet"))


_EMPTY = b"\x01\x00\x00"


@pytest.mark.req("BEY-02", half="writer")
@pytest.mark.parametrize("feature", ["variantType", "variantType-preview"])
def test_variants(builder: DeltaBuilder, feature: str) -> None:
    builder.create([field("id", "long"), field("v", "variant")], protocol=builder.features(feature))
    table = DeltaTable(builder.root)
    values = [{"metadata": _EMPTY, "value": b"\x0c\x05"}, None, {"metadata": _EMPTY, "value": b"\x00"}]
    table.append(pa.table({"id": [1, 2, 3], "v": values}))
    schema = pq.read_schema(_data_file(table))
    assert sorted((child.name, str(child.type)) for child in schema.field("v").type) == [
        ("metadata", "binary"),
        ("value", "binary"),
    ]
    rows = table.scan().to_arrow()["v"].to_pylist()
    assert rows == values
    assert [row and variant_to_json(row["metadata"], row["value"]) for row in rows] == ["5", None, "null"]
    (add,) = named_actions(builder.root, 1, "add")
    stats = json.loads(add["stats"])
    assert "v" not in stats["minValues"]
    assert "v" not in stats["maxValues"]
    assert [table.scan(text).count() for text in ("v is null", "id = 3")] == [1, 1]


@pytest.mark.req("BEY-02", half="writer")
def test_variants_of_new_tables(tmp_path: Path) -> None:
    about = {b"ARROW:extension:name": b"arrow.parquet.variant", b"ARROW:extension:metadata": b""}
    stored = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    columns = pa.schema([("id", pa.int64()), pa.field("v", stored, metadata=about)])
    table = create_table(tmp_path / "t", columns)
    assert str(table.schema) == "struct<id: long, v: variant>"
    assert "variantType" in table.protocol.reader_features  # type: ignore[operator]
    table.append(pa.table({"id": [1], "v": [{"metadata": _EMPTY, "value": b"\x0c\x05"}]}))
    assert table.scan().to_arrow()["v"].to_pylist() == [{"metadata": _EMPTY, "value": b"\x0c\x05"}]
    with pytest.raises(SchemaError, match="cannot be partitioned"):
        create_table(tmp_path / "u", columns, partition_by="v")


@pytest.mark.req("DL-SCHEMA-19", half="writer")
def test_types_in_parquet(tmp_path: Path) -> None:
    kinds = {
        "b": pa.int8(),
        "s": pa.int16(),
        "i": pa.int32(),
        "l": pa.int64(),
        "d9": pa.decimal128(9, 2),
        "d18": pa.decimal128(18, 2),
        "d38": pa.decimal128(38, 2),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "a": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.int32()),
    }
    rows = pa.table({name: pa.nulls(1, kind) for name, kind in kinds.items()})
    table = create_table(tmp_path / "t", rows.schema)
    table.append(rows)
    schema = pq.ParquetFile(_data_file(table)).schema
    columns = {schema.column(number).path: schema.column(number) for number in range(len(schema.names))}
    found = {name: (column.physical_type, str(column.logical_type)) for name, column in columns.items()}
    integer = "Int(bitWidth={}, isSigned=true)"
    decimal = "Decimal(precision={}, scale=2)"
    clock = "Timestamp(isAdjustedToUTC={}, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)"  # noqa: E501
    assert found == {
        "b": ("INT32", integer.format(8)),
        "s": ("INT32", integer.format(16)),
        "i": ("INT32", "None"),
        "l": ("INT64", "None"),
        "d9": ("INT32", decimal.format(9)),
        "d18": ("INT64", decimal.format(18)),
        "d38": ("FIXED_LEN_BYTE_ARRAY", decimal.format(38)),
        "at": ("INT64", clock.format("true")),
        "local": ("INT64", clock.format("false")),
        "a.list.element": ("INT32", "None"),
        "m.key_value.key": ("BYTE_ARRAY", "String"),
        "m.key_value.value": ("INT32", "None"),
    }


# Partition values and bounds of timestamps


@pytest.mark.req("DL-PART-05", half="writer")
def test_texts_of_timestamps(tmp_path: Path) -> None:
    """Wall clocks have the form of the protocol, and instants its later form, which has a zone."""
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))])
    table = create_table(tmp_path / "t", columns, partition_by=["at", "local"])
    micros = [0, 123456, 100000]
    table.append(pa.table([[1, 2, 3], micros, micros], names=columns.names).cast(columns))
    adds = named_actions(tmp_path / "t", 1, "add")
    texts = {add["partitionValues"]["local"]: add["partitionValues"]["at"] for add in adds}
    assert {text.rstrip("0").rstrip(".") if "." in text else text for text in texts} == {
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:00.123456",
        "1970-01-01 00:00:00.1",
    }
    assert all(zoned == text.replace(" ", "T") + "Z" for text, zoned in texts.items())
    for zone in ("UTC", "America/Los_Angeles"):
        rows = DeltaTable(tmp_path / "t", timezone=zone).scan().to_arrow().sort_by("id")
        assert rows["at"].cast(pa.int64()).to_pylist() == micros
        assert rows["local"].cast(pa.int64()).to_pylist() == micros


@pytest.mark.req("DL-PART-06", half="writer")
@pytest.mark.parametrize(("zone", "left"), [("America/Los_Angeles", [2]), ("UTC", [1, 2])])
def test_partitions_of_timestamps_are_those_of_the_zone(builder: DeltaBuilder, zone: str, left: list[int]) -> None:
    """A partition that another engine recorded without a zone is replaced by rows of the same instant."""
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    builder.create(columns, builder.add(ids(1), partition={"at": "1970-01-01 00:00:00"}), partition_by=["at"])
    table = DeltaTable(builder.root, timezone=zone)
    rows = pa.table({"id": [2], "at": pa.array([8 * 3_600_000_000], pa.timestamp("us", "UTC"))})
    table.overwrite(rows, dynamic=True)
    assert ids_of(DeltaTable(builder.root, timezone=zone)) == left
