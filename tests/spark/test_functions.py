"""Partition transforms as columns: equal to the kernels, and to the partitions of tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.partition.of_arrow import partition_values
from deltaberg.schema.from_arrow import table_schema
from tests.spark.doors import VERSION
from tests.support.partition_cases import CASES, partition_sources


@pytest.mark.req("ICE-HASH-14", half="writer")
@pytest.mark.spark
@pytest.mark.skipif(VERSION < (4, 1), reason="Arrow UDFs came with Spark 4.1")
def test_columns_are_those_of_the_kernels(spark: Any, tmp_path: Path) -> None:
    """In a session of another zone, too, and in the partitions that Spark's tasks write."""
    from deltaberg.spark import functions
    from deltaberg.spark.types import spark_schema

    rows = partition_sources()
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        frame = spark.createDataFrame(rows, spark_schema(table_schema(rows.schema)))
        chosen: dict[str, Any] = {}
        for name, text in CASES:
            verb, _, width = text.rstrip("]").partition("[")
            if verb == "bucket":
                column = functions.bucket(int(width), name)
            elif verb == "truncate":
                column = functions.truncate(int(width), frame[name], dict(frame.dtypes)[name])
            else:
                column = getattr(functions, f"{verb}s")(name)
            chosen[f"{name}_{text}"] = column
        found = frame.select(*(column.alias(name) for name, column in chosen.items())).toArrow()
        for name, text in CASES:
            expected = partition_values(text, rows[name])
            assert found[f"{name}_{text}"].combine_chunks().cast(expected.type).equals(expected), (name, text)
        table = create_table(tmp_path / "t", rows.schema, format="iceberg", partition_by=["bucket(7, s)", "hour(t)"])
        table.append(frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    function_names = sorted(
        zip(
            *(partition_values(*one).to_pylist() for one in (("bucket[7]", rows["s"]), ("hour", rows["t"]))),
            strict=True,
        ),
        key=str,
    )
    parts = table.inspect("partitions").to_pylist()
    held = sorted((tuple(row["partition"].values()) for row in parts for _ in range(row["record_count"])), key=str)
    assert held == function_names

    def buckets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"part": partition_values("bucket[7]", batch.column("s"))})

    mapped = frame.select("s").mapInArrow(buckets, "part int").toArrow()["part"].to_pylist()
    assert sorted(mapped, key=str) == sorted(partition_values("bucket[7]", rows["s"]).to_pylist(), key=str)
    with pytest.raises(InvalidArgumentError, match="from 1 to 2147483647, not 0"):
        functions.bucket(0, "i")
    with pytest.raises(Exception, match="the column is of the type int64, not string"):
        spark.range(1).select(functions.truncate(10, "id")).collect()
    with pytest.raises(Exception, match="does not take a column of type double"):
        frame.select(functions.bucket(4, frame["i"].cast("double"))).collect()


def test_spark_without_arrow_udfs(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as sql

    from deltaberg.spark import functions

    monkeypatch.delattr(sql, "arrow_udf", raising=False)
    with pytest.raises(UnsupportedFeatureError, match="has no Arrow UDFs"):
        functions.years("d")
