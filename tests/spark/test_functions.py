"""Partition transforms as columns: equal to the kernels, to pyiceberg, and to the partitions of tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import transforms, types

from deltaberg import create_table
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.partition.of_arrow import partition_values
from deltaberg.schema.from_arrow import table_schema
from tests.spark.doors import VERSION

_MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2026, 11, 23, 1), dt.datetime(9999, 1, 1)]
_COLUMNS: dict[str, tuple[pa.DataType, Any, list[Any]]] = {
    "i": (pa.int32(), types.IntegerType(), [-(2**31), -1, 34, 2**31 - 1]),
    "l": (pa.int64(), types.LongType(), [-(2**63), 34, 2**53 + 1]),
    "m": (pa.decimal128(9, 2), types.DecimalType(9, 2), [Decimal("14.20"), Decimal("-0.01")]),
    "s": (pa.string(), types.StringType(), ["", "iceberg", "日本語😀x", "abcde", "abcdefg"]),
    "b": (pa.binary(), types.BinaryType(), [b"", b"\0\1\2\3\xff"]),
    "d": (pa.date32(), types.DateType(), [dt.date(1969, 12, 31), dt.date(2017, 11, 16), dt.date(1, 1, 1)]),
    "t": (
        pa.timestamp("us", "UTC"),
        types.TimestamptzType(),
        [one.replace(tzinfo=dt.timezone.utc) for one in _MOMENTS],
    ),
    "n": (pa.timestamp("us"), types.TimestampType(), _MOMENTS),
}
_OF_NUMBERS_AND_TEXT = ("i", "l", "m", "s", "b")
_PARTS = {"year": transforms.YearTransform, "month": transforms.MonthTransform, "day": transforms.DayTransform}


def _rows() -> pa.Table:
    longest = max(len(values) for _, _, values in _COLUMNS.values()) + 1
    return pa.table(
        {
            name: pa.array(values + [None] * (longest - len(values)), kind)
            for name, (kind, _, values) in _COLUMNS.items()
        }
    )


def _cases() -> list[tuple[str, str, Any]]:
    """Return columns with transforms, and those of pyiceberg."""
    cases: list[tuple[str, str, Any]] = [(name, "bucket[7]", transforms.BucketTransform(7)) for name in _COLUMNS]
    cases += [(name, "truncate[3]", transforms.TruncateTransform(3)) for name in _OF_NUMBERS_AND_TEXT]
    cases += [(name, part, kind()) for part, kind in _PARTS.items() for name in ("d", "t", "n")]
    return cases + [(name, "hour", transforms.HourTransform()) for name in ("t", "n")]


def _theirs(name: str, transform: Any) -> list[Any]:
    kind = _COLUMNS[name][1]
    column = _rows()[name].combine_chunks()
    return list(transform.pyarrow_transform(kind)(column).cast(pa.int32()).to_pylist())


def test_values_are_those_of_pyiceberg() -> None:
    for name, text, theirs in _cases():
        found = partition_values(text, _rows()[name])
        if not text.startswith("truncate"):
            assert found.view(pa.int32()).to_pylist() == _theirs(name, theirs), (name, text)
        else:
            apply = theirs.transform(_COLUMNS[name][1])
            expected = [None if value is None else apply(value) for value in _rows()[name].to_pylist()]
            # The smallest integer wraps around, as in Java.
            expected = [2**31 - 1 if value == -(2**31) - 1 else value for value in expected]
            expected = [2**63 - 1 if value == -(2**63) - 1 else value for value in expected]
            assert found.to_pylist() == expected, (name, text)
    narrow = partition_values("bucket[16]", pa.array([34], pa.int8()))
    assert (
        narrow.to_pylist() == [3] == partition_values("bucket[16]", pa.array([34], pa.int64()).to_pandas()).to_pylist()
    )
    with pytest.raises(InvalidArgumentError, match="is not a transform"):
        partition_values("zorder", [1])
    with pytest.raises(SchemaError, match="does not take a column of type double"):
        partition_values("bucket[4]", [0.5])


@pytest.mark.req("ICE-HASH-14", half="writer")
@pytest.mark.spark
@pytest.mark.skipif(VERSION < (4, 1), reason="Arrow UDFs came with Spark 4.1")
def test_columns_are_those_of_the_kernels(spark: Any, tmp_path: Path) -> None:
    """In a session of another zone, too, and in the partitions that Spark's tasks write."""
    from deltaberg.spark import functions
    from deltaberg.spark.types import spark_schema

    rows = _rows()
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        frame = spark.createDataFrame(rows, spark_schema(table_schema(rows.schema)))
        chosen: dict[str, Any] = {}
        for name, text, _ in _cases():
            verb, _, width = text.rstrip("]").partition("[")
            if verb == "bucket":
                column = functions.bucket(int(width), name)
            elif verb == "truncate":
                column = functions.truncate(int(width), frame[name], dict(frame.dtypes)[name])
            else:
                column = getattr(functions, f"{verb}s")(name)
            chosen[f"{name}_{text}"] = column
        found = frame.select(*(column.alias(name) for name, column in chosen.items())).toArrow()
        for name, text, _ in _cases():
            expected = partition_values(text, rows[name])
            assert found[f"{name}_{text}"].combine_chunks().cast(expected.type).equals(expected), (name, text)
        table = create_table(tmp_path / "t", rows.schema, format="iceberg", partition_by=["bucket(7, s)", "hour(t)"])
        table.append(frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    wanted = sorted(
        zip(
            *(partition_values(*one).to_pylist() for one in (("bucket[7]", rows["s"]), ("hour", rows["t"]))),
            strict=True,
        ),
        key=str,
    )
    parts = table.inspect("partitions").to_pylist()
    held = sorted((tuple(row["partition"].values()) for row in parts for _ in range(row["record_count"])), key=str)
    assert held == wanted

    def buckets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"part": partition_values("bucket[7]", batch.column("s"))})

    mapped = frame.select("s").mapInArrow(buckets, "part int").toArrow()["part"].to_pylist()
    assert sorted(mapped, key=str) == sorted(partition_values("bucket[7]", rows["s"]).to_pylist(), key=str)
    with pytest.raises(InvalidArgumentError, match="from 1 to 2147483647, not 0"):
        functions.bucket(0, "i")
    with pytest.raises(Exception, match="does not take a column of type double"):
        frame.select(functions.bucket(4, frame["i"].cast("double"))).collect()


def test_spark_without_arrow_udfs(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as sql

    from deltaberg.spark import functions

    monkeypatch.delattr(sql, "arrow_udf", raising=False)
    with pytest.raises(UnsupportedFeatureError, match="has no Arrow UDFs"):
        functions.years("d")
