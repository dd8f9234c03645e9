"""What Spark's own Parquet writer writes to our tables is read by delta-spark, which skips files by our statistics.

So it is by iceberg-spark and pyiceberg.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, write_table
from tests.interop.judged import few, same
from tests.interop.judged_catalogs import KINDS, JudgedCatalog
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


@pytest.mark.parametrize("kind", few({kind: kind for kind in KINDS}, "sqlite"))
def test_rows_of_spark_through_catalogs(
    kind: str, judge: Judge, judged_catalog: Callable[[str], JudgedCatalog], spark: Any
) -> None:
    """Spark's tasks write what the catalog commits: new rows, and those that changes write anew or hide."""
    judged = JudgedTable(judge, "of_spark", judged_catalog(kind))
    frame = spark.range(0, 40, 1, 2).selectExpr("id", "concat('p', id % 3) AS part", "id * 10 AS value")
    modes = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
    table = judged.create(
        pa.schema({"id": pa.int64(), "part": pa.string(), "value": pa.int64()}),
        partition_by=["part", "bucket(2, id)"],
        properties={"format-version": "3", **modes},
    )
    assert table.append(frame).added_rows == 40
    judged.check()
    changed = frame.where("id % 10 = 1").selectExpr("id", "part", "-value AS value")
    table.upsert(changed.union(changed.selectExpr("id + 100", "part", "value")), "id")
    table.delete("id % 10 = 2")
    judged.check()
    table.overwrite(frame.where("part = 'p0' AND id < 10"), dynamic=True)
    judged.sql("INSERT INTO {t} VALUES (200, 'p0', 1)")
    table.refresh().update({"value": "value + 1"}, "id = 200")
    found = judged.check().scan().to_arrow().to_pylist()
    kept = {row["id"]: row["value"] for row in found if row["part"] == "p0"}
    assert kept == {0: 0, 3: 30, 6: 60, 9: 90, 200: 2}
    assert len(found) == 31
