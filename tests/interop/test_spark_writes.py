"""What Spark's own Parquet writer writes to our tables is read by delta-spark, which skips files by our statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable, create_table
from tests.interop.judged import few, same
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
