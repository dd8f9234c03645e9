"""Partition values, the reader's half (DL-PART)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import InvalidPartitionValueError, SchemaError, SpecViolationError
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road, by_every_road
from tests.support.rows import ids

_UTC = dt.timezone.utc


def _table(builder: DeltaBuilder, kind: pa.DataType, *values: str | None, **options: Any) -> Any:
    """Make a table partitioned by p with one file for each value, and open it."""
    schema = pa.schema([("id", pa.int64()), ("p", kind)])
    adds = [
        builder.add(ids(number), path=f"{number}.parquet", partition={"p": value})
        for number, value in enumerate(values)
    ]
    builder.create(schema, *adds, partition_by=["p"], protocol=builder.features("timestampNtz"))
    return open_table(builder.root, **options)


def _values(table: Any) -> list[Any]:
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    return [row["p"] for row in rows]


@pytest.mark.req("DL-PART-01", half="reader")
@pytest.mark.parametrize(
    "kind",
    [pa.int32(), pa.string(), pa.date32(), pa.timestamp("us", "UTC"), pa.bool_(), pa.decimal128(5, 2), pa.float64()],
)
def test_empty_text_is_null(builder: DeltaBuilder, road: Road, kind: pa.DataType) -> None:
    table = _table(builder, kind, "", None)
    assert [row["p"] for row in road.rows(table.scan())] == [None, None]
    assert table.scan("p IS NULL").files().num_rows == 2
    assert table.scan("p IS NOT NULL").files().num_rows == 0


def test_partition_columns_are_columns(builder: DeltaBuilder) -> None:
    """Spark does not tell apart names that differ in their case."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    builder.create(schema, builder.add(ids(1), partition={"p": "x"}), partition_by=["P"])
    assert open_table(builder.root).scan().to_arrow().to_pylist() == [{"id": 1, "p": "x"}]
    builder.commit(builder.metadata(schema, partition_by=["q"]))
    with pytest.raises(SchemaError, match="the partition column 'q' is not in the schema"):
        open_table(builder.root).scan().to_arrow()


@pytest.mark.req("DL-PART-02", half="reader")
def test_text_is_as_it_is(builder: DeltaBuilder, road: Road) -> None:
    texts = ["a=b/c %", "%41", "ü\n", "__HIVE_DEFAULT_PARTITION__", " "]
    table = _table(builder, pa.string(), *texts)
    assert _values(table) == texts
    assert road.rows(table.scan("p = 'a=b/c %'")) == [{"id": 0, "p": "a=b/c %"}]
    assert table.scan("p = '%41'").files().num_rows == 1


@by_every_road
@pytest.mark.req("DL-PART-03", half="reader")
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int8(), "-128", -128),
        (pa.int16(), "32767", 32767),
        (pa.int32(), "-2147483648", -(2**31)),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.decimal128(10, 2), "1.50", Decimal("1.50")),
        (pa.decimal128(10, 2), "1.5", Decimal("1.50")),
        (pa.decimal128(10, 2), "-1.50", Decimal("-1.50")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.float64(), "1.0E10", 1e10),
        (pa.float64(), "Infinity", float("inf")),
        (pa.float64(), "-Infinity", float("-inf")),
        (pa.float32(), "0.1", 0.10000000149011612),
    ],
)
def test_numbers(builder: DeltaBuilder, kind: pa.DataType, text: str, value: Any) -> None:
    assert _values(_table(builder, kind, text)) == [value]


@by_every_road
@pytest.mark.req("DL-PART-03", half="reader")
def test_nan_is_a_number(builder: DeltaBuilder) -> None:
    table = _table(builder, pa.float64(), "NaN", "1.0")
    assert list(map(str, _values(table))) == ["nan", "1.0"]
    assert table.scan("p > 5").files().num_rows == 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int8(), "128"),
        (pa.int32(), "1e0"),
        (pa.int64(), "one"),
        (pa.decimal128(3, 2), "1234"),
        (pa.date32(), "2020-13-01"),
        (pa.bool_(), "on"),
        (pa.timestamp("us", "UTC"), "noon"),
    ],
)
def test_values_that_are_none_name_the_column(builder: DeltaBuilder, kind: pa.DataType, text: str) -> None:
    with pytest.raises(InvalidPartitionValueError, match=r"(?s)p.*" + text.replace(".", r"\.")):
        _values(_table(builder, kind, text))


@pytest.mark.req("DL-PART-04", half="reader")
def test_dates(builder: DeltaBuilder, road: Road) -> None:
    table = _table(builder, pa.date32(), "1970-01-01", "2017-12-10", "0001-01-01")
    assert _values(table) == [dt.date(1970, 1, 1), dt.date(2017, 12, 10), dt.date(1, 1, 1)]
    assert table.scan().to_arrow()["p"].cast(pa.int32()).to_pylist() == [0, 17510, -719162]
    assert road.column(table.scan("p > DATE '1970-01-01'"), "id") == [1]


@pytest.mark.req("DL-PART-05", half="reader")
def test_timestamps(builder: DeltaBuilder, road: Road) -> None:
    texts = ["1970-01-01 00:00:00", "1970-01-01 00:00:00.123456", "1970-01-01 00:00:00.1"]
    table = _table(builder, pa.timestamp("us", "UTC"), *texts)
    found = road.table(table.scan()).sort_by("id")["p"]
    assert found.cast(pa.int64()).to_pylist() == [0, 123456, 100000]


@pytest.mark.req("DL-PART-06", half="reader")
def test_a_timestamp_without_a_zone_is_in_the_given_one(builder: DeltaBuilder, road: Road) -> None:
    epoch = dt.datetime(1970, 1, 1, tzinfo=_UTC)
    kind = pa.timestamp("us", "UTC")
    assert _values(_table(builder, kind, "1970-01-01 00:00:00")) == [epoch]
    there = open_table(builder.root, timezone="America/Los_Angeles")
    assert road.rows(there.scan()) == [{"id": 0, "p": epoch + dt.timedelta(hours=8)}]
    assert there.scan("p = TIMESTAMP '1970-01-01 00:00:00'").files().num_rows == 1
    assert there.scan("p = TIMESTAMP '1970-01-01 00:00:00Z'").files().num_rows == 0


@by_every_road
@pytest.mark.req("DL-PART-07", half="reader")
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_a_timestamp_with_a_zone_is_an_instant(builder: DeltaBuilder, zone: str) -> None:
    kind = pa.timestamp("us", "UTC")
    texts = ["1970-01-01T00:00:00.123456Z", "1970-01-01T01:00:00.123456+01:00"]
    table = _table(builder, kind, *texts, timezone=zone)
    assert _values(table) == [dt.datetime(1970, 1, 1, 0, 0, 0, 123456, tzinfo=_UTC)] * 2


@pytest.mark.req("DL-PART-08", half="reader")
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_a_wall_clock_has_no_zone(builder: DeltaBuilder, road: Road, zone: str) -> None:
    texts = ["1970-01-01 00:00:00.123456", "1970-01-01 00:00:00"]
    table = _table(builder, pa.timestamp("us"), *texts, timezone=zone)
    wanted = [dt.datetime(1970, 1, 1, 0, 0, 0, 123456), dt.datetime(1970, 1, 1)]
    assert road.rows(table.scan()) == [{"id": 0, "p": wanted[0]}, {"id": 1, "p": wanted[1]}]


@by_every_road
@pytest.mark.req("DL-PART-09", half="reader")
def test_booleans(builder: DeltaBuilder) -> None:
    table = _table(builder, pa.bool_(), "true", "false", "TRUE", "False")
    assert _values(table) == [True, False, True, False]
    assert table.scan("p").files().num_rows == 2
    assert table.scan("NOT p").files().num_rows == 2


@pytest.mark.req("DL-PART-10", half="reader")
def test_binary_is_escaped_text(builder: DeltaBuilder, road: Road) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.binary())])
    builder.create(schema, partition_by=["p"])
    builder.add(ids(1), path="f.parquet")
    size = (builder.root / "f.parquet").stat().st_size
    builder.commit_text(
        r'{"add":{"path":"f.parquet","partitionValues":{"p":"\u0001\u0002\u0003"},'
        f'"size":{size},"modificationTime":1,"dataChange":true}}}}\n'
    )
    assert road.rows(open_table(builder.root).scan()) == [{"id": 1, "p": b"\x01\x02\x03"}]


@by_every_road
@pytest.mark.req("DL-PART-11", half="reader")
def test_the_log_alone_gives_values(builder: DeltaBuilder) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    missing = builder.add(ids(1), path="p=directory/f.parquet", partition={})
    builder.create(schema, missing, partition_by=["p"])
    assert _values(open_table(builder.root)) == [None]
    with pytest.raises(SpecViolationError, match="partition values"):
        open_table(builder.root, validate=True)


@pytest.mark.req("DL-PART-12")
def test_the_log_wins_over_the_file(builder: DeltaBuilder, road: Road) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    rows = pa.table({"id": pa.array([1], pa.int64()), "p": pa.array([9], pa.int32())})
    builder.create(schema, builder.add(rows, partition={"p": "1"}), partition_by=["p"])
    table = open_table(builder.root)
    assert road.rows(table.scan()) == [{"id": 1, "p": 1}]
    assert road.rows(table.scan("p = 9")) == []
    assert road.rows(table.scan("p = 1 AND id = 1")) == [{"id": 1, "p": 1}]


#: Texts that other writers record, and Spark casts, with the values that delta-spark reads.
_CAST: list[tuple[pa.DataType, dict[str, Any]]] = [
    (pa.int32(), {" 1 ": 1, "+2": 2, "\t3": 3, "04": 4, "5.0": 5, "-6.9": -6, ".7": 0}),
    (pa.bool_(), {"TRUE": True, "t": True, "Yes": True, "1": True, " f ": False, "n": False, "0": False}),
    (
        pa.date32(),
        {
            "2020-1-2": dt.date(2020, 1, 2),
            "2021": dt.date(2021, 1, 1),
            "2022-02": dt.date(2022, 2, 1),
            " 2023-01-02 ": dt.date(2023, 1, 2),
            "2024-01-02 10:00": dt.date(2024, 1, 2),
        },
    ),
    (
        pa.timestamp("us", "UTC"),
        {
            "2020-01-01 00:00:00 +1:00": dt.datetime(2019, 12, 31, 23, tzinfo=_UTC),
            "2021-01-01T00:00:00 Europe/Paris": dt.datetime(2020, 12, 31, 23, tzinfo=_UTC),
            "2022": dt.datetime(2022, 1, 1, tzinfo=_UTC),
            " 2023-1-1 1:2:3 ": dt.datetime(2023, 1, 1, 1, 2, 3, tzinfo=_UTC),
            "2024-01-01 00:00:00UTC": dt.datetime(2024, 1, 1, tzinfo=_UTC),
        },
    ),
    (pa.timestamp("us"), {"2020": dt.datetime(2020, 1, 1), " 2021-01-01 ": dt.datetime(2021, 1, 1)}),
    (pa.float64(), {" 1.5 ": 1.5, "1d": 1.0, "2f": 2.0, "0x1p3": 8.0}),
    (pa.decimal128(9, 2), {" 1.5": Decimal("1.50"), "1.005": Decimal("1.01")}),
]


@pytest.mark.parametrize(("kind", "values"), _CAST, ids=lambda case: str(case) if isinstance(case, pa.DataType) else "")
def test_texts_of_other_writers_are_read_as_spark_casts_them(
    builder: DeltaBuilder, kind: pa.DataType, values: dict[str, Any]
) -> None:
    table = _table(builder, kind, *values, None, "")
    assert _values(table) == [*values.values(), None, None]
    for text, value in values.items():
        found = table.scan([("p", "=", value)])
        names = {path.rsplit("/", 1)[-1] for path in found.files()["file_path"].to_pylist()}
        assert names == {f"{number}.parquet" for number, one in enumerate(values.values()) if one == value}, text
    table.overwrite(pa.table({"id": [99], "p": pa.array([next(iter(values.values()))], kind)}), dynamic=True)
    assert 0 not in table.scan().to_arrow()["id"].to_pylist()


@by_every_road
@pytest.mark.req("DL-PART-13")
def test_files_are_pruned_by_typed_values(builder: DeltaBuilder) -> None:
    table = _table(builder, pa.int32(), "9", "10")
    scan = table.scan("p > 9")
    assert scan.files()["partition"].to_pylist() == [{"p": 10}]
    assert [row["id"] for row in scan.to_arrow().to_pylist()] == [1]


def test_a_partition_column_of_a_nested_type_is_refused(builder: DeltaBuilder) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.list_(pa.int64()))])
    builder.create(schema, builder.add(ids(1), partition={"p": "[1]"}), partition_by=["p"])
    with pytest.raises(SchemaError, match="partitioned by a column of type array<long>"):
        open_table(builder.root).scan().to_arrow()
