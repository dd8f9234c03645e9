"""Parquet data files, as Iceberg writes them (Appendix A), and as older writers wrote them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.errors import UnsupportedFeatureError
from tests.iceberg.columns_json import field_json, list_json, map_json, struct_json
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile, arrow_of
from tests.support.roads import Road

_STAMP = 1_510_871_468_000_001


def _file(builder: IcebergBuilder, table: pa.Table, **options: Any) -> IcebergFile:
    """Write a Parquet file with these options."""
    file = builder.data([])
    pq.write_table(table, file.path, **options)
    file.rows, file.size = len(table), Path(file.path).stat().st_size
    return file


def _read(builder: IcebergBuilder, condition: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(builder.root).scan(condition).to_arrow().to_pylist()
    return found


_NESTED = [
    field_json(1, "l", list_json(2, struct_json(field_json(3, "a", "long"), field_json(4, "b", "string")))),
    field_json(5, "m", map_json(6, "string", 7, struct_json(field_json(8, "c", "long")))),
    field_json(9, "s", struct_json(field_json(10, "d", list_json(11, "int")))),
]
_ROWS: list[dict[str, Any]] = [
    {
        "l": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
        "m": [("k", {"c": 5}), ("n", None)],
        "s": {"d": [1, None]},
    },
    {"l": [], "m": [], "s": {"d": None}},
    {"l": None, "m": None, "s": None},
]


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_files_are_refused_by_name(tmp_path: Path, plaintext_footer: bool) -> None:
    """pyarrow ends the process if it is asked about an encrypted column of a file with a plaintext footer."""
    from pyarrow.parquet import encryption

    class Keys(encryption.KmsClient):  # type: ignore[misc]  # pyarrow has no types
        def __init__(self, _: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return key

    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "x": "long"})
    file = builder.data([{"id": 1, "x": 2}])
    rows = pq.read_table(file.path)
    config = encryption.EncryptionConfiguration("f", column_keys={"k": ["id"]}, plaintext_footer=plaintext_footer)
    factory = encryption.CryptoFactory(Keys)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    with pq.ParquetWriter(file.path, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    file.size = Path(file.path).stat().st_size
    builder.commit(file)
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        open_table(builder.root).scan("id > 0").to_arrow()


@pytest.mark.req("ICE-PQ-01", half="reader")
def test_ids_of_every_node(tmp_path: Path, road: Road) -> None:
    """Fields inside lists and maps are found by id, too, whatever their names are."""
    builder = IcebergBuilder(tmp_path / "t", _NESTED)
    file = builder.data(_ROWS)
    schema = str(pq.ParquetFile(file.path).schema)
    assert all(f"field_id={number} " in schema for number in range(1, 12))
    builder.commit(file)
    builder.schemas.append(
        [
            field_json(9, "s2", struct_json(field_json(10, "d2", list_json(11, "long")))),
            field_json(
                5,
                "m2",
                map_json(6, "string", 7, struct_json(field_json(20, "new", "date"), field_json(8, "c2", "long"))),
            ),
            field_json(1, "l2", list_json(2, struct_json(field_json(4, "b2", "string")))),
        ]
    )
    builder.commit()
    expected = [
        {
            "s2": {"d2": [1, None]},
            "m2": [("k", {"new": None, "c2": 5}), ("n", None)],
            "l2": [{"b2": "x"}, None, {"b2": None}],
        },
        {"s2": {"d2": None}, "m2": [], "l2": []},
        {"s2": None, "m2": None, "l2": None},
    ]
    assert road.rows(open_table(builder.root).scan()) == sorted(expected, key=repr)


@pytest.mark.req("ICE-PQ-03", half="reader")
@pytest.mark.parametrize(("precision", "scale"), [(1, 0), (9, 2), (10, 2), (18, 2), (19, 2), (38, 0), (38, 38)])
@pytest.mark.parametrize("as_integer", [True, False])
def test_decimals(tmp_path: Path, precision: int, scale: int, as_integer: bool) -> None:
    """Decimals are stored as integers if they fit, or as bytes of any sufficient length."""
    kind = f"decimal({precision},{scale})"
    builder = IcebergBuilder(tmp_path / "t", {"a": kind})
    most = Decimal((0, (9,) * precision, -scale))
    below = Decimal((0, (9,) * (precision - 1) + (8,), -scale))
    rows = [{"a": most}, {"a": most.copy_negate()}, {"a": Decimal(0).scaleb(-scale)}, {"a": None}]
    table = pa.Table.from_pylist(rows, arrow_of(builder.fields))
    file = _file(builder, table, store_decimal_as_integer=as_integer)
    physical = pq.ParquetFile(file.path).schema.column(0).physical_type
    narrow = "INT32" if precision <= 9 else "INT64" if precision <= 18 else "FIXED_LEN_BYTE_ARRAY"
    assert physical == (narrow if as_integer else "FIXED_LEN_BYTE_ARRAY")
    builder.commit(file)
    assert _read(builder) == rows
    assert _read(builder, f"a > {below:f}") == rows[:1]


@pytest.mark.req("ICE-PQ-03", half="reader")
def test_decimals_with_more_room(tmp_path: Path) -> None:
    """A decimal of 9 digits in 64 bits, as a promotion leaves it, is read as the table's 18 digits."""
    builder = IcebergBuilder(tmp_path / "t", {"a": "decimal(9,2)"})
    rows = [{"a": Decimal("14.20")}]
    older = _file(builder, pa.Table.from_pylist(rows, arrow_of(builder.fields)), store_decimal_as_integer=True)
    builder.commit(older)
    builder.schemas.append([field_json(1, "a", "decimal(38,2)")])
    wide = pa.Table.from_pylist(rows, arrow_of([field_json(1, "a", "decimal(18,2)")]))
    builder.commit(_file(builder, wide, store_decimal_as_integer=True), _file(builder, wide))
    assert _read(builder) == rows * 3
    assert open_table(builder.root).arrow_schema.field("a").type == pa.decimal128(38, 2)


@pytest.mark.req("ICE-PQ-04", half="reader")
def test_dates_and_times(tmp_path: Path, road: Road) -> None:
    kinds = {"d": "date", "t": "time", "ts": "timestamp", "tz": "timestamptz"}
    builder = IcebergBuilder(tmp_path / "t", kinds)
    stamp = dt.datetime(2017, 11, 16, 22, 31, 8, 1)
    row = {"d": stamp.date(), "t": stamp.time(), "ts": stamp, "tz": stamp.replace(tzinfo=dt.timezone.utc)}
    file = builder.data([row, dict.fromkeys(kinds)])
    found = [json.loads(column.logical_type.to_json()) for column in _columns(file)]
    assert [column["Type"] for column in found] == ["Date", "Time", "Timestamp", "Timestamp"]
    assert [column.get("isAdjustedToUTC") for column in found[2:]] == [False, True]
    builder.commit(file)
    # Spark has no type for times.
    names = list(kinds) if road.spark is None else ["d", "ts", "tz"]
    table = road.table(open_table(builder.root).scan("d is not null", names))
    assert table.column("d").to_pylist() == [stamp.date()]
    assert table.column("ts").cast(pa.int64()).to_pylist() == [_STAMP]
    assert table.column("tz").cast(pa.int64()).to_pylist() == [_STAMP]
    if road.spark is None:
        assert table.column("t").to_pylist() == [stamp.time()]
        assert table.schema.field("t").type == pa.time64("us")


def _columns(file: IcebergFile) -> list[Any]:
    schema = pq.ParquetFile(file.path).schema
    return [schema.column(number) for number in range(len(schema))]


@pytest.mark.req("ICE-PQ-04", half="reader")
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns", "int96"])
def test_timestamps_of_other_writers(tmp_path: Path, kind: str, unit: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"a": kind})
    stored = pa.timestamp("us" if unit == "int96" else unit, "UTC" if kind == "timestamptz" else None)
    stamps = pa.array([_STAMP // 1000 * 1000, -1000], pa.int64()).cast(pa.timestamp("us", stored.tz)).cast(stored)
    table = pa.table([stamps], schema=pa.schema([arrow_of(builder.fields).field(0).with_type(stored)]))
    options = {"use_deprecated_int96_timestamps": True} if unit == "int96" else {}
    file = _file(builder, table, version="2.6", **options)
    assert (_columns(file)[0].physical_type == "INT96") is (unit == "int96")
    builder.commit(file)
    found = open_table(builder.root).scan().to_arrow().column("a").cast(pa.int64()).to_pylist()
    assert found == [_STAMP // 1000 * 1000, -1000]


@pytest.mark.req("ICE-PQ-06", half="reader")
@pytest.mark.parametrize("inner", ["element", "item", "array"])
def test_groups_of_three_levels(tmp_path: Path, inner: str) -> None:
    """The writer chooses the name of the innermost field."""
    builder = IcebergBuilder(tmp_path / "t", _NESTED)
    table = pa.Table.from_pylist(_ROWS, arrow_of(_NESTED))
    schema = pa.schema([child.with_type(_renamed(child.type, inner)) for child in table.schema])
    file = _file(builder, table.cast(schema), use_compliant_nested_type=False)
    assert [column.path for column in _columns(file)] == [
        f"l.list.{inner}.a",
        f"l.list.{inner}.b",
        "m.key_value.key",
        "m.key_value.value.c",
        f"s.d.list.{inner}",
    ]
    builder.commit(file)
    assert _read(builder) == _ROWS


def _renamed(kind: pa.DataType, inner: str) -> pa.DataType:
    """Return a schema in which the elements of lists have another name."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_name(inner))
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(_renamed(child.type, inner)) for child in kind])
    return kind


@pytest.mark.spark
@pytest.mark.req("ICE-PQ-06", half="reader")
def test_lists_of_two_levels(tmp_path: Path, spark: Any) -> None:
    """Spark and Hive wrote such files long ago, without ids."""
    mapping = [
        {"field-id": 1, "names": ["l"], "fields": [{"field-id": 2, "names": ["element"]}]},
        {
            "field-id": 3,
            "names": ["m"],
            "fields": [{"field-id": 4, "names": ["key"]}, {"field-id": 5, "names": ["value"]}],
        },
    ]
    fields = [field_json(1, "l", list_json(2, "long")), field_json(3, "m", map_json(4, "string", 5, "long"))]
    properties = {"schema.name-mapping.default": json.dumps(mapping)}
    builder = IcebergBuilder(tmp_path / "t", fields, properties=properties)
    target = tmp_path / "legacy"
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        text = (
            "SELECT array(1L, 2L) AS l, map('a', 1L) AS m UNION ALL SELECT array(), NULL UNION ALL SELECT NULL, map()"
        )
        spark.sql(text).coalesce(1).write.parquet(str(target))
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    (written,) = target.glob("*.parquet")
    paths = [column.path for column in _columns(IcebergFile(str(written), 0, 0))]
    assert paths[0] in ("l.array", "l.bag.array")
    builder.commit(IcebergFile(str(written), 3, written.stat().st_size))
    found = sorted(_read(builder), key=repr)
    expected: list[dict[str, Any]] = [{"l": [1, 2], "m": [("a", 1)]}, {"l": [], "m": None}, {"l": None, "m": []}]
    assert found == sorted(expected, key=repr)
