"""How rows of DataFrames come to the tasks that write them to Iceberg tables (``write.distribution-mode``)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.errors import ConstraintViolationError, InvalidArgumentError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.assign import partition_rows_by
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.schema.rows.conform import ConformOptions
from deltaberg.schema.types import Decimal, Field, Primitive, Struct
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.write.distribution import distributed, distribution_terms
from deltaberg.spark.write.spark_transforms import spark_expression
from deltaberg.table.write.spec import WriteSpec
from tests.spark.doors import needs_native_writes
from tests.spark.native_road import setting

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("r", pa.struct([("x", pa.int32())])),
    ]
)
_ROWS = (
    "id",
    "IF(id % 7 = 0, NULL, concat('t', id % 3, '-', id)) s",
    "timestamp_seconds(id * 40000) at",
    "IF(id % 5 = 0, NULL, named_struct('x', INT(id % 2))) r",
)


def _tables(root: Path, mode: str | None, **layout: Any) -> list[IcebergTable]:
    properties = {} if mode is None else {"write.distribution-mode": mode}
    return [
        create_table(root / name, _COLUMNS, format="iceberg", properties=properties, **layout)
        for name in ("spark", "local")
    ]


def _files(table: IcebergTable) -> list[str]:
    hidden = ("file_path", "file_size_in_bytes", "column_sizes", "split_offsets")
    rows = table.inspect("files").to_pylist()
    return sorted(repr({name: value for name, value in row.items() if name not in hidden}) for row in rows)


@pytest.mark.parametrize(
    ("mode", "adaptive"),
    [
        (None, "true"),
        pytest.param("range", "true", marks=pytest.mark.full),
        pytest.param("hash", "false", marks=pytest.mark.full),
    ],
)
def test_files_are_those_of_one_machine(spark: Any, tmp_path: Path, mode: str | None, adaptive: str) -> None:
    """Rows of a partition come together by the values of its transforms, whatever tasks they come from."""
    layout = ["bucket(2, id)", "month(at)", "r.x"]
    table, local = _tables(tmp_path, mode, partition_by=layout)
    with setting(spark, "spark.sql.adaptive.enabled", adaptive), setting(spark, "spark.sql.shuffle.partitions", "3"):
        frame = spark.range(0, 120, 1, 3).selectExpr(*_ROWS)
        done = table.append(frame)
        local.append(table.scan().to_arrow())
    assert (done.road, done.added_rows) == ("arrow", 120)
    assert _files(table) == _files(local)
    if mode is None:
        table.alter().set({"write.distribution-mode": "none"}).commit()
        again = table.append(frame)
        assert again.added_files > done.added_files
        assert table.scan().count() == 240
        with pytest.raises(ConstraintViolationError, match="must not be null"):
            table.append(frame.selectExpr("IF(id = 7, NULL, id) id", "s"))
        with pytest.raises(InvalidArgumentError, match="must be none, hash or range"):
            table.alter().set({"write.distribution-mode": "sideways"})


_DAY = 86_400_000_000
_MICROS = [0, -1, 1, _DAY, -_DAY, _DAY - 1, -_DAY - 1, 3_599_999_999, -3_600_000_001, 951_782_400_000_000]
#: From the year 1 on to 9999, around the ends of years that have the 29th of February and of years that have not.
_TIMES = [*_MICROS, -62_135_596_800_000_000, 253_402_300_799_999_999, -2_203_891_200_000_001, -58_064_400_000_001, None]
# Spark 3.5 adds no more than 32 bits of microseconds by timestampadd.
_WITHOUT_ZONE = (
    "timestamp_ntz'1970-01-01 00:00:00' + "
    "make_dt_interval(0, 0, 0, CAST(CAST(v AS decimal(20, 0)) / 1000000 AS decimal(18, 6)))"
)
_DATES = [*(None if micros is None else micros // _DAY for micros in _TIMES), -141_428, -135_081, 11_016, -1, 59, 365]
_TEXTS = ["", "a", "abc", "äöüß", "a\U0001f600b\U0001f600c", "e\u0301e\u0301e", "日本語テキスト", None]
_EDGES = [0, 1, -1, 9, 10, -10, -11, None]


@pytest.mark.parametrize(
    ("kind", "read", "values", "transforms"),
    [
        ("timestamp", "timestamp_micros(v)", pa.array(_TIMES), ["year", "month", "day", "hour"]),
        (
            "timestamp_ntz",
            _WITHOUT_ZONE,
            pa.array(_TIMES),
            ["year", "month", "day", "hour"],
        ),
        ("date", "date_from_unix_date(int(v))", pa.array(_DATES), ["year", "month", "day", "identity"]),
        (
            "integer",
            "int(v)",
            pa.array([*_EDGES, *(end + step for end in (-(1 << 31), (1 << 31) - 12) for step in range(12))]),
            ["truncate[1]", "truncate[10]", "truncate[2147483647]", "identity"],
        ),
        (
            "long",
            "v",
            pa.array([*_EDGES, *(end + step for end in (-(1 << 63), (1 << 63) - 12) for step in range(12))]),
            ["truncate[1]", "truncate[10]", "truncate[2147483647]", "identity"],
        ),
        ("string", "v", pa.array(_TEXTS), ["truncate[1]", "truncate[3]", "truncate[2147483647]"]),
        (
            "binary",
            "v",
            pa.array([b"", b"\0", b"\xff\xfe\xfd\xfc", "äöü".encode(), None]),
            ["truncate[1]", "truncate[3]", "truncate[2147483647]"],
        ),
    ],
)
def test_spark_computes_what_the_kernels_compute(
    spark: Any, kind: str, read: str, values: pa.Array, transforms: list[str]
) -> None:
    """Also before 1970, far from it, at the ends of integers, of nulls, and in a session of another zone."""
    source = Primitive(kind)
    parsed = {name: parse_transform(name) for name in transforms}
    texts = {name: spark_expression(transform, source, "c") for name, transform in parsed.items()}
    assert None not in texts.values()
    held = {"string": "string", "binary": "binary"}.get(kind, "bigint")
    dates = {name for name, transform in parsed.items() if transform.result_type(source) == Primitive("date")}
    with setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        frame = spark.createDataFrame([(value,) for value in values.to_pylist()], f"v {held}").selectExpr(f"{read} c")
        computed = [f"unix_date({text})" if name in dates else str(text) for name, text in texts.items()]
        rows = frame.selectExpr(*(f"{text} k{number}" for number, text in enumerate(computed))).collect()
    array = values if kind in ("string", "binary") else _array(values, kind)
    for number, transform in enumerate(parsed.values()):
        expected = transform.apply(array, source)
        if pa.types.is_temporal(expected.type):
            expected = expected.view(pa.int32())
        found = [bytes(row[number]) if isinstance(row[number], bytearray) else row[number] for row in rows]
        assert found == expected.to_pylist(), transform


def _array(values: pa.Array, kind: str) -> pa.Array:
    types = {"integer": pa.int32(), "long": pa.int64(), "date": pa.int32()}
    numbers = values.cast(types.get(kind, pa.int64()))
    views = {"timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "date": pa.date32()}
    return numbers.view(views.get(kind, numbers.type))


def test_what_only_the_kernels_compute() -> None:
    for text, kind in (("bucket[4]", "long"), ("truncate[4]", "double"), ("day", "timestamp_ns"), ("void", "long")):
        assert spark_expression(parse_transform(text), Primitive(kind), "c") is None
    for text in ("identity", "truncate[4]", "bucket[4]"):
        assert spark_expression(parse_transform(text), Decimal(9, 2), "c") is None


def test_rows_go_through_no_python_worker_to_come_together(spark: Any) -> None:
    """Unless a transform, or a type that is to be converted, needs it."""
    columns = Struct((Field("id", Primitive("long"), id=1), Field("at", Primitive("timestamp"), id=2)))
    frame = spark.range(3).selectExpr("id c0", "timestamp_seconds(id) c1")
    for text, source, unmoved, is_plain in (
        ("day", 2, frame, True),
        ("truncate[5]", 1, frame, True),
        ("bucket[5]", 1, frame, False),
        ("truncate[5]", 1, frame.selectExpr("int(c0) c0", "c1"), False),
    ):
        part = PartitionField((source,), 1000, "p", text)
        spec = WriteSpec(columns, partition_rows_by(PartitionSpec(0, (part,)), columns), ConformOptions("UTC"))
        spec = replace(spec, distribution="hash")
        terms = distribution_terms(spec, ["id", "at"])
        moved = distributed(unmoved, ["id", "at"], terms, spec, SessionFacts.of(spark))
        plan = moved._jdf.queryExecution().toString()
        assert (re.search("MapInArrow", plan) is None) is is_plain
        assert sorted(row.c0 for row in moved.collect()) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["DATE", "SMALLINT"])
def test_generated_partitions_come_together(spark: Any, tmp_path: Path, kind: str) -> None:
    """Each partition gets one file, though the rows of each task belong to all, and do not have the column."""
    value = "CAST(at AS DATE)" if kind == "DATE" else "CAST(day(at) AS SMALLINT)"
    columns = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("at", pa.timestamp("us")),
            pa.field(
                "p", pa.date32() if kind == "DATE" else pa.int16(), metadata={"delta.generationExpression": value}
            ),
        ]
    )
    table = create_table(tmp_path / "t", columns, partition_by="p")
    rows = ("id", "TIMESTAMP_NTZ '2026-01-01 12:00:00' + make_dt_interval(INT(id % 3)) AS at")
    with setting(spark, "spark.sql.shuffle.partitions", "3"):
        done = table.append(spark.range(0, 60, 1, 4).selectExpr(*rows))
    assert (done.road, done.added_rows, done.added_files) == ("arrow", 60, 3)
    assert table.scan("p IS NULL").count() == 0
    found = table.scan().to_arrow()
    assert all(
        p == (at.date() if kind == "DATE" else at.day)
        for at, p in zip(found["at"].to_pylist(), found["p"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize(
    "order", [pytest.param("id desc nulls last", marks=pytest.mark.full), "truncate(2, s) asc nulls first"]
)
def test_ranges_of_a_sorted_table_do_not_overlap(spark: Any, tmp_path: Path, order: str) -> None:
    table, local = _tables(tmp_path, None, sort_by=[order, "at"])
    with (
        setting(spark, "spark.sql.adaptive.coalescePartitions.enabled", "false"),
        setting(spark, "spark.sql.shuffle.partitions", "3"),
    ):
        frame = spark.range(0, 120, 1, 3).selectExpr("(id * 7) % 120 id").selectExpr(*_ROWS)
        done = table.append(frame)
        local.append(table.scan().to_arrow())
    assert done.added_files == 3
    assert table.scan().to_arrow().sort_by("id") == local.scan().to_arrow().sort_by("id")
    in_order = local.scan().to_arrow()["id"].to_pylist()
    parts = [
        table.scan(columns=["id", "_file"]).to_arrow().filter(pa.compute.field("_file") == path)["id"].to_pylist()
        for path in table.inspect("files")["file_path"].to_pylist()
    ]
    joined = [number for part in sorted(parts, key=lambda part: in_order.index(part[0])) for number in part]
    assert joined == in_order


@pytest.mark.req("DL-OPT-09")
@pytest.mark.parametrize(
    ("properties", "road"),
    [pytest.param({}, "native", marks=needs_native_writes), ({"delta.targetFileSize": "8mb"}, "arrow")],
)
def test_optimized_writes_take_as_few_tasks_as_the_rows_need(
    spark: Any, tmp_path: Path, properties: dict[str, str], road: str
) -> None:
    """Otherwise each task of the frame writes a file of its own, also where Python made the rows."""
    frame = spark.range(0, 1000, 1, 12).selectExpr("id AS x")
    for optimized, files in (("false", 12), ("true", 1)):
        asked = {"delta.autoOptimize.optimizeWrite": optimized, **properties}
        table = create_table(tmp_path / optimized, pa.schema([("x", pa.int64())]), properties=asked)
        done = table.append(frame)
        assert (done.road, done.added_files) == (road, files)
        assert sorted(table.scan().to_arrow()["x"].to_pylist()) == list(range(1000))
    fused = frame.mapInArrow(lambda batches: batches, frame.schema)
    done = table.append(fused)
    assert (done.road, done.added_files, table.scan().count()) == (road, 1, 2000)
