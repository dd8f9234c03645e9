"""Filters of a query with Spark's pushdown on and off: the rows are the same, within the known limit of Spark."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg.spark
from deltaberg import col
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark.source.from_spark_filters import from_spark
from tests.spark.doors import VERSION, needs_data_sources, register
from tests.support.delta_builder import DeltaBuilder

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_INSTANT = dt.datetime(1582, 10, 10, 12, tzinfo=dt.timezone.utc)

pytestmark = [
    pytest.mark.spark,
    needs_data_sources,
    pytest.mark.skipif(VERSION < (4, 1), reason="filters reach Python Data Sources since Spark 4.1"),
]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of 40 rows in 4 files by region, with nulls, NaN and signed zeros, statistics and a deletion vector."""
    builder = DeltaBuilder(tmp_path_factory.mktemp("pushdown") / "table")
    adds = []
    for file, region in enumerate(["north", "south", None, "west"]):
        ids = list(range(10 * file, 10 * file + 10))
        rows = pa.table(
            {
                "id": ids,
                "ratio": pa.array([[None, float("nan"), -0.0, 0.0, 0.1][one % 5] for one in ids], pa.float64()),
                "single": pa.array([[0.1, None, 2.5][one % 3] for one in ids], pa.float32()),
                "price": pa.array(
                    [None if one % 7 == 0 else Decimal(one).scaleb(-2) for one in ids], pa.decimal128(9, 2)
                ),
                "name": pa.array([None if one % 6 == 0 else f"n{one}%_'\u00e9" for one in ids]),
                "raw": pa.array([bytes([one, 255]) for one in ids], pa.binary()),
                "day": pa.array([dt.date(1500 + one * 20, 2, 28) for one in ids], pa.date32()),
                "at": pa.array([_INSTANT + dt.timedelta(days=one) for one in ids], pa.timestamp("us", "UTC")),
                "wall": pa.array(
                    [_INSTANT.replace(tzinfo=None) + dt.timedelta(days=one) for one in ids], pa.timestamp("us")
                ),
                "flag": pa.array([[True, False, None][one % 3] for one in ids]),
                "point": pa.array(
                    [None if one % 4 == 0 else {"x": one} for one in ids], pa.struct([("x", pa.int32())])
                ),
            }
        )
        adds.append(
            builder.add(
                rows,
                partition={"region": region},
                stats={
                    "numRecords": 10,
                    "minValues": {"id": ids[0]},
                    "maxValues": {"id": ids[-1]},
                    "nullCount": {"id": 0},
                },
                vector=builder.vector([5]) if file == 1 else None,
            )
        )
    schema = pa.schema([*rows.schema, pa.field("region", pa.string())])
    features = builder.features("deletionVectors", "timestampNtz")
    builder.create(schema, *adds, partition_by=["region"], protocol=features)
    return str(builder.root)


#: All operators that Spark pushes, on all types.
_CONDITIONS = [
    "id > 15 AND id <= 30",
    "id IN (3, 15, 16, NULL)",
    "id NOT IN (3, 15, 16)",
    "NOT (price <=> 0.15)",
    "price IS NULL",
    "ratio = 0.0",
    "ratio = double('NaN')",
    "NOT (ratio < 0.05)",
    "single = float(0.1)",
    "name LIKE 'n1%'",
    "name = 'n13%_''\u00e9'",
    "raw >= X'20'",
    "day < DATE '1582-10-10'",
    "at > TIMESTAMP '1582-11-01 00:00:00 Asia/Tokyo'",
    "wall <= TIMESTAMP_NTZ '1582-10-12 12:00:00'",
    "NOT flag",
    "point.x > 30",
    "region IS NULL AND id < 25",
    "region != 'north' OR id = 1",
]


@pytest.fixture
def allowed(spark: Any) -> Iterator[Any]:
    """The session, with pushdown allowed."""
    before = spark.conf.get(_PUSHDOWN)
    spark.conf.set(_PUSHDOWN, "true")
    yield spark
    spark.conf.set(_PUSHDOWN, before)
    register(spark)


def _load(spark: Any, location: str, *, push_filters: bool = True) -> Any:
    deltaberg.spark.register(spark, push_filters=push_filters)
    return spark.read.format("delta").load(location)


def test_rows_are_the_same(allowed: Any, everything: str) -> None:
    """Spark itself judges, by evaluating the conditions on all rows of the table."""
    holds = [f"({condition}) AS c{number}" for number, condition in enumerate(_CONDITIONS)]
    judged = _load(allowed, everything, push_filters=False).selectExpr("id", *holds).collect()
    assert len(judged) == 39
    matching: dict[int, list[int]] = {number: [] for number in range(len(_CONDITIONS))}
    parts = [
        _load(allowed, everything).filter(condition).selectExpr(f"{number} AS number", "id")
        for number, condition in enumerate(_CONDITIONS)
    ]
    for row in functools.reduce(lambda one, other: one.union(other), parts).collect():
        matching[row["number"]].append(row["id"])
    for number, condition in enumerate(_CONDITIONS):
        assert sorted(matching[number]) == sorted(row["id"] for row in judged if row[f"c{number}"]), condition
        assert matching[number], condition


def test_filters_reach_the_scan(allowed: Any, everything: str) -> None:
    """A file that the filter rules out is never opened, so that it may even be missing."""
    gone = next(path for path in Path(everything).glob("*.parquet") if _first_id(path) == 0)
    data = gone.read_bytes()
    gone.unlink()
    try:
        assert _load(allowed, everything).filter("id > 35 AND region = 'west'").count() == 4
        with pytest.raises(Exception, match="a live data file is gone"):
            _load(allowed, everything, push_filters=False).filter("id > 35 AND region = 'west'").count()
    finally:
        gone.write_bytes(data)


def _two_uses(frame: Any) -> list[int]:
    both = frame.filter("id = 1").union(frame.filter("id = 2"))
    return sorted(row["id"] for row in both.select("id").collect())


def test_frames_can_be_used_again(allowed: Any, everything: str) -> None:
    """By default no filter is pushed, even where the session allows it."""
    frame = _load(allowed, everything, push_filters=False)
    assert _two_uses(frame) == [1, 2]
    assert frame.filter("id > 30").count() == 9
    assert frame.count() == 39


def test_spark_still_keeps_one_plan_for_a_frame(allowed: Any, everything: str) -> None:
    """If this fails, Spark has been fixed, and filters can be pushed wherever the session allows it."""
    assert _two_uses(_load(allowed, everything)) == [2, 2]


def test_pushing_needs_the_setting(spark: Any) -> None:
    assert str(spark.conf.get(_PUSHDOWN)).lower() == "false"
    with pytest.raises(InvalidArgumentError, match="does not push filters") as raised:
        deltaberg.spark.register(spark, push_filters=True)
    assert _PUSHDOWN in str(raised.value)


def _first_id(path: Any) -> int:
    import pyarrow.parquet as pq

    first: int = pq.read_table(path, columns=["id"])["id"][0].as_py()
    return first


def test_filters_without_a_form_of_ours_are_left_to_spark() -> None:
    from pyspark.sql import datasource

    assert str(from_spark(datasource.EqualTo(("a", "b"), 1))) == str(col("a.b") == 1)
    assert str(from_spark(datasource.Not(datasource.IsNull(("a",))))) == str(col("a").is_not_null())
    for pushed in (datasource.StringContains(("a",), "x"), datasource.Not(datasource.StringEndsWith(("a",), "x"))):
        assert from_spark(pushed) is None
