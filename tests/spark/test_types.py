"""Values of every type, read in each way on Spark: exactly those that were written."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.doors import DOORS, needs_variants, read
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field

pytestmark = pytest.mark.spark

_UTC = dt.timezone.utc
_INSTANTS = [
    dt.datetime(1, 1, 1, tzinfo=_UTC),
    # Before and after the Gregorian reform, and before the introduction of standard time.
    dt.datetime(1582, 10, 4, 23, 59, 59, 999_999, tzinfo=_UTC),
    dt.datetime(1582, 10, 15, tzinfo=_UTC),
    dt.datetime(1883, 11, 18, 12, 3, 57, 1, tzinfo=_UTC),
    dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=_UTC),
    # An hour that New York has twice.
    dt.datetime(2023, 11, 5, 5, 30, tzinfo=_UTC),
    dt.datetime(2023, 11, 5, 6, 30, tzinfo=_UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=_UTC),
    None,
]
_WALL = [None if instant is None else instant.replace(tzinfo=None) for instant in _INSTANTS]
_DAYS = [None if wall is None else wall.date() for wall in _WALL]

_BIG = Decimal("99999999999999999999.999999999999999999")

#: The values of a column by its Arrow type; every column begins with a null.
_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [None, True, False]),
    "tiny": (pa.int8(), [None, -128, 127]),
    "small": (pa.int16(), [None, -(1 << 15), (1 << 15) - 1]),
    "number": (pa.int32(), [None, -(1 << 31), (1 << 31) - 1]),
    "wide": (pa.int64(), [None, -(1 << 63), (1 << 63) - 1]),
    "single": (pa.float32(), [None, 1.5, float("-inf")]),
    "double": (pa.float64(), [None, 5e-324, float("inf")]),
    "money": (pa.decimal128(38, 18), [None, _BIG, _BIG.copy_negate()]),
    "cents": (pa.decimal128(9, 2), [None, Decimal("-0.01"), Decimal("9999999.99")]),
    "text": (pa.string(), [None, "", "\U0001f4b0 \u00e9\x00z"]),
    "bytes": (pa.binary(), [None, b"", bytes(range(256))]),
}
_NESTED = pa.struct(
    [
        pa.field("point", pa.struct([pa.field("x", pa.int32()), pa.field("when", pa.timestamp("us", "UTC"))])),
        pa.field("tags", pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("cost", pa.decimal128(38, 18))]))),
        pa.field("grid", pa.list_(pa.list_(pa.int64()))),
        pa.field("byKey", pa.map_(pa.string(), pa.list_(pa.timestamp("us")))),
        pa.field("byPoint", pa.map_(pa.int32(), pa.struct([pa.field("raw", pa.binary())]))),
    ]
)
_NESTED_ROWS: list[Any] = [
    None,
    {"point": None, "tags": None, "grid": None, "byKey": None, "byPoint": None},
    {
        "point": {"x": 1, "when": _INSTANTS[1]},
        "tags": [None, {"name": None, "cost": _BIG}, {"name": "n", "cost": None}],
        "grid": [[], None, [1, None]],
        "byKey": [("a", [_WALL[0], None]), ("b", None), ("c", [])],
        "byPoint": [(7, {"raw": b"\x00"}), (8, None)],
    },
    {"point": {"x": None, "when": None}, "tags": [], "grid": [], "byKey": [], "byPoint": []},
]


def _written(builder: DeltaBuilder, rows: pa.Table, *features: str) -> pa.Table:
    builder.create(rows.schema, builder.add(rows), protocol=builder.features(*features) if features else None)
    return rows


def _same(found: pa.Table, written: pa.Table) -> None:
    assert found.column_names == written.column_names
    assert sorted(found.to_pylist(), key=repr) == sorted(written.to_pylist(), key=repr)


@pytest.mark.parametrize("door", DOORS)
def test_flat_types(door: str, spark: Any, builder: DeltaBuilder) -> None:
    written = _written(builder, pa.table({name: pa.array(values, kind) for name, (kind, values) in _COLUMNS.items()}))
    _same(read(door, spark, builder.root), written)


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/Los_Angeles"])
@pytest.mark.parametrize("door", DOORS)
def test_times_do_not_depend_on_the_zone_of_the_session(
    door: str, zone: str, spark: Any, builder: DeltaBuilder
) -> None:
    written = _written(
        builder,
        pa.table(
            {
                "instant": pa.array(_INSTANTS, pa.timestamp("us", "UTC")),
                "wall": pa.array(_WALL, pa.timestamp("us")),
                "day": pa.array(_DAYS, pa.date32()),
            }
        ),
        "timestampNtz",
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        read_back = read(door, spark, builder.root)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for name in written.column_names:
        places = [
            column.cast(pa.int32() if name == "day" else pa.int64()).to_pylist()
            for column in (read_back[name], written[name])
        ]
        assert sorted(map(str, places[0])) == sorted(map(str, places[1])), name


@pytest.mark.parametrize("door", DOORS)
def test_nested_types(door: str, spark: Any, builder: DeltaBuilder) -> None:
    written = _written(builder, pa.table({"all": pa.array(_NESTED_ROWS, _NESTED)}), "timestampNtz")
    _same(read(door, spark, builder.root), written)


@pytest.mark.parametrize("door", DOORS)
def test_void_columns_are_null(door: str, spark: Any, builder: DeltaBuilder) -> None:
    builder.create([field("id", "long"), field("nothing", "void")], builder.add(pa.table({"id": [1, 2]})))
    found = read(door, spark, builder.root)
    _same(found, pa.table({"id": [1, 2], "nothing": pa.nulls(2)}))


def _variant(value: bytes) -> dict[str, bytes]:
    """Return a variant without names: version 1, no dictionary."""
    return {"metadata": b"\x01\x00\x00", "value": value}


@needs_variants
@pytest.mark.parametrize("door", DOORS)
def test_variants(door: str, spark: Any, builder: DeltaBuilder) -> None:
    stored = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    # An 8-bit integer 42, a short text, a variant null; and no variant at all.
    values = [_variant(b"\x0c\x2a"), _variant(b"\x09hi"), _variant(b"\x00"), None]
    rows = pa.table(
        {
            "id": [1, 2, 3, 4],
            "v": pa.array(values, stored),
            "several": pa.array([values[:2], [], None, values[3:]], pa.list_(stored)),
        }
    )
    schema = [
        field("id", "long"),
        field("v", "variant"),
        field("several", {"type": "array", "elementType": "variant", "containsNull": True}),
    ]
    builder.create(schema, builder.add(rows), protocol=builder.features("variantType"))
    _same(read(door, spark, builder.root), rows)


@needs_variants
def test_variants_are_variants_to_sql(spark: Any, builder: DeltaBuilder) -> None:
    import deltaberg

    stored = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    rows = pa.table({"v": pa.array([_variant(b"\x0c\x2a"), _variant(b"\x09hi"), None], stored)})
    builder.create([field("v", "variant")], builder.add(rows), protocol=builder.features("variantType"))
    frame = deltaberg.open_table(builder.root).scan().to_spark(spark)
    found = frame.selectExpr("to_json(v) AS text").collect()
    assert sorted(str(row.text) for row in found) == ['"hi"', "42", "None"]
