"""Compaction in Spark's tasks, in a session."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from deltaberg import create_table, open_table
from deltaberg.spark import DeltaTable
from deltaberg.spark.write import row_tasks
from deltaberg.table.maintain.bins import bin_tasks
from tests.support.meanwhile import while_files_are_written

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_ROWS = pa.schema([("x", pa.int64()), ("y", pa.string())])
_COUNT = 3000


def _table(root: Path, **arguments: Any) -> Any:
    table = create_table(root, _ROWS, **arguments)
    values = list(range(_COUNT))
    random.Random(1).shuffle(values)
    for first in range(0, _COUNT, 1000):
        some = values[first : first + 1000]
        table.append(pa.table({"x": some, "y": [f"{value * 7919 % _COUNT:05}" for value in some]}))
    return table


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_curve_in_three_jobs(
    format: Any, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 0)
    monkeypatch.setattr(bin_tasks, "_DIVIDED", 1)
    properties = {"delta": {"delta.enableDeletionVectors": "true"}, "iceberg": {"format-version": "3"}}[format]
    table = _table(tmp_path, format=format, properties=properties).on_spark(spark)
    size = sum(table.scan().files()["file_size_in_bytes"].to_pylist())
    rows = table.scan("x % 3 > 0").to_arrow().sort_by("x")
    other = open_table(tmp_path)
    while_files_are_written(monkeypatch, lambda: other.delete("x % 3 = 0", strategy="merge-on-read"))
    done = table.compact(hilbert_by=["x", "y"], target_file_size=size // 9 + 1)
    assert (done.removed_files, done.commits[0].road) == (3, "fused")
    assert done.added_files >= 9
    assert table.scan().to_arrow().sort_by("x").equals(rows)
    read = [table.scan(f"x = {x}").files().num_rows for x in range(0, _COUNT, 100)]
    assert sum(read) / len(read) < done.added_files / 2
    assert not list(tmp_path.rglob("*.arrow"))


def test_the_words_of_delta_spark_use_tasks(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 0)
    before = _table(tmp_path).scan().to_arrow().sort_by("x")
    table = DeltaTable.forPath(spark, str(tmp_path))
    for done, counts in (
        (table.optimize().executeCompaction(), (1, 3)),
        (table.optimize().where("x >= 0").executeZOrderBy("x", "y"), (1, 1)),
    ):
        metrics = done.collect()[0]["metrics"]
        assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == counts
    assert open_table(tmp_path).scan().to_arrow().sort_by("x").equals(before)


@pytest.mark.parametrize("version", ["2", "3"])
def test_keys_are_compared_in_tasks(
    version: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks find the rows that equality deletes delete, one of a null key among them, and the driver hides them."""
    monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 0)
    monkeypatch.setattr(row_tasks, "search_here", None)
    table = _table(tmp_path, format="iceberg", properties={"format-version": version}).on_spark(spark)
    table.append(pa.table({"x": [None, 5001], "y": ["a", "b"]}, _ROWS))
    table.delete("x % 10 = 0", strategy="merge-on-read")
    table.delete_by_keys(pa.table({"x": pa.array([None, *range(0, _COUNT, 3)], pa.int64())}))
    rows = table.scan().to_arrow().sort_by("x")
    assert len(rows) == _COUNT + 1 - _COUNT // 3 - _COUNT // 10 + _COUNT // 30
    done = table.convert_equality_deletes()
    assert (done.data_files, done.added_files) == (4, 4)
    again = open_table(tmp_path, "iceberg")
    assert set(again.inspect("delete_files")["content"].to_pylist()) == {1}
    assert again.scan().to_arrow().sort_by("x").equals(rows)
