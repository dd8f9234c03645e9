"""What Spark's own Parquet writer writes to our tables is read by delta-spark, which skips files by our statistics.

So it is by iceberg-spark and pyiceberg.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable, create_table, write_table
from tests.interop.judged import few, same
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge
from tests.support.typed_rows import every_type

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]


@pytest.mark.parametrize("mode", few({mode: mode for mode in ("none", "name", "id")}, "name"))
def test_files_of_the_native_road(mode: str, tmp_path: Path, judge: Judge, spark: Any) -> None:
    path = tmp_path / "t"
    rows = every_type()
    table = create_table(path, rows.schema, properties={"delta.columnMapping.mode": mode})
    # One task for each row, as the table has one file for each.
    source = create_table(tmp_path / "source", rows.schema)
    for number in range(len(rows)):
        source.append(rows.slice(number, 1))
    frame = source.scan().to_spark(spark)
    for number in range(len(rows)):
        assert table.append(frame.where(f"id = {number + 1}").coalesce(1)).road == "native"
    same(judge.sql(f"SELECT * FROM delta.`{path}`").select(rows.schema.names).cast(rows.schema), rows)
    code = "frame = spark.read.format('delta').load(path).where(condition)\n[frame.count(), len(frame.inputFiles())]"
    for condition, found in {
        "id = 3": [1, 1],
        "id > 2": [2, 2],
        "integer = 2147483647": [1, 1],
        "text IS NULL": [1, 1],
        "double > 5": [2, 2],
        "day = DATE '0001-01-01'": [1, 1],
        "at > TIMESTAMP '2030-01-01'": [1, 1],
        "struct.x = 2": [1, 1],
        "decimal = 1": [1, 1],
    }.items():
        assert judge.run(code, path=str(path), condition=condition) == found, condition
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    judge.sql(f"INSERT INTO delta.`{path}` SELECT * FROM delta.`{tmp_path / 'source'}` WHERE id = 1")
    same(DeltaTable(path).scan().to_arrow(), rows)


@pytest.mark.parametrize("version", few({"v2": 2, "v3": 3}, "v3"))
def test_iceberg_files_of_the_native_road(version: int, judge: Judge, spark: Any) -> None:
    judged = JudgedTable(judge, f"native_files_{version}")
    columns = {
        "id": "int",
        "price": "decimal(9,2)",
        "at": "timestamp",
        "ratio": "double",
        "place": "struct<x:int,y:string>",
    }
    frame = spark.sql(
        "SELECT int(id) AS id, CAST(id / 4 AS decimal(9,2)) AS price, timestamp_seconds(id * 1000) AS at, "
        "if(id = 2, double('NaN'), id / 2) AS ratio, if(id = 3, NULL, named_struct('x', int(id), 'y', 'ü')) AS place "
        "FROM range(0, 8, 1, 4)"
    )
    assert dict(frame.dtypes) == columns
    table = write_table(judged.root, frame, format="iceberg", configuration={"format-version": str(version)})
    assert (table.road, table.added_rows, table.added_files) == ("native", 8, 4)
    judged.check()
    for condition, count in {
        "id > 5": 2,
        "ratio > 3": 2,
        "place.x = 7": 1,
        "place IS NULL": 1,
        "price = 1.5": 1,
    }.items():
        assert judged.sql(f"SELECT count(*) AS n FROM {{t}} WHERE {condition}")["n"].to_pylist() == [count], condition
    judged.sql("DELETE FROM {t} WHERE id IN (1, 6)")
    judged.sql("INSERT INTO {t} VALUES (9, 1, NULL, 0.5, NULL)")
    assert judged.check().scan().to_arrow().num_rows == 7
